"""Names of files and directories, made from what others say: conversations, clients' metadata, URIs.

Every name made here is valid on Linux (no ``/``, no NUL, not ``.`` or ``..``, at most 255 bytes of UTF-8), holds no
control character, and is never empty. The same input always gives the same name. The mount and exports make all their
names here, so that a conversation is called the same in both.
"""

import re
from collections.abc import Container
from pathlib import PurePath
from typing import Protocol

from store.errors import UsageError
from store.visible import UNSEEN

NAME_MAX = 255
"""Bytes of UTF-8 that one name may have."""

LONGEST_SHOWN = NAME_MAX - 25
"""Bytes of a conversation's name: what is added to it still has room."""

# None of these can be seen in a listing, and some of them make it lie; nor are halves of surrogate pairs text.
_UNSAFE = re.compile(f"[/{UNSEEN}\\ud800-\\udfff]")


class Named(Protocol):
    """A conversation, as far as it is called something."""

    @property
    def id(self) -> int:
        """Its context."""

    @property
    def project(self) -> str:
        """Its project."""

    @property
    def name(self) -> str:
        """Its own name."""


def cut(text: str, limit: int) -> str:
    """Return ``text``, cut at a character so that it has at most ``limit`` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")


def safe_name(text: str, *, fallback: str = "unnamed", limit: int = NAME_MAX) -> str:
    """Return ``text`` as a name of at most ``limit`` bytes; ``fallback`` where nothing of it is left.

    What no name may hold becomes ``_``; space around the name goes. A long name keeps its extension.
    """
    name = _UNSAFE.sub("_", text.strip())
    if name in {".", ".."}:
        return "_" * len(name)
    if len(name) * 4 > limit and len(name.encode()) > limit:
        stem, dot, extension = name.rpartition(".")
        if stem and len(extension.encode()) <= 16:
            name = cut(stem, limit - len((dot + extension).encode())) + dot + extension
        else:
            name = cut(name, limit)
    return name or fallback


def unique(name: str, taken: Container[str], *, limit: int = NAME_MAX) -> str:
    """Return ``name`` if it is not in ``taken``, else the first of ``name-2``, ``name-3`` … that is not."""
    if name not in taken:
        return name
    number = 2
    while True:
        ending = f"-{number}"
        candidate = cut(name, limit - len(ending)) + ending
        if candidate not in taken:
            return candidate
        number += 1


def shown_name(conversation: Named) -> str:
    """Return the name of a conversation's directory: its own where that will do, else it ends in ``~`` and its id."""
    name = conversation.name
    safe = safe_name(name, limit=LONGEST_SHOWN)
    return name if safe == name else f"{cut(safe, LONGEST_SHOWN - 20)}~{conversation.id}"


def inside(folder: PurePath, name: PurePath) -> PurePath:
    """Return the path ``name`` within ``folder``. Raises UsageError for one that leads out of it, or to itself."""
    path = folder / name
    if path.is_absolute() or ".." in path.parts or path == folder or "\0" in str(path):
        raise UsageError(f"{path} is no name for a file within a session: see metadata.json of the conversation")
    return path

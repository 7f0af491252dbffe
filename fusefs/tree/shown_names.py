"""The names that conversations, projects and labels are shown under.

Almost always they are the conversations' own; but whoever speaks to the store's socket may call a conversation
anything, and one name that no file can have would make its whole directory unreadable.
"""

import re
from collections.abc import Iterable
from typing import Protocol

from fusefs.text.names import NAME_MAX, cut, safe_name, unique

_LONGEST = NAME_MAX - 25
"""Bytes of a conversation's name: what is added to it still has room."""

_NUMBERED = re.compile(r"~([1-9][0-9]{0,17})\Z")


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


def shown_name(conversation: Named) -> str:
    """Return the name of a conversation's directory: its own where that will do, else it ends in ``~`` and its id."""
    name = conversation.name
    safe = safe_name(name, limit=_LONGEST)
    return name if safe == name else f"{cut(safe, _LONGEST - 20)}~{conversation.id}"


def numbered(name: str) -> int | None:
    """Return the id that a name ends in, None if it does not end in one."""
    found = _NUMBERED.search(name)
    return int(found[1]) if found else None


def shown_distinct(names: Iterable[str]) -> dict[str, str]:
    """Return projects or labels by the names of their directories, which differ from each other."""
    shown: dict[str, str] = {}
    unsafe: list[str] = []
    for name in names:
        if safe_name(name) == name:
            shown[name] = name
        else:
            unsafe.append(name)
    for name in unsafe:
        shown[unique(safe_name(name), shown)] = name
    return shown

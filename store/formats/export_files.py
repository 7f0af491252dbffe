"""Exports that web services hand out: an archive, or the folder that was made of it, with conversations in JSON files.

A small export has one ``conversations.json``, a large one ``conversations-000.json`` and so on.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

from store.errors import DamageError, NotFound, UsageError
from store.formats.archives import LARGEST, archive_at, beginning, is_archive, join_members, replace_members
from store.formats.files import open_regular
from store.formats.look import Look

Belongs = Callable[[str, bool], bool]
"""Says whether a file of this name, or a folder (True), may belong to an export."""

_MOST_FILES = 100_000
_conversations = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json").fullmatch
_MOST_CONVERSATION_FILES = 1000


def beginnings(look: Look) -> Iterator[bytes]:
    """Yield what a file that may hold conversations begins with; of an archive, what each of its members does."""
    if look.is_folder:
        return
    if not is_archive(look.head):
        yield look.head
        return
    for name in conversation_members(look.path):
        try:
            yield beginning(look.path, name)
        except (DamageError, NotFound):
            continue


def conversation_members(path: Path) -> list[str]:
    """Return the members of an archive that hold conversations, in order; none where it cannot be read."""
    try:
        names = archive_at(path).members
    except DamageError:
        return []
    return list(islice(sorted(filter(_conversations, names)), _MOST_CONVERSATION_FILES))


def rendition(path: Path, scratch: Path) -> Path | None:
    """Return a new file in ``scratch`` with the conversations of an archive, None where ``path`` is none."""
    with path.open("rb") as file:
        if not is_archive(file.read(4)):
            return None
    target = scratch / "conversations.json"
    try:
        join_members(path, conversation_members(path), target)
    except DamageError as error:
        raise UsageError(str(error)) from error
    return target


def restore(original: Path, edited: Path, target: Path) -> None:
    """Write an archive anew with the conversations of the file ``edited``."""
    replace_members(original, conversation_members(original), edited, target)


def is_first(path: Path) -> bool:
    """Say whether a file of conversations is the first of its export: the one that the other files go with."""
    try:
        found = sorted(name for name in os.listdir(path.parent) if _conversations(name))
    except OSError:
        return True
    return not found or path.name == found[0] or path.name not in found


def files_beside(path: Path, belongs: Belongs) -> tuple[str, ...]:
    """Return the other files of the export whose conversations are at ``path``, as paths within it, by name.

    They are the members of an archive, or what lies in the folder and in folders there, as far as they belong to one.
    """
    try:
        return _files_beside(path, belongs, path.stat().st_mtime_ns, path.parent.stat().st_mtime_ns)
    except (OSError, DamageError):
        return ()


@lru_cache(4)
def _files_beside(path: Path, belongs: Belongs, _changed: int, _changed_beside: int) -> tuple[str, ...]:
    with path.open("rb") as file:
        if is_archive(file.read(4)):
            return tuple(sorted(archive_at(path).members))
    return tuple(_files_in(path.parent, belongs))


def _files_in(folder: Path, belongs: Belongs) -> list[str]:
    found: list[str] = []
    waiting = [""]
    while waiting and len(found) < _MOST_FILES:
        within = waiting.pop()
        try:
            with os.scandir(folder / within) as entries:
                for entry in entries:
                    if not belongs(entry.name, is_folder := entry.is_dir(follow_symlinks=False)):
                        continue
                    if is_folder:
                        waiting.append(f"{within}{entry.name}/")
                    elif entry.is_file(follow_symlinks=False) and len(found) < _MOST_FILES:
                        found.append(within + entry.name)
        except OSError:
            continue
    return sorted(found)


def read_beside(path: Path, name: str) -> bytes:
    """Return a file of an export, by its path within that. Raises NotFound, and DamageError for one too large."""
    with path.open("rb") as file:
        if is_archive(file.read(4)):
            return _whole(archive_at(path).read(name, LARGEST + 1), name)
    try:
        with open_regular(path.parent / name) as file:
            return _whole(file.read(LARGEST + 1), name)
    except OSError as error:
        raise NotFound(f"{name} is not beside {path.name}: {error.strerror}") from error


def _whole(content: bytes, name: str) -> bytes:
    if len(content) > LARGEST:
        raise DamageError(f"{name} holds more than {LARGEST} bytes; it is not read")
    return content

"""Finding sessions under the paths that a user names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from store.errors import UsageError
from store.formats.format import Format, Source
from store.formats.registry import FORMATS


class Skipped(Struct, frozen=True):
    """A file that is no session of any tool."""

    path: Path


class Unreadable(Struct, frozen=True):
    """A path that could not be looked at, and why."""

    path: Path
    reason: str


Found = Source | Skipped | Unreadable


def walk(path: Path, formats: tuple[Format, ...] = FORMATS, *, unchanged: Callable[[Path], bool]) -> Iterator[Found | Path]:
    """Yield what is at or under ``path``, sorted by name; a bare Path is a session that ``unchanged`` knows.

    Mounts of convfs itself are passed by (asking the system's mount table: touching one from its own daemon would
    hang), and symbolic links to directories are not followed.
    """
    if not path.exists():
        yield Unreadable(path, "there is no such file or directory")
        return
    yield from _walk(Path(os.path.abspath(path)), formats, unchanged, own_mounts())


def _walk(
    path: Path, formats: tuple[Format, ...], unchanged: Callable[[Path], bool], mounts: frozenset[str]
) -> Iterator[Found | Path]:
    if str(path) in mounts:
        return
    if unchanged(path):
        yield path
        return
    for format_ in formats:
        source = format_.claim(path)
        if source is not None:
            yield source
            return
    if not path.is_dir():
        yield Skipped(path)
        return
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError as error:
        yield Unreadable(path, error.strerror or str(error))
        return
    for entry in entries:
        if not (entry.is_symlink() and entry.is_dir()):
            yield from _walk(path / entry.name, formats, unchanged, mounts)


def own_mounts() -> frozenset[str]:
    """Return the mount points of every convfs on this machine."""
    mounts = set()
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            fields, _dash, kind = line.partition(" - ")
            if kind.split(" ", 1)[0] in ("fuse.convfs", "fuse"):
                where = fields.split(" ")[4]
                mounts.add(where.encode("utf-8", "surrogateescape").decode("unicode_escape"))
    return frozenset(mounts)


def format_named(name: str) -> Format:
    """Return the format called ``name``; UsageError, naming those there are, if there is none."""
    for format_ in FORMATS:
        if format_.name == name:
            return format_
    raise UsageError(f"there is no format {name!r}: use one of {', '.join(f.name for f in FORMATS)}")


def discover(home: Path, cwd: Path) -> list[Path]:
    """Return the directories in which this user's tools keep sessions."""
    return [path for format_ in FORMATS for path in format_.homes(home, cwd)]

"""How far a session's file has been imported, and how to tell at the cost of a stat that nothing is new."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from store.formats.format import Source
from store.importing.paths import path_text, text_path

Stamp = tuple[int, int]
"""A file's size in bytes and the time of its last change in ns: what differs after anything was written to it."""

_CLOCK_TICK_NS = 20_000_000
"""The clock that stamps files goes in steps of up to 10 ms: a file may change again within one."""


_ABSENT: Stamp = (-1, 0)
"""The stamp of a file that is not there."""


class Cursor(Struct, frozen=True, omit_defaults=True):
    """``offset`` is where the last finished record of the main file ends, ``prefix`` the BLAKE3 of the bytes before
    it in hex, ``records`` how many records that is (those of ``Source.first`` too), ``stamp`` the main file's.

    ``prefix`` leaves out what comes before ``since``: records that were redacted, which it would tell of.
    """

    offset: int
    prefix: str
    records: int
    stamp: Stamp
    since: int = 0


def stamp(path: Path) -> Stamp:
    """Return the stamp of a file; that of one that has just changed is unlike any other."""
    status, now = os.stat(path), time.time_ns()
    fresh = now - status.st_ctime_ns < _CLOCK_TICK_NS
    return status.st_size, -now if fresh else status.st_ctime_ns


def stamps_beside(source: Source) -> dict[str, Stamp]:
    """Return the stamps of what belongs to a session beside its main file: other files, and directories of these.

    Of a file that need not be there, also that it is not.
    """
    files = (*source.first, *(path for _name, path in source.sidecars))
    folders = {path.parent for path in files} - {source.path.parent}
    if source.path != source.main:
        folders.add(source.path)
    found: dict[str, Stamp] = {}
    for path in (*files, *sorted(folders)):
        # what has gone meanwhile has no stamp
        with suppress(OSError):
            found[path_text(path)] = stamp(path)
    return found | {path_text(path): _stamp_if_there(path) for path in source.beside}


def unchanged(main: Path, cursor: Cursor, beside: dict[str, Stamp]) -> bool:
    """Whether a session's main file and all that is kept in ``beside`` are as they were."""
    try:
        known = beside.items()
        return stamp(main) == cursor.stamp and all(_stamp_if_there(text_path(path)) == was for path, was in known)
    except OSError:
        return False


def _stamp_if_there(path: Path) -> Stamp:
    try:
        return stamp(path)
    except FileNotFoundError:
        return _ABSENT

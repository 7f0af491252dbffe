"""How far a session's file has been imported, and how to tell at the cost of a stat that nothing is new."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from store.formats.format import Source


class Cursor(Struct, frozen=True):
    """``offset`` is where the last finished record of the main file ends, ``prefix`` the BLAKE3 of the bytes before
    it in hex, ``records`` how many records that is (those of ``first`` files too), ``files`` the size and
    modification time in ns of every file of the session, by path."""

    offset: int
    prefix: str
    records: int
    files: dict[str, tuple[int, int]]

    def unchanged(self) -> bool:
        """Whether every file is as it was."""
        try:
            return all(_stamp(Path(path)) == tuple(stamp) for path, stamp in self.files.items())
        except OSError:
            return False


def stamps(source: Source) -> dict[str, tuple[int, int]]:
    """Return the size and modification time of every file of a session, by path."""
    paths = (source.main, *source.first, *(path for _name, path in source.sidecars))
    return {str(path): _stamp(path) for path in paths}


def _stamp(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns

"""How much of the disk a store takes, for ``df``."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SCRATCH = "scratch"
"""Where the files lie, in the store's directory, that are shown beside what is drawn."""

_SECONDS = 5.0


class DiskSpace(NamedTuple):
    """What ``df`` shows: the bytes that the store takes; the free blocks of its disk, and those left to this user."""

    block: int
    used: int
    free: int
    available: int


class SpaceTaken:
    """Measures the store at ``root``, not more often than every few seconds.

    Scratch files are not counted: there may be any number of them, and whoever asks waits.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._space: DiskSpace | None = None
        self._until = 0.0

    def now(self) -> DiskSpace:
        """Return what it takes, as of some seconds ago."""
        now = time.monotonic()
        if self._space is None or now > self._until:
            disk = os.statvfs(self._root)
            with os.scandir(self._root) as entries:
                used = sum(_size_of(entry) for entry in entries if entry.name != SCRATCH)
            self._space = DiskSpace(disk.f_frsize, used, disk.f_bfree, disk.f_bavail)
            self._until = now + _SECONDS
        return self._space


def _size_of(entry: os.DirEntry[str]) -> int:
    """Return the size of a file, or of the files below a directory. Follows no link: one could lead into this mount."""
    with suppress(FileNotFoundError):  # it may have gone by now
        if entry.is_dir(follow_symlinks=False):
            with os.scandir(entry) as entries:
                return sum(map(_size_of, entries))
        if entry.is_file(follow_symlinks=False):
            return entry.stat(follow_symlinks=False).st_size
    return 0

"""What a tool has written of a session and the store does not have yet, on the disk, at the offsets that it has."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from fusefs.tree.node import SHORT
from store.disk import durable
from store.importing.native import NativeFile

_AT_ONCE = 1 << 20
_APPENDS, _REWRITES = "a", "r"
COPY, KEPT = "copy-", "kept-"
"""How files in the folder are called that nobody needs when the process has ended, and what is never removed."""


class Noted(NamedTuple):
    """What the name of a file says of what it holds: see :class:`Spool`."""

    context: int
    base: int
    head: int
    rewrites: bool


class Spool:
    """The file of a session while there is more of it than the store has.

    It is ``lower``, what the store has, up to ``base``, and from there on what lies in a file on the disk, which has
    nothing before that. Whatever is written is there when the system call returns, so it outlives this process; its
    name says whose it is and where it begins. ``size`` is all of it.
    """

    def __init__(self, folder: Path, lower: NativeFile, base: int) -> None:
        self.folder = folder
        self.lower = lower
        self.base = base
        self.size = base
        self.time_ns = time.time_ns()
        self.timeout = SHORT
        self.changed_at = 0.0
        """When something was written last, by the clock that only rises; 0 if nothing was that waits."""
        self.waits_since = 0.0
        """When the first of what waits was written."""
        self.lowest = 0
        """The lowest offset that was written to since a commit began."""
        self.busy = False
        """Whether a thread is at work on it."""
        self.stuck = False
        """Whether what it holds could not be made the conversation's: it waits until something else is written."""
        self._synced = False
        self._path: Path | None = None
        self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    @property
    def context(self) -> int:
        """The conversation."""
        return self.lower.entry.id

    @property
    def rewrites(self) -> bool:
        """Whether something is written anew that the store has, and not only behind it."""
        return self.base < self.lower.size

    @property
    def is_empty(self) -> bool:
        """Whether the store has all of it."""
        return self.size == self.base == self.lower.size

    @property
    def path(self) -> Path | None:
        """The file on the disk, None while there is none."""
        return self._path

    # -- what programs do ------------------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        size = min(size, self.size - offset)
        if size <= 0:
            return b""
        if offset >= self.base:
            return os.pread(self._fd, size, offset)
        below = self.lower.read(offset, min(size, self.base - offset))
        return below + (os.pread(self._fd, size - len(below), self.base) if len(below) < size else b"")

    def last_line(self) -> int:
        """Return where the last complete line ends of what was written, 0 if there is none."""
        end = self.size
        while end > self.base:
            start = max(end - _AT_ONCE, self.base)
            newline = self.read(start, end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return end

    def written(self, offset: int, size: int) -> bytes:
        """Return a part of what lies on the disk; any thread may ask."""
        return os.pread(self._fd, size, offset)

    def write(self, offset: int, data: bytes) -> None:
        """Write at ``offset``; what lies between the end and there becomes NULs."""
        self._begin(offset)
        durable.pwrite_all(self._fd, data, offset)
        self._changed(offset, max(self.size, offset + len(data)))

    def truncate(self, size: int) -> None:
        """Make the file ``size`` bytes long."""
        if size == self.size:
            return
        if size < self.base:
            self.base = size
            self._name()
        else:
            self._begin(size)
        durable.truncate(self._open(), size)
        self._changed(size, size)

    def sync(self) -> None:
        """Make what was written durable."""
        if self._fd >= 0:
            durable.fdatasync(self._fd)
            if not self._synced:
                durable.sync_directory(self.folder)
                self._synced = True

    def _begin(self, offset: int) -> None:
        """Have everything from ``offset`` on in the file."""
        fd = self._open()
        if offset >= self.base:
            return
        # from the end: until all is there, the name says where it begins
        for end in range(self.base, offset, -_AT_ONCE):
            start = max(end - _AT_ONCE, offset)
            durable.pwrite_all(fd, self.lower.read(start, end - start), start)
        self.base = offset
        self._name()

    def _changed(self, offset: int, size: int) -> None:
        self.size = size
        self.lowest = min(self.lowest, offset)
        self.stuck = False
        self.time_ns = time.time_ns()
        self.changed_at = time.monotonic()
        self.waits_since = self.waits_since or self.changed_at

    # -- on the disk -----------------------------------------------------------------------------------------------

    def _open(self) -> int:
        if self._fd < 0:
            durable.make_directory(self.folder)
            path = self.folder / self._called()
            if path.exists():
                # what an earlier process left and could not be taken up is not written over
                durable.replace(path, self.folder / f"{KEPT}{time.time_ns()}-{path.name}")
            self._fd = durable.open_file(path, create=True)
            self._path = path
            self._synced = False
        return self._fd

    def _called(self) -> str:
        how = _REWRITES if self.rewrites else _APPENDS
        return f"{self.context}-{self.base}-{self.lower.entry.head}-{how}"

    def _name(self) -> None:
        if self._path is not None:
            path = self.folder / self._called()
            if path != self._path:
                durable.replace(self._path, path)
                self._path = path
                self._synced = False

    def take(self, path: Path) -> None:
        """Let the file be what lies at ``path``, which goes from there."""
        size = os.stat(path).st_size
        durable.make_directory(self.folder)
        self.drop()
        if self._fd >= 0:
            os.close(self._fd)
        self.base = 0
        to = self.folder / self._called()
        durable.replace(path, to)
        self._path = to
        self._fd = durable.open_file(to)
        self._changed(0, size)

    def adopt(self, path: Path) -> None:
        """Go on with the file that an earlier process left at ``path``."""
        self._path = path
        self._fd = durable.open_file(path)
        size = os.fstat(self._fd).st_size
        self._changed(self.base, max(size, self.base))

    def put(self, lower: NativeFile, base: int, tail: bytes | None = None) -> None:
        """Let the store have more of it, or something else: ``lower``, which it is up to ``base``.

        ``tail`` is what follows, where that does not stand in the file at its place.
        """
        self.lower, self.base = lower, base
        if tail is not None:
            self.size = base + len(tail)
            if tail:
                fd = self._open()
                durable.pwrite_all(fd, tail, base)
                durable.truncate(fd, self.size)
        self.waits_since = 0.0
        if self.is_empty:
            self.drop()
        else:
            self._name()

    def keep_all(self) -> None:
        """Have all of it in the file, whatever the store has."""
        self._begin(0)

    def discard(self) -> None:
        """Remove the file, of which nothing is wanted."""
        self.size = self.base = self.lower.size
        self.drop()

    def drop(self) -> None:
        """Remove the file: the store has what it held, or nobody wants it. Who has it open goes on to read it."""
        if self._path is not None:
            durable.remove(self._path)
            self._path = None
            if self.is_empty:
                os.close(self._fd)
                self._fd = -1


def noted(path: Path) -> Noted | None:
    """Return what the name of a file in the folder of spools says, None for any other."""
    parts = path.name.split("-")
    if len(parts) != 4 or not all(part.isdecimal() for part in parts[:3]) or parts[3] not in (_APPENDS, _REWRITES):
        return None
    return Noted(int(parts[0]), int(parts[1]), int(parts[2]), parts[3] == _REWRITES)

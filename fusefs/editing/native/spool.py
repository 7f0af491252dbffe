"""The part of a session that a tool has written and the store lacks: on the disk, at the session's offsets."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fusefs.editing.delays import Clock, Quiet
from fusefs.tree.node import SHORT
from store.disk import durable
from store.importing.native import NativeFile

_AT_ONCE = 1 << 20
_APPENDS, _REWRITES = "a", "r"
COPY, KEPT = "copy-", "kept-"


Read = Callable[[int, int], bytes]
"""Returns a part of a file, by its offset and size."""


def reader(file: BinaryIO) -> Read:
    """Return a reader of an open file."""
    return lambda offset, size: os.pread(file.fileno(), size, offset)


def pieces(read: Read, start: int, end: int) -> Iterator[bytes]:
    """Yield a file from ``start`` to ``end``, in pieces."""
    for offset in range(start, end, _AT_ONCE):
        yield read(offset, min(_AT_ONCE, end - offset))


def are_same(read: Read, other: Read, start: int, end: int) -> bool:
    """Return whether two files have the same bytes from ``start`` to ``end``."""
    return all(one == two for one, two in zip(pieces(read, start, end), pieces(other, start, end), strict=True))


def last_line(read: Read, start: int, end: int) -> int:
    """Return the offset at which the last complete line between two offsets ends, ``start`` if there is none."""
    while end > start:
        begin = max(end - _AT_ONCE, start)
        newline = read(begin, end - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return start


class Noted(NamedTuple):
    """The facts about a file's contents that its name tells: see :class:`Spool`."""

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

    def __init__(self, folder: Path, lower: NativeFile, base: int, clock: Clock) -> None:
        self.folder = folder
        self.lower = lower
        self.base = base
        self.size = base
        self.time_ns = lower.time_ns
        self.timeout = SHORT
        self.quiet = Quiet()
        """The times of writes to it."""
        self.lowest = 0
        """The lowest offset that was written to since a commit began."""
        self.busy = False
        """True while a thread is at work on it."""
        self.stuck = False
        """True if its contents could not be made the conversation's: it waits until something else is written."""
        self.tries = 0
        """The number of times that it did not come out of the store as written."""
        self._clock = clock
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
        """Return whether bytes that the store has are written anew, and not only bytes behind them."""
        return self.base < self.lower.size

    @property
    def is_empty(self) -> bool:
        """Return whether the store has all of it."""
        return self.size == self.base == self.lower.size

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        size = min(size, self.size - offset)
        if size <= 0:
            return b""
        if offset >= self.base:
            return os.pread(self._fd, size, offset)
        below = self.lower.read(offset, min(size, self.base - offset))
        return below + (os.pread(self._fd, size - len(below), self.base) if len(below) < size else b"")

    def written(self, offset: int, size: int) -> bytes:
        """Return a part of the bytes on the disk; any thread may ask."""
        return os.pread(self._fd, size, offset)

    def write(self, offset: int, data: bytes) -> None:
        """Write at ``offset``; the gap between the end and there becomes NULs."""
        self.begin(offset)
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
            self.begin(size)
        durable.truncate(self._open(), size)
        self._changed(size, size)

    def sync(self) -> None:
        """Make all writes durable."""
        if self._fd >= 0:
            durable.fdatasync(self._fd)
            if not self._synced:
                durable.sync_directory(self.folder)
                self._synced = True

    def begin(self, offset: int) -> None:
        """Make the file on the disk hold everything from ``offset`` on, even what the store has."""
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
        # programs that look at the time alone must see that the file was changed
        self.time_ns = max(time.time_ns(), self.time_ns + 1)
        self.quiet.written(self._clock())

    def _open(self) -> int:
        if self._fd < 0:
            durable.make_directory(self.folder)
            path = self.folder / self._called()
            if path.exists():
                # leftovers of an earlier process that could not be taken up are not overwritten
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
        """Move the file at ``path`` here, to be the spool's file."""
        status = os.stat(path)
        durable.make_directory(self.folder)
        self.drop()
        if self._fd >= 0:
            os.close(self._fd)
        self.base = 0
        to = self.folder / self._called()
        durable.replace(path, to)
        self._path = to
        self._fd = durable.open_file(to)
        self._changed(0, status.st_size)
        self.time_ns = status.st_mtime_ns

    def adopt(self, path: Path) -> None:
        """Go on with the file that an earlier process left at ``path``."""
        self._path = path
        self._fd = durable.open_file(path)
        status = os.fstat(self._fd)
        self._changed(self.base, max(status.st_size, self.base))
        self.time_ns = status.st_mtime_ns

    def leave(self) -> None:
        """Set the file's time to the one that is shown, for the next process to continue with."""
        if self._fd >= 0:
            os.utime(self._fd, ns=(self.time_ns, self.time_ns))

    def put(self, lower: NativeFile, base: int, tail: bytes | None = None) -> None:
        """Set the stored part, ``lower`` up to ``base``, and the part behind it, if that is not in the file."""
        self.lower, self.base = lower, base
        if tail is not None:
            self.size = base + len(tail)
            if tail:
                fd = self._open()
                durable.pwrite_all(fd, tail, base)
                durable.truncate(fd, self.size)
        self.quiet.looked_at()
        if self.is_empty:
            self.drop()
        else:
            self._name()

    def discard(self) -> None:
        """Remove the file, of which nothing is wanted."""
        self.size = self.base = self.lower.size
        self.drop()

    def drop(self) -> None:
        """Remove the file: the store has its content, or nobody wants it. Open files can still read it."""
        if self._path is not None:
            durable.remove(self._path)
            self._path = None
            if self.is_empty:
                os.close(self._fd)
                self._fd = -1


def noted(path: Path) -> Noted | None:
    """Return the facts in the name of a file in the folder of spools, None for any other name."""
    parts = path.name.split("-")
    if len(parts) != 4 or not all(part.isdecimal() for part in parts[:3]) or parts[3] not in (_APPENDS, _REWRITES):
        return None
    return Noted(int(parts[0]), int(parts[1]), int(parts[2]), parts[3] == _REWRITES)

"""One file of the journal: written from its beginning, again and again, and searched when a store is opened.

Writing it from the beginning once is a use, an *epoch*; epochs are numbered upwards over all files. The file grows
ahead of what is written, in steps that are filled with zeros: a sync has no metadata to write then. A large entry makes
it longer by itself: to write so much twice would cost more than the metadata.
"""

import errno
import os
from pathlib import Path
from typing import NamedTuple

from store.disk import durable, journal_format
from store.disk.journal_format import BLOCK, FRAME_OVERHEAD, MAGIC
from store.disk.reading import pread_around
from store.errors import StoreFull

_FIRST_STEP = 64 << 10
_STEP = 4 << 20
_LARGE_ENTRY = 64 << 10
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the system says when a disk is full."""


class Found(NamedTuple):
    """A sound entry: of which epoch and commit, and where its frame lies."""

    epoch: int
    seq: int
    number: int
    offset: int
    length: int


class JournalFile:
    """An open file ``journal/number``.

    ``position`` is where the next entry goes, ``last_seq`` is that of the last one of this use, 0 if there is none.
    """

    __slots__ = ("capacity", "epoch", "fd", "last_seq", "number", "path", "position", "size")

    def __init__(self, path: Path, fd: int, capacity: int) -> None:
        """Take an open file that grows to ``capacity`` bytes at most."""
        self.path = path
        self.number = int(path.name)
        self.fd = fd
        self.capacity = capacity
        self.size = os.fstat(fd).st_size
        self.epoch = 0
        self.position = BLOCK
        self.last_seq = 0

    @property
    def used(self) -> int:
        """How many bytes this use has written."""
        return self.position - BLOCK

    def begin(self, epoch: int) -> None:
        """Begin another use."""
        self.epoch = epoch
        self.position = BLOCK
        self.last_seq = 0

    def write(self, framed: bytes) -> None:
        """Write an entry, not yet synced. StoreFull where there is no room for it on the disk: then nothing counts."""
        end = self.position + len(framed)
        try:
            if end > self.size:
                self._grow(end, len(framed))
            durable.pwrite_all(self.fd, framed, self.position)
            self.size = max(self.size, end)
        except OSError as error:
            if error.errno not in FULL:
                raise
            # what was written of it is no entry, nobody was told of one, and the next takes its place
            self.size = os.fstat(self.fd).st_size
            raise StoreFull(f"{self.path}: {error.strerror}: free space, then try again") from error

    def _grow(self, end: int, length: int) -> None:
        """Make the file longer than an entry needs; the sync of the entry brings the zeros to disk, too."""
        if length < _LARGE_ENTRY:
            step = min(max(self.size, _FIRST_STEP), _STEP)
            size = min(max(self.size + step, end), self.capacity)
            durable.fill_zeros(self.fd, size)
            self.size = size

    # -- opening ---------------------------------------------------------------------------------------------------

    def find(self, oldest: int, seed: int) -> list[Found]:
        """Return the entries of the last use, if that is of the epoch ``oldest`` or later, and be in that use again.

        ``seed`` is the CRC-32 of the store's id.
        """
        entries: list[Found] = []
        first = self._first(seed)
        if first is not None and first < oldest:
            return entries
        data = pread_around(self.fd, self.size, 0)
        view = memoryview(data)
        position: int | None = BLOCK
        while position is not None:
            framed = journal_format.unframe(view, position, seed)
            if framed is None or (entries and framed.epoch != entries[0].epoch):
                # the end of this use, unless there is more of it behind
                position = _next(data, view, position + 1, oldest, seed)
                continue
            seq = journal_format.entry_seq(framed.body)
            entries.append(Found(framed.epoch, seq, self.number, position, framed.length))
            position += framed.length
        if entries:
            self.epoch, self.last_seq = entries[0].epoch, entries[-1].seq
            self.position = entries[-1].offset + entries[-1].length
        return entries

    def body(self, found: Found, seed: int) -> memoryview | None:
        """Read the body of an entry; None if it is sound no more."""
        framed = self._unframe(found.offset, found.length, seed)
        return framed.body if framed else None

    def _first(self, seed: int) -> int | None:
        """Return the epoch of the sound entry at the beginning, None if there is none."""
        length = int.from_bytes(pread_around(self.fd, 4, BLOCK + 4), "little")
        if not FRAME_OVERHEAD <= length <= self.size - BLOCK:
            return None
        framed = self._unframe(BLOCK, length, seed)
        return framed.epoch if framed else None

    def _unframe(self, offset: int, length: int, seed: int) -> journal_format.Framed | None:
        return journal_format.unframe(memoryview(pread_around(self.fd, length, offset)), 0, seed, offset)


def _next(data: bytes, view: memoryview, start: int, oldest: int, seed: int) -> int | None:
    """Return where the next sound entry begins that is of the epoch ``oldest`` or a later one."""
    while (start := data.find(MAGIC, start)) >= 0:
        framed = journal_format.unframe(view, start, seed)
        if framed and framed.epoch >= oldest:
            return start
        start += 1
    return None

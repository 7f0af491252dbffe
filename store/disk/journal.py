"""The journal: what makes a commit durable with one write and one sync.

``journal/1`` and ``journal/2`` are used in turns, each from its beginning. They grow ahead of what is written, in
steps that are filled with zeros: a sync has no metadata to write then. While one takes commits, the blobs of the other
are packed; then :meth:`Journal.retire` notes in ``journal/checkpoint`` how far logs and packs reach, and the other is
free again. Closing a store cuts both to their headers.

Recovery: cut logs and packs to the checkpoint, then replay :meth:`Journal.entries`. An entry that was being written
at the crash fails its checksum and was never acknowledged. An entry is one write, and the next begins only after it
was synced: so a bad entry with a good one of its epoch behind it was damaged later, and the good one still counts.
"""

import errno
import os
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

from store.disk import durable, file_header, journal_format
from store.disk.file_header import CHECKPOINT, HEADER_SIZE, JOURNAL
from store.disk.journal_format import BLOCK, FRAME_OVERHEAD, MAGIC, SLOT_SIZE, Checkpoint, Entry, Slot
from store.disk.reading import pread_around
from store.errors import DamageError, StoreFailed, StoreFull, UsageError

_SLOTS = 4
_FIRST_STEP = 64 << 10
_STEP = 4 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


class _File:
    """One of the two journals.

    ``last_seq`` is that of the last entry written to it and not yet retired, else 0; ``size`` that of the file.
    """

    __slots__ = ("fd", "last_seq", "path", "position", "size")

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.fd = fd
        self.size = size
        self.position = BLOCK
        self.last_seq = 0


class Journal:
    """Both journals of a store. Appending, switching and retiring may come from different threads.

    ``problems`` says in words what was found damaged; complete once :meth:`entries` has been exhausted.
    """

    def __init__(self, directory: Path, store_id: bytes, capacity: int = 32 << 20) -> None:
        """Open the journals, or make them; each grows to ``capacity`` bytes. Raises FormatTooNew and DamageError."""
        self.problems: list[str] = []
        self._seed = zlib.crc32(store_id)
        self._lock = threading.Lock()
        self._failed = False
        durable.make_directory(directory)
        self._files: list[_File] = []
        self._slots_fd = self._open(directory / "checkpoint", store_id, (_SLOTS + 1) * BLOCK)
        try:
            for name in ("1", "2"):
                fd = self._open(directory / name, store_id, HEADER_SIZE)
                self._files.append(_File(directory / name, fd, os.fstat(fd).st_size))
        except BaseException:
            self.close()
            raise
        self._slot = self._read_slots()
        self.capacity = capacity - BLOCK
        epoch = self._slot.epoch if self._slot else 0
        found = [entries for file in self._files if (entries := self._find(file, epoch))]
        found.sort(key=lambda entries: entries[0][0])
        self._epoch = max([epoch, *(entries[0][0] for entries in found)])
        self._found = _in_force([body for entries in found for _, body in entries])
        self._replayed_to = self._found[-1][0] if self._found else 0
        self._current = 0
        self._ready = self._slot is not None and self._replayed_to <= self._slot.checkpoint.seq
        if self._ready:
            self._epoch += 1
            self._found = []

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What was noted last. None if nothing ever was or the note is lost: then the logs must tell.

        (The head log's last COMMIT says how far they reach.)
        """
        return self._slot.checkpoint if self._slot else None

    @property
    def used(self) -> int:
        """How many bytes the journal in use holds."""
        return self._files[self._current].position - BLOCK

    @property
    def free(self) -> bool:
        """Whether the other journal is retired, so that :meth:`switch` can be called."""
        return self._files[1 - self._current].last_seq == 0

    def room(self, size: int) -> bool:
        """Say whether an entry of ``size`` encoded bytes fits the journal in use.

        UsageError if none could ever take it: its blobs must go into packs directly, or it must be split.
        """
        need = size + FRAME_OVERHEAD
        if need > self.capacity:
            raise UsageError(f"a group of {size} bytes is too large for a journal of {self.capacity}")
        return need <= self.capacity - self.used

    def free_bytes(self) -> int:
        """Return how many bytes there is room for on the disk."""
        return durable.free_bytes(self._slots_fd)

    def append(self, entry: bytes) -> None:
        """Write an encoded entry and return when it is on disk. Nothing more is taken after this has failed once.

        Except that the disk may be full: that is StoreFull.
        """
        with self._lock:
            self._check()
            if not self._ready:
                raise UsageError("the journal takes nothing before a checkpoint covers what it holds")
            file = self._files[self._current]
            framed = journal_format.frame(entry, self._epoch, file.position, self._seed)
            end = file.position + len(framed)
            if end > BLOCK + self.capacity:
                raise UsageError(f"an entry of {len(entry)} bytes does not fit the journal: ask for room first")
            self._failed = True
            try:
                if end > file.size:
                    self._grow(file, end)
                durable.pwrite_all(file.fd, framed, file.position)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                # what was written of it is no entry, nobody was told of one, and the next takes its place
                file.size = os.fstat(file.fd).st_size
                self._failed = False
                raise StoreFull(f"{file.path}: {error.strerror}: free space, then try again") from error
            durable.fdatasync(file.fd)
            self._failed = False
            file.position = end
            file.last_seq = journal_format.entry_seq(entry)

    def switch(self) -> None:
        """Go on in the other journal, which must be free."""
        with self._lock:
            other = self._files[1 - self._current]
            if other.last_seq:
                raise UsageError(f"{other.path}: the journal holds entries that are not yet in the logs")
            other.position = BLOCK
            self._epoch += 1
            self._current = 1 - self._current

    def retire(self, checkpoint: Checkpoint) -> None:
        """Note durably that everything up to ``checkpoint.seq`` is in the logs and packs, and synced there.

        After recovery, the first checkpoint must cover all entries; then the journal takes new ones.
        """
        with self._lock:
            if not self._ready and checkpoint.seq < self._replayed_to:
                raise UsageError(f"the journal has entries up to {self._replayed_to}, beyond {checkpoint.seq}")
            # While an older epoch has entries that are not covered, it stays the one to begin reading at.
            other = self._files[1 - self._current]
            covered = other.last_seq <= checkpoint.seq
            if not self._ready:
                self._epoch += 1
            epoch = self._epoch if covered else self._epoch - 1
            generation = self._slot.generation + 1 if self._slot else 1
            slot = Slot(generation, epoch, checkpoint)
            data = journal_format.encode_slot(slot)
            self._check()
            # Two copies in blocks of their own: no single fault loses the newest checkpoint. The slots of the
            # generation before stay as they are.
            offset = BLOCK * (1 + 2 * (generation % 2))
            self._failed = True
            durable.pwrite_all(self._slots_fd, data.ljust(BLOCK, b"\0") + data, offset)
            durable.fdatasync(self._slots_fd)
            self._failed = False
            self._slot = slot
            self._found = []
            self._ready = True
            if covered:
                other.last_seq = 0

    def entries(self, after: int | None = None) -> Iterator[Entry]:
        """Yield what recovery must replay, oldest first: the entries whose seq is above ``after``.

        ``after`` is the checkpoint's seq if not given. Where an entry is lost, the next begins at a higher offset of
        the head log than the one before ended; :attr:`problems` says so, and the entry still counts.
        """
        checkpoint = self.checkpoint
        if after is None:
            after = checkpoint.seq if checkpoint else 0
        expected = checkpoint.heads_length if checkpoint and checkpoint.seq == after else None
        for seq, body in self._found:
            if seq <= after:
                continue
            try:
                entry = journal_format.decode_entry(body)
            except DamageError as error:
                self.problems.append(str(error))
                continue
            if expected is not None and entry.heads_offset > expected:
                self.problems.append(
                    f"the journal lost {entry.heads_offset - expected} bytes of head records before seq {seq}"
                )
            expected = entry.heads_offset + len(entry.heads)
            yield entry

    def cut(self) -> None:
        """Give back the disk space that the journals take, if nothing in them is needed any more."""
        with self._lock:
            self._check()
            if self._ready and not any(file.last_seq for file in self._files):
                for file in self._files:
                    if file.size > HEADER_SIZE:
                        durable.truncate(file.fd, HEADER_SIZE)
                        file.size, file.position = HEADER_SIZE, BLOCK

    def close(self) -> None:
        """Close the files. What was not retired is replayed at the next opening."""
        for file in self._files:
            os.close(file.fd)
        os.close(self._slots_fd)

    def _grow(self, file: _File, end: int) -> None:
        """Make a file longer, to ``end`` at least; the sync of the entry brings the zeros to disk, too."""
        step = min(max(file.size, _FIRST_STEP), _STEP)
        size = min(max(file.size + step, end), BLOCK + self.capacity)
        durable.fill_zeros(file.fd, size)
        file.size = size

    def _check(self) -> None:
        # after a failed write or sync the disk's state is unknown, and a second sync would not tell
        if self._failed:
            raise StoreFailed("a write to the journal failed; it takes no more until the store is opened again")

    # -- opening ---------------------------------------------------------------------------------------------------

    def _open(self, path: Path, store_id: bytes, size: int) -> int:
        """Open one file, or make it, at least ``size`` bytes long."""
        kind = CHECKPOINT if path.name == "checkpoint" else JOURNAL
        if not path.exists():
            file_header.create(path, kind, store_id)
        fd = durable.open_file(path)
        try:
            problem = file_header.check(fd, kind, store_id, path)
            if problem:
                self.problems.append(str(problem))
            if os.fstat(fd).st_size < size:
                durable.fill_zeros(fd, size)
                durable.fdatasync(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _read_slots(self) -> Slot | None:
        offsets = (BLOCK * (1 + number) for number in range(_SLOTS))
        slots = (journal_format.decode_slot(pread_around(self._slots_fd, SLOT_SIZE, offset)) for offset in offsets)
        return max((slot for slot in slots if slot), key=lambda slot: slot.generation, default=None)

    def _find(self, file: _File, oldest: int) -> list[tuple[int, memoryview]]:
        """Return (epoch, body) of the entries of the file's last use, if that began in epoch ``oldest`` or later."""
        first = self._first(file)
        if first is not None and first < oldest:
            return []
        data = memoryview(pread_around(file.fd, file.size, 0))
        entries: list[tuple[int, memoryview]] = []
        position: int | None = BLOCK
        while position is not None:
            framed = journal_format.unframe(data, position, self._seed)
            if framed is None or (entries and framed.epoch != entries[0][0]):
                # the end of this use, unless there is more of it behind
                position = self._next(data, position + 1, oldest)
                continue
            entries.append((framed.epoch, framed.body))
            position += framed.length
        return entries

    def _first(self, file: _File) -> int | None:
        """Return the epoch of the sound entry at the beginning of a journal, None if there is none."""
        length = int.from_bytes(pread_around(file.fd, 4, BLOCK + 4), "little")
        if not FRAME_OVERHEAD <= length <= file.size - BLOCK:
            return None
        # as if it lay at its place: unframe compares that
        data = memoryview(bytes(BLOCK) + pread_around(file.fd, length, BLOCK))
        framed = journal_format.unframe(data, BLOCK, self._seed)
        return framed.epoch if framed else None

    def _next(self, data: memoryview, start: int, oldest: int) -> int | None:
        """Return where the next sound entry begins that is of the epoch ``oldest`` or a later one."""
        raw = data.obj
        assert isinstance(raw, bytes)
        while (start := raw.find(MAGIC, start)) >= 0:
            framed = journal_format.unframe(data, start, self._seed)
            if framed and framed.epoch >= oldest:
                return start
            start += 1
        return None


def _in_force(bodies: list[memoryview]) -> list[tuple[int, memoryview]]:
    """Return (seq, body) of entries, given in the order of writing; a later one of the same seq takes the place.

    That happens where an entry could not be read once, was taken for unfinished, and could be read again later.
    """
    kept: list[tuple[int, memoryview]] = []
    for body in reversed(bodies):
        seq = journal_format.entry_seq(body)
        if not kept or seq < kept[-1][0]:
            kept.append((seq, body))
    return kept[::-1]

"""The journal: makes a commit durable with one write and one sync.

``journal/1``, ``journal/2`` and so on are used in turns, each from its beginning; there are two while that is enough,
and more where commits come faster than they can be packed. While one takes commits, the blobs of those before it are
packed; then :meth:`Journal.retire` notes in ``journal/checkpoint`` how far logs and packs reach, and these are free
again. Closing a store cuts two to their headers and removes the others.

Recovery: cut logs and packs to the checkpoint, then replay :meth:`Journal.entries`. An entry that was being written
at the crash fails its checksum and was never acknowledged. An entry is one write, and the next begins only after it
was synced: so a bad entry with a good one of its epoch behind it was damaged later, and the good one still counts.

A journal is *backed* if what it takes is durable elsewhere: in the space of a replica. Then an append does not sync,
and after a power failure any part of any entry may be missing. So its entries count up to the first gap, and what
follows is fetched again. Checkpoints are as certain as ever: they go by logs and packs, which are synced for them.

One file is written from its beginning, again and again, and searched when a store is opened. Writing it once is a use,
an *epoch*; epochs are numbered upwards over all files. The file grows ahead of what is written, in steps that are
filled with zeros: a sync has no metadata to write then. A large entry extends it without zeros: writing its bytes
twice would cost more than the metadata.
"""

import os
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from store import paths
from store.disk import durable, file_header, journal_format
from store.disk.file_header import CHECKPOINT, HEADER_SIZE, JOURNAL
from store.disk.files import pread_around
from store.disk.journal_format import BLOCK, FRAME_OVERHEAD, MAGIC, SLOT_SIZE, Checkpoint, JournalEntry, Slot
from store.errors import DamageError, StoreFailed, StoreFull, UsageError

_CHECKPOINT = Path(paths.CHECKPOINT).name
_FIRST_STEP = 64 << 10
_STEP = 4 << 20
_LARGE_ENTRY = 64 << 10


class Found(NamedTuple):
    """A sound entry: of which epoch and commit, where its frame lies, and where its head frames begin and end."""

    epoch: int
    seq: int
    number: int
    offset: int
    length: int
    heads: tuple[int, int]


class JournalFile:
    """An open file ``journal/number``.

    ``position`` is where the next entry goes, ``last_seq`` is that of the last one of this use, 0 if there is none.
    """

    __slots__ = ("capacity", "epoch", "fd", "last_seq", "newest", "number", "path", "position", "size")

    def __init__(self, path: Path, fd: int, capacity: int) -> None:
        """Wrap an open file that grows to ``capacity`` bytes at most."""
        self.path = path
        self.number = int(path.name)
        self.fd = fd
        self.capacity = capacity
        self.size = os.fstat(fd).st_size
        self.epoch = 0
        self.position = BLOCK
        self.last_seq = 0
        self.newest = 0
        """The last epoch that was found in it when it was opened."""

    @property
    def used(self) -> int:
        """The number of bytes that this use has written."""
        return self.position - BLOCK

    def begin(self, epoch: int) -> None:
        """Begin another use."""
        self.epoch = epoch
        self.position = BLOCK
        self.last_seq = 0

    def write(self, framed: bytearray) -> None:
        """Write an entry, not yet synced. StoreFull where there is no room for it on the disk: then nothing counts."""
        end = self.position + len(framed)
        try:
            if end > self.size:
                self._grow(end, len(framed))
            durable.pwrite_all(self.fd, framed, self.position)
            self.size = max(self.size, end)
        except OSError as error:
            if error.errno not in durable.FULL:
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

    def find(self, oldest: int, seed: int, *, backed: bool = False) -> list[Found]:
        """Return the entries of the last use, if that is of the epoch ``oldest`` or later, and be in that use again.

        ``seed`` is the CRC-32 of the store's id. In a ``backed`` journal the beginning of a use may be missing.
        """
        entries: list[Found] = []
        first = self._first(seed)
        if first is not None and first < oldest and not backed:
            return entries
        data = pread_around(self.fd, self.size, 0)
        view = memoryview(data)
        position: int | None = BLOCK
        while position is not None:
            framed = journal_format.unframe(view, position, seed)
            self.newest = max(self.newest, framed.epoch if framed else 0)
            if framed is None or framed.epoch < oldest or (entries and framed.epoch != entries[0].epoch):
                # the end of this use, unless there is more of it behind
                position = _next(data, view, position + 1, oldest, seed)
                continue
            seq = journal_format.entry_seq(framed.body)
            heads = journal_format.heads_place(framed.body)
            entries.append(Found(framed.epoch, seq, self.number, position, framed.length, heads))
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


_SLOTS = 4
_LEAST_FILES = 2

JournalPlace = tuple[int, int]
"""The end of an entry, and of its last blob's body: the number of the file, and the offset in it."""


class Journal:
    """All journals of a store. Appending, switching and retiring may come from different threads.

    ``problems`` says in words what was found damaged; complete once :meth:`entries` has been exhausted.
    """

    def __init__(
        self,
        directory: Path,
        store_id: bytes,
        capacity: int = 32 << 20,
        files: int = _LEAST_FILES,
        *,
        read_only: bool = False,
        backed: bool = False,
    ) -> None:
        """Open the journals, or make the first two. Raises FormatTooNew and DamageError.

        There will be up to ``files`` of them, and each grows to ``capacity`` bytes. ``backed`` says that entries are
        durable elsewhere before they are appended.
        """
        self.problems: list[str] = []
        self.syncing: Callable[[], None] = lambda: None
        """Called when an entry is written, before the sync that makes it durable."""
        self.capacity = capacity - BLOCK
        self.total = files * self.capacity
        """The bytes that all of them can hold."""
        self.directory = directory
        self._store_id = store_id
        self._most = files
        self._seed = zlib.crc32(store_id)
        self._lock = threading.Lock()
        self._failed = False
        self._read_only = read_only
        self._backed = backed
        self._unsynced: set[JournalFile] = set()
        if not read_only:
            durable.make_directory(directory)
        self._files: dict[int, JournalFile] = {}
        self._slots_fd = self._open(directory / _CHECKPOINT, (_SLOTS + 1) * BLOCK)
        try:
            there = {int(name) for name in os.listdir(directory) if name.isdecimal()}
            for number in sorted(there | set(range(1, _LEAST_FILES + 1))):
                self._add(number)
        except BaseException:
            self.close()
            raise
        self._slot = self._read_slots()
        self._find()

    def _find(self) -> None:
        """Find the entries that are to be replayed, and go on in a file that holds none of them if there is one."""
        oldest = self._slot.epoch if self._slot else 0
        reached = self._slot.checkpoint.seq if self._slot else -1
        files = list(self._files.values())
        found = [entries for file in files if (entries := file.find(oldest, self._seed, backed=self._backed))]
        found.sort(key=lambda entries: entries[0].epoch)
        self._epoch = max(oldest, *(file.newest for file in files))
        self._found = _in_force([entry for entries in found for entry in entries])
        files = [self._files[entries[0].number] for entries in found]
        if self._found and self._found[-1].seq <= reached:
            self._found = []
        if self._backed and self._slot is not None:
            self._end_at_gap(self._slot.checkpoint, files)
        self._uses = [file for file in files if file.last_seq > reached]
        """The files with entries that are not retired, in the order in which they were written; the current last."""
        self._current: JournalFile | None = None
        if self._slot is not None and not self._found and not self._read_only:
            self._begin()

    def _end_at_gap(self, checkpoint: Checkpoint, files: Sequence[JournalFile]) -> None:
        """Forget the entries behind the first that is missing."""
        left = [found for found in self._found if found.seq > checkpoint.seq]
        ends = [checkpoint.heads_length, *(found.heads[1] for found in left)]
        following = takewhile(lambda one: one[0].heads[0] == one[1], zip(left, ends, strict=False))
        self._found = [found for found, _end in following]
        last = {found.number: found.seq for found in self._found}
        for file in files:
            file.last_seq = last.get(file.number, 0)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that was noted last. None if nothing ever was or the note is lost: then the logs must tell.

        (The head log's last COMMIT says how far they reach.)
        """
        return self._slot.checkpoint if self._slot else None

    @property
    def used(self) -> int:
        """The bytes in the journal in use."""
        return self._current.used if self._current else 0

    @property
    def backlog(self) -> int:
        """The bytes in all journals that are not retired."""
        return sum(file.used for file in self._uses[:])

    @property
    def free(self) -> bool:
        """True if another journal is retired or can be made, so that :meth:`switch` can be called."""
        return self._slot is not None and len(self._uses) < max(self._most, len(self._files))

    def room(self, size: int) -> bool:
        """Return whether an entry of ``size`` encoded bytes fits into the journal in use.

        UsageError if none could ever take it: its blobs must go into packs directly, or it must be split.
        """
        need = size + FRAME_OVERHEAD
        if need > self.capacity:
            raise UsageError(f"a group of {size} bytes is too large for a journal of {self.capacity}")
        return self._current is not None and need <= self.capacity - self._current.used

    def free_bytes(self) -> int:
        """Return how many bytes there is room for on the disk."""
        return durable.free_bytes(self._slots_fd)

    def append(self, *entry: bytes) -> JournalPlace:
        """Write an encoded entry, whole or in pieces, and return, when it is on disk, where it ends.

        It is not synced where that is backed; see :meth:`sync`.
        Nothing more is taken after this has failed once. Except that the disk may be full: that is StoreFull.
        """
        with self._lock:
            self._check()
            file = self._current
            if file is None:
                raise UsageError("the journal takes nothing before a checkpoint covers what it holds")
            framed = journal_format.frame(entry, self._epoch, file.position, self._seed)
            if file.used + len(framed) > self.capacity:
                raise UsageError(f"an entry of {len(framed)} bytes does not fit the journal: ask for room first")
            self._failed = True
            try:
                file.write(framed)
            except StoreFull:
                self._failed = False
                raise
            if self._backed:
                self._unsynced.add(file)
            else:
                self.syncing()
                durable.fdatasync(file.fd)
            self._failed = False
            file.position += len(framed)
            file.last_seq = journal_format.entry_seq(entry[0])
            return file.number, file.position - FRAME_OVERHEAD + journal_format.FRAME_HEAD

    def sync(self) -> None:
        """Return when all entries are on disk, here as well: before something happens that only they explain."""
        with self._lock:
            self._check()
            self._failed = True
            while self._unsynced:
                durable.fdatasync(self._unsynced.pop().fd)
            self._failed = False

    def switch(self) -> None:
        """Switch to another journal; one must be :attr:`free`. Raises StoreFull, and then changes nothing."""
        with self._lock:
            self._check()
            if not self.free:
                raise UsageError(f"{self.directory}: the journals hold entries that are not yet in the logs")
            try:
                self._begin()
            except OSError as error:
                if error.errno not in durable.FULL:
                    raise
                raise self._full(error) from error

    def retire(self, checkpoint: Checkpoint) -> None:
        """Record durably that everything up to ``checkpoint.seq`` is in the logs and packs, and synced there."""
        with self._lock:
            self._check()
            covered = list(
                takewhile(lambda file: file is not self._current and file.last_seq <= checkpoint.seq, self._uses)
            )
            left = self._uses[len(covered) :]
            self._unsynced.difference_update(covered)
            # While an older epoch has entries that are not covered, it stays the one to begin reading at.
            epoch = left[0].epoch if left else self._epoch + 1
            generation = self._slot.generation + 1 if self._slot else 1
            slot = Slot(generation, epoch, checkpoint)
            data = journal_format.encode_slot(slot)
            # Two copies in blocks of their own: no single fault loses the newest checkpoint. The slots of the
            # generation before stay as they are.
            offset = BLOCK * (1 + 2 * (generation % 2))
            self._failed = True
            try:
                durable.pwrite_all(self._slots_fd, data.ljust(BLOCK, b"\0") + data, offset)
            except OSError as error:
                if error.errno not in durable.FULL:
                    raise
                # where the disk writes elsewhere; the slots of the generation before are whole
                self._failed = False
                raise self._full(error) from error
            durable.fdatasync(self._slots_fd)
            self._failed = False
            self._slot = slot
            self._found = [found for found in self._found if found.seq > checkpoint.seq]
            self._uses = left
            if self._current is None and not left:
                self._begin()

    def entries(self, after: int | None = None) -> Iterator[tuple[JournalEntry, JournalPlace]]:
        """Yield the entries to replay in recovery, oldest first: those with a seq above ``after``, with their ends.

        ``after`` is the checkpoint's seq if not given. Where an entry is lost, the next begins at a higher offset of
        the head log than the one before ended; :attr:`problems` says so, and the entry still counts.
        """
        checkpoint = self.checkpoint
        if after is None:
            after = checkpoint.seq if checkpoint else 0
        expected = checkpoint.heads_length if checkpoint and checkpoint.seq == after else None
        for found in self._found:
            if found.seq <= after:
                continue
            body = self._files[found.number].body(found, self._seed)
            try:
                if body is None:
                    raise DamageError(f"the journal's entry {found.seq} could be read once, and then no more")
                entry = journal_format.decode_entry(body)
            except DamageError as error:
                self.problems.append(str(error))
                continue
            if expected is not None and entry.heads_offset > expected:
                self.problems.append(
                    f"the journal lost {entry.heads_offset - expected} bytes of head records before seq {found.seq}"
                )
            expected = entry.heads_offset + len(entry.heads)
            yield entry, (found.number, found.offset + journal_format.FRAME_HEAD + len(body))

    def read(self, number: int, length: int, offset: int) -> bytes:
        """Read bytes of a file that is in use; zeros for unreadable ones."""
        return pread_around(self._files[number].fd, length, offset)

    def cut(self) -> None:
        """Give back the disk space that the journals take, if nothing in them is needed any more."""
        with self._lock:
            self._check()
            if self._current is None or self.backlog:
                return
            self._uses = []
            self._begin()
            for number, file in list(self._files.items()):
                if number > _LEAST_FILES:
                    del self._files[number]
                    os.close(file.fd)
                    durable.remove(file.path)
                elif file.size > HEADER_SIZE:
                    durable.truncate(file.fd, HEADER_SIZE)
                    file.size, file.position = HEADER_SIZE, BLOCK

    def erase(self) -> None:
        """Erase the old contents of the journals from the disk; all must be retired. Frees their space."""
        with self._lock:
            self._check()
            if self._current is None or self.backlog:
                raise UsageError(f"{self.directory}: the journals hold entries that are not yet in the logs")
            for file in self._files.values():
                durable.overwrite(file.fd, HEADER_SIZE)
                durable.fdatasync(file.fd)
        self.cut()

    def close(self) -> None:
        """Close the files. Journals that are not retired are replayed at the next opening."""
        for file in self._files.values():
            os.close(file.fd)
        os.close(self._slots_fd)

    def _begin(self) -> None:
        """Begin to use a file that is not in use, the first that there is; else make one."""
        file = next((file for file in self._files.values() if file not in self._uses), None)
        if file is None:
            file = self._add(max(self._files) + 1)
        self._epoch += 1
        file.begin(self._epoch)
        self._uses = [*self._uses, file]
        self._current = file

    def _full(self, error: OSError) -> StoreFull:
        return StoreFull(f"{self.directory}: {error.strerror}: free space on its disk, then try again")

    def _check(self) -> None:
        # after a failed write or sync the disk's state is unknown, and a second sync would not tell
        if self._failed:
            raise StoreFailed("a write to the journal failed; it takes no more until the store is opened again")

    # -- opening ---------------------------------------------------------------------------------------------------

    def _add(self, number: int) -> JournalFile:
        path = self.directory / str(number)
        file = JournalFile(path, self._open(path, HEADER_SIZE), BLOCK + self.capacity)
        self._files[number] = file
        return file

    def _open(self, path: Path, size: int) -> int:
        """Open one file, or make it, at least ``size`` bytes long."""
        kind = CHECKPOINT if path.name == _CHECKPOINT else JOURNAL
        if not path.exists():
            if self._read_only:
                # as an empty one
                self.problems.append(f"{path} is missing")
                return os.memfd_create(path.name, os.MFD_CLOEXEC)
            file_header.create(path, kind, self._store_id)
        fd = durable.open_file(path, read_only=self._read_only)
        try:
            problem = file_header.check(fd, kind, self._store_id, path)
            if problem:
                self.problems.append(str(problem))
            if os.fstat(fd).st_size < size and not self._read_only:
                durable.fill_zeros(fd, size)
                durable.fdatasync(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _read_slots(self) -> Slot | None:
        return _last_slot(self._slots_fd)


def _last_slot(fd: int) -> Slot | None:
    offsets = (BLOCK * (1 + number) for number in range(_SLOTS))
    slots = (journal_format.decode_slot(pread_around(fd, SLOT_SIZE, offset)) for offset in offsets)
    return max((slot for slot in slots if slot), key=lambda slot: slot.generation, default=None)


def settled(directory: Path) -> Checkpoint | None:
    """Return the checkpoint of journals that were cut when they were closed, so hold nothing; None of any others.

    Changes nothing. OSError where they cannot be read.
    """
    with os.scandir(directory) as found:
        if any(entry.name.isdecimal() and entry.stat().st_size > HEADER_SIZE for entry in found):
            return None
    fd = durable.open_file(directory / _CHECKPOINT, read_only=True)
    try:
        slot = _last_slot(fd)
    finally:
        os.close(fd)
    return slot.checkpoint if slot else None


def _in_force(entries: list[Found]) -> list[Found]:
    """Return entries, given in the order of writing; a later one of the same seq takes the place.

    That happens where an entry could not be read once, was taken for unfinished, and could be read again later.
    """
    kept: list[Found] = []
    for entry in reversed(entries):
        if not kept or entry.seq < kept[-1].seq:
            kept.append(entry)
    return kept[::-1]

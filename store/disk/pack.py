"""Packs: ``blobs/00000001.pack`` and following, append-only segments of BlobRecords; and those rewritten from them.

Any number of threads append (one after the other), sync and read. A reader takes the segment's open file out of a
small cache and reads with pread; a file that the cache drops stays open until its last reader lets go of it.

A pack that nothing is appended to any more is *cold*. Its records may be written once more, elsewhere and otherwise
(:meth:`PackSet.rewrite`), and it is removed when the index names the new places. A number is never given twice in the
life of a process, so whatever is remembered by places stays true.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from store.disk import blob_format, durable, file_header, pack_files, replacing
from store.disk.blob_format import HEAD_SIZE, OVERHEAD, Record
from store.disk.file_header import HEADER_SIZE, PACK, Damage
from store.disk.pack_files import REWRITTEN, PackWriter, Place
from store.disk.reading import Window, pread
from store.disk.segment import LONGEST_READ, Segment
from store.errors import ConvfsError, DamageError, StoreFailed, UsageError

_OPEN_SEGMENTS = 64
_NEAR = 64 << 10
_TOUCHED_NS = 3600 * 10**9


class PackRemoved(DamageError):
    """The pack was removed while it was open: what it held lies elsewhere now, or nowhere. Look it up once more."""


class PackSet:
    """All packs of one store."""

    def __init__(self, directory: Path, store_id: bytes, segment_bytes: int = 256 << 20) -> None:
        """Open the packs in ``directory``, or make the first; a new one is begun beyond ``segment_bytes``.

        Raises FormatTooNew, and DamageError if the last pack belongs to another store.
        """
        self._directory = directory
        self._store_id = store_id
        self._segment_bytes = segment_bytes
        self._files: dict[int, Segment] = {}
        self._lock = threading.Lock()
        self._append_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._failed = False
        self._removed: set[int] = set()
        durable.make_directory(directory)
        replacing.clean(directory)
        self._last_rewritten = max([REWRITTEN, *self.numbers()])
        appended = self.appended()
        self._tail = self._open_tail(appended[-1]) if appended else self._begin(1)
        self._end = (self._tail.number, max(os.fstat(self._tail.fd).st_size, HEADER_SIZE))
        self._synced = (1, HEADER_SIZE)

    @property
    def end(self) -> Place:
        """Where the packs end: the number of the last, and its length."""
        return self._end

    @property
    def synced(self) -> Place:
        """Up to where everything has been synced; the beginning of the packs until :meth:`sync` was called."""
        return self._synced

    def numbers(self) -> list[int]:
        """Return the numbers of the packs that are there, rising; those of rewritten ones come last."""
        return pack_files.numbers_in(self._directory)

    def appended(self) -> list[int]:
        """Return the numbers of the packs that are there and were not rewritten."""
        return [number for number in self.numbers() if number < REWRITTEN]

    def cold(self) -> list[int]:
        """Return the numbers of the packs that nothing is appended to any more."""
        tail = self._end[0]
        return [number for number in self.numbers() if number < tail or number > REWRITTEN]

    def length(self, pack: int) -> int:
        """Return how long a pack is, as far as it has been written."""
        number, length = self._end
        return length if pack == number else os.stat(self.path(pack)).st_size

    def modified_ns(self, pack: int) -> int:
        """Return when a pack was last written to or touched."""
        return os.stat(self.path(pack)).st_mtime_ns

    def touch(self, pack: int) -> None:
        """Have a pack count as written to just now, within the hour."""
        now = time.time_ns()
        if self.modified_ns(pack) < now - _TOUCHED_NS:
            os.utime(self.path(pack), ns=(now, now))

    def path(self, pack: int) -> Path:
        """Return the path of a pack's file."""
        return self._directory / pack_files.file_name(pack)

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[bytes]) -> list[Place]:
        """Write encoded records at the end and return their places, in order. Syncs only a pack that is full."""
        with self._append_lock:
            return self._append(records)

    def _append(self, records: Sequence[bytes]) -> list[Place]:
        places: list[Place] = []
        run: list[bytes] = []
        number, length = self._end
        for record in records:
            if length + len(record) > self._segment_bytes and length > HEADER_SIZE:
                self._write(run)
                run = []
                self._roll()
                number, length = self._end
            places.append((number, length))
            run.append(record)
            length += len(record)
        self._write(run)
        return places

    def roll(self) -> None:
        """Have what is appended from now on go into a new pack: all that there are are cold then."""
        with self._append_lock:
            if self._end[1] > HEADER_SIZE:
                self._roll()

    def _roll(self) -> None:
        # so that only the last pack ever has anything unsynced, whenever the process dies
        self.sync()
        number = self._end[0] + 1
        tail = self._begin(number)
        with self._lock:
            self._tail, self._end = tail, (number, HEADER_SIZE)

    def rewrite(self) -> PackWriter:
        """Begin a pack that will take the place of cold ones."""
        with self._lock:
            self._last_rewritten += 1
            return PackWriter(self._directory, self._last_rewritten, self._store_id)

    def remove(self, numbers: Sequence[int], *, overwrite: bool = False) -> None:
        """Remove cold packs that the index names no more; see :func:`store.disk.pack_files.remove`."""
        if self._end[0] in numbers:
            raise UsageError(f"pack {self._end[0]} is being written to")
        with self._lock:
            self._removed.update(numbers)
            for number in numbers:
                self._files.pop(number, None)
        pack_files.remove(map(self.path, numbers), overwrite=overwrite)

    def sync(self) -> None:
        """Return when everything appended before is on disk. May run beside :meth:`append`.

        Once a sync has failed, all fail: what reached the disk is unknown, and the system does not say it twice.
        """
        # one after the other: a second caller's data may be what the first is syncing
        with self._sync_lock:
            if self._failed:
                raise StoreFailed(f"{self._directory}: a sync failed; nothing is taken until the store is opened again")
            with self._lock:
                tail, end = self._tail, self._end
            if end == self._synced:
                return
            try:
                durable.fdatasync(tail.fd)
            except OSError:
                self._failed = True
                raise
            self._synced = end

    def cut(self, pack: int, length: int) -> int:
        """Make the packs end at ``length`` of ``pack``; return how many bytes went (negative: were missing).

        For recovery, while nothing reads. What was missing reads as damage, so that places behind it stay true.
        """
        if pack < 1 or length < HEADER_SIZE:
            raise UsageError(f"packs cannot end at {length} of pack {pack}")
        went = 0
        for number in self.appended():
            if number > pack:
                went += os.stat(self.path(number)).st_size - HEADER_SIZE
                durable.remove(self.path(number))
        durable.sync_directory(self._directory)
        with self._lock:
            self._files.clear()
        self._tail = self._open_tail(pack) if self.path(pack).exists() else self._begin(pack)
        excess = os.fstat(self._tail.fd).st_size - length
        if excess:
            durable.truncate(self._tail.fd, length)
        self._end = (pack, length)
        self._synced = (1, HEADER_SIZE)
        return went + excess

    def close(self) -> None:
        """Let go of all files; they close when no read holds them any more."""
        with self._lock:
            self._files.clear()
        os.close(self._tail.fd)
        self._tail.fd = -1

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, pack: int, offset: int, *, damaged: bool = False) -> Record:
        """Read the record at a place; two reads, of exactly its bytes. ``damaged``: even if its checksum does not hold.

        DamageError if there is no sound record, FormatTooNew if it is of a kind that this code does not know.
        """
        segment = self._segment(pack)
        try:
            size = OVERHEAD + blob_format.stored_length(pread(segment.fd, HEAD_SIZE, offset))
            segment.check_end(offset + size)
            return blob_format.decode_record(memoryview(pread(segment.fd, size, offset)), damaged=damaged)
        except ConvfsError as error:
            raise self._placed(error, pack, offset) from None

    def read_many(self, places: Sequence[Place]) -> Iterator[tuple[Place, Record | ConvfsError]]:
        """Read the records at ``places`` in the order in which they lie, what is near in one read.

        Yields each place once, with its record or what is wrong there.
        """
        ordered = sorted(set(places))
        window: Window | None = None
        segment: Segment | None = None
        for index, (pack, offset) in enumerate(ordered):
            try:
                if segment is None or window is None or segment.number != pack:
                    segment = self._segment(pack)
                    window = Window(segment.fd)
                ahead = 0 if window.covers(offset, HEAD_SIZE) else _ahead(ordered, index)
                record = segment.record(window, offset, ahead)
            except ConvfsError as error:
                yield (pack, offset), self._placed(error, pack, offset)
                continue
            yield (pack, offset), record

    def scan(
        self, start: Place | None = None, numbers: Sequence[int] | None = None
    ) -> Iterator[tuple[int, int, Record | Damage]]:
        """Yield every record of the packs ``numbers`` (None: of all) as they now are: pack, offset, record.

        Begins at ``start`` (None: with the first); packs with lower numbers are left out. What is damaged is one
        Damage; reading goes on at the next sound record behind it.
        """
        last, length = self.end
        first, offset = start or (1, HEADER_SIZE)
        for pack in self.numbers() if numbers is None else numbers:
            if pack < first:
                continue
            try:
                segment = self._segment(pack)
            except DamageError as error:
                yield pack, 0, Damage(0, 0, str(error))
                continue
            within = start is not None and pack == first
            if segment.damage and not within:
                yield pack, 0, Damage(0, HEADER_SIZE, str(segment.damage))
            end = length if pack == last else os.fstat(segment.fd).st_size
            for place, found in segment.scan(offset if within else HEADER_SIZE, end):
                yield pack, place, found

    # -- files -----------------------------------------------------------------------------------------------------

    def _segment(self, pack: int) -> Segment:
        segment = self._files.get(pack)
        if segment is None:
            try:
                segment = Segment(pack, self.path(pack), self._store_id, read_only=True)
            except DamageError as error:
                raise (PackRemoved if pack in self._removed else DamageError)(str(error)) from error
            with self._lock:
                if pack in self._removed:
                    raise PackRemoved(f"{self.path(pack)}: the pack was removed")
                self._files[pack] = segment
                while len(self._files) > _OPEN_SEGMENTS:
                    del self._files[next(iter(self._files))]
        return segment

    def _open_tail(self, number: int) -> Segment:
        return Segment(number, self.path(number), self._store_id, read_only=False)

    def _begin(self, number: int) -> Segment:
        file_header.create(self.path(number), PACK, self._store_id)
        return self._open_tail(number)

    def _write(self, run: list[bytes]) -> None:
        if not run:
            return
        data = run[0] if len(run) == 1 else b"".join(run)
        number, length = self._end
        durable.pwrite_all(self._tail.fd, data, length)
        # only now: a sync that ran meanwhile did not cover this write
        self._end = (number, length + len(data))

    def _placed(self, error: ConvfsError, pack: int, offset: int) -> ConvfsError:
        # also where an open file reads as zeros: it is being erased
        kind = PackRemoved if pack in self._removed else type(error)
        return kind(f"{self.path(pack)}, offset {offset}: {error}")


def _ahead(ordered: list[Place], index: int) -> int:
    """Return how much to read at a place so that the records near behind it come along."""
    pack, offset = ordered[index]
    reach = offset
    for other, behind in islice(ordered, index + 1, None):
        if other != pack or behind - reach > _NEAR or behind - offset > LONGEST_READ:
            break
        reach = behind
    # how long the last one is shows only in its head; where it is alone, its head is all to read blindly
    return reach - offset + (_NEAR if reach > offset else HEAD_SIZE)

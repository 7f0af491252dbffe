"""Packs: ``blobs/00000001.pack`` and following, append-only segments of BlobRecords.

Any number of threads append (one after the other), sync and read. A reader takes the segment's open file out of a
small cache and reads with pread; a file that the cache drops stays open until its last reader lets go of it.
"""

import os
import re
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from store.disk import blob_format, durable, file_header
from store.disk.blob_format import HEAD_SIZE, MAGIC, OVERHEAD, Record
from store.disk.file_header import HEADER_SIZE, PACK, Damage
from store.disk.reading import Window, pread, pread_around
from store.errors import ConvfsError, DamageError, FormatTooNew, StoreFailed, UsageError

_OPEN_SEGMENTS = 64
_NAME = re.compile(r"([0-9]{8,})\.pack")
_NEAR = 64 << 10
_LONGEST_READ = 1 << 20

Place = tuple[int, int]
"""A record's place: the number of its pack, and its offset in the pack's file."""


class _Segment:
    """The open file of one pack; closed with the last reference to it."""

    __slots__ = ("_size", "damage", "fd", "number")

    def __init__(self, number: int, path: Path, store_id: bytes, *, read_only: bool) -> None:
        self.number = number
        self.fd = -1
        try:
            self.fd = durable.open_file(path, read_only=read_only)
        except FileNotFoundError:
            raise DamageError(f"{path}: the pack is missing") from None
        except OSError as error:
            raise DamageError(f"{path}: the pack cannot be opened: {error.strerror}") from error
        self.damage = file_header.check(self.fd, PACK, store_id, path)
        self._size = os.fstat(self.fd).st_size

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def holds(self, end: int) -> bool:
        """Whether the file has bytes up to ``end``; asks the system only where it did not when last asked."""
        if end <= self._size:
            return True
        self._size = os.fstat(self.fd).st_size
        return end <= self._size


class PackSet:
    """All packs of one store."""

    def __init__(self, directory: Path, store_id: bytes, segment_bytes: int = 256 << 20) -> None:
        """Open the packs in ``directory``, or make the first; a new one is begun beyond ``segment_bytes``.

        Raises FormatTooNew, and DamageError if the last pack belongs to another store.
        """
        self._directory = directory
        self._store_id = store_id
        self._segment_bytes = segment_bytes
        self._files: dict[int, _Segment] = {}
        self._lock = threading.Lock()
        self._append_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._failed = False
        durable.make_directory(directory)
        numbers = self.numbers()
        self._tail = self._open_tail(numbers[-1]) if numbers else self._begin(1)
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
        """Return the numbers of the packs that are there, rising."""
        matches = map(_NAME.fullmatch, os.listdir(self._directory))
        return sorted(int(match[1]) for match in matches if match)

    def path(self, pack: int) -> Path:
        """Return the path of a pack's file."""
        return self._directory / f"{pack:08}.pack"

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
                # so that only the last pack ever has anything unsynced, whenever the process dies
                self.sync()
                number, length = number + 1, HEADER_SIZE
                tail = self._begin(number)
                with self._lock:
                    self._tail, self._end = tail, (number, length)
            places.append((number, length))
            run.append(record)
            length += len(record)
        self._write(run)
        return places

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
        for number in self.numbers():
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

    def read(self, pack: int, offset: int) -> Record:
        """Read the record at a place; two reads, of exactly its bytes.

        DamageError if there is no sound record, FormatTooNew if it is of a kind that this code does not know.
        """
        segment = self._segment(pack)
        try:
            size = OVERHEAD + blob_format.stored_length(pread(segment.fd, HEAD_SIZE, offset))
            self._check_end(segment, offset + size)
            return blob_format.decode_record(memoryview(pread(segment.fd, size, offset)))
        except ConvfsError as error:
            raise self._placed(error, pack, offset) from None

    def read_many(self, places: Sequence[Place]) -> Iterator[tuple[Place, Record | ConvfsError]]:
        """Read the records at ``places`` in the order in which they lie, what is near in one read.

        Yields each place once, with its record or what is wrong there.
        """
        ordered = sorted(set(places))
        window: Window | None = None
        segment: _Segment | None = None
        for index, (pack, offset) in enumerate(ordered):
            try:
                if segment is None or window is None or segment.number != pack:
                    segment = self._segment(pack)
                    window = Window(segment.fd)
                ahead = 0 if window.covers(offset, HEAD_SIZE) else _ahead(ordered, index)
                record = self._record(segment, window, offset, ahead)
            except ConvfsError as error:
                yield (pack, offset), self._placed(error, pack, offset)
                continue
            yield (pack, offset), record

    def scan(self, start: Place | None = None) -> Iterator[tuple[int, int, Record | Damage]]:
        """Yield every record from ``start`` (None: the first) to the end as it now is: pack, offset, record.

        What is damaged is one Damage; reading goes on at the next sound record behind it.
        """
        last, length = self.end
        first, offset = start or (1, HEADER_SIZE)
        for pack in range(first, last + 1):
            try:
                segment = self._segment(pack)
            except DamageError as error:
                yield pack, 0, Damage(0, 0, str(error))
                continue
            if segment.damage and start is None:
                yield pack, 0, Damage(0, HEADER_SIZE, str(segment.damage))
            end = length if pack == last else os.fstat(segment.fd).st_size
            for place, found in self._scan_segment(segment, offset if pack == first else HEADER_SIZE, end):
                yield pack, place, found

    def _scan_segment(self, segment: _Segment, offset: int, end: int) -> Iterator[tuple[int, Record | Damage]]:
        window = Window(segment.fd, _LONGEST_READ)
        while offset < end:
            try:
                record = self._record(segment, window, offset)
            except FormatTooNew as error:
                # it is whole, so its length is true
                size = OVERHEAD + blob_format.stored_length(window.view(offset, HEAD_SIZE))
                yield offset, Damage(offset, size, str(error))
                offset += size
                continue
            except DamageError as error:
                behind = self._next_record(segment, offset, end)
                yield offset, Damage(offset, behind - offset, str(error))
                offset = behind
                continue
            yield offset, record
            offset += OVERHEAD + len(record.stored)

    def _record(self, segment: _Segment, window: Window, offset: int, ahead: int | None = None) -> Record:
        size = OVERHEAD + blob_format.stored_length(window.view(offset, HEAD_SIZE, ahead))
        self._check_end(segment, offset + size)
        # copied, so that a record that is kept does not keep the whole window
        return blob_format.decode_record(memoryview(bytes(window.view(offset, size, ahead))))

    def _check_end(self, segment: _Segment, end: int) -> None:
        # before memory is taken: a damaged length must not cost more than the file has
        if not segment.holds(end):
            raise DamageError("a blob record reaches beyond the end of its pack")

    def _next_record(self, segment: _Segment, damaged: int, end: int) -> int:
        """Return where the first sound record after the one at ``damaged`` begins, or ``end``."""
        # not by its length, which may be what is damaged
        start = damaged + 1
        while start + OVERHEAD <= end:
            data = pread_around(segment.fd, min(_LONGEST_READ, end - start), start)
            found = data.find(MAGIC)
            while found >= 0:
                if self._sound(segment, start + found):
                    return start + found
                found = data.find(MAGIC, found + 1)
            start += max(len(data) - len(MAGIC) + 1, 1)
        return end

    def _sound(self, segment: _Segment, offset: int) -> bool:
        try:
            self._record(segment, Window(segment.fd, HEAD_SIZE), offset)
        except FormatTooNew:
            return True
        except DamageError:
            return False
        return True

    # -- files -----------------------------------------------------------------------------------------------------

    def _segment(self, pack: int) -> _Segment:
        segment = self._files.get(pack)
        if segment is None:
            segment = _Segment(pack, self.path(pack), self._store_id, read_only=True)
            with self._lock:
                self._files[pack] = segment
                while len(self._files) > _OPEN_SEGMENTS:
                    del self._files[next(iter(self._files))]
        return segment

    def _open_tail(self, number: int) -> _Segment:
        return _Segment(number, self.path(number), self._store_id, read_only=False)

    def _begin(self, number: int) -> _Segment:
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
        return type(error)(f"{self.path(pack)}, offset {offset}: {error}")


def _ahead(ordered: list[Place], index: int) -> int:
    """Return how much to read at a place so that the records near behind it come along."""
    pack, offset = ordered[index]
    reach = offset
    for other, behind in islice(ordered, index + 1, None):
        if other != pack or behind - reach > _NEAR or behind - offset > _LONGEST_READ:
            break
        reach = behind
    # how long the last one is shows only in its head; where it is alone, its head is all to read blindly
    return reach - offset + (_NEAR if reach > offset else HEAD_SIZE)

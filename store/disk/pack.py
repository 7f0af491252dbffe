"""Packs: ``blobs/00000001.pack`` and following, append-only segments of BlobRecords; and those rewritten from them.

Any number of threads append (one after the other), sync and read. A reader takes the segment's open file out of a
small cache and reads with pread; a file that the cache drops stays open until its last reader lets go of it.

A pack that nothing is appended to any more is *cold*. Its records may be written once more, elsewhere and otherwise
(:meth:`PackSet.rewrite`), and it is removed when the index names the new places. A number is never given twice in the
life of a process, so whatever is remembered by places stays true.

Packs that are appended to have the numbers 1, 2 …; those that were rewritten from others have numbers from REWRITTEN
(``store.paths``) on, so that nothing about the end of what is appended changes with them. Gaps are normal: what was
rewritten is removed.
"""

import os
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

from store.disk import blob_format, durable, file_header
from store.disk.blob_format import HEAD_SIZE, MAGIC, OVERHEAD, Record
from store.disk.file_header import HEADER_SIZE, PACK, Damage
from store.disk.files import Window, next_sound, pread, pread_around
from store.errors import ConvfsError, DamageError, FormatTooNew, StoreFailed, UsageError
from store.paths import ERASED, NEW, REMOTE, REWRITTEN, pack_name, pack_number

_BUFFERED_BYTES = 1 << 20

RecordPlace = tuple[int, int]
"""A record's place: the number of its pack, and its offset in the pack's file."""


class PackWriter:
    """Writes one rewritten pack, which nobody sees before :meth:`finish`. For one thread."""

    def __init__(self, directory: Path, number: int, store_id: bytes) -> None:
        self.number = number
        self.length = HEADER_SIZE
        """The length of the pack with all that was appended."""
        self._path = directory / pack_name(number)
        self._temporary = directory / (pack_name(number) + NEW)
        self._buffer: list[bytes] = []
        self._written = 0
        self._fd = durable.open_file(self._temporary, create=True)
        self._buffer.append(file_header.encode(PACK, store_id))

    def append(self, record: bytes) -> RecordPlace:
        """Write an encoded record; return the place that it will have."""
        place = (self.number, self.length)
        self._buffer.append(record)
        self.length += len(record)
        if self.length - self._written >= _BUFFERED_BYTES:
            self._write()
        return place

    def finish(self) -> None:
        """Sync the pack and give it its name. The index does not know of it yet."""
        try:
            self._write()
            durable.fdatasync(self._fd)
        finally:
            self._close()
        durable.replace(self._temporary, self._path)
        durable.sync_directory(self._path.parent)

    def abandon(self) -> None:
        """Remove the bytes written so far."""
        self._close()
        durable.remove(self._temporary)

    def _write(self) -> None:
        data = b"".join(self._buffer)
        self._buffer.clear()
        durable.pwrite_all(self._fd, data, self._written)
        self._written += len(data)

    def _close(self) -> None:
        # only once: another file may have been given the number since
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


LONGEST_READ = 1 << 20
_MAGIC = re.compile(rb"(?=%b)" % re.escape(MAGIC))


class Segment:
    """The open file of one pack; closed with the last reference to it."""

    __slots__ = ("_size", "damage", "fd", "number")

    def __init__(self, number: int, path: Path, store_id: bytes, *, read_only: bool) -> None:
        """Open the file. Raises DamageError where it cannot be, or belongs to another store; FormatTooNew."""
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

    def check_end(self, end: int) -> None:
        """Raise DamageError where the file has no bytes up to ``end``; asks the system only if it had not before."""
        # before memory is taken: a damaged length must not cost more than the file has
        if end > self._size:
            self._size = os.fstat(self.fd).st_size
            if end > self._size:
                raise DamageError("a blob record reaches beyond the end of its pack")

    def record(self, window: Window, offset: int, ahead: int | None = None) -> Record:
        """Return the record at ``offset``, read through ``window``. Raises DamageError, FormatTooNew."""
        size = OVERHEAD + blob_format.stored_length(window.view(offset, HEAD_SIZE, ahead))
        self.check_end(offset + size)
        # copied, so that a record that is kept does not keep the whole window
        return blob_format.decode_record(memoryview(bytes(window.view(offset, size, ahead))))

    def scan(self, offset: int, end: int) -> Iterator[tuple[int, Record | Damage]]:
        """Yield every record from ``offset`` on, with its place; a damaged part is one Damage up to the next record."""
        window = Window(self.fd, LONGEST_READ)
        while offset < end:
            try:
                record = self.record(window, offset)
            except FormatTooNew as error:
                # it is whole, so its length is true
                size = OVERHEAD + blob_format.stored_length(window.view(offset, HEAD_SIZE))
                yield offset, Damage(offset, size, str(error))
                offset += size
                continue
            except DamageError as error:
                read = partial(pread_around, self.fd)
                behind = next_sound(read, offset + 1, end, OVERHEAD, _possible_records, self._sound)
                yield offset, Damage(offset, behind - offset, str(error))
                offset = behind
                continue
            yield offset, record
            offset += OVERHEAD + len(record.stored)

    def _sound(self, offset: int) -> bool:
        try:
            self.record(Window(self.fd, HEAD_SIZE), offset)
        except FormatTooNew:
            return True
        except DamageError:
            return False
        return True


def _possible_records(data: bytes) -> Iterator[int]:
    return (found.start() for found in _MAGIC.finditer(data))


_OPEN_SEGMENTS = 64
_NEAR = 64 << 10
_TOUCHED_NS = 3600 * 10**9


class PackRemoved(DamageError):
    """The pack was removed while it was open: its blobs lie elsewhere now, or nowhere. Look them up once more."""


class RemotePacks(Protocol):
    """The packs that only the space of a replica has."""

    through: Callable[[Hashable, Callable[[], bytes]], bytes]
    """Called with what fetches a part of one, and a name of that part, by a thread that needs it: it may raise instead,
    and have another thread do that. The other is done when it is asked for the same part again."""
    made_ns: Callable[[int], int]
    """Returns when one was made, 0 if that is not known."""

    def read(self, pack: int, offset: int, *, damaged: bool = False) -> Record:
        """Read a record as :meth:`PackSet.read` does. Raises Away where it cannot be fetched, too."""

    def only_kept(self) -> AbstractContextManager[None]:
        """Fetch nothing while the block runs: what is not here counts as away."""


class PackSet:
    """All packs of one store."""

    def __init__(
        self,
        directory: Path,
        store_id: bytes,
        segment_bytes: int = 256 << 20,
        *,
        check_place: Callable[[], None] = lambda: None,
        read_only: bool = False,
    ) -> None:
        """Open the packs in ``directory``, or make the first; a new one is begun beyond ``segment_bytes``.

        ``check_place`` is called before a file is made or removed: it raises where the directory is not where it was.
        Raises FormatTooNew, and DamageError if the last pack belongs to another store.
        """
        self.directory = directory
        self._store_id = store_id
        self.check_place = check_place
        self._segment_bytes = segment_bytes
        self._files: dict[int, Segment] = {}
        self._lock = threading.Lock()
        self._append_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._failed = False
        self._removed: set[int] = set()
        self._read_only = read_only
        self.remote: RemotePacks | None = None
        """Reads the packs with numbers from REMOTE on: nothing else here is about them."""
        if not read_only:
            durable.make_directory(directory)
            durable.clean(directory)
        self._last_rewritten = max([REWRITTEN, *self.numbers()])
        appended = self.appended()
        self._tail = self._open_tail(appended[-1]) if appended else self._begin(1)
        self.end: RecordPlace = (self._tail.number, max(os.fstat(self._tail.fd).st_size, HEADER_SIZE))
        """The end of the packs: the number of the last, and its length."""
        self.synced: RecordPlace = (1, HEADER_SIZE)
        """The place up to which everything is synced; the beginning of the packs until :meth:`sync` was called."""

    def numbers(self) -> list[int]:
        """Return the numbers of the packs that are there, rising; those of rewritten ones come last."""
        return sorted(number for name in os.listdir(self.directory) if (number := pack_number(name)) is not None)

    def appended(self) -> list[int]:
        """Return the numbers of the packs that are there and were not rewritten."""
        return [number for number in self.numbers() if number < REWRITTEN]

    def cold(self) -> list[int]:
        """Return the numbers of the packs that are no longer appended to."""
        tail = self.end[0]
        return [number for number in self.numbers() if number < tail or number > REWRITTEN]

    def length(self, pack: int) -> int:
        """Return the length of a pack, in bytes, as far as it has been written."""
        number, length = self.end
        return length if pack == number else os.stat(self.path(pack)).st_size

    def modified_ns(self, pack: int) -> int:
        """Return when a pack was last written to or touched; of one that only the space has, when it was made."""
        if pack >= REMOTE:
            return self._remote.made_ns(pack)
        return os.stat(self.path(pack)).st_mtime_ns

    def touch(self, pack: int) -> bool:
        """Mark a pack as written to just now, to within an hour; return whether it was not marked so.

        One that only the space has is not marked.
        """
        now = time.time_ns()
        if self.modified_ns(pack) >= now - _TOUCHED_NS:
            return False
        if pack < REMOTE:
            os.utime(self.path(pack), ns=(now, now))
        return True

    def path(self, pack: int) -> Path:
        """Return the path of a pack's file."""
        return self.directory / pack_name(pack)

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[bytes]) -> list[RecordPlace]:
        """Write encoded records at the end and return their places, in order. Syncs only a pack that is full."""
        with self._append_lock:
            places: list[RecordPlace] = []
            run: list[bytes] = []
            number, length = self.end
            for record in records:
                if length + len(record) > self._segment_bytes and length > HEADER_SIZE:
                    self._write(run)
                    run = []
                    self._roll()
                    number, length = self.end
                places.append((number, length))
                run.append(record)
                length += len(record)
            self._write(run)
            return places

    def roll(self) -> None:
        """Start a new pack for all further appends: all current packs are then cold."""
        with self._append_lock:
            if self.end[1] > HEADER_SIZE:
                self._roll()

    def _roll(self) -> None:
        # so that only the last pack ever has anything unsynced, whenever the process dies
        self.sync()
        number = self.end[0] + 1
        tail = self._begin(number)
        with self._lock:
            self._tail, self.end = tail, (number, HEADER_SIZE)

    def rewrite(self) -> PackWriter:
        """Begin a pack that will take the place of cold ones."""
        self.check_place()
        with self._lock:
            self._last_rewritten += 1
            return PackWriter(self.directory, self._last_rewritten, self._store_id)

    def remove(self, numbers: Sequence[int], *, overwrite: bool = False) -> None:
        """Remove cold packs that the index names no more, durably.

        With ``overwrite``, their blocks on the disk are zeros before they are free: see :func:`durable.erase`.
        """
        if self.end[0] in numbers:
            raise UsageError(f"pack {self.end[0]} is being written to")
        self.check_place()
        with self._lock:
            self._removed.update(numbers)
            for number in numbers:
                self._files.pop(number, None)
        for path in map(self.path, numbers):
            if overwrite:
                # under another name first: a pack that is half erased would be a damaged one
                erased = path.with_name(path.name + ERASED)
                durable.replace(path, erased)
                durable.sync_directory(path.parent)
                durable.erase(erased)
            else:
                durable.remove(path)
            durable.sync_directory(path.parent)

    def sync(self) -> None:
        """Return when everything appended before is on disk. May run beside :meth:`append`.

        Once a sync has failed, all fail: what reached the disk is unknown, and the system does not say it twice.
        """
        # one after the other: a second caller's data may be what the first is syncing
        with self._sync_lock:
            if self._failed:
                raise StoreFailed(f"{self.directory}: a sync failed; nothing is taken until the store is opened again")
            with self._lock:
                tail, end = self._tail, self.end
            if end == self.synced:
                return
            try:
                durable.fdatasync(tail.fd)
            except OSError:
                self._failed = True
                raise
            self.synced = end

    def cut(self, pack: int, length: int) -> int:
        """Make the packs end at ``length`` of ``pack``; return how many bytes went (negative: were missing).

        For recovery, while nothing reads. Missing bytes read as damage, so that later places stay valid.
        """
        if pack < 1 or length < HEADER_SIZE:
            raise UsageError(f"packs cannot end at {length} of pack {pack}")
        went = 0
        for number in self.appended():
            if number > pack:
                went += os.stat(self.path(number)).st_size - HEADER_SIZE
                durable.remove(self.path(number))
        durable.sync_directory(self.directory)
        with self._lock:
            self._files.clear()
        self._tail = self._open_tail(pack) if self.path(pack).exists() else self._begin(pack)
        excess = os.fstat(self._tail.fd).st_size - length
        if excess:
            durable.truncate(self._tail.fd, length)
        self.end = (pack, length)
        self.synced = (1, HEADER_SIZE)
        return went + excess

    def close(self) -> None:
        """Release all files; each closes when no read holds it any more."""
        with self._lock:
            self._files.clear()
        os.close(self._tail.fd)
        self._tail.fd = -1

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, pack: int, offset: int, *, damaged: bool = False) -> Record:
        """Read the record at a place; two reads, of exactly its bytes. ``damaged``: even if its checksum does not hold.

        DamageError if there is no sound record, FormatTooNew if it is of a kind that this code does not know.
        """
        if pack >= REMOTE:
            return self._remote.read(pack, offset, damaged=damaged)
        segment = self._segment(pack)
        try:
            size = OVERHEAD + blob_format.stored_length(pread(segment.fd, HEAD_SIZE, offset))
            segment.check_end(offset + size)
            return blob_format.decode_record(memoryview(pread(segment.fd, size, offset)), damaged=damaged)
        except ConvfsError as error:
            raise self._placed(error, pack, offset) from None

    def read_many(self, places: Sequence[RecordPlace]) -> Iterator[tuple[RecordPlace, Record | ConvfsError]]:
        """Read the records at ``places`` in the order in which they lie, neighbours in one read.

        Yields each place once, with its record or its fault.
        """
        ordered = sorted(set(places))
        here = bisect_left(ordered, (REMOTE, 0))
        window: Window | None = None
        segment: Segment | None = None
        for index, (pack, offset) in enumerate(ordered[:here]):
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
        for place in ordered[here:]:
            try:
                yield place, self._remote.read(*place)
            except ConvfsError as error:
                yield place, error

    @property
    def _remote(self) -> RemotePacks:
        if self.remote is None:
            raise DamageError(f"{self.directory}: these packs are of a store in a space, and this one is in none")
        return self.remote

    def scan(
        self, start: RecordPlace | None = None, numbers: Sequence[int] | None = None
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
        return Segment(number, self.path(number), self._store_id, read_only=self._read_only)

    def _begin(self, number: int) -> Segment:
        if self._read_only:
            raise DamageError(f"{self.directory}: there is no pack: what the store held cannot be read")
        self.check_place()
        file_header.create(self.path(number), PACK, self._store_id)
        return self._open_tail(number)

    def _write(self, run: list[bytes]) -> None:
        if not run:
            return
        data = run[0] if len(run) == 1 else b"".join(run)
        number, length = self.end
        try:
            durable.pwrite_all(self._tail.fd, data, length)
        except OSError:
            # what was written of it would be damage, once the pack is one that nothing is appended to
            with suppress(OSError):
                durable.truncate(self._tail.fd, length)
            raise
        # only now: a sync that ran meanwhile did not cover this write
        self.end = (number, length + len(data))

    def _placed(self, error: ConvfsError, pack: int, offset: int) -> ConvfsError:
        # also where an open file reads as zeros: it is being erased
        kind = PackRemoved if pack in self._removed else type(error)
        return kind(f"{self.path(pack)}, offset {offset}: {error}")


def _ahead(ordered: list[RecordPlace], index: int) -> int:
    """Return how much to read at a place so that the records near behind it come along."""
    pack, offset = ordered[index]
    reach = offset
    for other, behind in islice(ordered, index + 1, None):
        if other != pack or behind - reach > _NEAR or behind - offset > LONGEST_READ:
            break
        reach = behind
    # how long the last one is shows only in its head; where it is alone, its head is all to read blindly
    return reach - offset + (_NEAR if reach > offset else HEAD_SIZE)

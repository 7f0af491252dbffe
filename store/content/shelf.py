"""Records from packs, opened: which blobs they hold, and their bodies; kept for the next reader, with dictionaries."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

from store.content import delta, zstd
from store.content.compression import MAX_BODY_BYTES
from store.content.sealed import SealedGroup
from store.content.zstd import Dictionary, veil
from store.disk.blob_format import (
    Chunk,
    Compression,
    DeltaTable,
    Form,
    Record,
    decode_chunks,
    decode_delta_table,
    decode_group_table,
)
from store.disk.pack import PackRemoved, PackSet, RecordPlace
from store.errors import ConvfsError, DamageError, NotFound
from store.ids import HASH_SIZE, Hash, hash_bytes
from store.index.fresh import BlobPlace
from store.index.index import Index
from store.paths import REMOTE

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class ByteCache(Generic[_Key, _Value]):
    """Keeps the most recently used values whose sizes sum up to ``capacity`` at most. Safe to share between threads.

    A value that would take more than a quarter of the capacity is not kept: it would push out everything else.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._largest = capacity // 4
        self.size = 0
        """The bytes that are kept."""
        self._items: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: _Key) -> _Value | None:
        """Return the value, None if it is not kept."""
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return None
            self._items.move_to_end(key)
            return item[0]

    def put(self, key: _Key, value: _Value, size: int) -> None:
        """Keep ``value``, which takes ``size`` bytes, in place of an earlier one."""
        if size > self._largest:
            return
        with self._lock:
            earlier = self._items.pop(key, None)
            if earlier is not None:
                self.size -= earlier[1]
            self._items[key] = value, size
            self.size += size
            while self.size > self._capacity:
                _, (_, dropped) = self._items.popitem(last=False)
                self.size -= dropped


MemberEntry = tuple[int, int, int, int]
"""One blob of a record: its form, its own length, and where its body begins and ends in the uncompressed bytes."""

_RECORD_BYTES = 1024
_MEMBER_BYTES = 400
"""Memory that an open record, and the name of a blob in it, take beside their bytes: most of it where these are few."""

_GROUPS = frozenset((Compression.GROUP, Compression.GROUP_DICT))


class OpenRecord:
    """A record whose bodies are decompressed when one is first asked for. Safe to share between threads.

    ``members`` has the record's blobs, ``size`` is about how many bytes it takes when it is decompressed. ``chunks`` is
    set, and there is no body, where the blob is stored in pieces; ``base`` names the blob that it is a delta against.
    A ``sealed`` group has no ``members`` here: it does not say their names.
    """

    __slots__ = ("_data", "_delta", "_dictionary", "_frame", "base", "chunks", "members", "sealed", "size")

    def __init__(self, record: Record, dictionary: Callable[[Hash], Dictionary]) -> None:
        """Read the table of a record. Raises DamageError, and the errors of ``dictionary``."""
        self._data: bytes | None = None
        self._dictionary: Dictionary | None = None
        self._frame = memoryview(b"")
        self._delta: DeltaTable | None = None
        self.base: Hash | None = None
        self.chunks: list[Chunk] | None = None
        self.members: dict[Hash, MemberEntry] = {}
        self.sealed: SealedGroup | None = None
        if record.sealed:
            self.sealed = SealedGroup(record)
            self.size = self.sealed.size
        elif record.compression in _GROUPS:
            self._open_group(record, dictionary)
        else:
            self.members[record.hash] = (record.form, record.raw_len, 0, -1)
            self._open_single(record, dictionary)

    def _open_group(self, record: Record, dictionary: Callable[[Hash], Dictionary]) -> None:
        table = decode_group_table(record.compression, record.stored)
        position = 0
        for digest, form, raw_len, body_len in table.members:
            # one number, also in the next one: records have many
            stop = position + body_len
            self.members[digest] = (form, raw_len, position, stop)
            position = stop
        if position != record.raw_len or position > MAX_BODY_BYTES:
            raise DamageError(f"a group's bodies have {position} bytes where the record says {record.raw_len}")
        if table.dictionary is not None:
            self._dictionary = dictionary(table.dictionary)
        self._frame = _unveiled(record, table.frame_offset)
        self.size = position

    def _open_single(self, record: Record, dictionary: Callable[[Hash], Dictionary]) -> None:
        compression, stored = record.compression, record.stored
        self.size = len(stored)
        if compression == Compression.RAW:
            self._data = bytes(_unveiled(record, 0))
        elif compression == Compression.CHUNKS:
            self.chunks = decode_chunks(stored)
            if sum(chunk.length for chunk in self.chunks) != record.raw_len:
                raise DamageError("the chunks of a blob do not add up to its length")
        elif compression == Compression.DELTA:
            self._open_delta(record)
        else:
            start = 0
            if compression == Compression.ZSTD_DICT:
                start = HASH_SIZE
                self._dictionary = dictionary(Hash(bytes(stored[:start])))
            stored = _unveiled(record, start)
            # how long a skeleton is, the record does not say
            at_most = MAX_BODY_BYTES if record.form == Form.SKELETON else record.raw_len
            self.size = zstd.declared_size(stored, at_most)
            self._frame = stored

    def _open_delta(self, record: Record) -> None:
        table = decode_delta_table(record.stored)
        taken = sum(stretch.length for stretch in table.stretches)
        at_most = MAX_BODY_BYTES if record.form == Form.SKELETON else record.raw_len
        if taken > at_most:
            raise DamageError(f"a delta claims {taken} bytes where {at_most} is the most")
        self._frame = _unveiled(record, table.frame_offset)
        self.size = taken + zstd.declared_size(self._frame, at_most - taken)
        self.base = table.base
        self._delta = table

    @property
    def weight(self) -> int:
        """The approximate memory that it takes once it is decompressed, in bytes, with its tables."""
        if self.sealed is not None:
            return _RECORD_BYTES + self.sealed.weight
        return _RECORD_BYTES + self.size + _MEMBER_BYTES * (len(self.members) + len(self.chunks or ()))

    @property
    def needs(self) -> list[Hash]:
        """The blobs without which none of these can be read: a dictionary, the base of a delta, chunks."""
        found = [chunk.hash for chunk in self.chunks or ()]
        if self.base is not None:
            found.append(self.base)
        if self._dictionary is not None:
            found.append(self._dictionary.hash)
        return found

    @property
    def lacks(self) -> Hash | None:
        """The blob whose bytes :meth:`patch` needs before there is a body; None where there is one."""
        return self.base if self._data is None else None

    def patch(self, base: bytes) -> None:
        """Make the body of a delta from the bytes of the blob :attr:`base`; DamageError if that cannot be done."""
        frame = self._frame
        if self._data is None and self._delta is not None:
            self._data = delta.apply(base, self._delta.stretches, frame, self.size)
            self._frame = memoryview(b"")

    def body(self, entry: MemberEntry) -> bytes:
        """Return the body of a blob of this record, :meth:`patch`-ed before if it :attr:`lacks` another blob.

        DamageError if it cannot be decompressed, or still lacks it.
        """
        _form, _length, start, stop = entry
        frame = self._frame  # before _data: another thread sets that first, then drops the frame
        data = self._data
        if data is None:
            if self._delta is not None:
                raise DamageError("a delta stands where none may")
            data = zstd.decompress(frame, self.size, self._dictionary)
            if stop >= 0 and len(data) != self.size:
                raise DamageError(f"a group's bodies have {len(data)} bytes where the record says {self.size}")
            self._data = data
            self._frame = memoryview(b"")
        return data if stop < 0 else data[start:stop]


def _unveiled(record: Record, start: int) -> memoryview:
    stored = record.stored[start:]
    return memoryview(veil(stored, record.hash)) if record.veiled else stored


class StoredBlobs:
    """The stored blobs that a resolver reads, wherever they are. Everything may be called from any thread.

    A blob that moves from the journal into a pack has its location before it stops being pending.
    """

    def __init__(
        self,
        pending: Callable[[Hash], tuple[Form, bytes] | None],
        index: Index,
        packs: PackSet,
        *,
        only_here: bool = False,
    ) -> None:
        """``only_here``: blobs that only the space of a replica has are unknown."""
        self.pending = pending
        """Returns form and body of a blob that is not in a pack yet."""
        self.locations = partial(_located_here, index) if only_here else index.locate
        """Returns the places in packs that may hold each of many blobs; unknown blobs are left out."""
        self.read = packs.read
        self.read_many = packs.read_many


def nearest(places: Sequence[BlobPlace]) -> Sequence[BlobPlace]:
    """Return those of the places of a blob that are on this machine; if there are none, one of the others."""
    if len(places) == 1:
        return places
    return [place for place in places if place[0] < REMOTE] or [max(places)]


def _located_here(index: Index, digests: Sequence[Hash]) -> dict[Hash, list[BlobPlace]]:
    found = {
        digest: [place for place in places if place[0] < REMOTE] for digest, places in index.locate(digests).items()
    }
    return {digest: places for digest, places in found.items() if places}


_DICTIONARIES = 8 << 20
_Found = TypeVar("_Found")


class Shelf:
    """Opens the records of one source. Safe to share between threads; nothing is locked while a record is opened."""

    def __init__(self, source: StoredBlobs, capacity: int) -> None:
        self.source = source
        self._records: ByteCache[RecordPlace, OpenRecord] = ByteCache(capacity)
        self._dictionaries: ByteCache[Hash, Dictionary] = ByteCache(_DICTIONARIES)
        self._last: tuple[RecordPlace, OpenRecord] | None = None
        """The last group that was opened, too large to be kept or not: who reads one blob of it reads others."""

    def kept(self, place: RecordPlace) -> OpenRecord | None:
        """Return the record at ``place`` if it is still open."""
        last = self._last
        return last[1] if last is not None and last[0] == place else self._records.get(place)

    def open(self, record: Record) -> OpenRecord:
        """Open a record. Raises DamageError, NotFound (of a dictionary)."""
        return OpenRecord(record, self._dictionary)

    def at(self, place: RecordPlace, *, afresh: bool = False) -> OpenRecord:
        """Return the record at a place, open, and keep it; a sealed group also where it is damaged.

        Most of such a group's blobs may be as they were: whoever reads one compares it with its hash. ``afresh``: a
        record that others have patched is opened once more. Raises as :meth:`open`, and what reading a record raises.
        """
        opened = self.kept(place)
        if opened is None or (afresh and opened.base is not None):
            opened = self.open(self._read(place))
            self.keep(place, opened)
        return opened

    def _read(self, place: RecordPlace) -> Record:
        try:
            return self.source.read(*place)
        except PackRemoved:
            raise
        except DamageError as damage:
            try:
                record = self.source.read(*place, damaged=True)
            except ConvfsError:
                raise damage from None
            if not record.sealed:
                raise
            return record

    def keep(self, place: RecordPlace, opened: OpenRecord) -> None:
        """Keep an open record."""
        if len(opened.members) > 1:
            self._last = place, opened
        self._records.put(place, opened, opened.weight)

    def search(self, digest: Hash, take: Callable[[RecordPlace, int], _Found | None], missing: ConvfsError) -> _Found:
        """Return the result of ``take`` for the first place that holds a blob. For other places it returns None.

        It is given the record's place, and which of its members the blob would be.

        Raises ``missing``, or what ``take`` raised for the last place. Where a pack was removed since its place was
        looked up, what it held lies elsewhere now, and is looked up once more.
        """
        while True:
            reason, removed = missing, False
            # those on this machine first
            for pack, offset, member in sorted(self.source.locations((digest,)).get(digest, ())):
                try:
                    found = take((pack, offset), member)
                except PackRemoved:
                    removed = True
                except ConvfsError as error:
                    reason = error
                else:
                    if found is not None:
                        return found
            if not removed:
                raise reason

    def _dictionary(self, digest: Hash) -> Dictionary:
        found = self._dictionaries.get(digest)
        if found is None:
            data = self._read_dictionary(digest)
            found = Dictionary(data, digest)
            self._dictionaries.put(digest, found, len(data))
        return found

    def _read_dictionary(self, digest: Hash) -> bytes:
        """Read a blob that lies in a record which needs no dictionary itself, as dictionaries do."""
        pending = self.source.pending(digest)
        if pending is not None and pending[0] == Form.PLAIN:
            return pending[1]

        def take(place: RecordPlace, _member: int) -> bytes | None:
            opened = OpenRecord(self.source.read(*place), _no_dictionary)
            entry = opened.members.get(digest)
            if entry is None or opened.chunks is not None or entry[0] != Form.PLAIN:
                return None
            data = bytes(opened.body(entry))
            if hash_bytes(data) != digest:
                raise DamageError(f"dictionary {digest.hex()} is damaged: its bytes do not have its hash")
            return data

        return self.search(digest, take, NotFound(f"no dictionary {digest.hex()} in this store"))


def _no_dictionary(digest: Hash) -> Dictionary:
    raise DamageError(f"a dictionary needs another one, {digest.hex()}")

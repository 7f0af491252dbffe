"""Copying: packs written again without some of their blobs, which takes as long as copying a file.

Records are copied as they are, unread but for their checksums. Only those that hold a blob that is left out are opened,
and what else is in them is packed anew. What was not sealed is sealed another time (``store.upkeep.sealer``).
"""

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from typing import Protocol

from store.commit.writer import Writer
from store.content.compression import Member, pack_records
from store.content.sealed import SealedGroup, members_of, names_of
from store.content.shelf import Shelf, StoredBlobs
from store.disk.blob_format import Form, Record, encode_record
from store.disk.file_header import Damage
from store.disk.pack import RecordPlace
from store.errors import DamageError
from store.ids import Hash, hash_key
from store.index.index import Places
from store.upkeep.rewrite import NewPacks

_PAUSE_BYTES = 4 << 20
_SHELF_BYTES = 4 << 20


class Written(Protocol):
    """The packs that a copy is written to."""

    def append(self, record: bytes) -> RecordPlace:
        """Write a record, and return its place."""


class Stripping:
    """Writes records without some of their blobs. ``places`` are those of all blobs written.

    ``opened`` are the names of the blobs in the records that were not copied as they are.
    """

    def __init__(self, writer: Writer, dictionary: tuple[Hash, bytes] | None, written: Written) -> None:
        """``dictionary`` is for small groups."""
        self.places = Places()
        self.opened: list[Hash] = []
        self._shelf = Shelf(StoredBlobs(writer.pending.get, writer.index, writer.packs), _SHELF_BYTES)
        self._dictionary = dictionary
        self._written = written

    def take(self, record: Record, keys: Sequence[int], without: Container[object]) -> Iterator[None]:
        """Write a record, whose blobs have some keys, but for those ``without``; pauses now and then. DamageError."""
        if not any(key in without for key in keys):
            self._write(encode_record(record.codec, record.raw_len, record.hash, record.stored), keys)
            return
        yield
        self.opened += names_of(record)
        opened = self._shelf.open(record)
        if opened.sealed is not None:
            yield from self._seal(opened.sealed, without)
        elif len(opened.members) > 1:
            left = [
                Member(digest, Form(entry[0]), entry[1], opened.body(entry))
                for digest, entry in opened.members.items()
                if hash_key(digest) not in without
            ]
            for packed, names in pack_records(left, self._dictionary):
                self._write(packed, [hash_key(name) for name in names])

    def _seal(self, group: SealedGroup, without: Container[object]) -> Iterator[None]:
        again = group.without(lambda name: hash_key(name) in without)
        if again.size:
            steps = again.finish()
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    packed, names = end.value
                    break
                yield
            self._write(packed, [hash_key(name) for name in names])

    def _write(self, record: bytes, keys: Sequence[int]) -> None:
        pack, offset = self._written.append(record)
        for member, key in enumerate(keys):
            self.places.file(key, (pack, offset, member))


class Copy:
    """One copy of some cold packs. ``places`` are those of all blobs copied, ``at`` is the pack that is being read.

    ``opened`` are the names of the blobs in the records that were not copied as they are.
    """

    def __init__(self, writer: Writer, dictionary: tuple[Hash, bytes] | None, without: Container[object]) -> None:
        """``without`` has the keys of the blobs that are left out; ``dictionary`` is for small groups."""
        packs = writer.packs
        self.at = 0
        self._packs = packs
        self._db = writer.index.db
        self._without = without
        self.written = NewPacks(packs)
        self._stripping = Stripping(writer, dictionary, self.written)
        self.places, self.opened = self._stripping.places, self._stripping.opened

    def write(self, numbers: Collection[int]) -> Iterator[None]:
        """Copy packs; pauses now and then. DamageError where one is damaged."""
        size = 0
        for number in sorted(numbers):
            self.at = number
            filed = self._filed(number)
            for _pack, offset, record in self._packs.scan(numbers=[number]):
                if isinstance(record, Damage):
                    raise DamageError(f"{self._packs.path(number)}, offset {record.offset}: {record.reason}")
                yield from self._take(record, filed(offset))
                size += len(record.stored)
                if size >= _PAUSE_BYTES:
                    size = 0
                    yield

    def _filed(self, number: int) -> Callable[[int], Sequence[int]]:
        """Return a function that tells which blobs the index knows in the record at an offset, by their members.

        It is called with rising offsets.
        """
        rows = self._db.rows("SELECT offset, member, key FROM blobs WHERE pack = ? ORDER BY 1, 2", (number,))
        ahead = next(rows, None)

        def at(offset: int) -> Sequence[int]:
            nonlocal ahead
            keys: list[int] = []
            while ahead is not None and ahead[0] <= offset:
                if ahead[0] == offset and ahead[1] == len(keys):
                    keys.append(ahead[2])
                ahead = next(rows, None)
            return keys

        return at

    def _take(self, record: Record, keys: Sequence[int]) -> Iterator[None]:
        # a sealed group does not say its names: the index does, if it has all
        if len(keys) != members_of(record):
            keys = [hash_key(name) for name in names_of(record)]
        yield from self._stripping.take(record, keys, self._without)

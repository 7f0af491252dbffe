"""The packs of a space: records of blobs that commits name, in the order in which they were brought.

A pack is an object of the bucket, ``packs/`` and 32 random hex digits, and then gets a number by a record, ``pack/``
and 12 digits: ``{"key", "length", "machine", "doomed_ms", "again", "names", "made_ms", "sealed"}``. Numbers are from 1,
without gaps, so a replica that has taken all up to one knows all that is named up to there. An object without a record
was left by a machine that died in between.

Which blobs a pack has says another object, ``names/`` and 32 random hex digits: so nobody need fetch it to know them.
It is MessagePack, an array of records, each ``[offset, names, needs]``: the keys of its blobs (the first eight bytes of
their hashes), and of those that it is made from. Small packs, and those of earlier versions, have none: they are taken
whole.

What is left of a *doomed* pack (``doomed_ms`` is since when) is in a later one, which has nothing else (``again``):
that is filed by who has not all of it. It may be *sealed* (``store.upkeep.space_sealer``). The object is removed some
time later, and then ``key`` is empty. A number that was taken for nothing looks like that, too.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from store import typed
from store.content.sealed import names_of, needs_of
from store.disk import blob_format, file_header
from store.disk.blob_format import HEAD_SIZE, OVERHEAD, Record, decode_record
from store.disk.file_header import HEADER_SIZE, PACK
from store.errors import Conflict, DamageError, Missing, NotFound
from store.ids import Hash, hash_key, now_ms
from store.index.index import BlobKeyPlace
from store.shared import generations
from store.shared.space import Record as SpaceRecord
from store.shared.space import Space

PREFIX = "pack/"
_PACKS = "packs/"
_NAMES = "names/"
PACK_BYTES = 16 << 20
"""The length of a pack, roughly, that is one of many."""
WHOLE_BYTES = 256 << 10
"""The length up to which a pack is taken whole."""
_BACKUP = "put it back from a backup of it"


class PackNote(Struct, frozen=True):
    """The record of a pack: its object, the bytes that it has, and the number of the replica that brought it.

    ``names`` is the object that says which blobs are in it; "" if there is none.
    """

    key: str
    length: int
    machine: int = 0
    doomed_ms: int = 0
    again: bool = False
    names: str = ""
    made_ms: int = 0
    sealed: bool = False


class Named(Struct, frozen=True, array_like=True):
    """One record of a pack: where it is, and the keys of its blobs and of those that it is made from, in 8 bytes."""

    offset: int
    names: bytes
    needs: bytes = b""

    @staticmethod
    def of(offset: int, record: Record, names: Sequence[Hash]) -> Named:
        """Return what is to be said of a record with blobs of these names."""
        return Named(offset, _keys(names), _keys(needs_of(record)))

    def places(self) -> Iterator[BlobKeyPlace]:
        """Yield where its blobs are."""
        return ((key, self.offset, member) for member, key in enumerate(array("q", self.names)))


_named = msgspec.msgpack.Decoder(list[Named]).decode


def key_of(number: int) -> str:
    """Return the key of a pack's record."""
    return f"{PREFIX}{number:012}"


class Packs:
    """Brings packs into a space, and fetches those of others. Safe to share between threads."""

    def __init__(self, space: Space, machine: int) -> None:
        self._space = space
        self._machine = machine
        self._lock = threading.Lock()
        self.reached = 0
        """The number of the last pack that this process knows of."""

    def publish(
        self,
        records: Sequence[bytes],
        *,
        again: bool = False,
        sealed: bool = False,
        redactions: int | None = None,
    ) -> int:
        """Bring encoded blob records into the space, durably, as a pack; return its number.

        ``again`` says that they are of packs which are doomed then, ``sealed`` that sealing has made them. Conflict,
        and nothing is there, if the space was redacted more often than ``redactions``: they may have what is gone.
        """
        data = b"".join((file_header.encode(PACK, self._space.id), *records))
        name = os.urandom(16).hex()
        key, names = f"{_PACKS}{name}", ""
        objects = {key: data}
        if len(data) > WHOLE_BYTES:
            names = f"{_NAMES}{name}"
            objects[names] = msgspec.msgpack.encode(list(_said(records)))
        for one, content in objects.items():
            self._space.bucket.put(one, content)
        note = PackNote(key, len(data), self._machine, again=again, names=names, made_ms=now_ms(), sealed=sealed)

        def prepare() -> None:
            if redactions is not None and self.redactions() != redactions:
                for one in objects:
                    self._space.bucket.delete(one)
                raise Conflict("something was redacted in the space meanwhile: try again")
            self._seal(objects)

        return self.register(note, prepare)

    def redactions(self) -> int:
        """Return how often the space was redacted. Raises Unreachable, DamageError."""
        return generations.current(self._space.records).generation

    def _seal(self, objects: Mapping[str, bytes]) -> None:
        """Put objects once more that are sealed with a key from before a redaction: machines give that up."""
        in_use = self._space.key_in_use()
        for key, content in objects.items():
            if self._space.sealed_with(key) < in_use:
                self._space.bucket.put(key, content)

    def register(self, made: PackNote, prepare: Callable[[], None] = lambda: None) -> int:
        """Give a pack whose objects are there a number, and return it. ``prepare`` is called with the number at hand.

        What it has seen of the key in use is so still when the pack gets its number: see :meth:`bar`.
        """
        note = msgspec.json.encode(made)
        while True:
            number = self.known(self.reached) + 1
            prepare()
            if self._space.records.swap(key_of(number), 0, note) or self._noted(number) == note:
                self._reach(number)
                return number

    def bar(self, now_ms: int) -> None:
        """Take a number for nothing: no pack gets one any more that was about to before, or it has a lower number."""
        self.register(PackNote("", 0, self._machine, doomed_ms=now_ms, again=True))

    def known(self, after: int) -> int:
        """Return the number of the last pack that the space has; none before ``after`` is looked for."""
        found = self._space.records.records(PREFIX, key_of(after))
        if found:
            self._reach(_number(found[-1].key))
        return max(after, self.reached)

    def notes(self, after: int = 0) -> list[tuple[int, PackNote]]:
        """Return what is said of the packs with numbers above one, by number. Raises DamageError, Unreachable."""
        found = self._space.records.records(PREFIX, key_of(after))
        return [(_number(record.key), decode_note(record)) for record in found]

    def note(self, number: int) -> PackNote:
        """Return what is said of a pack. Raises DamageError, Unreachable."""
        return decode_note(self.record(number))

    def record(self, number: int) -> SpaceRecord:
        """Return the record of a pack; its value is empty if there is none."""
        return self._space.records.record(key_of(number))

    def keys(self, number: int) -> array[int]:
        """Return the keys of what is in a pack; none of a doomed one. Raises DamageError, Unreachable."""
        named = self.named(number, self.note(number))
        return array("q", b"".join(one.names for one in named or ()))

    def named(self, number: int, note: PackNote) -> list[Named] | None:
        """Return the records of a pack, as far as they are named; None if it is doomed. DamageError if it is gone."""
        if note.doomed_ms:
            return None
        if not note.names:
            data = self.data(number, note)
            return None if data is None else list(_said([record for record, _names in records_of(data, number)]))
        try:
            return _named(self._space.bucket.get(note.names))
        except Missing:
            if self.note(number).doomed_ms:
                return None
            raise DamageError(f"what pack {number} of the space has can no longer be said: {_BACKUP}") from None
        except msgspec.DecodeError as error:
            raise DamageError(f"what is said of pack {number} of the space makes no sense: {error}") from None

    def is_there(self, note: PackNote) -> bool:
        """Return whether the objects of a pack are there. Raises Unreachable."""
        try:
            return all(self._space.bucket.get(key, 0, 1) for key in (note.key, note.names) if key)
        except Missing:
            return False

    def part(self, note: PackNote, start: int, length: int) -> bytes:
        """Return a part of a pack, shorter where it ends. Raises Missing if its object is gone, Unreachable."""
        length = min(length, note.length - start)
        return self._space.bucket.get(note.key, start, length) if length > 0 else b""

    def doom(self, numbers: Iterable[int], now_ms: int) -> None:
        """Have packs fetched no more: what is left of them is elsewhere."""
        for number in numbers:
            record = self._space.records.record(key_of(number))
            note = decode_note(record)
            if not note.doomed_ms:
                changed = msgspec.json.encode(msgspec.structs.replace(note, doomed_ms=now_ms))
                self._space.records.swap(record.key, record.version, changed)

    def remove(self, before_ms: int) -> int:
        """Remove the objects of packs that were doomed before a time; return how many bytes that has freed."""
        freed = 0
        for number, note in self.notes():
            if note.key and 0 < note.doomed_ms <= before_ms:
                self._space.bucket.delete(note.key)
                if note.names:
                    self._space.bucket.delete(note.names)
                record = self._space.records.record(key_of(number))
                gone = msgspec.json.encode(msgspec.structs.replace(note, key="", names="", length=0))
                self._space.records.swap(record.key, record.version, gone)
                freed += note.length
        return freed

    def orphans(self) -> list[str]:
        """Return the keys of objects that no record names: a machine is about to, or died before it did."""
        objects = [key for prefix in (_PACKS, _NAMES) for key, _length in self._space.bucket.list(prefix)]
        # in this order: a record comes after its objects
        known = {key for _number_of_it, note in self.notes() for key in (note.key, note.names)}
        return [key for key in objects if key not in known]

    def data(self, number: int, note: PackNote) -> bytes | None:
        """Return the bytes of a pack; None if it is doomed. DamageError if it is gone."""
        if note.doomed_ms:
            return None
        try:
            return self._space.bucket.get(note.key)
        except Missing:
            if self.note(number).doomed_ms:
                return None
            raise DamageError(f"pack {number} of the space is gone: {_BACKUP}") from None

    def _noted(self, number: int) -> bytes:
        return self._space.records.record(key_of(number)).value

    def _reach(self, number: int) -> None:
        with self._lock:
            self.reached = max(self.reached, number)


class Replacement:
    """Packs that take the place of others in a space, which are doomed once all of them are there.

    It is made before those are read: what is redacted meanwhile may be in them.
    """

    def __init__(self, packs: Packs, *, sealed: bool) -> None:
        self._packs = packs
        self._sealed = sealed
        self._redactions = packs.redactions()
        self._records: list[bytes] = []
        self._size = 0
        self._published = 0

    def append(self, record: bytes) -> tuple[int, int]:
        """Add an encoded record; return a place that no other has, and that means nothing else.

        Raises Unreachable, and Conflict if something was redacted meanwhile.
        """
        self._records.append(record)
        self._size += len(record)
        place = 0, self._published + self._size
        if self._size >= PACK_BYTES:
            self._publish()
        return place

    def finish(self, replaced: Iterable[int], now_ms: int) -> int:
        """Publish the rest, and doom what is replaced; return how many bytes there are. Raises as :meth:`append`."""
        if self._records:
            self._publish()
        self._packs.doom(replaced, now_ms)
        return self._published

    def _publish(self) -> None:
        self._packs.publish(self._records, again=True, sealed=self._sealed, redactions=self._redactions)
        self._published += HEADER_SIZE + self._size
        self._records, self._size = [], 0


def records_of(data: bytes, number: int) -> list[tuple[bytes, list[Hash]]]:
    """Return the records of a published pack, each with the names of its blobs. DamageError."""
    view, at = memoryview(data), HEADER_SIZE
    found: list[tuple[bytes, list[Hash]]] = []
    try:
        while at < len(view):
            size = OVERHEAD + blob_format.stored_length(view[at : at + HEAD_SIZE])
            found.append((bytes(view[at : at + size]), names_of(decode_record(view[at : at + size]))))
            at += size
    except DamageError as error:
        raise DamageError(f"pack {number} of the space is damaged, offset {at}: {error}") from None
    return found


def decode_note(record: SpaceRecord) -> PackNote:
    """Read what the record of a pack says. DamageError."""
    try:
        return typed.decode(record.value, PackNote)
    except msgspec.DecodeError as error:
        raise DamageError(f"what the space says of its {record.key} makes no sense: {error}") from None


def _said(records: Sequence[bytes]) -> Iterator[Named]:
    at = HEADER_SIZE
    for data in records:
        record = decode_record(memoryview(data))
        yield Named.of(at, record, names_of(record))
        at += len(data)


def _keys(names: Sequence[Hash]) -> bytes:
    return array("q", map(hash_key, names)).tobytes()


def _number(key: str) -> int:
    try:
        return int(key.removeprefix(PREFIX))
    except ValueError:
        raise NotFound(f"{key}: this is not the record of a pack") from None

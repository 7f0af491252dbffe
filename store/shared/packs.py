"""The packs of a space: records of blobs that commits name, in the order in which they were brought.

A pack is an object of the bucket, ``packs/`` and 32 random hex digits, and then gets a number by a record, ``pack/``
and 12 digits: ``{"key", "length", "machine", "doomed_ms", "again"}``. Numbers are from 1, without gaps, so a replica
that has taken all up to one has all that is named up to there. An object without a record was left by a machine that
died in between.

What is left of a *doomed* pack (``doomed_ms`` is since when) is in a later one, which has nothing else (``again``):
that is fetched by who has not had the doomed one. The object is removed some time later, and then ``key`` is empty.
"""

import os
import threading
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from store import typed
from store.content.sealed import names_of
from store.disk import blob_format, file_header
from store.disk.blob_format import HEAD_SIZE, OVERHEAD, decode_record
from store.disk.file_header import HEADER_SIZE, PACK
from store.errors import DamageError, Missing, NotFound
from store.ids import Hash
from store.shared.space import Record, Space

PREFIX = "pack/"


class PackNote(Struct, frozen=True):
    """The record of a pack: its object, the bytes that it has, and the number of the replica that brought it."""

    key: str
    length: int
    machine: int = 0
    doomed_ms: int = 0
    again: bool = False


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

    def publish(self, records: Sequence[bytes], *, again: bool = False) -> int:
        """Bring encoded blob records into the space, durably, as a pack; return its number.

        ``again`` says that they are of packs which are doomed then.
        """
        data = b"".join((file_header.encode(PACK, self._space.id), *records))
        key = f"packs/{os.urandom(16).hex()}"
        self._space.bucket.put(key, data)
        note = msgspec.json.encode(PackNote(key, len(data), self._machine, again=again))
        while True:
            number = self.known(self.reached) + 1
            if self._space.records.swap(key_of(number), 0, note) or self._noted(number) == note:
                self._reach(number)
                return number

    def known(self, after: int) -> int:
        """Return the number of the last pack that the space has; none before ``after`` is looked for."""
        found = self._space.records.records(PREFIX, key_of(after))
        if found:
            self._reach(_number(found[-1].key))
        return max(after, self.reached)

    def after(self, last: int) -> Iterator[tuple[int, bytes | None]]:
        """Yield the packs with numbers above one, in order: (number, its bytes, or None where nothing in it is new).

        DamageError if one is gone.
        """
        lacks = False
        while noted := self.notes(last):
            for number, note in noted:
                last = number
                data = None
                if lacks or not note.again:
                    data = self.data(number, note)
                    lacks = lacks or data is None
                self._reach(number)
                yield number, data

    def notes(self, after: int = 0) -> list[tuple[int, PackNote]]:
        """Return what is said of the packs with numbers above one, by number. Raises DamageError, Unreachable."""
        return [(_number(record.key), _note(record)) for record in self._space.records.records(PREFIX, key_of(after))]

    def get(self, number: int) -> bytes | None:
        """Return the bytes of a pack that was not published again; None for others, and doomed ones. DamageError."""
        note = _note(self._space.records.record(key_of(number)))
        return None if note.again else self.data(number, note)

    def doom(self, numbers: Iterable[int], now_ms: int) -> None:
        """Have packs fetched no more: what is left of them is elsewhere."""
        for number in numbers:
            record = self._space.records.record(key_of(number))
            note = _note(record)
            if not note.doomed_ms:
                changed = msgspec.json.encode(msgspec.structs.replace(note, doomed_ms=now_ms))
                self._space.records.swap(record.key, record.version, changed)

    def remove(self, before_ms: int) -> int:
        """Remove the objects of packs that were doomed before a time; return how many bytes that has freed."""
        freed = 0
        for number, note in self.notes():
            if note.key and 0 < note.doomed_ms <= before_ms:
                self._space.bucket.delete(note.key)
                record = self._space.records.record(key_of(number))
                gone = msgspec.json.encode(msgspec.structs.replace(note, key="", length=0))
                self._space.records.swap(record.key, record.version, gone)
                freed += note.length
        return freed

    def orphans(self) -> list[str]:
        """Return the keys of objects that no record names: a machine is about to, or died before it did."""
        objects = [key for key, _length in self._space.bucket.list("packs/")]
        # in this order: a record comes after its object
        known = {note.key for _number_of_it, note in self.notes()}
        return [key for key in objects if key not in known]

    def data(self, number: int, note: PackNote) -> bytes | None:
        """Return the bytes of a pack; None if it is doomed. DamageError if it is gone."""
        if note.doomed_ms:
            return None
        try:
            return self._space.bucket.get(note.key)
        except Missing:
            if _note(self._space.records.record(key_of(number))).doomed_ms:
                return None
            raise DamageError(f"pack {number} of the space is gone: put it back from a backup of it") from None

    def _noted(self, number: int) -> bytes:
        return self._space.records.record(key_of(number)).value

    def _reach(self, number: int) -> None:
        with self._lock:
            self.reached = max(self.reached, number)


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


def _note(record: Record) -> PackNote:
    try:
        return typed.decode(record.value, PackNote)
    except msgspec.DecodeError as error:
        raise DamageError(f"what the space says of its {record.key} makes no sense: {error}") from None


def _number(key: str) -> int:
    try:
        return int(key.removeprefix(PREFIX))
    except ValueError:
        raise NotFound(f"{key}: this is not the record of a pack") from None

"""The packs of a space: records of blobs that commits name, in the order in which they were brought.

A pack is an object of the bucket, ``packs/`` and 32 random hex digits, and then gets a number by a record, ``pack/``
and 12 digits: ``{"key", "length", "machine"}``. Numbers are from 1, without gaps, so a replica that has taken all up
to one has all that is named up to there. An object without a record was left by a machine that died in between.
"""

import os
import threading
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from store import typed
from store.disk import file_header
from store.disk.file_header import PACK
from store.errors import DamageError, Missing, NotFound
from store.shared.space import Space

PREFIX = "pack/"


class PackNote(Struct, frozen=True):
    """The record of a pack: its object, the bytes that it has, and the number of the replica that brought it."""

    key: str
    length: int
    machine: int = 0


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

    def publish(self, records: Sequence[bytes]) -> int:
        """Bring encoded blob records into the space, durably, as a pack; return its number."""
        data = b"".join((file_header.encode(PACK, self._space.id), *records))
        key = f"packs/{os.urandom(16).hex()}"
        self._space.bucket.put(key, data)
        note = msgspec.json.encode(PackNote(key, len(data), self._machine))
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

    def after(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Yield the packs with numbers above one, in order: (number, the pack's bytes). DamageError if one is gone."""
        for record in self._space.records.records(PREFIX, key_of(number)):
            number = _number(record.key)
            try:
                note = typed.decode(record.value, PackNote)
                data = self._space.bucket.get(note.key)
            except Missing:
                raise DamageError(f"pack {number} of the space is gone: put it back from a backup of it") from None
            except msgspec.DecodeError as error:
                raise DamageError(f"what the space says of its pack {number} makes no sense: {error}") from None
            self._reach(number)
            yield number, data

    def _noted(self, number: int) -> bytes:
        return self._space.records.record(key_of(number)).value

    def _reach(self, number: int) -> None:
        with self._lock:
            self.reached = max(self.reached, number)


def _number(key: str) -> int:
    try:
        return int(key.removeprefix(PREFIX))
    except ValueError:
        raise NotFound(f"{key}: this is not the record of a pack") from None

"""Records that have been opened, kept for the next reader; and the dictionaries that they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from store.content.cache import ByteCache
from store.content.opened import Opened
from store.content.source import BlobSource, Place
from store.content.zstd import Dictionary
from store.disk.blob_format import Form, Record
from store.disk.pack import PackRemoved
from store.errors import ConvfsError, DamageError, NotFound
from store.ids import Hash, hash_bytes

_DICTIONARIES = 8 << 20
_Found = TypeVar("_Found")


class Shelf:
    """Opens the records of one source. Safe to share between threads; nothing is locked while a record is opened."""

    def __init__(self, source: BlobSource, capacity: int) -> None:
        self.source = source
        self._records: ByteCache[Place, Opened] = ByteCache(capacity)
        self._dictionaries: ByteCache[Hash, Dictionary] = ByteCache(_DICTIONARIES)

    def kept(self, place: Place) -> Opened | None:
        """Return the record at ``place`` if it is still open."""
        return self._records.get(place)

    def open(self, record: Record) -> Opened:
        """Open a record. Raises DamageError, NotFound (of a dictionary)."""
        return Opened(record, self._dictionary)

    def keep(self, place: Place, opened: Opened) -> None:
        """Keep an open record."""
        self._records.put(place, opened, opened.size)

    def search(self, digest: Hash, take: Callable[[Place, int], _Found | None], missing: ConvfsError) -> _Found:
        """Return what ``take`` makes of the first place that may hold a blob and does: it returns None where none does.

        It is given the record's place, and which of its members the blob would be.

        Raises ``missing``, or what ``take`` raised for the last place. Where a pack was removed since its place was
        looked up, what it held lies elsewhere now, and is looked up once more.
        """
        while True:
            reason, removed = missing, False
            for pack, offset, member in self.source.locations((digest,)).get(digest, ()):
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

        def take(place: Place, _member: int) -> bytes | None:
            opened = Opened(self.source.read(*place), _no_dictionary)
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

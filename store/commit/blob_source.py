"""Where the resolver gets stored blobs from: the journal's, while they wait, and the packs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.commit.pending import Pending
from store.disk.blob_format import Form, Record
from store.disk.pack import PackSet
from store.errors import ConvfsError
from store.ids import Hash
from store.index.index import Index, Place


class StoredBlobs:
    """Implements :class:`store.content.resolver.BlobSource`."""

    def __init__(self, pending: Pending, index: Index, packs: PackSet) -> None:
        self._pending = pending
        self._index = index
        self._packs = packs

    def pending(self, digest: Hash) -> tuple[Form, bytes] | None:
        """Return a blob that waits in the journal."""
        return self._pending.get(digest)

    def locations(self, digests: Sequence[Hash]) -> dict[Hash, list[Place]]:
        """Return the places in packs that may hold each blob."""
        return self._index.locate(digests)

    def read(self, pack: int, offset: int, *, damaged: bool = False) -> Record:
        """Read one record of a pack."""
        return self._packs.read(pack, offset, damaged=damaged)

    def read_many(self, places: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], Record | ConvfsError]]:
        """Read many records in one sorted pass."""
        return self._packs.read_many(places)

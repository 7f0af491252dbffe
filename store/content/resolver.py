"""Blobs by their hashes: found, read, put together, verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from blake3 import blake3

from store.content.batch import Batch
from store.content.opened import Opened
from store.content.reader import Chunked, Reader, Whole
from store.content.salvage import salvage
from store.content.shelf import Shelf
from store.content.source import BlobSource, Place
from store.disk import skeleton_format
from store.disk.blob_format import Chunk, Form, Record
from store.errors import ConvfsError, DamageError, NotFound
from store.ids import Hash


class Resolver:
    """Reads blobs. Safe to share between threads; no lock is held while anything is read or decompressed.

    Every blob that is returned has been compared with its hash. A content that is only put into a payload is not
    compared by itself: the payload's hash covers it. ``cache_bytes`` bounds the decompressed records that are kept.
    """

    def __init__(self, source: BlobSource, cache_bytes: int) -> None:
        self.asked = 0
        """How often blobs were asked for, by and large: threads do not wait for each other to count."""
        self._source = source
        self._cache_bytes = cache_bytes
        self._shelf = Shelf(source, cache_bytes)

    def blob(self, digest: Hash) -> bytes:
        """Return one blob. Raises NotFound, DamageError, FormatTooNew."""
        found = self.blobs((digest,))[digest]
        if isinstance(found, ConvfsError):
            raise found
        return found

    def blobs(self, digests: Sequence[Hash]) -> dict[Hash, bytes | ConvfsError]:
        """Return many blobs; what is missing or damaged stands there as its error.

        Reads in the order of the packs, once for the blobs and once more for contents that lie elsewhere. All of it is
        in memory at the same time.
        """
        self.asked += 1
        batch = Batch(self._shelf)
        batch.gather(digests)
        results: dict[Hash, bytes | ConvfsError] = {}
        for digest in digests:
            try:
                data = batch.assemble(digest)
                if blake3(data).digest() == digest:
                    results[digest] = data
                    continue
            except (ConvfsError, KeyError):
                pass  # salvage finds another copy, or the reason
            try:
                results[digest] = salvage(self._shelf, digest)
            except ConvfsError as error:
                results[digest] = error
        return results

    def references(self, digests: Sequence[Hash]) -> dict[Hash, list[Hash]]:
        """Return which contents are cut out of each of many payloads; of what cannot be read, none.

        The contents themselves are not read.
        """
        batch = Batch(self._shelf, contents=False)
        batch.gather(digests)
        return {digest: batch.references(digest) for digest in digests}

    def check(self, digest: Hash) -> None:
        """Return if the blob is there and intact. Raises NotFound, DamageError, FormatTooNew."""
        for _piece in self.pieces(digest):
            pass

    def size(self, digest: Hash) -> int:
        """Return the length of a blob, from the table of its record. Raises NotFound, DamageError, FormatTooNew."""
        pending = self._source.pending(digest)
        if pending is None:
            opened, member = self._find(digest)
            return opened.members[digest][1] if opened.sealed is None else opened.sealed.length(member)
        form, body = pending
        return skeleton_format.decode(body).payload_length if form == Form.SKELETON else len(body)

    def body_size(self, record: Record) -> int:
        """Return how many bytes a record of a pack has when it is decompressed.

        Contents that lie elsewhere (chunks, what was cut out of payloads) do not count. Raises DamageError, NotFound.
        """
        return self._shelf.open(record).size

    def bases(self, digest: Hash) -> list[Hash]:
        """Return what a blob is made from: the base of its delta, that one's base, and so on to what lies there whole.

        Errors as :meth:`size`; DamageError where that would not end.
        """
        found: list[Hash] = []
        at: Hash | None = digest
        while at is not None and self._source.pending(at) is None and (at := self._find(at)[0].base) is not None:
            if at in found or at == digest:
                raise DamageError(f"blob {digest.hex()} is made from itself")
            found.append(at)
        return found

    def pieces(self, digest: Hash) -> Iterator[bytes]:
        """Yield the bytes of a blob in order; of one that is stored in chunks, only one is in memory at a time.

        Each chunk is verified before it is yielded; whether they make up the blob is known at the end (DamageError).
        """
        chunks = self._chunks(digest)
        if chunks is None:
            yield self.blob(digest)
            return
        whole = blake3()
        for chunk in chunks:
            piece = self._chunk(digest, chunk)
            whole.update(piece)
            yield piece
        if whole.digest() != digest:
            raise DamageError(f"blob {digest.hex()} is damaged: its chunks are not those that it was cut into")

    def part(self, digest: Hash, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start`` on, fewer at the end; chunks that are not needed are not read."""
        return self.reader(digest).read(start, length)

    def reader(self, digest: Hash) -> Reader:
        """Begin to read a blob in parts. Raises NotFound, DamageError, FormatTooNew."""
        chunks = self._chunks(digest)
        return Whole(self.blob(digest)) if chunks is None else Chunked(chunks, partial(self._chunk, digest))

    def open(self, record: Record) -> Opened:
        """Open a record that was read without the help of this. Raises DamageError, NotFound (of a dictionary)."""
        return self._shelf.open(record)

    def forget(self) -> None:
        """Keep nothing of what was read so far."""
        self._shelf = Shelf(self._source, self._cache_bytes)

    def _find(self, digest: Hash) -> tuple[Opened, int]:
        """Return an open record that has the blob, and which of its members that is, as far as the index knows."""

        def take(place: Place, member: int) -> tuple[Opened, int] | None:
            opened = self._shelf.kept(place) or self._shelf.open(self._source.read(*place))
            if opened.sealed is None:
                return (opened, member) if digest in opened.members else None
            return (opened, member) if opened.sealed.is_called(member, digest) else None

        return self._shelf.search(digest, take, NotFound(f"no blob {digest.hex()} in this store"))

    def _chunks(self, digest: Hash) -> list[Chunk] | None:
        return None if self._source.pending(digest) is not None else self._find(digest)[0].chunks

    def _chunk(self, whole: Hash, chunk: Chunk) -> bytes:
        try:
            piece = self.blob(chunk.hash)
        except ConvfsError as error:
            raise DamageError(f"blob {whole.hex()} is damaged in one of its chunks: {error}") from error
        if len(piece) != chunk.length:
            raise DamageError(f"blob {whole.hex()} is damaged: a chunk has another length than it should")
        return piece

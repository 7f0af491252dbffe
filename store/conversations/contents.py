"""What the turns of a store hold: payloads, and the blobs that these are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.content.reader import Reader
from store.content.resolver import Resolver
from store.conversations.branches import Branches
from store.disk.turn_format import Turn
from store.errors import ConvfsError
from store.ids import Hash
from store.index.index import Index

_PAYLOADS_AT_ONCE = 256


class Contents(Branches):
    """Reads the contents of one store; what it reads them by is set by who makes it."""

    resolver: Resolver
    _index: Index

    def type_name(self, tag: int) -> str:
        """Return the name of a payload type, its tag in hex if it was never registered."""
        return self._writer.types.get(tag, f"{tag:016x}")

    def blob(self, digest: Hash) -> bytes:
        """Return a blob, verified; NotFound, or DamageError where what is stored is not what was written."""
        return self.resolver.blob(digest)

    def blob_size(self, digest: Hash) -> int:
        """Return the size of a blob in bytes without reading its content."""
        return self.resolver.size(digest)

    def blob_pieces(self, digest: Hash) -> Iterator[bytes]:
        """Yield a blob in pieces: for those that are too large to hold."""
        return self.resolver.pieces(digest)

    def blob_reader(self, digest: Hash) -> Reader:
        """Begin to read a blob in parts: for those that are too large to hold."""
        return self.resolver.reader(digest)

    def alias(self, algorithm: str, digest: bytes) -> Hash | None:
        """Return the blob that is known by a digest in another algorithm (``sha256``), None if none is."""
        self._writer.settle()
        return self._index.alias(algorithm, digest)

    def aliased(self, algorithm: str, digest: bytes) -> bytes | None:
        """Return content by its digest in another algorithm (``sha256``), None if the store does not have it."""
        target = self.alias(algorithm, digest)
        try:
            return self.blob(target) if target else None
        except ConvfsError:
            return None

    def payload(self, turn_id: int) -> bytes:
        """Return the payload of a turn, verified."""
        return self.blob(self.turn(turn_id).payload_hash)

    def payloads(self, turn_ids: Sequence[int]) -> Iterator[tuple[int, bytes | ConvfsError]]:
        """Yield the payloads of turns, read in sorted passes over the packs; errors in place of what is damaged."""
        for start in range(0, len(turn_ids), _PAYLOADS_AT_ONCE):
            some: dict[int, Turn | ConvfsError] = {}
            for turn_id in turn_ids[start : start + _PAYLOADS_AT_ONCE]:
                try:
                    some[turn_id] = self.turn(turn_id)
                except ConvfsError as error:
                    some[turn_id] = error
            found = self.resolver.blobs([turn.payload_hash for turn in some.values() if isinstance(turn, Turn)])
            for turn_id in turn_ids[start : start + _PAYLOADS_AT_ONCE]:
                turn = some[turn_id]
                yield turn_id, found[turn.payload_hash] if isinstance(turn, Turn) else turn

    def _turn_payloads(self, turns: Sequence[Turn]) -> Iterator[tuple[Turn, bytes | ConvfsError]]:
        found = self.resolver.blobs([turn.payload_hash for turn in turns])
        return ((turn, found[turn.payload_hash]) for turn in turns)

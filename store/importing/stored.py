"""The records of turns as they are written to a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from store.errors import ConvfsError
from store.store import Store

_RECORDS_AT_ONCE = 256
_BYTES_AT_ONCE = 8 << 20


def stored_records(store: Store, turns: Iterable[int]) -> Iterator[Iterable[bytes]]:
    """Yield the payloads of turns, each in pieces, many small ones read in one pass. Raises what is wrong with one."""
    batch: list[int] = []
    size = 0
    for turn in turns:
        digest = store.turn(turn).payload_hash
        length = store.blob_size(digest)
        if batch and (len(batch) == _RECORDS_AT_ONCE or size + length > _BYTES_AT_ONCE):
            yield from _payloads(store, batch)
            batch, size = [], 0
        if length > _BYTES_AT_ONCE:
            yield store.blob_pieces(digest)
            continue
        batch.append(turn)
        size += length
    yield from _payloads(store, batch)


def _payloads(store: Store, turns: list[int]) -> Iterator[tuple[bytes]]:
    for _turn, payload in store.payloads(turns):
        if isinstance(payload, ConvfsError):
            raise payload
        yield (payload,)

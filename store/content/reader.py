"""A blob that is read in parts, here and there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

from store.disk.blob_format import Chunk


class Reader(Protocol):
    """A blob that is being read."""

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on, fewer at the end. Raises DamageError, NotFound."""


class Whole:
    """A blob that is all there."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of it."""
        return self._data[offset : offset + size]


class Chunked:
    """A blob in chunks, which ``fetch`` reads and verifies; one of them is in memory at a time."""

    def __init__(self, chunks: Sequence[Chunk], fetch: Callable[[Chunk], bytes]) -> None:
        self._chunks = chunks
        self._fetch = fetch
        self._ends = list(accumulate(chunk.length for chunk in chunks))
        self._held: tuple[int, bytes] = (-1, b"")

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of it; chunks that are not needed are not read."""
        pieces: list[bytes] = []
        at, stop = bisect_right(self._ends, offset), offset + size
        while at < len(self._chunks) and (start := self._ends[at] - self._chunks[at].length) < stop:
            pieces.append(self._chunk(at)[max(offset - start, 0) : stop - start])
            at += 1
        return b"".join(pieces)

    def _chunk(self, at: int) -> bytes:
        # set as one: threads may share it
        held, data = self._held
        if held != at:
            data = self._fetch(self._chunks[at])
            self._held = (at, data)
        return data

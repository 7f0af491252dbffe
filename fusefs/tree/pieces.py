"""Files made of many pieces whose sizes are known before they are drawn: transcripts and ``events.json``."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

from store.errors import DamageError

_REMEMBERED = 4

Draw = Callable[[int, int], Iterator[bytes]]
"""Yields the pieces ``[first, beyond)``, in order. Raises ConvfsError where one cannot be drawn."""


class Pieces:
    """The pieces of one file; a read draws those that it touches and no others.

    ``ends`` are where they end, one after the other, of which the first ``count`` are meant; ``lead`` stands before the
    first piece, ``rest`` behind the last. The last pieces of recent reads are remembered, because the next read usually
    begins inside one, and one piece may be larger than many reads.
    """

    def __init__(self, ends: Sequence[int], count: int, draw: Draw, *, lead: bytes = b"", rest: bytes = b"") -> None:
        self._ends = ends
        self._count = count
        self._draw = draw
        self._lead = lead
        self._rest = rest
        self._drawn = ends[count - 1] if count else 0
        self._remembered: dict[int, bytes] = {}

    @property
    def size(self) -> int:
        """The size of the whole file."""
        return len(self._lead) + self._drawn + len(self._rest)

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes from ``offset`` on, ``size`` of them unless the file ends before."""
        data = self._lead[offset : offset + size]
        start = max(offset - len(self._lead), 0)
        data += self._read(start, size - len(data))
        behind = max(start - self._drawn, 0)
        return data + self._rest[behind : behind + size - len(data)]

    def _read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self._drawn)
        if offset >= end:
            return b""
        first = bisect_right(self._ends, offset, hi=self._count)
        beyond = bisect_left(self._ends, end, hi=self._count) + 1
        start = self._ends[first - 1] if first else 0
        data = b"".join(self._pieces(first, beyond))
        return data[offset - start : end - start]

    def _pieces(self, first: int, beyond: int) -> Iterator[bytes]:
        remembered = self._remembered.get(first)
        if remembered is not None:
            yield remembered
            first += 1
        if first == beyond:
            return
        piece = b""
        for number, piece in enumerate(self._draw(first, beyond), first):
            start = self._ends[number - 1] if number else 0
            if len(piece) != self._ends[number] - start:
                raise DamageError(
                    f"piece {number} has {len(piece)} bytes and not {self._ends[number] - start}: reindex"
                )
            yield piece
        self._remember(beyond - 1, piece)

    def _remember(self, number: int, piece: bytes) -> None:
        if len(self._remembered) >= _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[number] = piece

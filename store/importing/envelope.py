"""The envelope: everything of a session's main file that is not a record.

A file is prefix, record, separator, record, …, suffix. Nearly always every separator is the same, so the envelope
is a few bytes of the conversation's metadata and serves any number of records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter

from msgspec import Struct


class Envelope(Struct, frozen=True, omit_defaults=True):
    """Bytes as latin-1 text, so that any byte survives JSON.

    ``gaps`` says what stands before each record of the main file: (position, text) pairs, rising, each for the
    records from that position (0 is the first record) up to the next pair's. ``suffix`` follows the last record.
    """

    gaps: tuple[tuple[int, str], ...] = ()
    suffix: str = ""

    def join(self, records: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
        """Yield the bytes of the file that holds ``records``, each given in pieces."""
        changes = iter(self.gaps)
        change = next(changes, None)
        gap = b""
        for position, pieces in enumerate(records):
            if change is not None and change[0] == position:
                gap = change[1].encode("latin-1")
                change = next(changes, None)
            yield gap
            yield from pieces
        yield self.suffix.encode("latin-1")

    def rejoin(
        self, records: Iterable[tuple[int | None, Iterable[bytes]]], joints: tuple[bytes, bytes, bytes]
    ) -> Iterator[bytes]:
        """Yield the bytes of a file that holds other records: each with the position that it had, None if it had none.

        ``joints`` is what stands before the first, between two and after the last where this envelope does not say.
        """
        opening, separator, ending = joints
        if self.gaps:
            opening, ending = self.gaps[0][1].encode("latin-1"), self.suffix.encode("latin-1")
            if len(self.gaps) > 1:
                separator = self.gaps[-1][1].encode("latin-1")
            elif (before := opening.rstrip()).endswith(b"["):
                # the one record of a list shows how the next is to stand
                separator = b"," + opening[len(before) :]
        empty = True
        for position, pieces in records:
            if empty:
                yield opening
            else:
                yield self.gap_before(position) if position and self.gaps else separator
            yield from pieces
            empty = False
        if not empty:
            yield ending
        elif self.gaps:
            yield opening + ending
        else:
            yield self.suffix.encode("latin-1")

    def gap_before(self, position: int) -> bytes:
        """Return what stands before the record at ``position``, one that the file has."""
        return self.gaps[bisect_right(self.gaps, position, key=itemgetter(0)) - 1][1].encode("latin-1")


class EnvelopeBuilder:
    """Collects an envelope while the records of a file are gone through, from its start or from where it grew.

    To go on at the record ``position``, it needs the envelope ``known`` so far.
    """

    def __init__(self, known: Envelope | None = None, position: int = 0) -> None:
        self._gaps = [gap for gap in known.gaps if gap[0] < position] if known else []
        self._position = position
        self._last = self._gaps[-1][1].encode("latin-1") if self._gaps else None

    def gap(self, between: bytes) -> None:
        """Take in what stands before the next record."""
        if between != self._last:
            self._gaps.append((self._position, between.decode("latin-1")))
            self._last = between
        self._position += 1

    def close(self, rest: bytes) -> Envelope:
        """Return the envelope of a file that ends in ``rest`` after its last record."""
        return Envelope(tuple(self._gaps), rest.decode("latin-1"))

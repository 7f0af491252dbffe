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
        self,
        records: Iterable[tuple[int | None, Iterable[bytes]]],
        joints: tuple[bytes, bytes, bytes],
        count: int | None = None,
    ) -> Iterator[bytes]:
        """Yield the bytes of a file that holds other records: each with the position that it had, None if it had none.

        ``joints`` is what stands before the first, between two and after the last where this envelope does not say.
        ``count`` is how many records the file had, if some of its last ones are left out.

        What separates two records goes with one of them; what stands before the first of all, or closes one list and
        opens the next, stays whatever becomes of the records around it. A member's value that is left out is null.
        """
        opening, separator, ending = joints
        if self.gaps:
            opening, ending = self.gaps[0][1].encode("latin-1"), self.suffix.encode("latin-1")
            known = [text for _position, text in self.gaps[1:] if _separates(text)]
            if known:
                separator = known[-1].encode("latin-1")
            elif (before := opening.rstrip()).endswith(b"["):
                # the one record of a list shows how the next is to stand
                separator = b"," + opening[len(before) :]
        empty = True
        # up to where all that stood before records has been written, or is dropped
        done = 0
        for position, pieces in records:
            around = b""
            if position is not None and position >= done:
                around = self._around(done, position, 1)
                done = position + 1
            if empty:
                yield opening + around
            elif around:
                yield around
            else:
                before = self.gap_before(position) if position and self.gaps else separator
                yield before if _separates(before.decode("latin-1")) else separator
            yield from pieces
            empty = False
        around = self._around(done, count, 0) if count is not None else b""
        if not empty:
            yield around + ending
        elif self.gaps:
            yield opening + around + ending
        else:
            yield self.suffix.encode("latin-1")

    def _around(self, start: int, end: int, kept: int) -> bytes:
        """Return what does more than separate of what stands before records of the file, but for the first of all.

        These are those from position ``start`` up to ``end``, which are left out, and ``kept`` more.
        """
        pieces: list[str] = []
        first = max(bisect_right(self.gaps, start, key=itemgetter(0)) - 1, 0)
        for at, (begin, text) in enumerate(self.gaps[first:], first):
            following = self.gaps[at + 1][0] if at + 1 < len(self.gaps) else end + kept
            if begin >= end + kept:
                break
            for position in range(max(begin, start), min(following, end + kept)) if not _separates(text) else ():
                if position:
                    pieces.append(text)
                if position < end and text.rstrip().endswith(":"):
                    pieces.append("null")
        return "".join(pieces).encode("latin-1")

    def gap_before(self, position: int) -> bytes:
        """Return what stands before the record at ``position``, one that the file has."""
        return self.gaps[bisect_right(self.gaps, position, key=itemgetter(0)) - 1][1].encode("latin-1")


def _separates(text: str) -> bool:
    """Say whether what stands between two records only parts them: white space, commas."""
    return not text.strip(" \t\r\n,")


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

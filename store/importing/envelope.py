"""The envelope: everything of a session's main file that is not a record.

A file is prefix, record, separator, record, …, suffix. Nearly always every separator is the same, so the envelope
is a few bytes of the conversation's metadata and serves any number of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct


class Envelope(Struct, frozen=True, omit_defaults=True):
    """Bytes as latin-1 text, so that any byte survives JSON. ``odd`` holds separators that differ from
    ``separator``, by the position (from 1) of the record of the main file that they stand before."""

    prefix: str = ""
    separator: str = ""
    suffix: str = ""
    odd: dict[str, str] = {}

    def join(self, records: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
        """Yield the bytes of the file that holds ``records``, each given in pieces."""
        yield _bytes(self.prefix)
        separator = _bytes(self.separator)
        for position, pieces in enumerate(records):
            if position:
                odd = self.odd.get(str(position))
                yield separator if odd is None else _bytes(odd)
            yield from pieces
        yield _bytes(self.suffix)


class EnvelopeBuilder:
    """Collects an envelope while the records of a file are gone through, from its start or from where it grew."""

    def __init__(self, known: Envelope | None = None, position: int = 0) -> None:
        self._prefix = known.prefix if known else ""
        self._separator: str | None = known.separator if known and position > 1 else None
        self._odd = {at: odd for at, odd in known.odd.items() if int(at) < position} if known else {}
        self._position = position

    def gap(self, between: bytes) -> None:
        """Take in what stands before the next record."""
        text = between.decode("latin-1")
        if self._position == 0:
            self._prefix = text
        elif self._separator is None:
            self._separator = text
        elif text != self._separator:
            self._odd[str(self._position)] = text
        self._position += 1

    def close(self, rest: bytes) -> Envelope:
        """Return the envelope of a file that ends in ``rest`` after its last record."""
        text = rest.decode("latin-1")
        if self._position == 0:
            return Envelope(prefix=text)
        return Envelope(self._prefix, self._separator or "", text, self._odd)


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")

"""Reading a session's files: its records, in order, how far that came, and those that tell what the session is."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from pathlib import Path

import msgspec
from blake3 import blake3

from store.formats.core.format import Format, Source, Span
from store.formats.core.json_view import decode, is_object
from store.importing.envelope import EnvelopeBuilder
from store.importing.snapshot import Cursor, Passed, Prefix, Snapshot, Stamp, Stamps, path_text

_LONGEST_GAP = 64 << 10
"""A gap between records of more bytes than this is a record itself."""


class Reading:
    """Reads a session, the main file from where ``snapshot`` says; ``envelope`` gets what stands between records."""

    def __init__(
        self, format_: Format, source: Source, snapshot: Snapshot, scratch: Path, envelope: EnvelopeBuilder
    ) -> None:
        self._format = format_
        self._source = source
        self._snapshot = snapshot
        self._scratch = scratch
        self._envelope = envelope
        self._prefix = Prefix(snapshot)
        self._at = self._end = self._finished = snapshot.start
        self.first: dict[str, Stamp] = {}
        """The stamps of the first files, as each was read."""

    def records(self) -> Iterator[tuple[str, memoryview, Passed]]:
        """Yield the type of each record, as far as its file tells, its bytes, and what gets the progress of reading it.

        Whoever takes a record releases its bytes.
        """
        snapshot, source = self._snapshot, self._source
        if snapshot.start == 0:
            types = source.first_types or (self._format.first_type,) * len(source.first)
            for path, kind in zip(source.first, types, strict=True):
                with Snapshot(path, self._scratch) as file:
                    self.first[path_text(path)] = file.stamp
                    yield kind, file.data[:], file.passed
        for span in record_spans(self._format, snapshot.data, snapshot.start):
            self._envelope.gap(bytes(snapshot.data[self._end : span.start]))
            self._at = span.end
            yield self._format.main_type, snapshot.data[span.start : span.end], shifted(snapshot.passed, span.start)
            self._prefix.follow(self._end)
            self._finished, self._end = self._end, span.end

    @property
    def passed(self) -> int:
        """The bytes of the main file up to the record at hand, with that."""
        return self._at - self._snapshot.start

    def leave_out(self) -> None:
        """Leave the record at hand, and all before it, out of the hash of the file."""
        if self._at > self._end:
            self._prefix.leave_out(self._at)

    def end(self, count: int, stamps: Stamps) -> tuple[Stamps, Cursor, bytes]:
        """Return the stamps of all files, where to continue after ``count`` records, and the bytes after the last one.

        ``stamps`` were there before they were read.
        """
        snapshot, end = self._snapshot, self._end
        rest = bytes(snapshot.data[end:])
        # a last record that nothing follows may still be being written: it is looked at again next time
        unfinished = end > snapshot.start and not rest
        finished = self._finished if unfinished else end
        offset = snapshot.base + finished
        since = min(self._prefix.since, offset)
        cursor = Cursor(offset, self._prefix.at(finished), count - unfinished, stamps.main, since)
        return Stamps(stamps.modified_ms, stamps.main, {**self.first, **stamps.beside}), cursor, rest


def record_spans(format_: Format, data: memoryview, start: int) -> Iterator[Span]:
    """Yield the records of a session's main file from ``start`` on, and long gaps between them."""
    end = start
    for span in format_.spans(data, start):
        if span.start - end > _LONGEST_GAP:
            yield Span(end, span.start)
        yield span
        end = span.end
    if len(data) - end > _LONGEST_GAP:
        yield Span(end, len(data))


def shifted(passed: Callable[[int], None], start: int) -> Callable[[int], None]:
    """Return ``passed`` for offsets that count from ``start``."""
    return lambda offset: passed(start + offset)


FIRST_RECORDS = 200
FIRST_BYTES = 8 << 20
"""The first records, up to so many and so much of them, tell what a session is."""
_LARGEST_TITLE = 64 << 10
_MOST_TITLES = 256


class Samples:
    """Collects sample records, as an import sees them."""

    def __init__(self, format_: Format) -> None:
        self._titles = format_.titles
        self._first: list[bytes] = []
        self._room = FIRST_BYTES
        self._late: deque[tuple[int, bytes]] = deque(maxlen=_MOST_TITLES)
        self.tell = False
        """True if a record may give another title."""

    def see(self, number: int, payload: bytes) -> None:
        titles = len(payload) <= _LARGEST_TITLE and self._titles(payload)
        if titles:
            self.tell = True
        if number <= FIRST_RECORDS:
            if len(payload) <= self._room:
                self._room -= len(payload)
                self._first.append(payload)
        elif titles:
            self._late.append((number, payload))

    @property
    def records(self) -> list[bytes]:
        return [*self._first, *(payload for _number, payload in self._late)]

    def titled(self, earlier: Iterable[int]) -> tuple[int, ...]:
        """Return the numbers of the late ones; ``earlier`` are those of the import before."""
        return (*earlier, *(number for number, _payload in self._late))[-_MOST_TITLES:]


LOOKED_AT = 3
"""The number of first records that can identify a conversation: all but the last of them are none that anybody said."""
LARGEST = 1 << 20
"""Copies of a record larger than this are compared as a whole."""
_KEY_SIZE = 8


def essence(record: bytes, volatile: Set[str]) -> bytes:
    """Return a digest of what copies of a record have in common with it: all but the volatile members."""
    decoded = decode(record) if volatile and len(record) <= LARGEST else None
    if decoded is not None and is_object(decoded.value):
        stable = {key: value for key, value in decoded.value.items() if key not in volatile}
        # one that is nested too deeply is known as it is
        with suppress(RecursionError):
            record = msgspec.json.encode(stable)
    return blake3(record).digest()


def beginning(record: bytes, format_: Format) -> str:
    """Return the identity of a record at the beginning of a conversation, and of each copy of it."""
    return essence(record, format_.volatile)[:_KEY_SIZE].hex()

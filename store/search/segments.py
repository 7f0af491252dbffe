"""Segments: which blocks of documents (``store.search.documents``) have which words (``store.search.words``).

A segment is of up to 65,536 blocks of one rank that follow each other. It has its words in order, each once, and where
they are: these are as many *parts* as there are, of up to :data:`_WORDS_OF_A_PART` words each. What is filed at once
makes a segment of its own; segments that follow each other are merged, so that there are few.

A piece of a word is looked for in all words of a segment, which takes a thousandth of the time that the texts would.
Segments come one after the other, those with the highest blocks first: whoever wants a few hits has them from the first
segments.

``words`` is the words in UTF-8, each followed by a newline, after one newline. Data of a part is the number of its
words (16 bits, little-endian), of each word the number of its blocks, less 1, and of each word its blocks, counted from
the first of the segment: the first as it is, each other one as the difference to the one before. These are 16 bits,
too: first come the lower bytes of the former, then their upper bytes, and so of the latter. Then come the marks of what
follows each word (``store.search.words``), 32 bits for each :data:`GROUP` of its blocks. Both are zstd frames.
"""

import sqlite3
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter

from msgspec import Struct

from store.content import zstd
from store.index.database import Database, put
from store.search.collecting import GROUP, Collected, Steps, groups_of, joined, part_of
from store.search.needs import Every
from store.search.words import END, Piece, pieces_of

TABLES = """
-- The words of the blocks from first on, span of them.
CREATE TABLE segments (
    id INTEGER PRIMARY KEY, first INTEGER NOT NULL, span INTEGER NOT NULL, words BLOB NOT NULL, sum INTEGER NOT NULL
);
CREATE UNIQUE INDEX segments_by_first ON segments (first);
-- Where the words of a part of a segment are.
CREATE TABLE parts (
    segment INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (segment, part)
);
"""

_MOST_BLOCKS = 1 << 16
_WORDS_OF_A_PART = 1024
_AT_ONCE, _MOST_AT_ONCE = 4, 16
"""How many segments of about one size are merged: of each some words are in memory meanwhile."""
_KEPT_BYTES = 24 << 20
"""The words of segments that are kept in memory."""
_COUNTED_BYTES = 8 << 10
_LEVEL, _MERGED_LEVEL = 1, 6
"""Most segments are soon merged."""
_WORTH = 100
"""A text is read in the time that it takes to look up where so many words are."""
_FEW = 1
"""So few texts are read in the time that it takes to look up where a word is."""
_LARGEST = 1 << 30
_NEXT = (
    "INSERT INTO state VALUES ('segments', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1 RETURNING value"
)
_Placed = tuple[bytes, int, list[int], Sequence[int]]
"""A word, of which of some segments, and its blocks and marks as a part has them."""


class _Segment(Struct, frozen=True):
    """A segment as it is read. ``counts`` has how many words begin before each so many bytes, as far as was asked."""

    id: int
    first: int
    span: int
    words: bytes
    counts: dict[int, int]

    def with_piece(self, piece: bytes) -> Sequence[int]:
        """Return the numbers, from 0, of the words that have a piece (:func:`pieces_of`)."""
        words = self.words
        if piece.startswith(END):
            # these are next to each other
            return range(self._number(self._place(piece)), self._number(self._place(piece, beyond=True)))
        found, at = [], words.find(piece)
        while at >= 0:
            found.append(self._number(at) - 1)
            at = words.find(piece, words.find(END, at + 1))
        return found

    def _number(self, at: int) -> int:
        """Return how many words begin before a place."""
        step, rest = divmod(at, _COUNTED_BYTES)
        counts, words = self.counts, self.words
        if step not in counts:
            for more in range(max(counts), step):
                start = more * _COUNTED_BYTES
                counts[more + 1] = counts[more] + words.count(END, start, start + _COUNTED_BYTES)
        return counts[step] + words.count(END, at - rest, at)

    def _place(self, piece: bytes, *, beyond: bool = False) -> int:
        """Return where the first word that begins with a piece is, or the first one after those that do."""
        words, low, high = self.words, 0, len(self.words) - 1
        while low < high:
            middle = words.rfind(END, low, (low + high) // 2 + 1)
            found = words[middle : middle + len(piece)]
            if found < piece or (beyond and found == piece):
                low = words.find(END, middle + 1)
            else:
                high = middle
        return low


class Made(Struct, frozen=True, array_like=True, gc=False):
    """The words of ``span`` blocks, and their parts, compressed as a segment has them."""

    span: int
    words: bytes
    parts: list[bytes]


def made(collected: Collected, span: int) -> Made:
    """Make a segment of what was collected of ``span`` blocks."""
    words, parts = collected.end(_WORDS_OF_A_PART)
    return Made(span, zstd.compress(words, _LEVEL), [zstd.compress(part, _LEVEL) for part in parts])


class Segments:
    """The segments of one database. Safe to call from any thread; only one of them adds and merges."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._lock = threading.Lock()
        self._kept: dict[int, _Segment] = {}
        self._held = 0
        self._merging: Iterator[None] | None = None

    @property
    def span(self) -> int:
        """The number of blocks."""
        [[span]] = self.db.query("SELECT coalesce(sum(span), 0) FROM segments")
        return int(span)

    def blocks(self, need: Every, first: int, below: int) -> Iterator[int]:
        """Yield the blocks from ``first`` to before ``below`` that may meet a need, the last first.

        Nothing is held meanwhile.
        """
        while (segment := self._last(first, below)) is not None:
            try:
                met = self._meeting(segment, need)
            except _MergedError:
                continue
            found = (segment.first + place for place in met)
            yield from sorted((block for block in found if block < below), reverse=True)
            below = segment.first

    def _last(self, first: int, below: int) -> _Segment | None:
        """Return the last segment that begins between two blocks."""
        while True:
            query = "SELECT id FROM segments WHERE first >= ? AND first < ? ORDER BY first DESC LIMIT 1"
            row = self.db.one(query, (first, below))
            if row is None:
                return None
            number = row[0]
            with self._lock:
                if (segment := self._kept.get(number)) is not None:
                    return segment
            whole = self.db.one("SELECT * FROM segments WHERE id = ?", (number,))
            if whole is not None:
                return self._read(whole)

    def _read(self, row: Sequence[object]) -> _Segment:
        number, first, span, data = self.db.checked("segments", tuple(row))
        segment = _Segment(number, first, span, zstd.decompress(data, _LARGEST), {0: 0})
        with self._lock:
            if number not in self._kept:
                self._held += len(segment.words)
            self._kept[number] = segment
            while self._held > _KEPT_BYTES and len(self._kept) > 1:
                # the one that a search comes to last: the longest unused is the one that the next search begins with
                self._forget(min(self._kept.values(), key=attrgetter("first")).id)
        return segment

    def _forget(self, number: int) -> None:
        """Let go of a segment that may be kept; the lock is held."""
        if (segment := self._kept.pop(number, None)) is not None:
            self._held -= len(segment.words)

    def _meeting(self, segment: _Segment, need: Every) -> set[int]:
        """Return which blocks of a segment may meet a need that is not vacuous, counted from its first."""
        words: list[tuple[Sequence[int], Piece]] = []
        pieces = {piece for literal in need.literals for piece in pieces_of(literal)}
        # those that are found at once may spare the others
        for piece in sorted(pieces, key=lambda piece: not piece.text.startswith(END)):
            words.append((segment.with_piece(piece.text), piece))
            if not words[-1][0]:
                return set()
        found: set[int] | None = None
        # of as many words, the longer ones are in fewer blocks
        for numbers, piece in sorted(words, key=lambda word: (len(word[0]), -len(word[1].text))):
            if found is None:
                found = self._places(segment, numbers, piece.mark)
            elif len(found) > _FEW and len(numbers) < _WORTH * len(found):
                found &= self._places(segment, numbers, piece.mark)
        for choice in need.either:
            here = set[int]().union(*(self._meeting(segment, one) for one in choice))
            found = here if found is None else found & here
        assert found is not None
        return found

    def _places(self, segment: _Segment, numbers: Iterable[int], mark: int) -> set[int]:
        found: set[int] = set()
        for part, some in groupby(numbers, lambda number: number // _WORDS_OF_A_PART):
            steps = self._part(segment.id, part)
            for number in some:
                found.update(steps.blocks(number % _WORDS_OF_A_PART, mark))
        return found

    def _part(self, segment: int, part: int) -> Steps:
        row = self.db.one("SELECT * FROM parts WHERE segment = ? AND part = ?", (segment, part))
        if row is None:
            raise _MergedError
        return Steps(zstd.decompress(self.db.checked("parts", row)[2], _LARGEST))

    # -- filling ---------------------------------------------------------------------------------------------------

    def add(self, sql: sqlite3.Connection, first: int, one: Made) -> None:
        """File a segment of the blocks from ``first`` on, if there are any words in it."""
        if not one.parts:
            return
        # never again that of one that was merged: a reader may remember it
        [[number]] = sql.execute(_NEXT).fetchall()
        put(sql, "segments", [(number, first, one.span, one.words)])
        put(sql, "parts", [(number, part, data) for part, data in enumerate(one.parts)])

    def merge(self) -> bool:
        """Merge some segments a little; return whether there was anything to merge."""
        if self._merging is None:
            some = self._alike()
            if not some:
                return False
            self._merging = self._merged(some)
        if next(self._merging, self) is self:
            self._merging = None
        return True

    def _alike(self) -> Sequence[tuple[int, int, int]]:
        """Return the segments to merge next, as (id, first, span), in order."""
        segments: list[tuple[int, int, int]] = self.db.query("SELECT id, first, span FROM segments ORDER BY first")
        most = _AT_ONCE
        while most < _MOST_BLOCKS:
            for some in _together(segments, most):
                sizes = [span for _id, _first, span in some]
                if len(some) >= _AT_ONCE and sum(sizes) >= 2 * max(sizes):
                    return some
            most *= _AT_ONCE
        return ()

    def _merged(self, some: Sequence[tuple[int, int, int]]) -> Iterator[None]:
        first = some[0][1]
        merged = _Merged()
        streams = [self._stream(number, place) for place, (number, _first, _span) in enumerate(some)]
        for word, same in groupby(merge(*streams), itemgetter(0)):
            steps: list[int] = []
            marks: list[int] = []
            last = 0
            for _word, place, more, beside in same:
                more[0] += some[place][1] - first - last
                _add_marks(marks, beside, len(steps), len(more))
                steps += more
                last += sum(more)
            if merged.add(word, steps, marks):
                yield
        with self.db.writing() as sql:
            for number, _first, _span in some:
                sql.execute("DELETE FROM segments WHERE id = ?", (number,))
                sql.execute("DELETE FROM parts WHERE segment = ?", (number,))
            self.add(sql, first, merged.end(some[-1][1] + some[-1][2] - first))
        with self._lock:
            for number, _first, _span in some:
                self._forget(number)

    def _stream(self, segment: int, place: int) -> Iterator[_Placed]:
        row = self.db.one("SELECT * FROM segments WHERE id = ?", (segment,))
        assert row is not None
        left = zstd.decompress(self.db.checked("segments", row)[3], _LARGEST)[len(END) :]
        part = 0
        # a part at a time, as all of them is much in memory
        while left:
            *words, left = left.split(END, _WORDS_OF_A_PART)
            for word, (some, marks) in zip(words, self._part(segment, part), strict=True):
                yield word, place, [*some], marks
            part += 1


def _together(segments: Iterable[tuple[int, int, int]], most: int) -> Iterator[list[tuple[int, int, int]]]:
    """Yield segments of less than ``most`` blocks that follow each other, as many as one can be made of at once."""
    some: list[tuple[int, int, int]] = []
    for one in segments:
        _id, first, span = one
        if some and (span >= most or len(some) == _MOST_AT_ONCE or first + span - some[0][1] > _MOST_BLOCKS):
            yield some
            some = []
        if span < most:
            some.append(one)
    yield some


def _add_marks(marks: list[int], more: Sequence[int], before: int, count: int) -> None:
    """Add the marks of ``count`` more blocks to those of the ones ``before``, whose groups they do not begin anew."""
    first = before // GROUP
    if not before % GROUP:
        marks += more
        return
    # each group of them is part of two, but for the last one, which may be part of one
    marks += [0] * (groups_of(before + count) - len(marks))
    for group, one in enumerate(more, first):
        marks[group] |= one
        if group + 1 < len(marks):
            marks[group + 1] |= one


class _MergedError(Exception):
    """A segment is not there any more: it was merged with others."""


class _Merged:
    """A segment that is being made of words in order."""

    def __init__(self) -> None:
        self._words: list[bytes] = []
        self._parts: list[bytes] = []
        self._counts: list[int] = []
        self._steps = array("H")
        self._marks: list[int] = []

    def add(self, word: bytes, steps: Sequence[int], marks: Sequence[int]) -> bool:
        """Add a word, its blocks and its marks, as a part has them; return whether a part is done."""
        self._words.append(word)
        self._counts.append(len(steps))
        self._steps.extend(steps)
        self._marks += marks
        if len(self._counts) < _WORDS_OF_A_PART:
            return False
        self._end()
        return True

    def _end(self) -> None:
        if self._counts:
            self._parts.append(zstd.compress(part_of(self._counts, self._steps, self._marks), _MERGED_LEVEL))
            self._counts, self._steps, self._marks = [], array("H"), []

    def end(self, span: int) -> Made:
        """Return the segment, of ``span`` blocks."""
        self._end()
        return Made(span, zstd.compress(joined(self._words), _MERGED_LEVEL), self._parts)

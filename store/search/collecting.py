"""Words of blocks, collected for a segment (``store.search.segments``): which words there are, and in which blocks.

A part of a segment may have millions of numbers, so they are in arrays: in lists they would take ten times as much.

The extension ``store.search._words``, which is built where there is a compiler, does the same as :class:`InPython` in a
fraction of the time.
"""

import struct
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import accumulate, chain, islice, pairwise, zip_longest
from operator import or_, sub

from store.search.folding import fold
from store.search.words import ALL_MARKS, END, WORD_BYTES, is_plain, mark_of, words_of_run

GROUP = 16
"""So many blocks that have a word, one after the other, have the marks of what follows it (``words``) together."""

try:
    from store.search import _words
except ImportError:
    is_built = False
else:
    # one that was built before there were groups makes other segments
    is_built = getattr(_words, "GROUP", 0) == GROUP


class InPython:
    """Collects plain words: of letters of ASCII, digits and underscores, at most :data:`LONGEST` of them.

    The first block is at hand at first.
    """

    def __init__(self) -> None:
        self._blocks: defaultdict[bytes, list[int]] = defaultdict(list)
        self._marks: defaultdict[bytes, list[int]] = defaultdict(list)
        self._words: dict[bytes, int] = {}
        """The words of the block at hand, with their marks."""
        self._block = 0

    def add(self, text: bytes) -> set[bytes]:
        """Add the plain words of a text in UTF-8 to the block at hand; return its other runs, in lower case."""
        # splitting is ten times as fast as an expression, and does for nearly all
        runs = text.translate(WORD_BYTES).split()
        other = {run for run in set(runs) if not is_plain(run)}
        words = self._words
        for run, following in zip_longest(runs, runs[1:], fillvalue=b""):
            if run not in other:
                mark = mark_of(following) if following and following not in other else 0
                words[run] = words.get(run, 0) | mark
        return other

    def put(self, words: Iterable[bytes]) -> None:
        """Add words to the block at hand, which any may follow."""
        self._words.update(dict.fromkeys(words, ALL_MARKS))

    def next(self) -> None:
        """End the block at hand: what follows is in the next one."""
        for word, marks in self._words.items():
            self._blocks[word].append(self._block)
            self._marks[word].append(marks)
        self._words = {}
        self._block += 1

    def end(self, most: int) -> tuple[bytes, list[bytes]]:
        """Return the words, in order and as a segment has them, and the data of parts of ``most`` of them each."""
        self.next()
        words = sorted(self._blocks)
        parts: list[bytes] = []
        for start in range(0, len(words), most):
            blocks = [self._blocks[word] for word in words[start : start + most]]
            steps = chain.from_iterable((some[0], *map(sub, islice(some, 1, None), some)) for some in blocks)
            marks = chain.from_iterable(_grouped(self._marks[word]) for word in words[start : start + most])
            parts.append(part_of([len(some) for some in blocks], list(steps), list(marks)))
        return joined(words), parts


def _grouped(marks: Sequence[int]) -> Iterator[int]:
    """Yield the marks of groups of blocks, given those of single ones."""
    return (reduce(or_, marks[start : start + GROUP]) for start in range(0, len(marks), GROUP))


class Collected:
    """The words of the blocks of a segment, as they come. For one thread."""

    def __init__(self) -> None:
        self._collected = _words.Collected() if is_built else InPython()

    def add(self, text: bytes) -> None:
        """Add the words of a text in UTF-8 (``store.search.words``) to the block at hand."""
        runs = self._collected.add(text if text.isascii() else fold(text.decode()).encode())
        if runs:
            self._collected.put(chain.from_iterable(map(words_of_run, runs)))

    def next(self) -> None:
        """End the block at hand: what follows is in the next one."""
        self._collected.next()

    def end(self, most: int) -> tuple[bytes, list[bytes]]:
        """As :meth:`InPython.end`."""
        return self._collected.end(most)


def joined(words: Sequence[bytes]) -> bytes:
    """Return words in order as a segment has them."""
    return END.join((b"", *words, b""))


def part_of(counts: Sequence[int], steps: Sequence[int], marks: Sequence[int]) -> bytes:
    """Return the data of a part: of each word the number of its blocks; the blocks, as steps; the marks of groups."""
    packed = struct.pack("<H", len(counts)) + _packed([count - 1 for count in counts]) + _packed(steps)
    return packed + struct.pack(f"<{len(marks)}I", *marks)


def groups_of(count: int) -> int:
    """Return how many groups so many blocks make."""
    return -(-count // GROUP)


class Steps:
    """The blocks of the words of a part, as :func:`part_of` was given them; by the places of the words in it."""

    def __init__(self, data: bytes) -> None:
        [count] = struct.unpack_from("<H", data)
        self._data = data
        self._start = 2 + 2 * count
        # each has one more: that is added where it is needed, as most words are not asked for
        self._before = [*accumulate(_unpacked(data, 2, count, 0, count), initial=0)]
        self._count = self._before[-1] + count

    def __iter__(self) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """Yield the steps of each word, and its marks."""
        steps = self._some(0, self._count)
        behind = self._start + 2 * self._count
        marks = struct.unpack_from(f"<{(len(self._data) - behind) // 4}I", self._data, behind)
        start = at = 0
        for place, before in enumerate(self._before[1:], 1):
            end = before + place
            beyond = at - (start - end) // GROUP
            yield steps[start:end], marks[at:beyond]
            start, at = end, beyond

    def of(self, place: int) -> Sequence[int]:
        """Return the blocks of one word."""
        return self._some(self._before[place] + place, self._before[place + 1] + place + 1)

    def blocks(self, place: int, mark: int) -> Iterable[int]:
        """Return the blocks of one word that may have it before a word with a mark; all of them if that is 0."""
        blocks = [*accumulate(self.of(place))]
        if not mark:
            return blocks
        groups = (blocks[start : start + GROUP] for start in range(0, len(blocks), GROUP))
        return chain.from_iterable(some for some, marks in zip(groups, self._marks(place), strict=True) if marks & mark)

    def _marks(self, place: int) -> Sequence[int]:
        before = sum(groups_of(more - less + 1) for less, more in pairwise(self._before[: place + 1]))
        groups = groups_of(self._before[place + 1] - self._before[place] + 1)
        return struct.unpack_from(f"<{groups}I", self._data, self._start + 2 * self._count + 4 * before)

    def _some(self, start: int, end: int) -> Sequence[int]:
        return _unpacked(self._data, self._start, self._count, start, end)


def _packed(numbers: Sequence[int]) -> bytes:
    data = _little(array("H", numbers)).tobytes()
    return data[::2] + data[1::2]


def _unpacked(data: bytes, at: int, count: int, start: int, end: int) -> "array[int]":
    """Return the numbers from ``start`` to before ``end`` of the ``count`` that are packed at ``at``."""
    both = bytearray(2 * (end - start))
    both[::2], both[1::2] = data[at + start : at + end], data[at + count + start : at + count + end]
    return _little(array("H", bytes(both)))


def _little(numbers: "array[int]") -> "array[int]":
    """Turn numbers of this machine into little-endian ones, or those into its own."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers

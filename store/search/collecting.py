"""Words of blocks, collected for a segment (``store.search.segments``): which words there are, and in which blocks.

The extension ``store.search._words``, which is built where there is a compiler, does the same as :class:`InPython` in a
fraction of the time.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise
from operator import sub

from store.search.folding import fold
from store.search.words import END, LONGEST, WORD_BYTES, words_of_run

try:
    from store.search import _words
except ImportError:
    is_built = False
else:
    is_built = True


class InPython:
    """Collects plain words: of letters of ASCII, digits and underscores, at most :data:`LONGEST` of them.

    The first block is at hand at first.
    """

    def __init__(self) -> None:
        self._blocks: defaultdict[bytes, list[int]] = defaultdict(list)
        self._words: set[bytes] = set()
        self._block = 0

    def add(self, text: bytes) -> set[bytes]:
        """Add the plain words of a text in UTF-8 to the block at hand; return its other runs, in lower case."""
        # splitting is ten times as fast as an expression, and does for nearly all
        runs = set(text.translate(WORD_BYTES).split())
        other = {run for run in runs if len(run) > LONGEST or not run.isascii()}
        self._words |= runs - other
        return other

    def put(self, words: Iterable[bytes]) -> None:
        """Add words to the block at hand."""
        self._words.update(words)

    def next(self) -> None:
        """End the block at hand: what follows is in the next one."""
        for word in self._words:
            self._blocks[word].append(self._block)
        self._words = set()
        self._block += 1

    def end(self, most: int) -> tuple[bytes, list[bytes]]:
        """Return the words, in order and as a segment has them, and the data of parts of ``most`` of them each."""
        self.next()
        words = sorted(self._blocks)
        parts: list[bytes] = []
        for start in range(0, len(words), most):
            blocks = [self._blocks[word] for word in words[start : start + most]]
            steps = chain.from_iterable((some[0], *map(sub, islice(some, 1, None), some)) for some in blocks)
            parts.append(part_of([len(some) for some in blocks], list(steps)))
        return joined(words), parts


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


def part_of(counts: Sequence[int], steps: Sequence[int]) -> bytes:
    """Return the data of a part: of each word the number of its blocks, and the blocks, the latter as steps."""
    return struct.pack("<H", len(counts)) + _packed([count - 1 for count in counts]) + _packed(steps)


class Steps:
    """The blocks of the words of a part, as :func:`part_of` was given them; by the places of the words in it."""

    def __init__(self, data: bytes) -> None:
        [count] = struct.unpack_from("<H", data)
        self._data = data
        self._start = 2 + 2 * count
        # each has one more: that is added where it is needed, as most words are not asked for
        self._before = [*accumulate(_unpacked(data, 2, count, 0, count), initial=0)]
        self._count = self._before[-1] + count

    def __iter__(self) -> Iterator[Sequence[int]]:
        steps = self._some(0, self._count)
        starts = (before + place for place, before in enumerate(self._before))
        return (steps[start:end] for start, end in pairwise(starts))

    def of(self, place: int) -> Sequence[int]:
        """Return the blocks of one word."""
        return self._some(self._before[place] + place, self._before[place + 1] + place + 1)

    def _some(self, start: int, end: int) -> Sequence[int]:
        return _unpacked(self._data, self._start, self._count, start, end)


def _packed(numbers: Sequence[int]) -> bytes:
    data = struct.pack(f"<{len(numbers)}H", *numbers)
    return data[::2] + data[1::2]


def _unpacked(data: bytes, at: int, count: int, start: int, end: int) -> tuple[int, ...]:
    """Return the numbers from ``start`` to before ``end`` of the ``count`` that are packed at ``at``."""
    both = bytearray(2 * (end - start))
    both[::2], both[1::2] = data[at + start : at + end], data[at + count + start : at + count + end]
    return struct.unpack(f"<{end - start}H", both)

"""What two sequences have in common, in the order of both: of lines, or of records.

What stands once in either is found first, and of that the longest part that comes in the same order; between these the
same again ("patience" comparison, as Bram Cohen described it). Where nothing is left that stands only once, and no more
than a few elements, they are compared by ``difflib``, which takes long for many. So the time grows with the length of
the sequences, and what is moved or rewritten comes out as people would say it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

_FEW = 1 << 16
"""So many pairs of elements are compared by ``difflib``."""


class Match(NamedTuple):
    """``length`` elements that are the same from ``a`` on in the one, and from ``b`` on in the other sequence."""

    a: int
    b: int
    length: int


def matches(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Match]:
    """Return what two sequences have in common, in order; neighbours are one match."""
    found: list[Match] = []
    waiting = [(0, len(a), 0, len(b))]
    while waiting:
        a_first, a_end, b_first, b_end = waiting.pop()
        start = a_first
        while a_first < a_end and b_first < b_end and a[a_first] == b[b_first]:
            a_first, b_first = a_first + 1, b_first + 1
        if a_first > start:
            found.append(Match(start, b_first - (a_first - start), a_first - start))
        end = a_end
        while a_first < a_end and b_first < b_end and a[a_end - 1] == b[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
        if a_end < end:
            found.append(Match(a_end, b_end, end - a_end))
        if a_first == a_end or b_first == b_end:
            continue
        anchors = _anchors(a[a_first:a_end], b[b_first:b_end])
        if anchors:
            before = (a_first, b_first)
            for a_at, b_at in anchors:
                # what follows an anchor begins with it: it is the beginning of what is the same there
                waiting.append((before[0], a_first + a_at, before[1], b_first + b_at))
                before = (a_first + a_at, b_first + b_at)
            waiting.append((before[0], a_end, before[1], b_end))
        elif (a_end - a_first) * (b_end - b_first) <= _FEW:
            matcher = SequenceMatcher(None, a[a_first:a_end], b[b_first:b_end], autojunk=False)
            found += (
                Match(a_first + block.a, b_first + block.b, block.size)
                for block in matcher.get_matching_blocks()
                if block.size
            )
    return list(_joined(sorted(found)))


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return where elements are that stand once in either sequence: the most of them that are in the same order."""
    counts = Counter(a)
    places = {element: place for place, element in enumerate(b)}
    once = {element for element, count in Counter(b).items() if count == 1 and counts[element] == 1}
    pairs = [(place, places[element]) for place, element in enumerate(a) if element in once]
    # the longest rising part: the last pair of the best one of each length, and which pair came before each
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_place, there) in enumerate(pairs):
        length = bisect_left(ends, there)
        ends[length : length + 1] = [there]
        last[length : length + 1] = [number]
        before.append(last[length - 1] if length else -1)
    found: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _joined(found: Sequence[Match]) -> Iterator[Match]:
    """Yield matches, those that go on from each other as one."""
    current: Match | None = None
    for match in found:
        if current is not None and (current.a + current.length, current.b + current.length) == match[:2]:
            current = current._replace(length=current.length + match.length)
            continue
        if current is not None:
            yield current
        current = match
    if current is not None:
        yield current

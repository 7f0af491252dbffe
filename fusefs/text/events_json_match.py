"""Which records the elements of an edited ``events.json`` are.

``"$event": N`` says so. Elements without it, as those of ``jp``, are known by what they are: by equal bytes, by equal
content, by what identifies them, and at last by where they stand between their neighbours.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from fusefs.text.events_json_parse import Element
from fusefs.text.parse import ParseError
from store.formats import documents

NUMBER_KEY = "$event"

_IDENTIFYING = (("event_id",), ("type", "timestamp", "id"), ("type", "id"), ("type", "timestamp"), ("uuid",))
"""Keys of elements that tell which one it is, surest first."""

_MOST_COMPARED = 400
"""Pairs of elements whose texts are compared; where there are more, those that stand in the same place are one."""

_ALIKE = 0.5


class Shown(Struct, frozen=True):
    """An element as it was drawn: the number of its record, its bytes, and whether these say the number."""

    number: int
    text: bytes
    numbered: bool


class Match(Struct, frozen=True):
    """An element of the edited file: the number of the record that it is, 0 for a new one.

    ``value`` is what it says, parsed; None where its bytes are the ones that were drawn.
    """

    number: int
    element: Element
    value: object


def match(shown: Sequence[Shown], told: Sequence[Element], records: int) -> list[Match]:
    """Return which record each element of an edited file is; raises :class:`ParseError`.

    ``records`` is how many there are: a number may name one that has no element.
    """
    head, tail = _ends(shown, told)
    middle = shown[head : len(shown) - tail]
    rest = told[head : len(told) - tail]
    found = [Match(one.number, element, None) for one, element in zip(shown[:head], told[:head], strict=True)]
    ends = {one.number for one in (*shown[:head], *shown[len(shown) - tail :])}
    found += _Middle(middle, rest, records, ends).matches()
    last = zip(shown[len(shown) - tail :], told[len(told) - tail :], strict=True)
    return [*found, *(Match(one.number, element, None) for one, element in last)]


def _ends(shown: Sequence[Shown], told: Sequence[Element]) -> tuple[int, int]:
    """Return how many elements are the same at the beginning and at the end."""
    most = min(len(shown), len(told))
    head = next((at for at in range(most) if shown[at].text != told[at].text), most)
    most -= head
    tail = next((at for at in range(most) if shown[-1 - at].text != told[-1 - at].text), most)
    return head, tail


class _Middle:
    """What differs between a file as it was drawn and as it was edited."""

    def __init__(self, shown: Sequence[Shown], told: Sequence[Element], records: int, taken: set[int]) -> None:
        self._shown = shown
        self._told = told
        self._records = records
        self._numbers = [0] * len(told)
        self._values: list[object] = [None] * len(told)
        self._taken = taken

    def matches(self) -> list[Match]:
        """Match what can be matched."""
        self._by_bytes()
        loose = [at for at in range(len(self._told)) if not self._numbers[at]]
        for at in loose:
            value = self._values[at] = self._told[at].parsed()
            if isinstance(value, dict) and NUMBER_KEY in value and not self._is_own(value):
                self._take(at, self._number(value, self._told[at]))
        loose = [at for at in loose if not self._numbers[at]]
        left = [one for one in self._shown if not one.numbered and one.number not in self._taken]
        if loose and left:
            self._by_content(loose, left)
        return [Match(*each) for each in zip(self._numbers, self._told, self._values, strict=True)]

    def _is_own(self, value: dict[str, object]) -> bool:
        """Say whether a record that has no number has such a key itself."""
        number = value[NUMBER_KEY]
        return not isinstance(number, documents.Number) and any(not one.numbered for one in self._shown)

    def _by_bytes(self) -> None:
        places: defaultdict[bytes, deque[int]] = defaultdict(deque)
        for at, one in enumerate(self._shown):
            places[one.text].append(at)
        for at, where in _in_order([places.get(element.text) for element in self._told]):
            self._take(at, self._shown[where].number)

    def _number(self, value: dict[str, object], element: Element) -> int:
        said = value[NUMBER_KEY]
        line = element.line_of(f'"{NUMBER_KEY}"')
        if not isinstance(said, documents.Number) or not said.text.isdigit():
            raise ParseError(
                line, f'"{NUMBER_KEY}" is the number of a record: write that, or leave it out of a new one'
            )
        number = int(said.text[:18])
        if not 0 < number <= self._records:
            raise ParseError(line, f'there is no record {said.text}: leave "{NUMBER_KEY}" out of a new one')
        if number in self._taken:
            raise ParseError(line, f'record {number} stands here twice: leave "{NUMBER_KEY}" out of the new one')
        return number

    def _take(self, at: int, number: int) -> None:
        self._numbers[at] = number
        self._taken.add(number)

    # -- elements that do not say which record they are --------------------------------------------------------------

    def _by_content(self, loose: Sequence[int], left: Sequence[Shown]) -> None:
        values = {one.number: documents.read(one.text.decode()) for one in left}
        places: defaultdict[Hashable, deque[int]] = defaultdict(deque)
        for at, one in enumerate(left):
            places[_compact(values[one.number])].append(at)
        for at, where in _in_order([places.get(_compact(self._values[index])) for index in loose]):
            self._take(loose[at], left[where].number)
        for keys in _IDENTIFYING:
            self._by_keys(keys, loose, left, values)
        for old, new in self._gaps(loose, left):
            for one, index in self._pairs(old, new):
                self._take(index, one.number)

    def _by_keys(
        self, keys: tuple[str, ...], loose: Sequence[int], left: Sequence[Shown], values: dict[int, object]
    ) -> None:
        """Take elements for each other that alone say the same under some keys."""
        old: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        new: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for one in left:
            if one.number not in self._taken and (said := _said(values[one.number], keys)):
                old[said].append(one.number)
        for index in loose:
            if not self._numbers[index] and (said := _said(self._values[index], keys)):
                new[said].append(index)
        for said, indexes in new.items():
            numbers = old.get(said, [])
            if len(numbers) == len(indexes) == 1:
                self._take(indexes[0], numbers[0])

    def _gaps(self, loose: Sequence[int], left: Sequence[Shown]) -> Iterator[tuple[list[Shown], list[int]]]:
        """Yield what is left between neighbours that are known: elements as drawn, and as edited."""
        waiting = [one for one in left if one.number not in self._taken]
        numbers = [one.number for one in waiting]
        gap: list[int] = []
        before = 0
        for index in range(len(self._told) + 1):
            beyond = index == len(self._told)
            number = 0 if beyond else self._numbers[index]
            if not beyond and not number:
                gap.append(index)
                continue
            if gap and (beyond or number > before):
                end = len(waiting) if beyond else bisect_left(numbers, number)
                if old := waiting[bisect_right(numbers, before) : end]:
                    yield old, gap
            gap = []
            before = max(before, number)

    def _pairs(self, old: Sequence[Shown], new: Sequence[int]) -> Iterable[tuple[Shown, int]]:
        if len(old) == len(new) or len(old) * len(new) > _MOST_COMPARED:
            return list(zip(old, new, strict=False))
        ratios = sorted(
            (
                (-SequenceMatcher(None, one.text, self._told[index].text, autojunk=False).quick_ratio(), at, where)
                for at, one in enumerate(old)
                for where, index in enumerate(new)
            ),
        )
        pairs: dict[int, int] = {}
        for ratio, at, where in ratios:
            crossing = any((at < other) != (where < there) for other, there in pairs.items())
            if -ratio >= _ALIKE and at not in pairs and where not in pairs.values() and not crossing:
                pairs[at] = where
        return [(old[at], new[where]) for at, where in pairs.items()]


def _in_order(places: Sequence[deque[int] | None]) -> Iterator[tuple[int, int]]:
    """Yield which of several equal elements each one is: those in order first, then what was moved."""
    last = -1
    moved: list[tuple[int, deque[int]]] = []
    for at, where in enumerate(places):
        if where is None:
            continue
        following = next((place for place in where if place > last), None)
        if following is None:
            moved.append((at, where))
            continue
        where.remove(following)
        last = following
        yield at, following
    for at, where in moved:
        if where:
            yield at, where.popleft()


def _compact(value: object) -> str:
    return json.dumps(value, default=lambda number: {"": number.text}, ensure_ascii=False)


def _said(value: object, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return what an element says under keys that identify it, () where it lacks one."""
    if not isinstance(value, dict):
        return ()
    said = tuple(text for key in keys if isinstance(text := value.get(key), str))
    return said if len(said) == len(keys) else ()

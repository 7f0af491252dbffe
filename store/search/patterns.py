"""Regular expressions, found within lines as ``grep`` does; this file is also a program that does so by itself.

Python's engine may take longer for some expressions on some lines than anybody waits, holds the interpreter all the
while, and cannot be told to stop. So such an expression runs in a process of its own (``store.search.terms``). That
runs this file, which therefore imports nothing of ours.

Input: ``ignore case u8 | spans u8 | count u32``, ``count`` times ``length u64 | pattern``, then texts: ``length u64 |
text``. Output for each text: ``count u64``, then ``count`` numbers ``u64``: of lines; or, if ``spans`` is 1, the
beginnings and ends of matches. All little-endian, all text UTF-8.
"""

import re
import sys
import warnings
from array import array
from collections.abc import Iterable, Sequence
from re import _constants as ops  # type: ignore[attr-defined]  # no public module takes a pattern apart
from re import _parser  # type: ignore[attr-defined]  # as above
from struct import Struct
from typing import Any

BEGINNING = Struct("<BBI")
LENGTH = Struct("<Q")

Operation = tuple[Any, Any]
"""A part of a pattern: its operation, one of ``ops``, and the arguments."""

_OF_A_LINE_ALONE = frozenset((ops.ASSERT, ops.ASSERT_NOT, ops.ATOMIC_GROUP, ops.POSSESSIVE_REPEAT))
_ENDS = frozenset((ops.AT_BEGINNING_STRING, ops.AT_END_STRING))
_REPEATS = frozenset((ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT))
_QUICK_STEPS = 1000
_TEXT_STEPS = 2_000_000
"""The most steps that are taken in this process for one text: some hundredths of a second."""
_NO_BOUND = 9
"""The power of a line's length that stands for any number of steps."""


class Pattern:
    """A regular expression of Python's. Raises ValueError, and what :mod:`re` raises, if it is none."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        self.parsed: Iterable[Operation] = parsed(pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.compiled = re.compile(pattern, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
        self._by_line = _of_a_line_alone(self.parsed)
        self._ways, self._power = _steps(self.parsed)

    @property
    def quick(self) -> bool:
        """True if it takes a bounded number of steps at each place of a text, however long its lines are."""
        return not self._power and self._ways <= _QUICK_STEPS

    def quick_at(self, places: int, longest: int) -> bool:
        """Return whether it takes few steps if matches can begin at so many ``places``, in lines up to ``longest``."""
        return self._power < _NO_BOUND and places * self._ways * longest**self._power <= _TEXT_STEPS

    def lines(self, text: str) -> list[int]:
        """Return the lines that have a match, counted from 0, each once, in order."""
        if not self._by_line and (found := self._in_whole(text)) is not None:
            return found
        search = self.compiled.search
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        return [number for number, line in enumerate(lines) if search(line)]

    def _in_whole(self, text: str) -> list[int] | None:
        """Return the lines that have a match; None if a match goes over several, so that this does not tell."""
        found: list[int] = []
        line = start = 0
        for match in self.compiled.finditer(text):
            begin, end = match.span()
            if begin == len(text) and text[-1:] in ("\n", ""):
                break
            if text.find("\n", begin, end) >= 0:
                return None
            line += text.count("\n", start, begin)
            start = begin
            if not found or found[-1] != line:
                found.append(line)
        return found


def lines_of(patterns: Sequence[Pattern], text: str) -> list[int]:
    """Return the lines that have a match of one of some patterns, counted from 0, each once, in order."""
    if len(patterns) == 1:
        return patterns[0].lines(text)
    return sorted({line for pattern in patterns for line in pattern.lines(text)})


def spans_of(patterns: Sequence[re.Pattern[str]], line: str) -> list[int]:
    """Return where the matches in a line begin and end, one after the other: at each place the longest one.

    Empty matches are none.
    """
    found: list[int] = []
    at = 0
    while matches := [match.span() for pattern in patterns if (match := pattern.search(line, at))]:
        start, end = min(matches, key=lambda span: (span[0], -span[1]))
        if end > start:
            found += (start, end)
        at = max(end, start + 1)
        if at > len(line):
            break
    return found


def parsed(pattern: str) -> Iterable[Operation]:
    """Return a pattern taken apart; raises as :func:`re.compile` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operations: Iterable[Operation] = _parser.parse(pattern)
    return operations


def _of_a_line_alone(operations: Iterable[Operation]) -> bool:
    """Return whether a match within a line may not be one in the whole text.

    So it is where a pattern looks around, tells the ends of the text from those of a line, or keeps what it has taken.
    """
    for what, argument in operations:
        if what in _OF_A_LINE_ALONE or (what is ops.AT and argument in _ENDS):
            return True
        if any(_of_a_line_alone(part) for part in _parts(argument)):
            return True
    return False


def _steps(operations: Iterable[Operation]) -> tuple[int, int]:
    """Return about how many ways there are to match at one place: a number, times a power of the length of its line.

    The power is ``_NO_BOUND`` where repeats are nested so that no such number bounds the ways.
    """
    ways, power = 1, 0
    for what, argument in operations:
        parts = _parts(argument)
        inside = [_steps(part) for part in parts]
        inner, inner_power = sum(one for one, _power in inside), max((one for _ways, one in inside), default=0)
        if what in _REPEATS:
            least, most = int(argument[0]), int(argument[1])
            if most > _QUICK_STEPS:
                power += 1 if (inner, inner_power) == (1, 0) else _NO_BOUND
            else:
                # one that may end sooner has a way more
                ways *= (max(most, 1) if inner == 1 else inner**most) + (least != most)
                power += inner_power * most
        else:
            ways *= inner if parts else 1
            power += 1 if what is ops.GROUPREF else inner_power
        ways, power = min(ways, _TEXT_STEPS + 1), min(power, _NO_BOUND)
    return ways, power


def _parts(argument: object) -> list[Iterable[Operation]]:
    if isinstance(argument, _parser.SubPattern):
        return [argument]
    if isinstance(argument, list | tuple):
        return [part for one in argument for part in _parts(one)]
    return []


def _main() -> None:
    read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
    ignore_case, spans, count = BEGINNING.unpack(read(BEGINNING.size))
    said = [read(*LENGTH.unpack(read(LENGTH.size))).decode() for _ in range(count)]
    patterns = [Pattern(pattern, ignore_case=bool(ignore_case)) for pattern in said]
    compiled = [pattern.compiled for pattern in patterns]
    while head := read(LENGTH.size):
        text = read(*LENGTH.unpack(head)).decode()
        found = array("Q", spans_of(compiled, text) if spans else lines_of(patterns, text))
        write(LENGTH.pack(len(found)) + found.tobytes())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _main()

"""Two texts as a unified diff: https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from store.comparing.sequences import Match, matches

CONTEXT = 3
"""How many lines that are the same are shown around what is not."""

NOTHING = "/dev/null"
"""What stands for a file that is not there."""

_NO_NEWLINE = "\n\\ No newline at end of file\n"


class Diff(Struct, frozen=True):
    """How one text differs from another: the lines that ``patch`` reads, and how many were ``added`` and ``removed``.

    ``text`` is "" where nothing differs.
    """

    text: str
    added: int
    removed: int


class _Change(NamedTuple):
    """The lines of the old text from ``a`` to ``a_end`` became those of the new one from ``b`` to ``b_end``."""

    a: int
    a_end: int
    b: int
    b_end: int


def unified(before: str, after: str, before_name: str, after_name: str) -> Diff:
    """Return the difference of two texts, whose names stand above it."""
    old, new = _lines(before), _lines(after)
    changes = list(_changes(matches(old, new), len(old), len(new)))
    if not changes:
        return Diff("", 0, 0)
    text = f"--- {_name(before_name)}\n+++ {_name(after_name)}\n" + "".join(_hunks(old, new, changes))
    removed = sum(change.a_end - change.a for change in changes)
    return Diff(text, sum(change.b_end - change.b for change in changes), removed)


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each with its newline; nothing else ends one."""
    *whole, rest = text.split("\n")
    return [line + "\n" for line in whole] + ([rest] if rest else [])


def _name(name: str) -> str:
    """Return a name as programs read it: without the tab they would take what follows a space for a time."""
    return f"{name}\t" if " " in name else name


def _changes(same: Sequence[Match], old: int, new: int) -> Iterator[_Change]:
    """Yield what lies between matches, of texts of so many lines."""
    a = b = 0
    for match in (*same, Match(old, new, 0)):
        if a < match.a or b < match.b:
            yield _Change(a, match.a, b, match.b)
        a, b = match.a + match.length, match.b + match.length


def _hunks(old: Sequence[str], new: Sequence[str], changes: Sequence[_Change]) -> Iterator[str]:
    start = 0
    for end in range(1, len(changes) + 1):
        if end == len(changes) or changes[end].a - changes[end - 1].a_end > 2 * CONTEXT:
            yield from _hunk(old, new, changes[start:end])
            start = end


def _hunk(old: Sequence[str], new: Sequence[str], changes: Sequence[_Change]) -> Iterator[str]:
    first, last = changes[0], changes[-1]
    lead = min(CONTEXT, first.a)
    trail = min(CONTEXT, len(old) - last.a_end)
    a, b = first.a - lead, first.b - lead
    yield f"@@ -{_range(a, last.a_end + trail)} +{_range(b, last.b_end + trail)} @@\n"
    for change in changes:
        yield from _marked(" ", old[a : change.a])
        yield from _marked("-", old[change.a : change.a_end])
        yield from _marked("+", new[change.b : change.b_end])
        a = change.a_end
    yield from _marked(" ", old[a : a + trail])


def _range(first: int, end: int) -> str:
    """Return lines as the head of a hunk tells them: the first counts from 1; of none, the one before them."""
    count = end - first
    if count == 1:
        return str(first + 1)
    return f"{first + 1 if count else first},{count}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + (line if line.endswith("\n") else line + _NO_NEWLINE)

"""Known text: the lines of one file that a conversation has seen, parts of it or all.

Parts come as a reader asks for them, and an edit moves all lines behind it. Whatever contradicts what is known means
that something else changed the file, as a formatter does: then only the new is known. So a text that is known as a
whole is one that the file really had, as far as the conversation can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from store.worktree.patches import Change, change_text


class _Part(NamedTuple):
    """Lines that follow each other: the numbers of the first, from 1, and of the one behind the last.

    They are one text: lines by themselves take twice the memory, in small pieces that lie between everything else.
    """

    first: int
    text: str
    beyond: int


def _part(first: int, text: str) -> _Part:
    return _Part(first, text, first + text.count("\n") + 1)


def _lines(part: _Part, low: int, high: int) -> list[str]:
    """Return the lines of a part from number ``low`` on, up to ``high``."""
    return part.text.split("\n")[low - part.first : high - part.first]


def _agree(one: _Part, other: _Part) -> bool:
    """Return whether two parts say the same of the lines that both have."""
    low, high = max(one.first, other.first), min(one.beyond, other.beyond)
    return low >= high or _lines(one, low, high) == _lines(other, low, high)


class KnownText:
    """The lines of a file that are known, as parts that neither touch nor overlap, in order."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._total = 0
        """How many lines the file has, 0 if that is unknown."""
        self.since = 0
        """The number of the first event that this knowledge rests on."""

    @property
    def whole(self) -> str | None:
        """The whole text, None unless every line is known."""
        if len(self._parts) != 1 or not self._total:
            return None
        part = self._parts[0]
        return part.text if part.first == 1 and part.beyond - 1 == self._total else None

    def write(self, text: str, since: int = 0) -> None:
        """Know all of it, from event ``since`` on."""
        self._take(text)
        self.since = since

    def _take(self, text: str) -> None:
        self._parts = [part := _part(1, text)]
        self._total = part.beyond - 1

    def forget(self) -> None:
        """Know nothing."""
        self._parts, self._total = [], 0

    def see(self, text: str, first: int, total: int, since: int = 0) -> None:
        """Know the lines from ``first`` on as well, by event ``since``; ``total`` is 0 if it is unknown."""
        seen = _part(first, text)
        if total and seen.beyond - 1 > total:
            # it says how many lines there are without the empty last one
            total = seen.beyond - 1
        if (total and self._total and total != self._total) or (self._total and seen.beyond - 1 > self._total):
            self.forget()
        if not all(_agree(known, seen) for known in self._parts):
            self.forget()
        self.since = self.since if self._parts else since
        self._total = total or self._total
        self._join(seen)
        if first == 1 and seen.beyond - 1 == self._total:
            self.since = since

    def _join(self, seen: _Part) -> None:
        parts: list[_Part] = []
        for part in sorted([*self._parts, seen], key=attrgetter("first")):
            if not parts or part.first > parts[-1].beyond:
                parts.append(part)
            elif part.beyond > (end := parts[-1].beyond):
                first, text, _beyond = parts[-1]
                more = _lines(part, end, part.beyond)
                parts[-1] = _Part(first, "\n".join((text, *more)), part.beyond)
        self._parts = parts

    def line_of(self, change: Change) -> int:
        """Return the number of the line that the place of a change begins on, 0 if it is unknown or in doubt."""
        found = [part for part in self._parts if change.old and part.text.count(change.old) == 1]
        if len(found) != 1:
            return 0
        first, text, _beyond = found[0]
        return first + text.count("\n", 0, text.index(change.old))

    def change(self, changes: Sequence[Change]) -> None:
        """Know the text after changes that were made; if the place of one is in doubt, know nothing."""
        whole = self.whole
        if whole is not None:
            changed = change_text(whole, changes)
            if changed is None:
                self.forget()
            else:
                self._take(changed)
        elif not all(map(self._change_part, changes)):
            self.forget()

    def _change_part(self, change: Change) -> bool:
        """Change the only part that has the place of a change; return whether there is one."""
        places = [at for at, part in enumerate(self._parts) if change.old in part.text]
        if change.every or len(places) != 1:
            return False
        [place] = places
        part = self._parts[place]
        changed = change_text(part.text, [change])
        if changed is None:
            return False
        now = _part(part.first, changed)
        more = now.beyond - part.beyond
        behind = [_Part(first + more, text, beyond + more) for first, text, beyond in self._parts[place + 1 :]]
        self._parts = [*self._parts[:place], now, *behind]
        self._total = self._total and self._total + more
        return True

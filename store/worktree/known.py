"""Known text: the lines of one file that a conversation has seen, parts of it or all.

Parts come as a reader asks for them, and an edit moves all lines behind it. Whatever contradicts what is known means
that something else changed the file, as a formatter does: then only the new is known. So a text that is known as a
whole is one that the file really had, as far as the conversation can tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.worktree.patches import Change, change_text


class KnownText:
    """The lines of a file that are known, as parts that neither touch nor overlap, in order."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, list[str]]] = []
        """The number of each part's first line, from 1, and its lines."""
        self._total = 0
        """How many lines the file has, 0 if that is unknown."""
        self.since = 0
        """The number of the first event that this knowledge rests on."""

    @property
    def whole(self) -> str | None:
        """The whole text, None unless every line is known."""
        if len(self._parts) != 1 or not self._total:
            return None
        first, lines = self._parts[0]
        return "\n".join(lines) if first == 1 and len(lines) == self._total else None

    def write(self, text: str, since: int = 0) -> None:
        """Know all of it, from event ``since`` on."""
        self._take(text)
        self.since = since

    def _take(self, text: str) -> None:
        lines = text.split("\n")
        self._parts, self._total = [(1, lines)], len(lines)

    def forget(self) -> None:
        """Know nothing."""
        self._parts, self._total = [], 0

    def see(self, text: str, first: int, total: int, since: int = 0) -> None:
        """Know the lines from ``first`` on as well, by event ``since``; ``total`` is 0 if it is unknown."""
        lines = text.split("\n")
        beyond = first + len(lines)
        if total and beyond - 1 > total:
            # it says how many lines there are without the empty last one
            total = beyond - 1
        if (total and self._total and total != self._total) or (self._total and beyond - 1 > self._total):
            self.forget()
        for start, known in self._parts:
            low, high = max(start, first), min(start + len(known), beyond)
            if known[low - start : max(high - start, 0)] != lines[low - first : max(high - first, 0)]:
                self.forget()
                break
        self.since = self.since if self._parts else since
        self._total = total or self._total
        self._join(first, lines)
        if first == 1 and len(lines) == self._total:
            self.since = since

    def _join(self, first: int, lines: list[str]) -> None:
        parts: list[tuple[int, list[str]]] = []
        for start, known in sorted([*self._parts, (first, lines)], key=lambda part: part[0]):
            if parts and start <= (end := parts[-1][0] + len(parts[-1][1])):
                parts[-1][1].extend(known[end - start :])
            else:
                parts.append((start, list(known)))
        self._parts = parts

    def line_of(self, change: Change) -> int:
        """Return the number of the line that the place of a change begins on, 0 if it is unknown or in doubt."""
        texts = [(first, "\n".join(lines)) for first, lines in self._parts]
        found = [(first, text) for first, text in texts if change.old and text.count(change.old) == 1]
        if len(found) != 1:
            return 0
        first, text = found[0]
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
        places = [at for at, (_first, lines) in enumerate(self._parts) if change.old in "\n".join(lines)]
        if change.every or len(places) != 1:
            return False
        [place] = places
        first, lines = self._parts[place]
        changed = change_text("\n".join(lines), [change])
        if changed is None:
            return False
        now = changed.split("\n")
        more = len(now) - len(lines)
        behind = [(start + more, known) for start, known in self._parts[place + 1 :]]
        self._parts = [*self._parts[:place], (first, now), *behind]
        self._total = self._total and self._total + more
        return True

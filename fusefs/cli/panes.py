"""The panes of the browser, which draw the lines that are on the screen and no others."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from msgspec import Struct
from rich.cells import chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from fusefs.cli.source import clipped
from store import visible

_WRAPPED = 4000
"""A longer line is cut anywhere, not between words."""
_PLAIN, _HEAD = Style(), Style(bold=True)
_CURSOR, _MARKED = Style(reverse=True), Style(bold=True, color="yellow")


class Row(Struct, frozen=True):
    """A row of the list: a conversation, or a hit in it at an event."""

    text: str
    conversation: int
    name: str
    event: int = 0
    line: str = ""


class Lines(Widget):
    """Lines of which the ones on the screen are drawn, from ``top`` on."""

    top = reactive(0)
    lines: Sequence[str] = ()
    marks: re.Pattern[str] | None = None
    """The part that is shown in colour."""

    def render_line(self, y: int) -> Strip:
        number = self.top + y
        if number >= len(self.lines):
            return Strip.blank(self.size.width)
        text = clipped(visible.line(self.lines[number].expandtabs()), self.size.width)
        return Strip(self._segments(text, self.style_of(number))).adjust_cell_length(
            self.size.width, self.style_of(number)
        )

    def style_of(self, number: int) -> Style:
        return _PLAIN

    def _segments(self, text: str, style: Style) -> list[Segment]:
        segments: list[Segment] = []
        done = 0
        for found in self.marks.finditer(text) if self.marks else ():
            segments += [Segment(text[done : found.start()], style), Segment(found[0], style + _MARKED)]
            done = found.end()
        return [*segments, Segment(text[done:], style)]


class Listing(Lines):
    """The list, with a cursor."""

    cursor = reactive(0)
    rows: Sequence[Row] = ()

    def show(self, rows: Sequence[Row], *, keep: bool = False) -> None:
        self.rows, self.lines = rows, [row.text for row in rows]
        if not keep:
            self.cursor = self.top = 0
        self.refresh()

    @property
    def row(self) -> Row | None:
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def move(self, by: int) -> None:
        self.cursor = max(0, min(self.cursor + by, len(self.rows) - 1))
        self.top = max(self.cursor - self.size.height + 1, min(self.top, self.cursor))

    def style_of(self, number: int) -> Style:
        return _CURSOR if number == self.cursor else _PLAIN


class Preview(Lines):
    """A conversation from an event on, as far as somebody has looked."""

    row: Row | None = None
    first = 1
    """The event that the text begins with."""
    whole = True
    _raw: Sequence[str] = ()

    def take(self, row: Row, first: int, raw: Sequence[str], *, whole: bool) -> None:
        """Show a text that was read; what was on the screen stays there."""
        at_hit = row != self.row
        before = self._heading_at(self.top)
        self.row, self.first, self.whole, self._raw = row, first, whole, raw
        self.lines = self._wrapped(raw)
        if at_hit:
            self.top = self._place(row)
        elif before is not None and before[0] in self.lines:
            self.top = self.lines.index(before[0]) + before[1]
        self.refresh()

    @property
    def event(self) -> int:
        """The event that is at the top of the screen."""
        found = self._heading_at(self.top)
        return int(found[0].split(" ")[1]) if found else self.first

    def move(self, by: int) -> None:
        last = len(self.lines) - (self.size.height if self.whole else 1)
        self.top = max(0, min(self.top + by, last))

    @property
    def lacks(self) -> bool:
        """Whether the end of the text is near, and there is more."""
        return not self.whole and self.top + 2 * self.size.height > len(self.lines)

    def style_of(self, number: int) -> Style:
        return _HEAD if _is_heading(self.lines[number]) else _PLAIN

    def _wrapped(self, raw: Sequence[str]) -> list[str]:
        width = max(self.size.width, 1)
        lines: list[str] = []
        for line in raw:
            if len(line) <= width and line.isascii():
                lines.append(line)
            elif len(line) > _WRAPPED or not line.isascii():
                lines += chop_cells(line, width) or [""]
            else:
                lines += textwrap.wrap(line, width, drop_whitespace=False, replace_whitespace=False) or [""]
        return lines

    def _heading_at(self, number: int) -> tuple[str, int] | None:
        """Return the heading above a line, and how far above it is."""
        for at in range(min(number, len(self.lines) - 1), -1, -1):
            if _is_heading(self.lines[at]):
                return self.lines[at], number - at
        return None

    def _place(self, row: Row) -> int:
        """Return the line at which to begin: the heading of the hit's event, or the hit if it is far below that."""
        start = 0
        for number, line in enumerate(self.lines):
            if _is_heading(line) and line.startswith(f"## {row.event} "):
                start = number
                break
        wanted = row.line.strip()[:40]
        for number, line in enumerate(self.lines[start:], start):
            if wanted and wanted in line:
                return start if number - start < self.size.height else number - 2
        return start


def _is_heading(line: str) -> bool:
    return line.startswith("## ") and line[3:4].isdigit()

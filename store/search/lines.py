"""Lines: branches as they grew, and which contexts' branches have a turn.

A line is kept by its first turn. What is appended to the last turn of a line goes on with it; what is appended further
up, by a fork or an edit, begins a line of its own that knows where it branched off. So a fork adds one row, whatever
it shares; and the branches that have a turn end on its line, no higher up than it, or on a line that branched off
there, or off such a line.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from store.disk.turn_log import TurnLog
from store.ids import turn_of
from store.index.database import Database, Row

_AT_ONCE = 4096
_RUN = "SELECT first, last, line, depth FROM runs WHERE first <= ? ORDER BY first DESC LIMIT 1"

# the lines from which a place is reached, and how far up: the place's own, and all that branched off behind it
_HOLDING = (
    "WITH RECURSIVE above (line, depth) AS (VALUES (?, ?) UNION ALL"
    " SELECT lines.id, lines.depth FROM above JOIN lines ON lines.parent = above.line AND lines.depth > above.depth)"
    " SELECT context, tip FROM above JOIN heads ON heads.line = above.line AND heads.depth >= above.depth"
    " ORDER BY context"
)


def add_turns(sql: sqlite3.Connection, log: TurnLog, after: int, last: int) -> None:
    """File on which lines the turns after ``after`` lie, up to turn ``last``. Those that are damaged lie on none."""
    while after < last:
        links = log.links(after + 1, min(last - after, _AT_ONCE))
        _add(sql, links, after + 1)
        after += len(links)


def _add(sql: sqlite3.Connection, links: Iterable[tuple[int, int] | None], first: int) -> None:
    begun = end = 0
    line = start = 0
    for turn, link in enumerate(links, first):
        if link is not None and begun and link[0] == turn - 1 == end:
            end = turn
            continue
        if begun:
            _put(sql, begun, end, line, start)
            begun = 0
        if link is not None:
            parent, start = link
            line = _line_of(sql, turn, parent, start)
            begun = end = turn
    if begun:
        _put(sql, begun, end, line, start)


def _put(sql: sqlite3.Connection, first: int, last: int, line: int, depth: int) -> None:
    before: Row | None = sql.execute(_RUN, (first - 1,)).fetchone()
    if before is not None and before[1] == first - 1 and before[2] == line:
        sql.execute("UPDATE runs SET last = ? WHERE first = ?", (last, before[0]))
    else:
        sql.execute("INSERT INTO runs VALUES (?, ?, ?, ?)", (first, last, line, depth))
    sql.execute("UPDATE lines SET tip = ? WHERE id = ?", (last, line))


def _line_of(sql: sqlite3.Connection, turn: int, parent: int, depth: int) -> int:
    """Return the line that a turn is on, which it may begin."""
    row: Row | None = sql.execute(_RUN, (parent,)).fetchone() if parent else None
    before = row[2] if row is not None and row[1] >= parent else 0
    if before and sql.execute("SELECT 1 FROM lines WHERE id = ? AND tip = ?", (before, parent)).fetchone():
        return int(before)
    sql.execute("INSERT INTO lines VALUES (?, ?, ?, ?)", (turn, before, depth, turn))
    return turn


def set_head(sql: sqlite3.Connection, context: int, tip: int) -> None:
    """File where the branch of a context ends; ``tip`` is 0 where it has none."""
    row: Row | None = sql.execute(_RUN, (turn_of(tip),)).fetchone() if tip else None
    if row is None or row[1] < turn_of(tip):
        sql.execute("DELETE FROM heads WHERE context = ?", (context,))
    else:
        depth = row[3] + turn_of(tip) - row[0]
        sql.execute("INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?)", (context, tip, row[2], depth))


def depth_of(db: Database, turn: int) -> int | None:
    """Return the depth of a turn (the root's is 0), None if it lies on no line."""
    row = db.one(_RUN, (turn,))
    return row[3] + turn - row[0] if row is not None and row[1] >= turn else None


def holding(db: Database, turn: int) -> list[tuple[int, int]]:
    """Return (context, tip) of those whose present branch has a turn as it was appended or patched, by context."""
    row = db.one(_RUN, (turn,))
    if row is None or row[1] < turn:
        return []
    first, _last, line, depth = row
    found: list[tuple[int, int]] = db.query(_HOLDING, (line, depth + turn - first))
    return found

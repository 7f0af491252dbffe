"""The records of branches, and the rows that they are drawn from; both are remembered for a while.

A branch that goes on from another shares its rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import overload

from msgspec import Struct

from store.conversations import branch
from store.conversations.chain import Chain
from store.conversations.turns import Turns
from store.conversations.viewer import Viewer
from store.errors import NotFound
from store.events.conversation import EventRow, ResourceRow
from store.events.event import Event
from store.ids import patch_of, turn_of
from store.index.catalogue import ContextEntry
from store.index.views import Run, Views

ROW_BYTES = 768
"""The memory of a row, in bytes, with all that is derived from it for listings and for files that show all rows."""
_LINE_ROWS = 4
"""The fixed memory of a branch, as a number of rows."""
_TIPS = 2
"""The number of tips by which a list is known: a caller that missed the last growth asks by the tip before."""


class Rows(Sequence[EventRow]):
    """The rows of one branch, root first: the first ``count`` of a list which longer branches may have added to."""

    __slots__ = ("_count", "shared", "unsure")

    def __init__(self, shared: list[EventRow], count: int, *, unsure: bool = False) -> None:
        self.shared = shared
        self._count = count
        self.unsure = unsure
        """True if any of the rows is unsure."""

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> EventRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[EventRow]: ...

    def __getitem__(self, index: int | slice) -> EventRow | list[EventRow]:
        if isinstance(index, slice):
            if index.step is not None and index.step < 0:
                return self.shared[: self._count][index]
            return self.shared[slice(*index.indices(self._count))]
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError("there is no row of that number")
        return self.shared[index]

    def __iter__(self) -> Iterator[EventRow]:
        return islice(self.shared, self._count)

    def begins(self, other: Rows) -> bool:
        """Return whether ``other`` is known to begin with these rows."""
        return self.shared is other.shared and self._count <= len(other)


NO_ROWS = Rows([], 0)


class _Line(Struct, eq=False):
    """A list of rows, and those tips whose branches are a beginning of it, with their lengths."""

    root: int
    rows: list[EventRow]
    tips: dict[int, int] = {}


class RowsAtHand:
    """Remembers the rows of branches by their tips, for a while. Safe to call from any thread.

    ``ancestor`` as of :class:`store.conversations.turns.Turns`; ``most`` is the number of rows to keep. The branch
    that was asked for last is kept, however many it has.
    """

    def __init__(self, ancestor: Callable[[int, int], int], most: int) -> None:
        self._ancestor = ancestor
        self._most = most
        self._lock = threading.Lock()
        self._lines: OrderedDict[int, _Line] = OrderedDict()
        """The lines, by the identities of their lists."""
        self._by_tip: dict[int, _Line] = {}
        self._by_root: dict[int, list[_Line]] = {}
        self._held = 0

    def get(self, tip: int) -> Rows | None:
        """Return the rows of a branch, None if they are not at hand."""
        with self._lock:
            line = self._by_tip.get(tip)
            if line is None:
                return None
            self._lines.move_to_end(id(line.rows))
            return Rows(line.rows, line.tips[tip])

    def before(self, tip: int) -> Rows | None:
        """Return the rows of the longest branch at hand that the one of ``tip`` has grown from, None if none is."""
        patch = patch_of(tip)
        root = self._ancestor(tip, 0)
        with self._lock:
            known = [
                (count, turn_of(earlier), line.rows)
                for line in self._by_root.get(root, ())
                for earlier, count in line.tips.items()
                if patch_of(earlier) == patch
            ]
        for count, turn, rows in sorted(known, key=itemgetter(0), reverse=True):
            if self._ancestor(tip, count - 1) == turn:
                return Rows(rows, count)
        return None

    def put(self, tip: int, rows: Sequence[EventRow], before: Rows | None = None) -> Rows:
        """Record that the branch of ``tip`` is ``before`` and then ``rows``, or only ``rows``; return its rows."""
        with self._lock:
            line = None
            if before is not None:
                if (there := self._by_tip.get(tip)) is not None:
                    # somebody else has just said so
                    return Rows(there.rows, there.tips[tip])
                line = self._lines.get(id(before.shared))
                if line is None or len(line.rows) != len(before):
                    # it is not at hand any more, or another branch has gone on from there, if not this very one
                    line, rows = None, [*before, *rows]
            if line is None:
                self._forget(tip)
                root = turn_of(rows[0].turn) if rows else 0
                line = _Line(root, [])
                self._lines[id(line.rows)] = line
                self._by_root.setdefault(root, []).append(line)
            line.rows.extend(rows)
            self._held += len(rows)
            line.tips[tip] = len(line.rows)
            self._by_tip[tip] = line
            while len(line.tips) > _TIPS:
                oldest = next(iter(line.tips))
                del line.tips[oldest], self._by_tip[oldest]
            self._lines.move_to_end(id(line.rows))
            while len(self._lines) > 1 and self._held + _LINE_ROWS * len(self._lines) > self._most:
                self._drop(next(iter(self._lines.values())))
            return Rows(line.rows, len(line.rows))

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            for line in list(self._lines.values()):
                self._drop(line)

    def _forget(self, tip: int) -> None:
        """Forget one branch, and the list of its rows if it is no other's."""
        line = self._by_tip.pop(tip, None)
        if line is not None:
            del line.tips[tip]
            if not line.tips:
                self._drop(line)

    def _drop(self, line: _Line) -> None:
        del self._lines[id(line.rows)]
        self._held -= len(line.rows)
        for tip in line.tips:
            del self._by_tip[tip]
        lines = self._by_root[line.root]
        lines.remove(line)
        if not lines:
            del self._by_root[line.root]


_CACHED_RUNS = 1 << 17
_COST = 16
"""The fixed memory of a branch, as a number of runs."""


class Records:
    """Branches by their tips."""

    def __init__(self, views: Views, viewer: Viewer, turns: Turns, cached_rows: int) -> None:
        self._views = views
        self._viewer = viewer
        self._turns = turns
        self._lock = threading.Lock()
        self._runs: OrderedDict[int, tuple[Run, ...]] = OrderedDict()
        self._held_runs = 0
        self.at_hand = RowsAtHand(turns.ancestor, cached_rows)
        """The rows for which nothing must be read."""

    def runs(self, head: int) -> tuple[Run, ...]:
        """Return the branch whose tip is ``head``, as runs of turns, seen through the patches that hold for it."""
        with self._lock:
            runs = self._runs.get(head)
            if runs is not None:
                self._runs.move_to_end(head)
                return runs
        if patch := patch_of(head):
            runs = branch.patched(self.runs(turn_of(head)), self._turns.patches.seen(patch))
        else:
            runs = branch.runs_to(self._turns.log, head, self._runs)
        self.remember(head, runs)
        return runs

    def remember(self, head: int, runs: tuple[Run, ...]) -> None:
        """Remember the branch whose tip is ``head``, for a while: the memory is bounded."""
        with self._lock:
            self._hold(head, runs)
            if patch_of(head) and turn_of(head) not in self._runs:
                self._hold(turn_of(head), branch.plain(runs))
            while self._held_runs > _CACHED_RUNS and len(self._runs) > 2:
                _head, dropped = self._runs.popitem(last=False)
                self._held_runs -= _COST + len(dropped)

    def _hold(self, head: int, runs: tuple[Run, ...]) -> None:
        known = self._runs.get(head)
        self._held_runs += len(runs) - len(known) if known is not None else _COST + len(runs)
        self._runs[head] = runs

    def rows(self, head: int) -> Rows:
        """Return the row of every record of the branch whose tip is ``head``; ``rows[i].number == i + 1``."""
        rows = self.at_hand.get(head)
        if rows is not None:
            return rows
        before = self.at_hand.before(head)
        if before is not None:
            # a branch that has grown costs only its new part
            last = self.last_rows(head, self.length(head) - len(before))
            return _passing([*before, *last]) if _unsure(last) else self.at_hand.put(head, last, before)
        runs = self.runs(head)
        found = self._viewer.rows(runs, 1, partial(branch.position, runs))
        return _passing(found) if _unsure(found) else self.at_hand.put(head, found)

    def remember_rows(self, head: int, rows: Sequence[EventRow]) -> None:
        """Remember the rows of the branch whose tip is ``head``, for a while; none of them if one is unsure."""
        if not _unsure(rows):
            self.at_hand.put(head, rows)

    def last_rows(self, head: int, count: int) -> Sequence[EventRow]:
        """Return the rows of the last ``count`` records of a branch, however many there are before these."""
        turns = self._turns.back(head, count)
        runs = tuple(branch.joined((turn.turn_id, 1) for turn in turns))
        return self._viewer.rows(runs, self.length(head) - count + 1, partial(self._position_in, head))

    def chain(self, head: int, number: int, *, reach: int | None = None) -> Chain:
        """Return what a lens may ask about the records before record ``number`` of the branch of ``head``.

        No more than ``reach`` of them are looked up, if that is given.
        """
        return self._viewer.chain(partial(self._position_in, head), number, reach=reach)

    def _position_in(self, head: int, number: int) -> int:
        return self._turns.seen(head, number - 1)

    def length(self, head: int) -> int:
        """Return how many records the branch of ``head`` has."""
        return self._turns.get(turn_of(head)).depth + 1

    def forget(self, entry: ContextEntry) -> None:
        """Forget what was measured of a conversation: its records are drawn otherwise from now on."""
        self._views.forget(entry.id, self.runs(entry.head))
        self.at_hand.clear()

    def row(self, head: int, number: int) -> EventRow | None:
        """Return the row of record ``number`` (from 1), None if the branch is not that long."""
        rows = self.rows(head)
        return rows[number - 1] if 0 < number <= len(rows) else None

    def resources(self, head: int) -> list[ResourceRow]:
        """Return the resources of a branch, in order."""
        self.rows(head)
        return self._views.resources(self.runs(head), 1)

    def event(self, row: EventRow) -> Event:
        """Return the event that a row describes."""
        for _row, event in self._viewer.events([row]):
            if isinstance(event, Event):
                return event
            raise event
        raise NotFound(f"record {row.number} cannot be read")

    def resource(self, row: ResourceRow) -> bytes:
        """Return the content of a resource."""
        event_row = self._views.rows([(row.turn, 1)], row.number)
        if event_row:
            resources = self.event(event_row[0]).resources
            if row.seq < len(resources):
                return resources[row.seq].data
        raise NotFound(f"event {row.number} no longer holds {row.uri}")


def _unsure(rows: Sequence[EventRow]) -> bool:
    return any(row.unsure for row in rows)


def _passing(rows: list[EventRow]) -> Rows:
    """Return rows that are not remembered: the next look may find more of them."""
    return Rows(rows, len(rows), unsure=True)

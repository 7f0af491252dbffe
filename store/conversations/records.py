"""The records of branches, and the rows that they are drawn from; both are remembered for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial

from store.conversations import branch
from store.conversations.chain import Chain
from store.conversations.rows import Rows, RowsAtHand
from store.conversations.turns import Turns
from store.conversations.viewer import Viewer
from store.errors import ConvfsError, NotFound
from store.events.conversation import EventRow, ResourceRow
from store.events.event import Event
from store.ids import patch_of, turn_of
from store.index.catalogue import Entry
from store.index.views import Run, Views

_CACHED_RUNS = 1 << 17
_COST = 16
"""How many runs the memory of a branch takes as much as, beside its own."""


class Records:
    """Branches by their tips."""

    def __init__(self, views: Views, viewer: Viewer, turns: Turns, cached_branches: int) -> None:
        self._views = views
        self._viewer = viewer
        self._turns = turns
        self._lock = threading.Lock()
        self._runs: OrderedDict[int, tuple[Run, ...]] = OrderedDict()
        self._held_runs = 0
        self._rows = RowsAtHand(turns.ancestor, cached_branches)

    def runs(self, head: int) -> tuple[Run, ...]:
        """Return the branch whose tip is ``head``, as runs of turns, seen through the patches that hold for it."""
        with self._lock:
            runs = self._runs.get(head)
            if runs is not None:
                self._runs.move_to_end(head)
                return runs
        if patch := patch_of(head):
            runs = self._turns.patched(self.runs(turn_of(head)), patch)
        else:
            runs = self._turns.branch(head, self._runs)
        self.remember(head, runs)
        return runs

    def remember(self, head: int, runs: tuple[Run, ...]) -> None:
        """Take note of the branch whose tip is ``head``, for a while: the memory is bounded."""
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
        rows = self._rows.get(head)
        if rows is not None:
            return rows
        before = self._rows.before(head)
        if before is not None:
            # a branch that has grown costs what is new of it
            return self._rows.put(head, self._last_rows(head, self._records(head) - len(before)), before)
        runs = self.runs(head)
        return self._rows.put(head, self._viewer.rows(runs, 1, partial(branch.position, runs)))

    def rows_at_hand(self, head: int) -> Rows | None:
        """Return what :meth:`rows` does, if nothing must be read for it."""
        return self._rows.get(head)

    def remember_rows(self, head: int, rows: Sequence[EventRow]) -> None:
        """Take note of the rows of the branch whose tip is ``head``, for a while."""
        self._rows.put(head, rows)

    def _last_rows(self, head: int, count: int) -> Sequence[EventRow]:
        """Return the rows of the last ``count`` records of a branch, however many there are before these."""
        turns = self._turns.back(head, count)
        runs = tuple(branch.joined((turn.turn_id, 1) for turn in turns))
        return self._viewer.rows(runs, self._records(head) - count + 1, partial(self._position_in, head))

    def chain(self, head: int, number: int, *, reach: int | None = None) -> Chain:
        """Return what a lens may ask about the records before record ``number`` of the branch of ``head``.

        No more than ``reach`` of them are looked up, if that is given.
        """
        return self._viewer.chain(partial(self._position_in, head), number, reach=reach)

    def _position_in(self, head: int, number: int) -> int:
        return self._turns.seen(head, number - 1)

    def _records(self, head: int) -> int:
        return self._turns.get(turn_of(head)).depth + 1

    def forget(self, entry: Entry) -> None:
        """Forget what was measured of a conversation: its records are drawn otherwise from now on."""
        self._views.forget(entry.id, self.runs(entry.head))
        self._rows.clear()

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

    def events(self, rows: Sequence[EventRow]) -> Iterator[tuple[EventRow, Event | ConvfsError]]:
        """Yield the events of rows, in order, their contents read in sorted passes over the packs."""
        return self._viewer.events(rows)

    def resource(self, row: ResourceRow) -> bytes:
        """Return the content of a resource."""
        event_row = self._views.rows([(row.turn, 1)], row.number)
        if event_row:
            resources = self.event(event_row[0]).resources
            if row.seq < len(resources):
                return resources[row.seq].data
        raise NotFound(f"event {row.number} no longer holds {row.uri}")

"""The records of branches, and the rows that they are drawn from; both are remembered for a while.

A branch that goes on from another shares its rows.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Literal, NamedTuple, overload

from store.content.sparing import is_sparing
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

ROW_BYTES = 480
"""The memory of a row, in bytes."""
_BLOCK = 512


_SUMS_KEPT = 1 << 14

Part = Literal["section_size", "json_size"]
"""The files that are made of a piece for each record, by the size of a piece."""


class Sums(NamedTuple):
    """The sizes of the pieces of some records together, in bytes; ``rows`` is how many of them are measured."""

    rows: int
    section_size: int
    json_size: int

    @classmethod
    def over(cls, rows: Sequence[EventRow]) -> Sums:
        return cls(len(rows), sum(row.section_size for row in rows), sum(row.json_size for row in rows))


NO_SUMS = Sums(0, 0, 0)


class Block:
    """The rows of some records of a branch that follow each other. Instances do not change."""

    __slots__ = ("rows", "runs")

    def __init__(self, runs: tuple[Run, ...], rows: list[EventRow]) -> None:
        self.runs = runs
        self.rows = rows


class Rows(Sequence[EventRow]):
    """The rows of one branch, root first. They are read, a block at a time, when somebody asks for them."""

    __slots__ = (
        "_count", "_ends", "_last", "_measured", "_passing", "_read", "_runs", "_sums", "before_block", "unsure",
    )

    def __init__(
        self,
        runs: tuple[Run, ...],
        read: Callable[[tuple[Run, ...], int], Block],
        sums: Callable[[tuple[Run, ...]], Sums],
        measured: Callable[[tuple[Run, ...]], int],
    ) -> None:
        """``read`` returns the block of some runs, the first of which begins with the record of a number.

        ``sums`` returns the sums over some runs, as far as they are known without reading the rows, and ``measured``
        of how many of their records there are rows.
        """
        self._runs = runs
        self._read = read
        self._sums = sums
        self._measured = measured
        self._ends = [*accumulate(count for _first, count in runs)]
        self._count = self._ends[-1] if runs else 0
        self._last = (-1, Block((), []))
        """The block that was asked for a row last: most ask for several that stand together."""
        self._passing: dict[int, Block] = {}
        self.before_block: Callable[[Rows, int], None] | None = None
        """Called before a block is read, with its number; it may raise an error instead."""
        self.unsure = False
        """True once any of the rows read so far was unsure."""

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> EventRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[EventRow]: ...

    def __getitem__(self, index: int | slice) -> EventRow | list[EventRow]:
        if isinstance(index, slice):
            places = range(self._count)[index]
            if len(places) == 0:
                return []
            low, high = min(places[0], places[-1]), max(places[0], places[-1])
            rows = [row for at in range(low // _BLOCK, high // _BLOCK + 1) for row in self.block(at).rows]
            low -= low % _BLOCK
            return [rows[place - low] for place in places]
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError("there is no row of that number")
        at, place = divmod(index, _BLOCK)
        last = self._last
        if last[0] != at:
            last = self._last = (at, self.block(at))
        return last[1].rows[place]

    def __iter__(self) -> Iterator[EventRow]:
        for block in self.blocks():
            yield from block.rows

    def __reversed__(self) -> Iterator[EventRow]:
        for at in reversed(range(self.count_of_blocks)):
            yield from reversed(self.block(at).rows)

    @property
    def count_of_blocks(self) -> int:
        return -(-self._count // _BLOCK)

    def sums(self, at: int) -> Sums:
        """Return the sums over the rows of one of the blocks."""
        block = self._passing.get(at)
        if block is None and (found := self._sums(self.runs_of(at))).rows == self._length_of(at):
            return found
        return Sums.over(self.block(at).rows)

    def block_with(self, place: int) -> int:
        """Return the number of the block that has the row at a place, both counted from 0."""
        return place // _BLOCK

    def blocks(self, first: int = 0) -> Iterator[Block]:
        """Yield the blocks, from the one of a number on."""
        return map(self.block, range(first, self.count_of_blocks))

    def block(self, at: int) -> Block:
        """Return one of the blocks (the first is 0)."""
        passing = self._passing.get(at)
        if passing is not None:
            # what could not be read is tried again by those who ask for the branch again
            return passing
        if self.before_block is not None:
            self.before_block(self, at)
        return self.read(at)

    def read(self, at: int) -> Block:
        """Return one of the blocks, measuring what is missing."""
        block = self._read(self.runs_of(at), at * _BLOCK + 1)
        if unsure(block.rows):
            self.unsure = True
            self._passing[at] = block
        return block

    def unmeasured(self, at: int) -> int:
        """Return how many records of one of the blocks are yet to be measured."""
        return self._length_of(at) - self._measured(self.runs_of(at))

    def _length_of(self, at: int) -> int:
        return min(_BLOCK, self._count - at * _BLOCK)

    def runs_of(self, at: int) -> tuple[Run, ...]:
        """Return the runs of one of the blocks."""
        start = at * _BLOCK
        first = bisect_right(self._ends, start)
        before = self._ends[first - 1] if first else 0
        last = bisect_left(self._ends, start + _BLOCK, lo=first) + 1
        return tuple(branch.part(self._runs[first:last], start - before, _BLOCK))


def unsure(rows: Iterable[EventRow]) -> bool:
    """Return whether any row is unsure."""
    return any(map(attrgetter("unsure"), rows))


def _no_block(_runs: tuple[Run, ...], _number: int) -> Block:
    raise NotFound("there are no records")


NO_ROWS = Rows((), _no_block, lambda _runs: NO_SUMS, lambda _runs: 0)


class _Blocks:
    """The blocks that were read lately, at most ``most`` rows, by their first turns. Safe to call from any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._held = 0

    def get(self, turn: int) -> Block | None:
        """Return the block that begins with a turn as it was last seen, None if it is not remembered."""
        with self._lock:
            block = self._blocks.get(turn)
            if block is not None:
                self._blocks.move_to_end(turn)
            return block

    def put(self, turn: int, block: Block) -> None:
        """Remember a block in place of the one that began with the same turn."""
        with self._lock:
            before = self._blocks.pop(turn, None)
            self._blocks[turn] = block
            self._held += len(block.rows) - (len(before.rows) if before else 0)
            while self._held > self._most and len(self._blocks) > 1:
                self._held -= len(self._blocks.popitem(last=False)[1].rows)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._blocks.clear()
            self._held = 0


_CACHED_RUNS = 1 << 17
_ROWS_ASIDE = 2048
"""The rows that are remembered for threads that are sparing."""
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
        self._shared = _Blocks(cached_rows)
        self._aside = _Blocks(min(cached_rows, _ROWS_ASIDE))
        self._sums: dict[tuple[Run, ...], Sums] = {}

    @property
    def _blocks(self) -> _Blocks:
        return self._aside if is_sparing() else self._shared

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
            runs = branch.runs_to(self._turns.log, head, self._runs, self._turns.ancestor)
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
        return Rows(self.runs(head), partial(self._block, head), self._sums_of, self._measured)

    def _block(self, head: int, runs: tuple[Run, ...], number: int) -> Block:
        first = turn_of(runs[0][0])
        near = self._blocks.get(first)
        if near is not None and near.runs == runs:
            return near
        rows: list[EventRow] = []
        for known, part in _parts(runs, near):
            rows += known or self._viewer.rows(part, number + len(rows), partial(self._position_in, head))
        block = Block(runs, rows)
        if not unsure(rows):
            self._blocks.put(first, block)
        return block

    def _measured(self, runs: tuple[Run, ...]) -> int:
        near = self._near(runs)
        return self._views.measured(runs) if near is None else len(near.rows)

    def _near(self, runs: tuple[Run, ...]) -> Block | None:
        """Return the block of some runs if it was read lately."""
        near = self._blocks.get(turn_of(runs[0][0]))
        return near if near is not None and near.runs == runs else None

    def _sums_of(self, runs: tuple[Run, ...]) -> Sums:
        known = self._sums.get(runs)
        if known is None:
            if (near := self._near(runs)) is not None:
                known = Sums.over(near.rows)
            else:
                count, sums = self._views.sums(runs)
                known = Sums(count, sums.transcript_size, sums.json_size)
                if count < branch.length(runs):
                    return known
            if len(self._sums) >= _SUMS_KEPT:
                self._sums.clear()
            self._sums[runs] = known
        return known

    def forget_rows(self) -> None:
        """Forget all rows: they may be others now."""
        self.shrink()
        self._sums.clear()

    def shrink(self) -> None:
        """Give back the memory of rows; what they sum up to stays known, as that takes long to add up again."""
        self._shared.clear()
        self._aside.clear()

    def are_near(self, head: int, most: int) -> bool:
        """Return whether no more than ``most`` turns must be read to know which a branch has."""
        with self._lock:
            if head in self._runs or turn_of(head) in self._runs:
                return True
        return self.length(head) <= most

    def last_rows(self, head: int, count: int) -> Sequence[EventRow]:
        """Return the rows of the last ``count`` records of a branch, however many there are before these."""
        if count <= _BLOCK:
            runs = tuple(branch.joined((turn.turn_id, 1) for turn in self._turns.back(head, count)))
        else:
            runs = tuple(branch.part(self.runs(head), self.length(head) - count, count))
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
        self.forget_rows()

    def row(self, head: int, number: int) -> EventRow | None:
        """Return the row of record ``number`` (from 1), None if the branch is not that long."""
        rows = self.rows(head)
        return rows[number - 1] if 0 < number <= len(rows) else None

    def resources(self, head: int) -> list[ResourceRow]:
        """Return the resources of a branch, in order."""
        runs = self.runs(head)
        if self._views.sums(runs)[0] < branch.length(runs):
            # then some are not measured yet
            for _block in self.rows(head).blocks():
                pass
        return self._views.resources(runs, 1)

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


def _parts(runs: tuple[Run, ...], near: Block | None) -> Iterator[tuple[list[EventRow], tuple[Run, ...]]]:
    """Yield the parts of some runs: the rows of those that are also in another block, nothing for those to be read."""
    if near is None:
        yield [], runs
        return
    there = {row.turn: row for row in near.rows}
    turns = (turn for first, count in runs for turn in range(first, first + count))
    for is_there, some in groupby(turns, there.__contains__):
        if is_there:
            yield [there[turn] for turn in some], ()
        else:
            yield [], tuple(branch.joined((turn, 1) for turn in some))

"""Turns as they are shown, whatever conversation they are in: their rows and events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import structs

from store.disk.turn_format import Turn
from store.errors import ConvfsError, DamageError, NotFound
from store.events.conversation import EventRow
from store.events.event import Event
from store.store import Store

Shown = tuple[Turn, EventRow]
"""A turn, and the row that says what it is shown as; its number is that in every conversation that has it."""


class Reading:
    """Reads turns of one store, those that are seen through patches too, in any order."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rows(self, ids: Sequence[int]) -> list[Shown | ConvfsError]:
        """Return the turns ``ids``, or why they cannot be read; what was never measured is measured.

        NotFound stands for those that are there no more: they were reclaimed.
        """
        turns = self._turns(ids)
        found: dict[int, Shown] = {}
        for turn_id, turn in turns.items():
            if isinstance(turn, Turn) and turn.reclaimed:
                turns[turn_id] = NotFound(f"turn {turn_id} was deleted for good")
        for row in self._store.views.rows([(turn_id, 1) for turn_id in turns], 1):
            self._put(found, turns, row)
        shown: list[Shown | ConvfsError] = []
        for turn_id in ids:
            turn = turns[turn_id]
            if isinstance(turn, Turn) and turn_id not in found:
                try:
                    for row in self._measured(turns, turn, found):
                        self._put(found, turns, row)
                except ConvfsError as error:
                    shown.append(error)
                    continue
            if isinstance(turn, ConvfsError):
                shown.append(turn)
            else:
                shown.append(found[turn_id])
        return shown

    def events(self, shown: Sequence[Shown]) -> Iterator[tuple[Shown, Event | ConvfsError]]:
        """Yield the events of turns, in order, their contents read in sorted passes over the packs."""
        read = self._store.events([row for _turn, row in shown])
        for pair, (_row, event) in zip(shown, read, strict=True):
            yield pair, event

    def _turns(self, ids: Sequence[int]) -> dict[int, Turn | ConvfsError]:
        turns: dict[int, Turn | ConvfsError] = {}
        start = 0
        while start < len(ids):
            end = start + 1
            while end < len(ids) and ids[end] == ids[end - 1] + 1:
                end += 1
            try:
                turns.update((turn.turn_id, turn) for turn in self._store.turns.range(ids[start], end - start))
            except (DamageError, NotFound):
                turns.update((turn_id, self._one(turn_id)) for turn_id in ids[start:end])
            start = end
        return turns

    def _one(self, turn_id: int) -> Turn | ConvfsError:
        try:
            return self._store.turns.get(turn_id)
        except (DamageError, NotFound) as error:
            return error

    def _measured(self, turns: dict[int, Turn | ConvfsError], turn: Turn, found: dict[int, Shown]) -> list[EventRow]:
        """Measure a turn, and those that follow it there and on its branch."""
        first = last = turn.turn_id
        while (
            isinstance(after := turns.get(last + 1), Turn)
            and after.turn_id not in found
            and after.depth == turn.depth + after.turn_id - first
            and after.parent == last
        ):
            last += 1
        position = partial(self._position, last)
        return self._store.viewer.rows([(first, last - first + 1)], turn.depth + 1, position)

    def _position(self, tip: int, number: int) -> int:
        return self._store.turns.seen(tip, number - 1)

    def _put(self, found: dict[int, Shown], turns: dict[int, Turn | ConvfsError], row: EventRow) -> None:
        turn = turns[row.turn]
        if isinstance(turn, Turn):
            number = turn.depth + 1
            found[row.turn] = (turn, row if row.number == number else structs.replace(row, number=number))

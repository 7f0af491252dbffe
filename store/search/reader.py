"""Turns as they are shown, whatever conversation they are in: their rows and events."""

from collections.abc import Sequence

from msgspec import structs

from store.conversations.library import Library
from store.disk.turn_format import Turn
from store.errors import ConvfsError, DamageError, NotFound
from store.events.conversation import EventRow

ShownTurn = tuple[Turn, EventRow]
"""A turn, and its row, which says how it is shown; the row's number is the same in every conversation that has it."""


class TurnReader:
    """Reads turns of one store, including those that are seen through patches, in any order."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def rows(self, ids: Sequence[int]) -> list[ShownTurn | ConvfsError]:
        """Return the turns ``ids``, all measured, or why they cannot be read: NotFound stands for reclaimed ones."""
        turns = self._turns(ids)
        found: dict[int, ShownTurn] = {}
        for turn_id, turn in turns.items():
            if isinstance(turn, Turn) and turn.reclaimed:
                turns[turn_id] = NotFound(f"turn {turn_id} was deleted for good")
        for row in self._library.views.rows([(turn_id, 1) for turn_id in turns], 1):
            self._put(found, turns, row)
        shown: list[ShownTurn | ConvfsError] = []
        for turn_id in ids:
            turn = turns[turn_id]
            if isinstance(turn, Turn) and turn_id not in found:
                try:
                    for row in self._measured(turns, turn, found):
                        self._put(found, turns, row)
                except ConvfsError as error:
                    shown.append(error)
                    continue
            shown.append(turn if isinstance(turn, ConvfsError) else found[turn_id])
        return shown

    def _turns(self, ids: Sequence[int]) -> dict[int, Turn | ConvfsError]:
        turns: dict[int, Turn | ConvfsError] = {}
        start = 0
        while start < len(ids):
            end = start + 1
            while end < len(ids) and ids[end] == ids[end - 1] + 1:
                end += 1
            try:
                turns.update((turn.turn_id, turn) for turn in self._library.turns.range(ids[start], end - start))
            except (DamageError, NotFound):
                for turn_id in ids[start:end]:
                    try:
                        turns[turn_id] = self._library.turns.get(turn_id)
                    except (DamageError, NotFound) as error:
                        turns[turn_id] = error
            start = end
        return turns

    def _measured(
        self, turns: dict[int, Turn | ConvfsError], turn: Turn, found: dict[int, ShownTurn]
    ) -> list[EventRow]:
        """Measure a turn, and those that follow it on its branch."""
        first = last = turn.turn_id
        while (
            isinstance(after := turns.get(last + 1), Turn)
            and after.turn_id not in found
            and after.depth == turn.depth + after.turn_id - first
            and after.parent == last
        ):
            last += 1
        seen = self._library.turns.seen
        return self._library.viewer.rows(
            [(first, last - first + 1)], turn.depth + 1, lambda number: seen(last, number - 1)
        )

    def _put(self, found: dict[int, ShownTurn], turns: dict[int, Turn | ConvfsError], row: EventRow) -> None:
        turn = turns[row.turn]
        if isinstance(turn, Turn):
            number = turn.depth + 1
            found[row.turn] = (turn, row if row.number == number else structs.replace(row, number=number))

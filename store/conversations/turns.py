"""Turns as conversations see them: those of the turn log, and those through patches.

The id of a turn that is seen through a patch has the patch's number in its upper bits (``store.ids``), so that the same
turn can be in one branch as it was appended and in another as it was corrected.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from store.conversations import branch
from store.disk.jumps import Jumps
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.errors import DamageError
from store.ids import TURNS_BEYOND, patch_of, tip_of, turn_of
from store.index.patches import Patches
from store.index.views import Run

_BLOCK = 16
_LARGEST_BLOCK = 512


class Turns:
    """Reads turns by ids, and branches by their tips. Safe to call from any thread."""

    def __init__(self, log: TurnLog, jumps: Jumps, patches: Patches) -> None:
        self._log = log
        self._jumps = jumps
        self._patches = patches

    def forget(self) -> None:
        """Forget what was read of patches: they say something else now."""
        self._patches.forget()

    def get(self, turn_id: int) -> Turn:
        """Return a turn as it is seen through a patch and those before it, or as it was appended.

        NotFound if there is none of that id, DamageError if its record is damaged.
        """
        if turn_id < TURNS_BEYOND:
            return self._log.get(turn_id)
        turn = self._log.get(turn_of(turn_id))
        number = self._patches.seen(patch_of(turn_id)).get(turn.turn_id)
        if number is None:
            return turn
        patch = self._patches.get(number)
        payload_hash, flags, created_ms = patch.turns[turn.turn_id]
        return msgspec.structs.replace(
            turn,
            turn_id=tip_of(turn.turn_id, number),
            payload_hash=payload_hash,
            flags=flags,
            created_ms=created_ms,
        )

    def range(self, first: int, count: int) -> list[Turn]:
        """Return the turns ``first``, ``first + 1`` …, ``count`` of them; raises as :meth:`get`."""
        if first < TURNS_BEYOND:
            return self._log.range(first, count)
        return [self.get(turn_id) for turn_id in range(first, first + count)]

    def ancestor(self, tip: int, depth: int) -> int:
        """Return the turn at ``depth`` of the branch that ends in ``tip``, 0 if it is not that long."""
        turn = turn_of(tip)
        return self._jumps.ancestor(turn, depth) if turn and 0 <= depth <= self._log.get(turn).depth else 0

    def seen(self, tip: int, depth: int) -> int:
        """Return the turn at ``depth`` of the branch that ends in ``tip`` as it is seen there, 0 if there is none."""
        return self.shown(tip, self.ancestor(tip, depth))

    def shown(self, tip: int, turn: int) -> int:
        """Return a turn of the branch that ends in ``tip`` as it is seen there."""
        return tip_of(turn, self._patches.seen(patch_of(tip)).get(turn, 0))

    def at(self, tip: int, last: int) -> int:
        """Return the turn that the branch which ends in ``tip`` ended in when ``last`` was the last of all turns."""
        return self._jumps.not_after(turn_of(tip), last)

    def back(self, tip: int, count: int) -> list[Turn]:
        """Return the last ``count`` turns of the branch that ends in ``tip``, oldest first."""
        turn_id, patch = turn_of(tip), patch_of(tip)
        seen = self._patches.seen(patch)
        found: list[Turn] = []
        block: list[Turn] = []
        low, size = 0, _BLOCK
        while turn_id and len(found) < count:
            if not low <= turn_id < low + len(block):
                # often they lie together, and sometimes very many
                size = min(4 * size, _LARGEST_BLOCK) if turn_id == low - 1 else _BLOCK
                low = max(1, turn_id + 1 - min(count - len(found), size))
                try:
                    block = self._log.range(low, turn_id + 1 - low)
                except DamageError:
                    # perhaps not of this branch
                    low, block = turn_id, [self._log.get(turn_id)]
            turn = block[turn_id - low]
            found.append(self.get(tip_of(turn_id, patch)) if turn_id in seen else turn)
            turn_id = turn.parent
        return found[::-1]

    def branch(self, turn: int, known: Mapping[int, tuple[Run, ...]]) -> tuple[Run, ...]:
        """Return the branch that ends in a turn, as it was appended; see :func:`branch.runs_to`."""
        return branch.runs_to(self._log, turn, known)

    def patched(self, runs: tuple[Run, ...], patch: int) -> tuple[Run, ...]:
        """Return the branch ``runs`` as it is seen through ``patch`` and those before it."""
        return branch.patched(runs, self._patches.seen(patch))

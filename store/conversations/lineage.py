"""What became of turns that edits have superseded: followed from the turn that was to the one that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from store.conversations import branch
from store.index.catalogue import Catalogue, Superseded
from store.index.views import Run

Stretch = tuple[int, int, int]
"""Turns that follow each other: the number of the first, its turn, and how many there are."""


class Lineage:
    """Answers from what edits have noted in the head log."""

    def __init__(self, catalogue: Catalogue, settle: Callable[[], None]) -> None:
        self._catalogue = catalogue
        self._settle = settle

    def successor(self, context: int, runs: tuple[Run, ...], turn: int, depth: int) -> int:
        """Return where in the branch ``runs`` of a context it goes on for who knows ``turn``, at ``depth``.

        That is the turn itself if it is in the branch, or never was in one of this context that was edited. Else it
        is what became of it; what was taken out leads to what is now at its depth, or to the end of the branch.
        """
        if branch.position(runs, depth + 1) == turn:
            return turn
        self._settle()
        at, seq = turn, 0
        while (step := self._catalogue.successor(context, at, seq)) is not None:
            at, seq = step.of(at), step.seq
            if not at:
                return branch.position(runs, min(depth + 1, branch.length(runs)))
        return at

    def trace(self, context: int, base: tuple[Run, ...]) -> list[Stretch]:
        """Return what became of the records of the branch ``base`` of a context, by their numbers there."""
        self._settle()
        stretches: list[Stretch] = []
        number = 1
        for first, count in base:
            stretches.append((number, first, count))
            number += count
        steps = self._catalogue.superseded(context)
        start = 0
        while start < len(steps):
            end = start
            while end < len(steps) and steps[end].seq == steps[start].seq:
                end += 1
            stretches = [part for stretch in stretches for part in _follow(stretch, steps[start:end])]
            start = end
        return stretches


def _follow(stretch: Stretch, steps: Sequence[Superseded]) -> list[Stretch]:
    """Return what became of a stretch by one edit, whose steps are in the order of the old turns."""
    number, turn, count = stretch
    found: list[Stretch] = []
    for step in steps:
        if step.old + step.count <= turn:
            continue
        if step.old >= turn + count:
            break
        if step.old > turn:
            found.append((number, turn, step.old - turn))
            number, turn, count = number + step.old - turn, step.old, count - (step.old - turn)
        taken = min(count, step.old + step.count - turn)
        if step.new:
            found.append((number, step.of(turn), taken))
        number, turn, count = number + taken, turn + taken, count - taken
        if not count:
            return found
    found.append((number, turn, count))
    return found

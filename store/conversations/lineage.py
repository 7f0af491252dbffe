"""What became of turns that edits have superseded: followed from the turn that was to the one that is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter

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

    def successor(self, context: int, turn: int) -> int | None:
        """Return what became of a turn that is not in the branch of a context as it now is; 0: it was taken out.

        None if no edit of this context tells of it. Patches change nothing of that.
        """
        self._settle()
        at, seq = turn, 0
        while at and (step := self._catalogue.successor(context, at, seq)) is not None:
            at, seq = step.of(at), step.seq
        return at if seq else None

    def places(self, context: int, base: tuple[Run, ...], ours: tuple[Run, ...]) -> list[tuple[int, int, int]]:
        """Return where the records of an earlier branch of a context now are in the branch ``ours``.

        (number there, number in ours, how many) each; those that are in ours no more are left out.
        """
        *_before, last = self._stages(context, base)
        return _held(last, ours)

    def places_then(self, context: int, base: tuple[Run, ...], ours: tuple[Run, ...]) -> dict[int, int]:
        """Return where the records of an earlier branch of a context were in one that ``ours`` was forked from.

        Numbers in ours by numbers there. What edits have made of the context since then changes nothing of it.
        """
        found: dict[int, int] = {}
        for stage in self._stages(context, base):
            for number, mine, count in _held(stage, ours):
                found.update(zip(range(number, number + count), range(mine, mine + count), strict=True))
        return found

    def _stages(self, context: int, base: tuple[Run, ...]) -> Iterator[list[Stretch]]:
        """Yield a branch, by its numbers, and what has become of its records by each edit since."""
        self._settle()
        stretches = list(_stretches(branch.plain(base)))
        yield stretches
        for _seq, steps in groupby(self._catalogue.superseded(context), key=attrgetter("seq")):
            edit = list(steps)
            stretches = [part for stretch in stretches for part in _follow(stretch, edit)]
            yield stretches


def _held(stretches: Sequence[Stretch], ours: tuple[Run, ...]) -> list[tuple[int, int, int]]:
    """Return which records of stretches a branch has: (number there, number in the branch, how many) each."""
    found: list[tuple[int, int, int]] = []
    held = sorted(_stretches(branch.plain(ours)), key=itemgetter(1))
    firsts = [turn for _number, turn, _count in held]
    for number, turn, count in stretches:
        at = max(bisect_right(firsts, turn) - 1, 0)
        while at < len(held) and held[at][1] < turn + count:
            mine, first, length = held[at]
            start, end = max(turn, first), min(turn + count, first + length)
            if start < end:
                found.append((number + start - turn, mine + start - first, end - start))
            at += 1
    return found


def _stretches(runs: tuple[Run, ...]) -> Iterator[Stretch]:
    number = 1
    for first, count in runs:
        yield number, first, count
        number += count


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

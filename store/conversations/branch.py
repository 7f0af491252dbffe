"""Branches: the turns from the root to a head, as runs of consecutive ids.

Turns that were imported together lie together in the turn log, so even a long branch is a handful of runs, and a run is
one range query. If a branch is seen through patches, the ids in its runs include them (``store.ids``).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from store.disk.turn_log import TurnLog
from store.errors import NotFound
from store.ids import tip_of, turn_of
from store.index.views import Run

_FIRST_BLOCK = 16
_BLOCK = 512


def meets(runs: Sequence[Run], turns: Sequence[int]) -> bool:
    """Return whether a branch has any of ``turns``, which are sorted."""
    return any((at := bisect_left(turns, first)) < len(turns) and turns[at] < first + count for first, count in runs)


def runs_to(
    log: TurnLog,
    head: int,
    known: Mapping[int, tuple[Run, ...]] = {},
    ancestor: Callable[[int, int], int] | None = None,
) -> tuple[Run, ...]:
    """Return the branch that ends in turn ``head``, root first; empty if ``head`` is 0.

    ``known`` has branches by their heads: a branch that goes on from one of them is read no further back.
    ``ancestor`` finds the turn at a depth of the branch that ends in a turn; with it, long runs are not gone through.
    NotFound if there is no such turn; DamageError if the record of a turn of the branch is damaged: what is before it
    cannot be known.
    """
    if head > log.count:
        raise NotFound(f"there is no turn {head}; the last is {log.count}")
    runs: list[Run] = []
    before: tuple[Run, ...] = ()
    turn = last = head
    depth = 0
    links: list[tuple[int, int] | None] = []
    low = head + 1
    while turn:
        if (found := known.get(turn)) is not None:
            before = found
            break
        if turn < low:
            # most branches that are asked for again have grown by a turn or two; of turns that follow each other
            # there are no more than their depth; others lie apart
            size = _FIRST_BLOCK if turn == head else _BLOCK if runs else min(depth or 1, _BLOCK)
            if ancestor is not None and last - turn >= _BLOCK:
                turn -= _more_of_run(turn, log.get(turn).depth, ancestor)
            low = max(1, turn - size + 1)
            links = log.links(low, turn - low + 1)
        if (link := links[turn - low]) is None:
            # says what is wrong with it; damaged ones that are not of this branch do not matter
            damaged = log.get(turn)
            link = damaged.parent, damaged.depth
        parent, depth = link
        if parent != turn - 1 or parent == 0:
            runs.append((turn, last - turn + 1))
            last = parent
        turn = parent
    if before and last > turn:
        # the run at hand goes on from where the known branch ends
        first, count = before[-1]
        runs.append((first, count + last - turn))
        before = before[:-1]
    return before + tuple(reversed(runs))


def _more_of_run(turn: int, depth: int, ancestor: Callable[[int, int], int]) -> int:
    """Return how many turns before ``turn`` are of the same run.

    Ids fall from a turn to its parent, so an ancestor whose id is as much less as it is farther away is of the run.
    """
    some, too_many = 0, depth + 1
    step = _BLOCK
    while some + 1 < too_many:
        at = min(some + step, too_many - 1)
        if ancestor(turn, depth - at) == turn - at:
            some, step = at, 2 * step
        else:
            too_many, step = at, max((at - some) // 2, 1)
    return some


def patched(runs: tuple[Run, ...], seen: Mapping[int, int]) -> tuple[Run, ...]:
    """Return a branch as it is seen through patches; ``seen`` says through which one each turn is that has one."""
    if not seen:
        return runs
    turns = sorted(seen)
    found: list[Run] = []
    for first, count in runs:
        start, end = first, first + count
        for turn in turns[bisect_left(turns, first) : bisect_left(turns, end)]:
            found += ((start, turn - start), (tip_of(turn, seen[turn]), 1))
            start = turn + 1
        found.append((start, end - start))
    return tuple(joined(found))


def plain(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return a branch as its turns were appended, without patches."""
    return tuple(joined((turn_of(first), count) for first, count in runs))


def joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield runs, those that continue each other as one, and none that are empty."""
    first, count = 0, 0
    for start, length in runs:
        if not length:
            continue
        if count and start == first + count:
            count += length
            continue
        if count:
            yield first, count
        first, count = start, length
    if count:
        yield first, count


def position(runs: tuple[Run, ...], number: int) -> int:
    """Return the turn id of record ``number`` (from 1) of a branch, 0 if it is not that long."""
    at = 1
    for first, count in runs:
        if number < at + count:
            return first + number - at if number >= at else 0
        at += count
    return 0


def part(runs: tuple[Run, ...], start: int, count: int) -> Iterator[Run]:
    """Yield the runs of up to ``count`` records of a branch from depth ``start`` (the first record's is 0) on."""
    for first, length in runs:
        if count <= 0:
            return
        if start < length:
            taken = min(length - start, count)
            yield first + start, taken
            count -= taken
        start = max(start - length, 0)


def length(runs: tuple[Run, ...]) -> int:
    """Return the number of records of a branch."""
    return sum(count for _first, count in runs)


def pairs(old: tuple[Run, ...], new: tuple[Run, ...], start: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first old turn, first new turn, how many) for ``count`` records that two branches have from ``start`` on.

    ``start`` is a depth: the first record's is 0.
    """
    others = part(new, start, count)
    to, left = next(others, (0, 0))
    for first, length in part(old, start, count):
        while length and left:
            taken = min(length, left)
            yield first, to, taken
            first, length, to, left = first + taken, length - taken, to + taken, left - taken
            if not left:
                to, left = next(others, (0, 0))


def shared(one: tuple[Run, ...], other: tuple[Run, ...]) -> int:
    """Return the number of records at the beginning that two branches have in common."""
    common = takewhile(lambda pair: pair[0] == pair[1], pairs(one, other, 0, length(one)))
    return sum(count for _first, _other, count in common)


def differences(old: tuple[Run, ...], new: tuple[Run, ...]) -> Iterator[tuple[int, int]]:
    """Yield where ``old`` has other turns than ``new``, or ``new`` has none: the depth of the first, and how many."""
    start = 0
    for one, other, count in pairs(old, new, 0, length(old)):
        if one != other:
            yield start, count
        start += count
    if start < (end := length(old)):
        yield start, end - start

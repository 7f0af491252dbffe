"""The order in which turns are read: branch after branch, each from its beginning on."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from store.disk.turn_log import TurnLog

_AT_ONCE = 4096


def reading_order(log: TurnLog, first: int) -> Iterator[int]:
    """Yield the ids of the turns from ``first`` on: each behind its parent, if nothing else followed that before.

    So what came to many conversations in turns is sorted out, and what forks from a branch, or took the place of its
    end, comes behind all of it. Takes 8 bytes of memory a turn; leaves out those whose records are damaged.
    """
    runs: list[array[int]] = []
    ends: dict[int, int] = {}
    for start in range(first, log.count + 1, _AT_ONCE):
        for turn, link in enumerate(log.links(start, _AT_ONCE), start):
            if link is None:
                continue
            run = ends.pop(link[0], -1)
            if run < 0:
                run = len(runs)
                runs.append(array("Q"))
            runs[run].append(turn)
            ends[turn] = run
    for turns in runs:
        yield from turns

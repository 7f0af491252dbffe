"""Turns that nothing leads to any more: their records are blanked, and nothing but their places is left.

Somebody finds out which they are while others go on committing, so it is looked at once more, with no commit coming
between: if anything that was committed since then names one of them (a client that goes on after a turn which it was
once told of, a version that is brought back), nothing is blanked, and all of it is found out anew another time. After
that nobody can name them: a turn that was reclaimed cannot be followed, and no frame leads to it.

A frame that says which they are is durable before the first record is written over. Records that a power failure has
torn in that are known by it to be no loss. What is blanked must have been in the log for good, not in a journal that
may be replayed: whoever begins has all of that checkpointed first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from store.commit.request import Request
from store.commit.writer import Writer
from store.disk.head_format import ContextCreated, Frame, HeadMoved, Reclaimed
from store.disk.turn_format import Turn
from store.ids import turn_of
from store.index.views import Run
from store.upkeep.turn_runs import TurnRuns

_AT_ONCE = 16_384
"""So many records are written over while commits wait."""


class Since(Struct, frozen=True):
    """A moment of a store: how long its head log was, and how many turns there were, all of them in their log."""

    heads_length: int
    turn_count: int


class Reclaiming:
    """Blanks turns: ``runs`` are all those that nothing led to at the moment ``since``.

    What is unshown (:class:`store.commit.unshown.Unshown`) is none of them. What is not blanked in the end must keep
    its payload.
    """

    def __init__(self, writer: Writer, runs: Iterable[Run], since: Since) -> None:
        self._writer = writer
        self._runs = TurnRuns(runs)
        self._looked_at = since
        self._led_to = False

    def run(self) -> int:
        """Blank them; return how many were, which is fewer where some are led to again. Raises StoreFailed."""
        done = 0
        for some in self._runs.batches(_AT_ONCE):
            # most of what has come since is looked at while others go on
            self._still()
            request = Request(0, move_head=False, notes=[Reclaimed(tuple(some))])
            if not self._writer.submit_then(request, self._still, partial(self._blank, some)):
                break
            done += sum(count for _first, count in some)
        try:
            self._writer.turns.sync()
        except OSError as error:
            raise self._writer.fail(error) from error
        return done

    def _blank(self, runs: Sequence[Run]) -> None:
        for first, count in runs:
            self._writer.turns.blank(first, count)

    def _still(self) -> bool:
        """Say whether nothing that has been committed since leads to any of them."""
        turns, heads = self._writer.turns, self._writer.head_log
        since, self._looked_at = self._looked_at, Since(heads.length, turns.count)
        for frame in heads.frames(since.heads_length):
            body = frame.body if isinstance(frame, Frame) else None
            if isinstance(body, HeadMoved):
                self._led_to |= turn_of(body.tip) in self._runs
            elif isinstance(body, ContextCreated):
                self._led_to |= body.base_turn in self._runs
            else:
                # nobody knows what a damaged one said
                self._led_to |= body is None
        for _turn_id, turn in turns.scan(since.turn_count + 1):
            self._led_to |= not isinstance(turn, Turn) or turn.parent in self._runs
        return not self._led_to

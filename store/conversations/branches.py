"""The turns of contexts, as branches."""

from __future__ import annotations

from collections.abc import Iterable

from store.commit.request import ContextHead
from store.commit.writer import Writer
from store.conversations import branch
from store.conversations.library import Library
from store.disk.head_format import HeadMoved, Patched
from store.disk.head_log import HeadLog
from store.disk.turn_format import Turn
from store.errors import NotFound, UsageError
from store.ids import patch_of, tip_of, turn_of
from store.index.views import Run


class Branches(Library):
    """Answers from the turn log and the patches; what it reads heads by is set by who makes it.

    Contexts show their turns as they now are: through the patches that hold for them.
    """

    _writer: Writer
    _head_log: HeadLog

    def head(self, context_id: int) -> ContextHead:
        """Return the head of a context; NotFound if there is none of that id."""
        return self._writer.head(context_id)

    def tip(self, context_id: int, seq: int | None = None) -> int:
        """Return the tip of a context, now or as of the frame ``seq`` of the head log; 0 if it was empty then.

        NotFound if there is no such context.
        """
        if seq is None:
            return self.head(context_id).tip
        self.entry(context_id)
        earlier = [version.head for version in self.versions(context_id) if version.seq <= seq]
        if not earlier:
            return 0
        # a version goes on with what is appended: how far it had come
        turns, frames = self._head_log.group_at(seq)
        runs = branch.plain(self.runs(earlier[-1]))
        there = next((min(first + count - 1, turns) for first, count in reversed(runs) if first <= turns), 0)
        tip = tip_of(there, patch_of(earlier[-1]) if there else 0)
        for body in (frame.body for frame in frames if frame.context == context_id):
            if isinstance(body, HeadMoved):
                tip = body.tip
            elif isinstance(body, Patched):
                tip = tip_of(turn_of(tip), body.number)
        return tip

    def turn(self, turn_id: int) -> Turn:
        """Return a turn, also one that is seen through a patch; NotFound if there is none of that id."""
        return self._turns.get(turn_id)

    def last(self, context_id: int, count: int) -> list[Turn]:
        """Return the last ``count`` turns of a context, oldest first."""
        return self._back_from(self.head(context_id).tip, count)

    def before(self, context_id: int, turn_id: int, count: int) -> list[Turn]:
        """Return the ``count`` turns before ``turn_id`` in a context, oldest first, without it."""
        parent = self._position(context_id, turn_id).parent
        return self._back_from(tip_of(parent, self.head(context_id).patch), count)

    def range_by_depth(self, context_id: int, start: int, count: int) -> list[Turn]:
        """Return up to ``count`` turns of a context from depth ``start`` (the root's is 0) on, oldest first."""
        if start < 0 or count < 0:
            raise UsageError("a range starts at depth 0 or later and has no negative length")
        return self._turns_of(branch.part(self.runs(self.head(context_id).tip), start, count))

    def path_to_root(self, turn_id: int) -> list[Turn]:
        """Return every turn from the root to ``turn_id``, which may be a tip."""
        self.turn(turn_id)
        return self._turns_of(self.runs(turn_id))

    def goes_on(self, old: int, new: int) -> bool:
        """Return whether the branch whose tip is ``new`` is that of the tip ``old``, or has grown from it."""
        if old == new:
            return True
        turn = turn_of(old)
        known = branch.position(self.runs(turn_of(new)), self.turn(turn).depth + 1) if turn else 0
        return patch_of(old) == patch_of(new) and known == turn

    def _position(self, context_id: int, turn_id: int) -> Turn:
        """Return a turn that must be in a context."""
        turn = self.turn(turn_of(turn_id))
        if branch.position(self.runs(self.head(context_id).turn), turn.depth + 1) != turn.turn_id:
            raise NotFound(f"turn {turn_id} is not in context {context_id}")
        return turn

    def _turns_of(self, runs: Iterable[Run]) -> list[Turn]:
        return [turn for first, count in runs for turn in self._turns.range(first, count)]

    def _back_from(self, tip: int, count: int) -> list[Turn]:
        found: list[Turn] = []
        turn_id, patch = turn_of(tip), patch_of(tip)
        while turn_id and len(found) < count:
            turn = self.turn(tip_of(turn_id, patch))
            found.append(turn)
            turn_id = turn.parent
        return found[::-1]

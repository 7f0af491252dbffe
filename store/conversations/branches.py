"""The turns of contexts, as branches."""

from __future__ import annotations

from store.commit.request import ContextHead
from store.commit.writer import Writer
from store.conversations.library import Library
from store.disk.head_format import HeadMoved, Patched
from store.disk.head_log import HeadLog
from store.disk.turn_format import Turn
from store.errors import NotFound, UsageError
from store.ids import patch_of, tip_of, turn_of


class Branches(Library):
    """Answers from the turn log and the patches; what it reads heads by is set by who makes it.

    Contexts show their turns as they now are: through the patches that hold for them.
    """

    _writer: Writer
    _head_log: HeadLog

    def head(self, context_id: int) -> ContextHead:
        """Return the head of a context; NotFound if there is none of that id."""
        return self._writer.head(context_id)

    def has_context(self, context_id: int) -> bool:
        """Say whether there is a context of that id."""
        try:
            self.head(context_id)
        except NotFound:
            return False
        return True

    def tip(self, context_id: int, seq: int | None = None) -> int:
        """Return the tip of a context, now or as of the frame ``seq`` of the head log; 0 if it was empty then.

        NotFound if there is no such context, or it is not known any more what it was then.
        """
        if seq is None:
            return self.head(context_id).tip
        self.entry(context_id)
        earlier = [version.head for version in self.versions(context_id) if version.seq <= seq]
        if not earlier:
            if self._catalogue.pruned_versions(context_id):
                raise NotFound(f"what context {context_id} was at {seq} was pruned")
            return 0
        # a version goes on with what is appended: how far it had come
        turns, frames = self._head_log.group_at(seq)
        there = self._turns.at(earlier[-1], turns)
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

    def last(self, context_id: int, count: int, *, latest: bool = False, as_of: int | None = None) -> list[Turn]:
        """Return the last ``count`` turns of a context, oldest first.

        As they were appended; ``latest``: as they now are, through patches, and what was deleted flagged so. ``as_of``
        is a seq of the head log: as they were then, through the patches of that time.
        """
        return self.back_from(self._end(context_id, latest, as_of), count)

    def before(
        self, context_id: int, turn_id: int, count: int, *, latest: bool = False, as_of: int | None = None
    ) -> list[Turn]:
        """Return the ``count`` turns before ``turn_id`` in a context, oldest first, without it; else as :meth:`last`.

        Of a turn that an edit has superseded, those that it was appended after; ``latest``: those before what became
        of it, or before what is now at its depth. NotFound if the turn neither is in the context nor ever was.
        """
        turn = self.turn(turn_of(turn_id))
        end = self._end(context_id, latest, as_of)
        depth = turn.depth
        if self._turns.ancestor(end, depth) != turn.turn_id:
            became = self.lineage.successor(context_id, turn.turn_id)
            if became is None:
                raise NotFound(f"turn {turn_id} is not in context {context_id}")
            if not latest and as_of is None:
                end = turn.turn_id
            elif became:
                depth = self.turn(became).depth
        return self._turns.back(self._before(end, depth), max(count, 0))

    def range_by_depth(
        self, context_id: int, start: int, count: int, *, latest: bool = False, as_of: int | None = None
    ) -> list[Turn]:
        """Return up to ``count`` turns of a context from depth ``start`` (the root's is 0) on; else as :meth:`last`."""
        return self.range_to(self._end(context_id, latest, as_of), start, count)

    def back_from(self, tip: int, count: int) -> list[Turn]:
        """Return the last ``count`` turns of the branch that ends in a tip, oldest first."""
        return self._turns.back(tip, max(count, 0))

    def range_to(self, tip: int, start: int, count: int) -> list[Turn]:
        """Return up to ``count`` turns, from depth ``start`` on, of the branch that ends in a tip, oldest first."""
        if start < 0 or count < 0:
            raise UsageError("a range starts at depth 0 or later and has no negative length")
        if not tip or not count or start > (depth := self.turn(turn_of(tip)).depth):
            return []
        stop = min(start + count - 1, depth)
        return self._turns.back(tip_of(self._turns.ancestor(tip, stop), patch_of(tip)), stop - start + 1)

    def path_to_root(self, turn_id: int) -> list[Turn]:
        """Return every turn from the root to ``turn_id``, which may be a tip."""
        return self._turns.back(turn_id, self.turn(turn_id).depth + 1)

    def goes_on(self, old: int, new: int) -> bool:
        """Return whether the branch whose tip is ``new`` is that of the tip ``old``, or has grown from it."""
        if old == new:
            return True
        turn = turn_of(old)
        known = self._turns.ancestor(new, self.turn(turn).depth) if turn else 0
        return patch_of(old) == patch_of(new) and known == turn

    def _end(self, context_id: int, latest: bool, as_of: int | None) -> int:
        """Return the tip at which reading begins."""
        if as_of is not None:
            return self.tip(context_id, as_of)
        head = self.head(context_id)
        return head.tip if latest else head.turn

    def _before(self, tip: int, depth: int) -> int:
        """Return the tip of the part of a branch that is less deep than ``depth``."""
        if not tip or not depth:
            return 0
        return tip_of(self._turns.ancestor(tip, min(depth - 1, self.turn(tip).depth)), patch_of(tip))

    def _position(self, context_id: int, turn_id: int) -> Turn:
        """Return a turn that must be in a context."""
        turn = self.turn(turn_of(turn_id))
        if self._turns.ancestor(self.head(context_id).turn, turn.depth) != turn.turn_id:
            raise NotFound(f"turn {turn_id} is not in context {context_id}")
        return turn

    def _became(self, head: ContextHead, turn: Turn) -> int | None:
        """Return what a turn now is in the branch of a context: itself, or what took its place; 0: it was taken out.

        None where neither it nor what became of it ever was in a branch of this context that was edited.
        """
        if self._turns.ancestor(head.turn, turn.depth) == turn.turn_id:
            return turn.turn_id
        return self.lineage.successor(head.context, turn.turn_id)

    def _goes_on_at(self, head: ContextHead, turn: Turn) -> int:
        """Return which turn of the branch of a context follows for who goes on after ``turn``.

        What was taken out leads to what is now at its depth, or to the end of the branch; what never was in a branch of
        this context that was edited, to itself.
        """
        became = self._became(head, turn)
        if became is None:
            return turn.turn_id
        return became or self._turns.ancestor(head.turn, min(turn.depth, head.depth))

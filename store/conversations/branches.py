"""The turns of contexts, as branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from store.commit.request import ContextHead
from store.conversations import branch
from store.conversations.library import Library
from store.conversations.viewer import Viewer
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.errors import NotFound, UsageError
from store.index.catalogue import Catalogue
from store.index.views import Run, Views


class Branches(Library):
    """Answers from the turn log; ``head`` returns the head of a context."""

    def __init__(
        self,
        catalogue: Catalogue,
        views: Views,
        viewer: Viewer,
        turns: TurnLog,
        settle: Callable[[], None],
        cached_branches: int,
        head: Callable[[int], ContextHead],
    ) -> None:
        super().__init__(catalogue, views, viewer, turns, settle, cached_branches)
        self._head = head

    def head(self, context_id: int) -> ContextHead:
        """Return the head of a context; NotFound if there is none of that id."""
        return self._head(context_id)

    def turn(self, turn_id: int) -> Turn:
        """Return a turn; NotFound if there is none of that id."""
        return self._turns.get(turn_id)

    def last(self, context_id: int, count: int) -> list[Turn]:
        """Return the last ``count`` turns of a context, oldest first."""
        return self._back_from(self.head(context_id).turn, count)

    def before(self, context_id: int, turn_id: int, count: int) -> list[Turn]:
        """Return the ``count`` turns before ``turn_id`` in a context, oldest first, without it."""
        return self._back_from(self._position(context_id, turn_id).parent, count)

    def range_by_depth(self, context_id: int, start: int, count: int) -> list[Turn]:
        """Return up to ``count`` turns of a context from depth ``start`` (the root's is 0) on, oldest first."""
        if start < 0 or count < 0:
            raise UsageError("a range starts at depth 0 or later and has no negative length")
        return self._turns_of(branch.part(self.runs(self.head(context_id).turn), start, count))

    def path_to_root(self, turn_id: int) -> list[Turn]:
        """Return every turn from the root to ``turn_id``."""
        self.turn(turn_id)
        return self._turns_of(self.runs(turn_id))

    def _position(self, context_id: int, turn_id: int) -> Turn:
        """Return a turn that must be in a context."""
        turn = self.turn(turn_id)
        if branch.position(self.runs(self.head(context_id).turn), turn.depth + 1) != turn_id:
            raise NotFound(f"turn {turn_id} is not in context {context_id}")
        return turn

    def _turns_of(self, runs: Iterable[Run]) -> list[Turn]:
        return [turn for first, count in runs for turn in self._turns.range(first, count)]

    def _back_from(self, turn_id: int, count: int) -> list[Turn]:
        found: list[Turn] = []
        while turn_id and len(found) < count:
            turn = self.turn(turn_id)
            found.append(turn)
            turn_id = turn.parent
        return found[::-1]

"""Turns that no branch shows yet: those of an import or of a large edit, which a last request is to show.

Nothing leads to them, and they are no garbage. Where that last request never comes, they are known here until the store
is closed; what a store holds of them when it is opened is nobody's.
"""

from collections.abc import Iterable, Sequence

from store.commit.request import Request


class Unshown:
    """Takes note of what is committed, in order, by the thread that commits it."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}
        """By the last turn of each request: what comes before its first."""

    def note(self, group: Sequence[Request]) -> None:
        """Take note of requests that have been committed, or have an error."""
        for request in group:
            if request.error is not None:
                continue
            if request.context == 0 and request.written:
                self._parents[request.written[-1].turn_id] = request.written[0].parent
            elif self._parents and request.written:
                self._show(request.written[0].parent)
            elif self._parents:
                self._show(request.head.turn)

    def _show(self, turn: int) -> None:
        while (parent := self._parents.pop(turn, None)) is not None:
            turn = parent

    def ends(self) -> Iterable[int]:
        """Return turns that all of them are, or lead to. Safe to call from any thread."""
        return list(self._parents)

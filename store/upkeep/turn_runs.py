"""Many turns, as runs of consecutive ids: what lies together was mostly appended together."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from store.index.views import Run


class TurnRuns:
    """The turns of some runs, in whatever order these are given; of what they have in common, once."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._firsts: list[int] = []
        self._beyond: list[int] = []
        for first, count in sorted(runs):
            if self._beyond and first <= self._beyond[-1]:
                self._beyond[-1] = max(self._beyond[-1], first + count)
            elif count:
                self._firsts.append(first)
                self._beyond.append(first + count)

    def __contains__(self, turn: int) -> bool:
        at = bisect_right(self._firsts, turn) - 1
        return at >= 0 and turn < self._beyond[at]

    def runs(self) -> Iterator[Run]:
        """Yield the runs, in order."""
        return ((first, beyond - first) for first, beyond in zip(self._firsts, self._beyond, strict=True))

    def batches(self, most: int) -> Iterator[list[Run]]:
        """Yield the runs in order, not more than ``most`` turns together."""
        some: list[Run] = []
        room = most
        for first, beyond in zip(self._firsts, self._beyond, strict=True):
            while first < beyond:
                taken = min(beyond - first, room)
                some.append((first, taken))
                first, room = first + taken, room - taken
                if not room:
                    yield some
                    some, room = [], most
        if some:
            yield some

"""The rows of branches that are at hand: a branch that goes on from another shares its rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import overload

from store.events.conversation import EventRow
from store.ids import patch_of, turn_of

_MOST_ROWS = 1 << 18
_TIPS = 2
"""By so many tips a list is known: who has not heard yet that a branch has grown asks by the one before."""


class Rows(Sequence[EventRow]):
    """The rows of one branch, root first: the first ``count`` of a list which longer branches may have added to."""

    __slots__ = ("_count", "shared")

    def __init__(self, shared: list[EventRow], count: int) -> None:
        self.shared = shared
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> EventRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[EventRow]: ...

    def __getitem__(self, index: int | slice) -> EventRow | list[EventRow]:
        if isinstance(index, slice):
            if index.step is not None and index.step < 0:
                return self.shared[: self._count][index]
            return self.shared[slice(*index.indices(self._count))]
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError("there is no row of that number")
        return self.shared[index]

    def __iter__(self) -> Iterator[EventRow]:
        return islice(self.shared, self._count)

    def begins(self, other: Rows) -> bool:
        """Say whether ``other`` is known to be these rows, and perhaps some after them."""
        return self.shared is other.shared and self._count <= len(other)


NO_ROWS = Rows([], 0)
"""Those of an empty branch."""


class _Line:
    """A list of rows, and those tips whose branches are a beginning of it, with their lengths."""

    __slots__ = ("root", "rows", "tips")

    def __init__(self, root: int, rows: list[EventRow]) -> None:
        self.root = root
        self.rows = rows
        self.tips: dict[int, int] = {}


class RowsAtHand:
    """Remembers the rows of branches by their tips, for a while. Safe to call from any thread.

    ``ancestor`` as of :class:`store.conversations.turns.Turns`; ``most`` is how many branches there may be.
    """

    def __init__(self, ancestor: Callable[[int, int], int], most: int) -> None:
        self._ancestor = ancestor
        self._most = max(most, 1)
        self._lock = threading.Lock()
        self._lines: OrderedDict[int, _Line] = OrderedDict()
        """By the identities of their lists."""
        self._by_tip: dict[int, _Line] = {}
        self._by_root: dict[int, list[_Line]] = {}
        self._held = 0

    def get(self, tip: int) -> Rows | None:
        """Return the rows of a branch, None if they are not at hand."""
        with self._lock:
            line = self._by_tip.get(tip)
            if line is None:
                return None
            self._lines.move_to_end(id(line.rows))
            return Rows(line.rows, line.tips[tip])

    def before(self, tip: int) -> Rows | None:
        """Return the rows of the longest branch at hand that the one of ``tip`` has grown from, None if none is."""
        patch = patch_of(tip)
        root = self._ancestor(tip, 0)
        with self._lock:
            known = [
                (count, turn_of(earlier), line.rows)
                for line in self._by_root.get(root, ())
                for earlier, count in line.tips.items()
                if patch_of(earlier) == patch
            ]
        for count, turn, rows in sorted(known, key=itemgetter(0), reverse=True):
            if self._ancestor(tip, count - 1) == turn:
                return Rows(rows, count)
        return None

    def put(self, tip: int, rows: Sequence[EventRow], before: Rows | None = None) -> Rows:
        """Take note that the branch of ``tip`` is ``before`` and ``rows``, or these alone; return its rows."""
        with self._lock:
            line = None
            if before is not None:
                if (there := self._by_tip.get(tip)) is not None:
                    # somebody else has just said so
                    return Rows(there.rows, there.tips[tip])
                line = self._lines.get(id(before.shared))
                if line is None or len(line.rows) != len(before):
                    # it is not at hand any more, or another branch has gone on from there, if not this very one
                    line, rows = None, [*before, *rows]
            if line is None:
                self._forget(tip)
                root = turn_of(rows[0].turn) if rows else 0
                line = _Line(root, [])
                self._lines[id(line.rows)] = line
                self._by_root.setdefault(root, []).append(line)
            line.rows.extend(rows)
            self._held += len(rows)
            line.tips[tip] = len(line.rows)
            self._by_tip[tip] = line
            while len(line.tips) > _TIPS:
                oldest = next(iter(line.tips))
                del line.tips[oldest], self._by_tip[oldest]
            self._lines.move_to_end(id(line.rows))
            while len(self._lines) > 1 and (self._held > _MOST_ROWS or len(self._lines) > self._most):
                self._drop(next(iter(self._lines.values())))
            return Rows(line.rows, len(line.rows))

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            for line in list(self._lines.values()):
                self._drop(line)

    def _forget(self, tip: int) -> None:
        """Forget one branch, and the list of its rows if it is no other's."""
        line = self._by_tip.pop(tip, None)
        if line is not None:
            del line.tips[tip]
            if not line.tips:
                self._drop(line)

    def _drop(self, line: _Line) -> None:
        del self._lines[id(line.rows)]
        self._held -= len(line.rows)
        for tip in line.tips:
            del self._by_tip[tip]
        lines = self._by_root[line.root]
        lines.remove(line)
        if not lines:
            del self._by_root[line.root]

"""What a program goes on writing meets what people have changed in it.

There are three branches: what the program had written before (``base``), what it has written now (``theirs``), and
the conversation as it stands (``ours``), which came from ``base`` by edits. What the program adds is added; what it
changes is changed, unless somebody has changed that very record: no program's next write undoes a correction.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import itemgetter

import msgspec

from store.commit.request import NewTurn, Request
from store.conversations import branch
from store.disk.turn_format import EDITED, Turn
from store.editing.commit import commit
from store.editing.measuring import measure
from store.editing.plan import Base, Fresh, Kept, Piece, Plan
from store.errors import Conflict
from store.ids import now_ms
from store.index.views import Run
from store.store import Store


def bring(store: Store, context: int, base: int, theirs: int, changes: dict[str, object]) -> None:
    """Bring into a conversation what an import made of a session, in one commit with the metadata ``changes``.

    ``base`` is the head that the import before made, ``theirs`` the one of a branch that this one has appended, which
    no context shows.
    """
    if base == theirs:
        store.submit(Request(context, changes=msgspec.json.encode(changes)))
        return
    known, told = store.entry(context).updated_ms, changes.get("updated_ms")
    updated = max(known, told if isinstance(told, int) else 0)
    encoded = msgspec.json.encode({**changes, "imported_head": theirs, "updated_ms": updated})
    while True:
        head = store.head(context)
        runs = store.runs(head.tip)
        ours = Base(head, runs, branch.length(runs))
        merged = _Merge(store, context, store.runs(base), store.runs(theirs), ours)
        plan = Plan(ours, merged.pieces())
        try:
            now = commit(store, context, plan, "import", changes=encoded, aside=merged.aside(plan))
        except Conflict:
            continue
        measure(store, context, plan, now)
        return


class _Merge:
    """Works out what a conversation is to become, record by record of the two branches behind what they share."""

    def __init__(self, store: Store, context: int, base: tuple[Run, ...], theirs: tuple[Run, ...], ours: Base) -> None:
        shared = _shared(base, theirs)
        gone = _behind(store, base, shared)
        self._ours = ours
        self._come = come = _behind(store, theirs, shared)
        self._instead: dict[int, Turn | None] = {}
        """What takes the place of our records, by number: None where nothing does."""
        self._here: dict[int, int] = {}
        """The numbers of our records that stand for theirs, by turn."""
        self._end = ours.length
        """The number of the record that new ones follow."""
        same = _same_end(gone, come)
        changed = len(gone) - same
        # as many as were rewritten are the same records with other content; what is more, or less, stands behind them
        paired = min(changed, len(come) - same)
        self._extra = come[paired : len(come) - same]
        places: dict[int, int] = {}
        if gone:
            for number, mine, count in store.lineage.places(context, base, ours.runs):
                places.update(zip(range(number, number + count), range(mine, mine + count), strict=True))
        for at, was in enumerate(gone):
            here = places.get(shared + 1 + at)
            if here is None:
                continue
            if at >= changed:
                self._end = min(self._end, here - 1)
                self._here[come[len(come) - len(gone) + at].turn_id] = here
                continue
            edited = not _alike(was, store.turn(branch.position(ours.runs, here)))
            if at < paired:
                self._here[come[at].turn_id] = here
            if not edited:
                self._instead[here] = come[at] if at < paired else None

    def pieces(self) -> Iterator[Piece]:
        """Yield what the branch is to be."""
        done = 0
        for number in sorted({*self._instead, self._end}):
            kept = number - 1 if number in self._instead else number
            yield Kept(done + 1, kept - done)
            if (turn := self._instead.get(number)) is not None:
                yield Fresh(_edited(turn), number)
            if number == self._end:
                yield from map(Fresh, self._extra)
            done = number
        yield Kept(done + 1, self._ours.length - done)

    def aside(self, plan: Plan) -> list[tuple[int, int, int]]:
        """Say where the turns of theirs are found in the branch: (first turn, how many, number or 0 for nowhere)."""
        ours: list[tuple[int, int]] = [(1, 1)]
        numbers: dict[int, int] = {}
        extra = iter(self._extra)
        for number, piece in plan.numbered():
            if isinstance(piece, Kept):
                ours.append((piece.first, number))
            elif piece.replaces:
                ours.append((piece.replaces, number))
            else:
                numbers[next(extra).turn_id] = number
        for turn, mine in self._here.items():
            first, number = ours[bisect_right(ours, mine, key=itemgetter(0)) - 1]
            numbers[turn] = number + mine - first
        found: list[tuple[int, int, int]] = []
        for come in self._come:
            turn, number = come.turn_id, numbers.get(come.turn_id, 0)
            if found:
                first, count, start = found[-1]
                if turn == first + count and number == (start + count if start else 0):
                    found[-1] = (first, count + 1, start)
                    continue
            found.append((turn, 1, number))
        return found


def _shared(one: tuple[Run, ...], other: tuple[Run, ...]) -> int:
    """Return how many turns two branches have in common."""
    common = takewhile(lambda pair: pair[0] == pair[1], branch.pairs(one, other, 0, branch.length(one)))
    return sum(count for _first, _other, count in common)


def _behind(store: Store, runs: tuple[Run, ...], depth: int) -> list[Turn]:
    """Return the turns of a branch from ``depth`` on."""
    return [turn for run in branch.part(runs, depth, branch.length(runs)) for turn in store.turns.range(*run)]


def _same_end(one: Sequence[Turn], other: Sequence[Turn]) -> int:
    """Return how many records at their ends two sequences have in common."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return sum(1 for _pair in takewhile(lambda pair: _alike(*pair), pairs))


def _alike(one: Turn, other: Turn) -> bool:
    return (one.payload_hash, one.type_tag, one.deleted) == (other.payload_hash, other.type_tag, other.deleted)


def _edited(turn: Turn) -> NewTurn:
    return NewTurn(turn.payload_hash, turn.type_tag, turn.codec, turn.flags | EDITED, now_ms())

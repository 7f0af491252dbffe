"""Merge: combines a program's later writes with the edits that people have made to the conversation.

There are three branches: the program's earlier records (``base``), its records now (``theirs``), and the conversation
as it stands (``ours``), which came from ``base`` by edits. Records that the program adds are added. Records that it
changes are changed, unless somebody has edited that very record: no program's next write undoes a correction.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import takewhile
from operator import itemgetter

import msgspec

from store.commit.request import NewTurn, Request
from store.conversations import branch
from store.disk.turn_format import EDITED, Turn
from store.editing.commit import Base, Fresh, Kept, Piece, Plan, commit
from store.editing.measurer import measure
from store.errors import Conflict
from store.ids import now_ms
from store.index.views import Run
from store.store import Store


def bring(store: Store, context: int, base: int, theirs: int, changes: dict[str, object]) -> None:
    """Merge an imported session into a conversation, in one commit with the metadata ``changes``.

    ``base`` is the head that the import before made, ``theirs`` the one of a branch that this one has appended, which
    no context shows.
    """
    if base == theirs:
        store.writer.submit(Request(context, changes=msgspec.json.encode(changes)))
        return
    known, told = store.catalogue.entry(context).updated_ms, changes.get("updated_ms")
    updated = max(known, told if isinstance(told, int) else 0)
    encoded = msgspec.json.encode({**changes, "imported_head": theirs, "updated_ms": updated})
    with store.writer.precedence.attempts(context) as attempt:
        while True:
            attempt()
            head = store.writer.head(context)
            runs = store.records.runs(head.tip)
            ours = Base(head, runs, branch.length(runs))
            merged = _Merge(store, context, store.records.runs(base), store.records.runs(theirs), ours)
            plan = Plan(ours, merged.pieces())
            try:
                now = commit(store, context, plan, "import", changes=encoded, aside=merged.aside(plan))
            except Conflict:
                continue
            measure(store, context, plan, now)
            return


class _Merge:
    """Computes the merged conversation, record by record of the two branches after their shared part."""

    def __init__(self, store: Store, context: int, base: tuple[Run, ...], theirs: tuple[Run, ...], ours: Base) -> None:
        shared = branch.shared(base, theirs)
        gone = _behind(store, base, shared)
        self._store = store
        self._ours = ours
        self._come = come = _behind(store, theirs, shared)
        self._instead: dict[int, Turn | None] = {}
        """The replacements of our records, by number: None where a record is taken out."""
        self._here: dict[int, int] = {}
        """The numbers of our records that stand for theirs, by turn."""
        self._end = ours.length
        """The number of the record that new ones follow."""
        ends = zip(reversed(gone), reversed(come), strict=False)
        same = sum(1 for _pair in takewhile(lambda pair: _alike(*pair), ends))
        changed = len(gone) - same
        # as many as were rewritten are the same records with other content; what is more, or less, stands behind them
        paired = min(changed, len(come) - same)
        self._extra = come[paired : len(come) - same]
        places: dict[int, int] = {}
        if gone:
            for number, mine, count in store.library.lineage.places(context, base, ours.runs):
                places.update(zip(range(number, number + count), range(mine, mine + count), strict=True))
        for at, was in enumerate(gone):
            here = places.get(shared + 1 + at)
            if here is None:
                continue
            if at >= changed:
                self._end = min(self._end, here - 1)
                self._here[come[len(come) - len(gone) + at].turn_id] = here
                continue
            edited = not _alike(was, store.turns.get(branch.position(ours.runs, here)))
            if at < paired:
                self._here[come[at].turn_id] = here
            if not edited:
                self._instead[here] = come[at] if at < paired else None
        if self._extra:
            self._pass_known(context, base)

    def _pass_known(self, context: int, base: tuple[Run, ...]) -> None:
        """Take records that ours goes on with for theirs: they came from another store, which had them sooner."""
        last = branch.length(base)
        at = 0
        for number, mine, count in self._store.library.lineage.places(context, base, self._ours.runs):
            if number <= last < number + count:
                at = mine + last - number
        while at and self._extra and at < self._ours.length:
            turn = self._store.turns.get(branch.position(self._ours.runs, at + 1))
            if not _alike(self._extra[0], turn):
                return
            at += 1
            self._here[self._extra[0].turn_id] = at
            self._extra = self._extra[1:]

    def pieces(self) -> Iterator[Piece]:
        done = 0
        for number in sorted({*self._instead, self._end}):
            kept = number - 1 if number in self._instead else number
            yield Kept(done + 1, kept - done)
            if (turn := self._instead.get(number)) is not None:
                flags = turn.flags | EDITED
                yield Fresh(NewTurn(turn.payload_hash, turn.type_tag, turn.codec, flags, now_ms()), number)
            if number == self._end:
                yield from map(Fresh, self._extra)
            done = number
        yield Kept(done + 1, self._ours.length - done)

    def aside(self, plan: Plan) -> list[tuple[int, int, int]]:
        """Return the places of their turns in the branch: (first turn, count, number, or 0 if it is not there)."""
        ours: list[tuple[int, int]] = [(1, 1)]
        numbers: dict[int, int] = {}
        extra = iter(self._extra)
        for number, piece in plan.numbered():
            if isinstance(piece, Kept) or piece.first:
                ours.append((piece.first, number))
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


def _behind(store: Store, runs: tuple[Run, ...], depth: int) -> list[Turn]:
    return [turn for run in branch.part(runs, depth, branch.length(runs)) for turn in store.turns.range(*run)]


def _alike(one: Turn, other: Turn) -> bool:
    return (one.payload_hash, one.type_tag, one.deleted) == (other.payload_hash, other.type_tag, other.deleted)

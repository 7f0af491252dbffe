"""An edit on its way to disk: the records that change and all after them are appended again, then the head moves.

Patch: an edit that appends nothing. The records that it changes are seen through it from then on.

Names that other records refer to must stay the same, since these records keep their measures. So a patch changes
records in their places, and none of the names that they define; every other edit is made as a branch.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from msgspec import Struct

from store.commit.request import ContextHead, NewTurn, Request
from store.content.compression import LEAST_BYTES
from store.conversations import branch
from store.conversations.contexts import Append
from store.disk.turn_format import Turn
from store.events.event import Replacement
from store.ids import Hash, turn_of
from store.index.views import Run
from store.store import Store

Superseded = tuple[int, int, int]


class Changed(Struct, frozen=True):
    """Record ``number`` of the branch with other content."""

    number: int
    content: Replacement


Item = int | Changed | Append
"""A record of the branch to be: one that is there, by number; one that is there, changed; a new one."""


class Kept(Struct, frozen=True):
    """``count`` records as they are, from number ``first`` of the branch that was."""

    first: int
    count: int


class Fresh(Struct, frozen=True):
    """A record to be written, in place of record ``first`` (0: none); ``payload`` is None where the store has it."""

    count: ClassVar[int] = 1
    turn: NewTurn | Turn
    first: int = 0
    payload: bytes | None = None


Piece = Kept | Fresh


class Base(Struct, frozen=True):
    """The branch that was, or that now is."""

    head: ContextHead
    runs: tuple[Run, ...]
    length: int


class Plan:
    """A branch to be, in pieces. Its first ``prefix`` records are those of the branch that was, turns and all."""

    def __init__(self, base: Base, pieces: Iterable[Piece]) -> None:
        self.base = base
        joined = _joined(pieces)
        first = joined[0] if joined else None
        self.prefix = first.count if isinstance(first, Kept) and first.first == 1 else 0
        self.pieces: Sequence[Piece] = joined[1:] if self.prefix else joined
        """The pieces after the prefix."""
        self.length = self.prefix + sum(piece.count for piece in self.pieces)

    @property
    def changes_nothing(self) -> bool:
        """True if the branch stays the same."""
        return not self.pieces and self.prefix == self.base.length

    @property
    def repeats(self) -> int:
        """The number of records that a branch would have to append again as they are."""
        return sum(piece.count for piece in self.pieces if isinstance(piece, Kept))

    @property
    def in_place(self) -> bool:
        """True if all records keep their places, and none is added or taken out."""
        return self.length == self.base.length and all(number == piece.first for number, piece in self.numbered())

    @property
    def payloads(self) -> list[bytes]:
        return [piece.payload for piece in self.pieces if isinstance(piece, Fresh) and piece.payload is not None]

    def numbered(self) -> Iterator[tuple[int, Piece]]:
        """Yield the pieces after the prefix, each with the number of its first record."""
        number = self.prefix + 1
        for piece in self.pieces:
            yield number, piece
            number += piece.count

    def superseded(self) -> list[tuple[int, int, int]]:
        """Return what becomes of the turns after the prefix: (first turn, how many, new number or 0 for nothing)."""
        found: list[tuple[int, int, int]] = []
        at = self.prefix + 1
        places = [(piece.first, piece.count, number) for number, piece in self.numbered()]
        for first, count, number in [*sorted(places), (self.base.length + 1, 0, 0)]:
            if first > at:
                found += self._turns(at, first - at, 0)
                at = first
            # of a record that is there twice, its first place counts
            ahead = first + count - at
            if ahead > 0:
                found += self._turns(at, ahead, number + count - ahead)
                at += ahead
        return found

    def _turns(self, first: int, count: int, number: int) -> Iterator[tuple[int, int, int]]:
        for turn, length in branch.part(branch.plain(self.base.runs), first - 1, count):
            yield turn, length, number
            number += length if number else 0


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces, those that continue each other as one, and none that are empty."""
    joined: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Kept):
            last = joined[-1] if joined else None
            if isinstance(last, Kept) and piece.first == last.first + last.count:
                joined[-1] = Kept(last.first, last.count + piece.count)
                continue
            if not piece.count:
                continue
        joined.append(piece)
    return joined


def commit(
    store: Store,
    context: int,
    plan: Plan,
    action: str,
    *,
    types: Sequence[str] = (),
    changes: bytes | None = None,
    aside: Sequence[Superseded] = (),
) -> Base:
    """Apply ``plan`` to the branch of ``context``, in one commit. Conflict if it is no longer the plan's base.

    ``types`` are the payload types of the new records, ``changes`` metadata. ``aside`` says of turns that were never in
    the branch where they now are in it: (first turn, how many, number or 0 for nowhere).
    """
    with store.intake.reliance.relying():
        runs = list(branch.part(plan.base.runs, 0, plan.prefix))
        parent = branch.position(plan.base.runs, plan.prefix) or None
        blobs = store.contexts.journalled(plan.payloads, earlier_payloads(store, plan))
        new_types = store.writer.types_for(types)
        chunk: list[NewTurn | Turn] = []
        most = store.writer.turns_at_once
        for turns in _turns(store, plan, most):
            if chunk and len(chunk) + len(turns) > most:
                # these go ahead, as turns that no branch shows yet
                ahead = Request(0, parent=parent, turns=chunk, blobs=blobs, types=new_types, move_head=False)
                store.writer.submit(ahead)
                runs.append((ahead.written[0].turn_id, len(chunk)))
                parent = sum(runs[-1]) - 1
                chunk, blobs, new_types = [], [], ()
            chunk += turns
        request = Request(
            context,
            parent=parent,
            turns=chunk,
            blobs=blobs,
            types=new_types,
            changes=changes,
            action=action,
            expected_head=plan.base.head.tip,
            superseded=_placed([*plan.superseded(), *aside], runs),
        )
        store.writer.submit(request)
        if request.written:
            runs.append((request.written[0].turn_id, len(request.written)))
        whole = tuple(branch.joined(runs))
        store.records.remember(request.head.tip, whole)
        return Base(request.head, whole, plan.length)


def earlier_payloads(store: Store, plan: Plan) -> dict[Hash, Hash]:
    """Return which payload each large new one takes the place of."""
    found: dict[Hash, Hash] = {}
    for piece in plan.pieces:
        if isinstance(piece, Fresh) and piece.first and len(piece.payload or b"") >= LEAST_BYTES:
            turn = store.turns.get(branch.position(plan.base.runs, piece.first))
            found[piece.turn.payload_hash] = turn.payload_hash
    return found


def _turns(store: Store, plan: Plan, most: int) -> Iterator[Sequence[NewTurn | Turn]]:
    for piece in plan.pieces:
        if not isinstance(piece, Kept):
            yield (piece.turn,)
            continue
        for start in range(piece.first - 1, piece.first - 1 + piece.count, most):
            count = min(most, piece.first - 1 + piece.count - start)
            for run in branch.part(plan.base.runs, start, count):
                yield store.turns.range(*run)


def _placed(superseded: Sequence[tuple[int, int, int]], runs: Sequence[Run]) -> list[Superseded]:
    """Replace numbers by turns; numbers beyond ``runs`` are counted as a request counts its own turns."""
    length = sum(count for _first, count in runs)
    found: list[Superseded] = []
    whole = branch.plain(runs)
    for old, count, number in superseded:
        if not number:
            found.append((old, 0, count))
            continue
        for new, taken in branch.part(whole, number - 1, count):
            found.append((old, new, taken))
            old, count, number = old + taken, count - taken, number + taken
        if count:
            found.append((old, length - number, count))
    return found


def fits(store: Store, plan: Plan) -> bool:
    """Return whether a plan can be made as a patch."""
    return plan.in_place and all(
        store.contexts.defines_the_same(store.turns.get(branch.position(plan.base.runs, number)), piece.payload)
        for number, piece in plan.numbered()
        if isinstance(piece, Fresh) and piece.payload is not None
    )


def patch(store: Store, context: int, plan: Plan, action: str) -> Base:
    """Make a plan that :func:`fits` true by one patch. Conflict if the branch is no longer the plan's base."""
    patches = [
        (turn_of(branch.position(plan.base.runs, number)), turn.payload_hash, turn.flags, turn.created_ms)
        for number, piece in plan.numbered()
        if isinstance(piece, Fresh)
        for turn in (piece.turn,)
    ]
    request = Request(context, action=action, expected_head=plan.base.head.tip, patches=patches)
    with store.intake.reliance.relying():
        request.blobs = store.contexts.journalled(plan.payloads, earlier_payloads(store, plan))
        store.writer.submit(request)
    return Base(request.head, store.records.runs(request.head.tip), plan.length)

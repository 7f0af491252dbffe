"""An edit on its way to disk: the records that change and all after them are appended again, then the head moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from store.commit.request import ContextHead, NewTurn, Request
from store.commit.versions import LEAST_BYTES
from store.conversations import branch
from store.disk.journal_format import JournalBlob
from store.disk.turn_format import Turn
from store.editing.plan import Fresh, Kept, Plan
from store.ids import Hash
from store.index.views import Run
from store.store import Store

Superseded = tuple[int, int, int]


class Committed(Struct, frozen=True):
    """The branch as it now is."""

    head: ContextHead
    runs: tuple[Run, ...]


def commit(
    store: Store,
    context: int,
    plan: Plan,
    action: str,
    *,
    types: Sequence[str] = (),
    changes: bytes | None = None,
    aside: Sequence[Superseded] = (),
) -> Committed:
    """Make the branch of ``context`` what ``plan`` says, in one commit. Conflict if it is no longer the plan's base.

    ``types`` are the payload types of what is new, ``changes`` metadata. ``aside`` says of turns that were never in
    the branch where they now are in it: (first turn, how many, number or 0 for nowhere).
    """
    with store.relying():
        return _commit(store, context, plan, action, types, changes, aside)


def _commit(
    store: Store,
    context: int,
    plan: Plan,
    action: str,
    types: Sequence[str],
    changes: bytes | None,
    aside: Sequence[Superseded],
) -> Committed:
    runs = list(branch.part(plan.base.runs, 0, plan.prefix))
    parent = branch.position(plan.base.runs, plan.prefix) or None
    blobs = store.journalled(plan.payloads, earlier_payloads(store, plan))
    new_types = store.types_for(types)
    chunk: list[NewTurn | Turn] = []
    most = store.turns_at_once
    for turns in _turns(store, plan, most):
        if chunk and len(chunk) + len(turns) > most:
            # these go ahead, as turns that no branch shows yet
            ahead = _ahead(store, parent, chunk, blobs, new_types)
            runs.append(ahead)
            parent = ahead[0] + ahead[1] - 1
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
    store.submit(request)
    if request.written:
        runs.append((request.written[0].turn_id, len(request.written)))
    whole = tuple(branch.joined(runs))
    store.remember(request.head.tip, whole)
    return Committed(request.head, whole)


def earlier_payloads(store: Store, plan: Plan) -> dict[Hash, Hash]:
    """Return which payload each large new one takes the place of."""
    found: dict[Hash, Hash] = {}
    for piece in plan.pieces:
        if isinstance(piece, Fresh) and piece.replaces and len(piece.payload or b"") >= LEAST_BYTES:
            turn = store.turn(branch.position(plan.base.runs, piece.replaces))
            found[piece.turn.payload_hash] = turn.payload_hash
    return found


def _turns(store: Store, plan: Plan, most: int) -> Iterator[Sequence[NewTurn | Turn]]:
    """Yield what is to be appended, ``most`` turns at a time."""
    for piece in plan.pieces:
        if not isinstance(piece, Kept):
            yield (piece.turn,)
            continue
        for start in range(piece.first - 1, piece.first - 1 + piece.count, most):
            count = min(most, piece.first - 1 + piece.count - start)
            for run in branch.part(plan.base.runs, start, count):
                yield store.turns.range(*run)


def _ahead(
    store: Store,
    parent: int | None,
    turns: list[NewTurn | Turn],
    blobs: list[JournalBlob],
    types: tuple[tuple[str, int], ...],
) -> Run:
    request = Request(0, parent=parent, turns=turns, blobs=blobs, types=types, move_head=False)
    store.submit(request)
    return request.written[0].turn_id, len(turns)


def _placed(superseded: Sequence[tuple[int, int, int]], runs: Sequence[Run]) -> list[Superseded]:
    """Put turns in the place of numbers; what lies beyond ``runs`` is counted as a request counts its own."""
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

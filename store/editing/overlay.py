"""An edit that appends nothing: a patch, through which the records that it changes are seen from then on.

What other records refer to must stay as it was, since they keep what was measured of them. So a patch changes records
in their places, and no names by which others know them; every other edit is made as a branch.
"""

from __future__ import annotations

from store.commit.request import Request
from store.conversations import branch
from store.editing.commit import Committed, earlier_payloads
from store.editing.plan import Fresh, Plan
from store.ids import turn_of
from store.store import Store


def fits(store: Store, plan: Plan) -> bool:
    """Whether what is planned can be a patch."""
    return plan.in_place and all(
        store.defines_the_same(store.turn(branch.position(plan.base.runs, number)), piece.payload)
        for number, piece in plan.numbered()
        if isinstance(piece, Fresh) and piece.payload is not None
    )


def patch(store: Store, context: int, plan: Plan, action: str) -> Committed:
    """Make a plan that :func:`fits` true by one patch. Conflict if the branch is no longer the plan's base."""
    request = Request(
        context,
        action=action,
        expected_head=plan.base.head.tip,
        patches=[
            (
                turn_of(branch.position(plan.base.runs, number)),
                piece.turn.payload_hash,
                piece.turn.flags,
                piece.turn.created_ms,
            )
            for number, piece in plan.numbered()
            if isinstance(piece, Fresh)
        ],
    )
    with store.relying():
        request.blobs = store.journalled(plan.payloads, earlier_payloads(store, plan))
        store.submit(request)
    return Committed(request.head, store.runs(request.head.tip))

"""Patches: turns of a context are seen with other payloads from then on, and nothing is appended.

What other records refer to must stay as it was, since they keep what was measured of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from store.commit.request import ContextHead, Request
from store.commit.versions import LEAST_BYTES
from store.conversations.appends import Appends
from store.conversations.chain import Recorded
from store.conversations.viewer import LARGEST_VIEWED
from store.disk import turn_format
from store.disk.turn_format import Turn
from store.errors import Conflict, ConvfsError, NotFound, UsageError
from store.events.deletion import DELETED, Content, named
from store.ids import Hash, hash_bytes, now_ms, tip_of, turn_of


class _Patch(Struct, frozen=True):
    """What a patch is to say: of turns, as it is written; the payloads that are new, and those that these replace."""

    turns: list[tuple[int, Hash, int, int]]
    payloads: list[bytes]
    earlier: dict[Hash, Hash]
    action: str


class Patching(Appends):
    """Patches the contexts of one store."""

    def patch(
        self, context_id: int, changes: Mapping[int, Content], *, expected_head: int | None = None
    ) -> ContextHead:
        """Give turns of a context other payloads, or delete them (DELETED), by one patch; return the head.

        A turn that an edit has superseded stands for what became of it. ``expected_head`` is the turn, or the tip, that
        the head must be at, else Conflict. NotFound for a turn that is not in the context; UsageError where a payload
        is too large, or records after it could no longer refer to what it defines.
        """
        self._known(context_id)
        while True:
            head = self.head(context_id)
            if expected_head is not None and expected_head not in (head.turn, head.tip):
                raise Conflict(
                    f"context {context_id} has moved on to turn {head.turn}: look at what is new, then try again"
                )
            plan = self._plan(head, changes)
            if not plan.turns:
                return head
            request = Request(context_id, action=plan.action, expected_head=head.tip, patches=plan.turns)
            try:
                with self.relying():
                    request.blobs = self.journalled(plan.payloads, plan.earlier)
                    return self.submit(request).head
            except Conflict:
                # it is made to what the context is when it is committed, if that is what is expected
                continue

    def defines_the_same(self, turn: Turn, payload: bytes) -> bool:
        """Whether others can refer to a record as before, once it has another payload."""
        if self.blob_size(turn.payload_hash) > LARGEST_VIEWED:
            return False
        try:
            was = self.payload(turn.turn_id)
        except ConvfsError:
            # what it defined is not known any more
            return False
        lens, before = self.viewer.lens(turn), Recorded("", 0, self.aliased)
        seen = (lens.view(data, before).defines for data in (was, payload))
        return next(seen) == next(seen)

    def _plan(self, head: ContextHead, changes: Mapping[int, Content]) -> _Patch:
        turns: dict[int, tuple[int, Hash, int, int]] = {}
        numbers: dict[int, Content] = {}
        payloads: list[bytes] = []
        earlier: dict[Hash, Hash] = {}
        for turn_id, content in changes.items():
            turn = self._present(head, turn_id)
            if content is DELETED:
                if turn.deleted:
                    continue
                what = (turn.payload_hash, turn.flags | turn_format.DELETED, turn.created_ms)
            else:
                digest = hash_bytes(content)
                if digest == turn.payload_hash and not turn.deleted:
                    continue
                if not self.defines_the_same(turn, content):
                    raise UsageError(
                        f"records refer to what turn {turn_id} defines: edit it, with all after it, instead"
                    )
                payloads.append(content)
                if len(content) >= LEAST_BYTES:
                    earlier[digest] = turn.payload_hash
                what = (digest, turn.flags & ~turn_format.DELETED | turn_format.EDITED, now_ms())
            place = turn_of(turn.turn_id)
            turns[place] = (place, *what)
            numbers[turn.depth + 1] = content
        return _Patch([turns[place] for place in sorted(turns)], payloads, earlier, named(numbers))

    def _present(self, head: ContextHead, turn_id: int) -> Turn:
        """Return what a turn of a context now is, as it is seen."""
        became = self._became(head, self.turn(turn_of(turn_id)))
        if became is None or (became and self._became(head, self.turn(became)) != became):
            raise NotFound(f"turn {turn_id} is not in context {head.context}")
        if not became:
            raise NotFound(f"turn {turn_id} is no longer in context {head.context}: an edit has taken it out")
        return self.turn(tip_of(became, head.patch))

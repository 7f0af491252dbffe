"""Editing conversations: what people do to them, each change one commit and one version.

An edit never rewrites history. By default, the records that change and all after them are appended to the turn log
again, which takes 80 bytes a record, and the branch's head moves to the last of them. With the setting ``edits =
"overlay"``, what changes records in their places is a patch instead, which appends nothing. Either way, what was before
stays a version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from store.commit.request import ContextHead, NewTurn, Request
from store.conversations import branch
from store.disk import turn_format
from store.editing.commit import commit
from store.editing.keeper import Keeper
from store.editing.measuring import measure
from store.editing.overlay import fits, patch
from store.editing.plan import Base, Changed, Fresh, Item, Kept, Piece, Plan
from store.errors import Conflict, NotFound
from store.events.deletion import DELETED as DELETED
from store.events.deletion import Content, named
from store.ids import hash_bytes, now_ms, patch_of, turn_of
from store.index.views import Run
from store.store import Append


class Editor(Keeper):
    """Edits the conversations of one store. Safe to use from any thread.

    Where ``expected_head`` is given, the branch must have that tip, else Conflict; where it is not, a change is
    made to what the branch is when it is committed. Calls raise NotFound for a context or a record that is not there,
    UsageError for what cannot be stored, and return the head as it is afterwards; what changes nothing makes no
    version.
    """

    def edit(
        self,
        context: int,
        changes: Mapping[int, Content],
        *,
        action: str = "",
        expected_head: int | None = None,
    ) -> ContextHead:
        """Give records, by number, other payloads, or delete them (DELETED); a payload brings a deleted one back.

        ``action`` names the version ("": ``edit 00007`` or ``delete 00007``).
        """

        def plan(base: Base) -> Plan:
            pieces: list[Piece] = []
            done = 0
            for number, content in sorted(changes.items()):
                if (piece := self._changed(base, number, content)) is not None:
                    pieces += (Kept(done + 1, number - 1 - done), piece)
                    done = number
            return Plan(base, [*pieces, Kept(done + 1, base.length - done)])

        return self._change(context, plan, action or named(changes), expected_head)

    def append(
        self, context: int, items: Sequence[Append], *, action: str = "", expected_head: int | None = None
    ) -> ContextHead:
        """Append records at the head, as a version of its own (``action``; "": ``add 00012``)."""
        fresh = [self._new(item) for item in items]

        def plan(base: Base) -> Plan:
            return Plan(base, [Kept(1, base.length), *fresh])

        def named(base: Base) -> str:
            return action or f"add {base.length + 1:05}"

        return self._change(context, plan, named, expected_head, [item.type_name for item in items])

    def rewrite(
        self,
        context: int,
        items: Sequence[Item],
        *,
        action: str = "rewrite",
        expected_head: int | None = None,
    ) -> ContextHead:
        """Make the branch consist of ``items``: records that it has, by number, some changed, and new ones between.

        What stays in its place keeps its record. Records that are not among ``items`` are taken out, and then, as
        where records are put in, those that follow have other numbers.
        """

        def pieces(base: Base) -> Iterator[Piece]:
            for item in items:
                if isinstance(item, int):
                    _check_number(base, item)
                    yield Kept(item, 1)
                elif isinstance(item, Changed):
                    yield self._changed(base, item.number, item.content) or Kept(item.number, 1)
                else:
                    yield self._new(item)

        types = [item.type_name for item in items if isinstance(item, Append)]
        return self._change(context, lambda base: Plan(base, pieces(base)), action, expected_head, types)

    def restore(self, context: int, version: int, *, expected_head: int | None = None) -> ContextHead:
        """Move the head back to what it was in a version, by number; NotFound if there is none of that number."""
        store = self._store
        while True:
            base = self._base(context, expected_head)
            head = store.version(context, version).head
            if head == base.head.tip:
                return base.head
            request = Request(
                context,
                parent=turn_of(head) or None,
                patch=patch_of(head),
                action=f"restore {version}",
                expected_head=base.head.tip,
                superseded=list(_returned(base, store.runs(head))),
            )
            try:
                return store.submit(request).head
            except Conflict:
                if expected_head is not None:
                    raise

    # -- how -------------------------------------------------------------------------------------------------------

    def _change(
        self,
        context: int,
        plan_for: Callable[[Base], Plan],
        action: str | Callable[[Base], str],
        expected_head: int | None,
        types: Sequence[str] = (),
    ) -> ContextHead:
        store = self._store
        while True:
            base = self._base(context, expected_head)
            plan = plan_for(base)
            if plan.changes_nothing:
                return base.head
            named = action if isinstance(action, str) else action(base)
            try:
                if store.settings.edits == "overlay" and fits(store, plan):
                    now = patch(store, context, plan, named)
                else:
                    now = commit(store, context, plan, named, types=types)
            except Conflict:
                if expected_head is not None:
                    raise
                continue
            measure(store, context, plan, now)
            return now.head

    def _base(self, context: int, expected_head: int | None) -> Base:
        head = self._store.head(context)
        if expected_head not in (None, head.tip):
            raise Conflict(f"context {context} has moved on to turn {head.turn}: look at what is new, then try again")
        runs = self._store.runs(head.tip)
        return Base(head, runs, branch.length(runs))

    def _changed(self, base: Base, number: int, content: Content) -> Fresh | None:
        """Describe a record in the place of another, None if it is the same."""
        _check_number(base, number)
        turn = self._store.turn(branch.position(base.runs, number))
        if content is DELETED:
            if turn.deleted:
                return None
            gone = NewTurn(
                turn.payload_hash, turn.type_tag, turn.codec, turn.flags | turn_format.DELETED, turn.created_ms
            )
            return Fresh(gone, number)
        digest = hash_bytes(content)
        if digest == turn.payload_hash and not turn.deleted:
            return None
        flags = turn.flags & ~turn_format.DELETED | turn_format.EDITED
        return Fresh(NewTurn(digest, turn.type_tag, turn.codec, flags, now_ms()), number, content)

    def _new(self, item: Append) -> Fresh:
        return Fresh(self._store.described(item), payload=item.payload)


def _check_number(base: Base, number: int) -> None:
    if not 0 < number <= base.length:
        raise NotFound(f"there is no record {number}; the last is {base.length}")


def _returned(base: Base, runs: tuple[Run, ...]) -> Iterator[tuple[int, int, int]]:
    """Yield what becomes of the turns of a branch when its head moves to that of another."""
    was, now = branch.plain(base.runs), branch.plain(runs)
    for old, new, count in branch.pairs(was, now, 0, base.length):
        if old != new:
            yield old, new, count
    for old, count in branch.part(was, branch.length(now), base.length):
        yield old, 0, count

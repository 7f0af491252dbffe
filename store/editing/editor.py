"""Editor: people's changes to conversations, each one commit and one version.

An edit never rewrites history. By default, the records that change and all after them are appended to the turn log
again, which takes 80 bytes a record, and the branch's head moves to the last of them. With the setting ``edits =
"overlay"``, and always where very many records would be appended again, a change to records in their places is a patch
instead, which appends nothing. Either way, the old state stays a version.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from store.commit.request import ContextHead, NewTurn, Request
from store.conversations import branch
from store.conversations.contexts import Append
from store.conversations.lines import LogLine
from store.conversations.viewer import LARGEST_VIEWED
from store.disk import turn_format
from store.disk.head_format import AGAIN, AMENDS, SAVES
from store.editing.commit import Base, Changed, Fresh, Item, Kept, Piece, Plan, commit, fits, patch
from store.editing.keeper import Keeper
from store.editing.measurer import measure
from store.errors import Conflict, NotFound
from store.events.conversation import EventRow, Version
from store.events.event import DELETED, Kind, Replacement, named, together
from store.formats.core.editing import check_intact
from store.formats.core.times import in_iso
from store.ids import hash_bytes, now_ms, patch_of, turn_of
from store.index.views import Run
from store.store import Store

_EVENT = re.compile(r" (\d{5,})\b")
_MOST_REPEATED = 1024
"""The most records behind a change that are appended again because of it, where a patch can be made instead."""
_SOON_MS = 600_000
"""The time after a deletion in which a new event in its place counts as a save that removed the old one first."""


def with_echoes(
    store: Store, row: Callable[[int], EventRow], records: int, changed: Mapping[int, Replacement]
) -> dict[int, Replacement]:
    """Return changes of a branch, whose rows ``row`` gives, with those of the records that repeat what is changed."""
    found = dict(changed)

    @cache
    def record(number: int) -> bytes | None:
        """Return a bookkeeping record's payload, None where it is none that only repeats."""
        near = row(number)
        passed = near.kind is not Kind.RECORD or near.deleted or number in changed
        return None if passed or near.payload_size > LARGEST_VIEWED else store.contents.payload(near.turn)

    for number, content in changed.items():
        if content is DELETED:
            continue
        turn = store.turns.get(row(number).turn)
        lens = store.viewer.lens(turn)
        if not lens.reach or row(number).payload_size > LARGEST_VIEWED:
            continue
        before = range(number - 1, max(0, number - 1 - lens.reach), -1)
        after = range(number + 1, min(records, number + lens.reach) + 1)
        payload = store.contents.payload(turn.turn_id)
        echoes = lens.echoes(payload, content, _Records(record, before), _Records(record, after))
        for echoed, now in echoes.items():
            check_intact(record(echoed) or b"", now)
        found |= echoes
    return found


class _Records:
    """Records by number, as often as they are gone through."""

    def __init__(self, record: Callable[[int], bytes | None], numbers: range) -> None:
        self._record = record
        self._numbers = numbers

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for number in self._numbers:
            if (record := self._record(number)) is not None:
                yield number, record


def version_log(versions: Iterable[Version]) -> list[LogLine]:
    """Return the log of a conversation, oldest version first."""
    events = ((version, _EVENT.search(version.action)) for version in versions)
    return [
        LogLine(version.number, _iso(version.time_ms), version.action, int(event[1]) if event else None)
        for version, event in events
    ]


def _iso(time_ms: int) -> str:
    try:
        return in_iso(time_ms)
    except OverflowError:
        return ""


class Editor(Keeper):
    """Edits the conversations of one store. Safe to use from any thread.

    If ``expected_head`` is given, the branch must have that tip, else Conflict; otherwise a change is made to the
    branch as it is at the commit. Calls raise NotFound for a missing context or record, and UsageError for content that
    cannot be stored. They return the new head. A call that changes nothing makes no version.

    ``again`` is the tip that the caller's last save led to: if it still is the tip, both saves are one version.
    """

    def edit(
        self,
        context: int,
        changes: Mapping[int, Replacement],
        *,
        action: str = "",
        expected_head: int | None = None,
        amends: bool = False,
        again: int = 0,
        written_ms: int = 0,
    ) -> ContextHead:
        """Give records, by number, other payloads, or delete them (DELETED); a payload brings a deleted one back.

        ``action`` names the version ("": ``edit 00007`` or ``delete 00007``). With ``amends``, a version that brings
        back what the last one has just deleted takes the place of that. ``written_ms`` is when the records were
        changed, in Unix milliseconds (0: now).
        """

        def plan(base: Base) -> Plan:
            pieces: list[Piece] = []
            done = 0
            for number, content in sorted(changes.items()):
                if (piece := self._changed(base, number, content, written_ms)) is not None:
                    pieces += (Kept(done + 1, number - 1 - done), piece)
                    done = number
            return Plan(base, [*pieces, Kept(done + 1, base.length - done)])

        def called(base: Base) -> str:
            return (self._amending(base, context, changes) if amends else "") + (action or named(changes))

        return self._change(context, plan, called, expected_head, again=again)

    def append(
        self,
        context: int,
        items: Sequence[Append],
        *,
        action: str = "",
        expected_head: int | None = None,
        again: int = 0,
    ) -> ContextHead:
        """Append records at the head, as a version of its own (``action``; "": ``add 00012``)."""
        fresh = [self._new(item) for item in items]

        return self._change(
            context,
            lambda base: Plan(base, [Kept(1, base.length), *fresh]),
            lambda base: action or f"add {base.length + 1:05}",
            expected_head,
            [item.type_name for item in items],
            again,
        )

    def rewrite(
        self,
        context: int,
        items: Sequence[Item],
        *,
        action: str = "rewrite",
        expected_head: int | None = None,
        again: int = 0,
    ) -> ContextHead:
        """Make the branch consist of ``items``: records that it has, by number, some changed, and new ones between.

        An item that stays in its place keeps its record. Records that are not among ``items`` are taken out. Then, and
        also after insertions, the records that follow have other numbers.
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
        return self._change(context, lambda base: Plan(base, pieces(base)), action, expected_head, types, again)

    def restore(self, context: int, version: int, *, expected_head: int | None = None) -> ContextHead:
        """Move the head back to what it was in a version, by number; NotFound if there is none of that number."""
        store = self._store
        with store.writer.precedence.attempts(context) as attempt:
            while True:
                attempt()
                base = self._base(context, expected_head)
                head = store.catalogue.version(context, version).head
                if head == base.head.tip:
                    return base.head
                request = Request(
                    context,
                    parent=turn_of(head) or None,
                    patch=patch_of(head),
                    action=f"restore {version}",
                    expected_head=base.head.tip,
                    superseded=list(_returned(base, store.records.runs(head))),
                )
                try:
                    return store.writer.submit(request).head
                except Conflict:
                    if expected_head is not None:
                        raise

    def _change(
        self,
        context: int,
        plan_for: Callable[[Base], Plan],
        action: str | Callable[[Base], str],
        expected_head: int | None,
        types: Sequence[str] = (),
        again: int = 0,
    ) -> ContextHead:
        store = self._store
        with store.writer.precedence.attempts(context) as attempt:
            while True:
                attempt()
                base = self._base(context, expected_head)
                plan = plan_for(base)
                if plan.changes_nothing:
                    return base.head
                named = action if isinstance(action, str) else action(base)
                if again and again == base.head.tip:
                    named = self._joined(context, named)
                try:
                    overlay = store.settings.edits == "overlay" or plan.repeats > _MOST_REPEATED
                    if overlay and fits(store, plan):
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
        head = self._store.writer.head(context)
        if expected_head not in (None, head.tip):
            raise Conflict(f"context {context} has moved on to turn {head.turn}: look at what is new, then try again")
        runs = self._store.records.runs(head.tip)
        return Base(head, runs, branch.length(runs))

    def _changed(self, base: Base, number: int, content: Replacement, written_ms: int = 0) -> Fresh | None:
        """Describe a record in the place of another, None if it is the same."""
        _check_number(base, number)
        turn = self._store.turns.get(branch.position(base.runs, number))
        if content is DELETED:
            if turn.deleted:
                return None
            flags = turn.flags | turn_format.DELETED
            return Fresh(NewTurn(turn.payload_hash, turn.type_tag, turn.codec, flags, turn.created_ms), number)
        digest = hash_bytes(content)
        if digest == turn.payload_hash and not turn.deleted:
            return None
        flags = turn.flags & ~turn_format.DELETED | turn_format.EDITED
        return Fresh(NewTurn(digest, turn.type_tag, turn.codec, flags, written_ms or now_ms()), number, content)

    def _amending(self, base: Base, context: int, changes: Mapping[int, Replacement]) -> str:
        """Return how an action begins: a record that is there again soon after it was deleted was being saved."""
        kept = [number for number, content in changes.items() if content is not DELETED]
        back = [number for number in kept if self._store.turns.get(branch.position(base.runs, number)).deleted]
        if not back:
            return ""
        last = self._store.catalogue.versions(context)[-1]
        was_that = (last.head, last.action) == (base.head.tip, named(dict.fromkeys(back, DELETED)))
        return AMENDS if was_that and now_ms() - last.time_ms < _SOON_MS else ""

    def _joined(self, context: int, action: str) -> str:
        """Return the action of a save that goes on with the last version, if that was a save, too."""
        last = self._store.catalogue.last_action(context)
        return AGAIN + together(last, action) if last.startswith(SAVES) and action.startswith(SAVES) else action

    def _new(self, item: Append) -> Fresh:
        return Fresh(self._store.contexts.described(item), payload=item.payload)


def _check_number(base: Base, number: int) -> None:
    if not 0 < number <= base.length:
        raise NotFound(f"there is no record {number}; the last is {base.length}")


def _returned(base: Base, runs: tuple[Run, ...]) -> Iterator[tuple[int, int, int]]:
    was, now = branch.plain(base.runs), branch.plain(runs)
    for old, new, count in branch.pairs(was, now, 0, base.length):
        if old != new:
            yield old, new, count
    for old, count in branch.part(was, branch.length(now), base.length):
        yield old, 0, count

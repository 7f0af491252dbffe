"""Measuring after an edit: unchanged records keep their rows, changed ones are measured again.

A record's row holds its tool and the record that it follows, so it depends on earlier records: on the names that they
define, and on nothing else. As long as an edit leaves these as they were, the later rows stay valid. From the first
record where it does not, and wherever numbers change, rows are left out and measured when the conversation is next
listed.
"""

import logging
from collections.abc import Iterator
from functools import partial

from msgspec import field
from msgspec.structs import replace

from store.conversations import branch
from store.conversations.chain import Chain, Recorded
from store.conversations.viewer import LARGEST_VIEWED, Measured
from store.disk.turn_format import Turn
from store.editing.commit import Base, Fresh, Kept, Plan
from store.errors import ConvfsError
from store.events.conversation import EventRow, ResourceRow
from store.events.event import Event, Kind, too_large
from store.formats.core.lens import Before
from store.index.views import Measure
from store.store import Store

log = logging.getLogger(__name__)

_ROWS_AT_ONCE = 20_000

_Move = tuple[int, int, int]
"""The first turn whose row others are like, the first of these, and how many."""


def measure(store: Store, context: int, plan: Plan, now: Base) -> None:
    """File the rows of a branch just made by ``plan``; what cannot be measured now is measured at the next listing."""
    if store.viewer.renderer is not None:
        try:
            _Measurer(store, plan, now).file(context)
        except ConvfsError as error:
            log.info("what was changed in context %d cannot be measured yet: %s", context, error)


class _Measurer:
    def __init__(self, store: Store, plan: Plan, now: Base) -> None:
        self._store = store
        self._plan = plan
        self._now = now
        self._rows: list[EventRow] = []
        self._resources: list[ResourceRow] = []
        self._replaced: list[EventRow] = []
        self._moves: list[_Move] = []
        self._chain: Chain | None = None

    def file(self, context: int) -> None:
        whole = self._go()
        views, base = self._store.views, self._plan.base
        sums: list[tuple[int, Measure]] = []
        if whole:
            known = views.measures([context]).get(context)
            if base.length == 0:
                known = Measure(0)
            elif known is not None and known.head != base.head.tip:
                known = None
            if known is not None:
                sums.append((context, known.at(self._now.head.tip, self._rows, self._replaced)))
        views.add(self._rows, self._resources)
        for some in _batches(self._moves):
            views.add((), (), (), some)
        views.add((), (), sums)

    def _go(self) -> bool:
        """Process the pieces; return whether every record after the prefix has its row."""
        base = self._plan.base
        for number, piece in self._plan.numbered():
            if isinstance(piece, Kept):
                if piece.first != number:
                    return False
                if self._now.head.turn != base.head.turn:
                    # behind a patch, they are the very same
                    self._moves += branch.pairs(base.runs, self._now.runs, number - 1, piece.count)
            elif piece.first == number:
                if not self._replace(number, piece):
                    return False
            elif not piece.first and number > base.length:
                if not self._add(number, piece):
                    return False
            else:
                return False
        return self._plan.length >= base.length

    def _replace(self, number: int, piece: Fresh) -> bool:
        """Measure a record that took another's place; return whether those behind it can be as they were."""
        store = self._store
        old_turn = branch.position(self._plan.base.runs, number)
        turn = store.turns.get(branch.position(self._now.runs, number))
        before = next(iter(store.views.rows([(old_turn, 1)], number)), None)
        if before is None:
            return False
        if turn.deleted:
            sizes = {"file_size": 0, "section_size": 0, "json_size": 0}
            gone = replace(
                before, turn=turn.turn_id, number=number, kind=Kind.RECORD, deleted=True, unsure=False, **sizes
            )
            self._rows.append(gone)
            self._replaced.append(before)
            return True
        asked = _Asked(before.tool, before.parent, store.contents.aliased)
        try:
            old = self._event(store.turns.get(old_turn), None, asked)
        except ConvfsError:
            # what it defined is not known any more
            return False
        chain = store.viewer.chain(partial(branch.position, self._now.runs), number)
        event = self._event(turn, piece.payload, _AsAsked(asked, chain))
        if chain.doubtful:
            return False
        self._take(turn, number, event)
        self._replaced.append(before)
        return old.defines == event.defines

    def _add(self, number: int, piece: Fresh) -> bool:
        store = self._store
        turn = store.turns.get(branch.position(self._now.runs, number))
        if self._chain is None:
            self._chain = store.viewer.chain(partial(branch.position, self._now.runs), number)
        event = self._event(turn, piece.payload, self._chain)
        if self._chain.doubtful:
            return False
        self._chain.advance(event)
        self._take(turn, number, event)
        return True

    def _take(self, turn: Turn, number: int, event: Event) -> None:
        store, measured = self._store, Measured()
        type_name, size = store.contents.type_name(turn.type_tag), store.blobs.size(turn.payload_hash)
        store.viewer.take(measured, number, type_name, event, size, deleted=turn.deleted, edited_ms=turn.edited_ms)
        self._rows += measured.rows(turn.turn_id)
        self._resources += measured.resources(turn.turn_id)

    def _event(self, turn: Turn, payload: bytes | None, before: Before) -> Event:
        """Return the event of a turn, whose payload is read unless it is at hand."""
        store = self._store
        if payload is None:
            size = store.blobs.size(turn.payload_hash)
            if size > LARGEST_VIEWED:
                return too_large(size)
            payload = store.contents.payload(turn.turn_id)
        return store.viewer.lens(turn).view(payload, before)


def _batches(moves: list[_Move]) -> Iterator[list[_Move]]:
    """Yield moves in batches small enough that no other thread waits long to file something."""
    some: list[_Move] = []
    size = 0
    for first, to, count in moves:
        for start in range(0, count, _ROWS_AT_ONCE):
            part = min(_ROWS_AT_ONCE, count - start)
            if size + part > _ROWS_AT_ONCE:
                yield some
                some, size = [], 0
            some.append((first + start, to + start, part))
            size += part
    if some:
        yield some


class _Asked(Recorded, frozen=True):
    """Answers from what was recorded, and remembers the questions."""

    calls: set[str] = field(default_factory=set)
    keys: set[str | None] = field(default_factory=set)

    def tool(self, call_id: str) -> str:
        self.calls.add(call_id)
        return super().tool(call_id)

    def parent(self, key: str | None) -> int:
        self.keys.add(key)
        return super().parent(key)


class _AsAsked:
    """Answers as was recorded where the question is the one that was asked then; else by looking."""

    def __init__(self, asked: _Asked, chain: Chain) -> None:
        self._asked = asked
        self._chain = chain
        self.blob = asked.blob

    def tool(self, call_id: str) -> str:
        return self._asked.tool(call_id) if call_id in self._asked.calls else self._chain.tool(call_id)

    def parent(self, key: str | None) -> int:
        return self._asked.parent(key) if key in self._asked.keys else self._chain.parent(key)

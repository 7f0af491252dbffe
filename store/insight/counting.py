"""Counting what turns say, a few at a time: answers and what they took, uses of tools, bytes.

Turns are counted in the order of the log, each once, for the conversation that had it first; what was counted and how
far that is are filed in one change, so that an interruption at any moment counts nothing twice. What an edit appended
in the place of a record is that record. Turns whose payload cannot be read count as what their row says.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from store.conversations import branch
from store.conversations.viewer import LARGEST_VIEWED
from store.disk.turn_format import Turn
from store.errors import ConvfsError, NotFound
from store.events.conversation import Conversation
from store.events.event import Kind
from store.events.usage import NOTHING_RUNNING, Running, Usage
from store.ids import hash_bytes, hash_key, turn_of
from store.index.filing import day_of
from store.index.views import Run
from store.insight.ledger import AccountName, Answer, Counted, Holding, Ledger, Uses
from store.insight.windows import Window, window_after
from store.search.reading import Reading, Shown
from store.store import Store
from store.upkeep.roots import named_in

_TURNS_AT_ONCE = 128
_BYTES_AT_ONCE = 4 << 20
_KEPT_EVERY = 256
"""What goes on to hold is kept behind every so-maniest record of a branch, so that little must be read for a fork."""
_NO_TOOL = "(unnamed)"
_NANO = 1_000_000_000


class Counting:
    """Counts what one store holds. Safe to call from any thread; one counts, the others wait."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger
        self._reading = Reading(store)
        self._lock = threading.Lock()
        self._window: Window | None = None
        self._waiting: list[int] = []
        self._created: dict[int, int] = {}

    def count_some(self) -> bool:
        """Count some turns; return whether there is more to do."""
        with self._lock:
            window = self._window
            if window is None:
                window = self._window = window_after(self._store, self._ledger.followed)
                if window is None:
                    return False
                if window.gone and self._ledger.last:
                    # what was counted of these cannot be told from the rest
                    self._window = None
                    self._ledger.reset(window.end)
                    return True
                self._waiting = window.moved
            try:
                self._count(window)
            except BaseException:
                self._window = None
                raise
            return True

    def _count(self, window: Window) -> None:
        turn = self._ledger.last
        if turn < window.last:
            end = min(turn + _TURNS_AT_ONCE, window.last)
            self._ledger.add(self._counted(window, turn + 1, end), end)
        elif self._waiting:
            some, self._waiting = self._waiting[:_TURNS_AT_ONCE], self._waiting[_TURNS_AT_ONCE:]
            self._hold(window, some)
        else:
            self._ledger.follow(window.end, window.last)
            self._window = None

    # -- turns -------------------------------------------------------------------------------------------------------

    def _counted(self, window: Window, first: int, last: int) -> Counted:
        counted = Counted()
        shown = [pair for pair in self._reading.rows(window.owned(first, last)) if not isinstance(pair, ConvfsError)]
        told = self._told(shown, counted)
        for turn, row in shown:
            place = turn.turn_id - window.after - 1
            context = window.owners[place]
            time_ms = row.time_ms or self._created_ms(context)
            day = day_of(time_ms)
            if (usage := told.get(turn.turn_id)) is not None:
                name = AccountName(context, day_of(usage.time_ms or time_ms), usage.model, 0, told=False)
                cost = None if usage.cost is None else round(usage.cost * _NANO)
                counted.answers.append(Answer(self._key(turn, usage), name, usage.tokens, cost))
            if window.replacing[place]:
                continue
            counted.bytes += row.payload_size
            if row.kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
                tool = context, day, row.tool or _NO_TOOL
                size = row.payload_size
                use = Uses(1, size) if row.kind is Kind.TOOL_CALL else Uses(results=1, result_bytes=size)
                counted.uses[tool] = counted.uses.get(tool, Uses()).and_(use)
        return counted

    def _created_ms(self, context: int) -> int:
        if context not in self._created:
            try:
                self._created[context] = self._store.entry(context).created_ms
            except NotFound:
                self._created[context] = 0
        return self._created[context]

    def _key(self, turn: Turn, usage: Usage) -> int:
        """Return the key of an answer: of its name, or of what tells of it and how far from the beginning it stands."""
        if usage.answer:
            return hash_key(hash_bytes(f"{self._store.viewer.format_name(turn.type_tag)}:{usage.answer}".encode()))
        return hash_key(hash_bytes(turn.payload_hash + turn.depth.to_bytes(4, "little")))

    def _told(self, shown: Sequence[Shown], counted: Counted) -> dict[int, Usage]:
        """Return what turns tell of usage, by their ids; what goes on to hold behind the last of them is kept."""
        lenses = {turn.turn_id: self._store.viewer.lens(turn) for turn, _row in shown}
        told: dict[int, Usage] = {}
        running: dict[int, Running] = {}
        for turn, payload in self._payloads([pair for pair in shown if lenses[pair[0].turn_id].telling]):
            lens = lenses[turn.turn_id]
            before = self._behind(turn, running, counted) if lens.counts_on else NOTHING_RUNNING
            usage, after = lens.usage(payload, before)
            if usage is not None:
                told[turn.turn_id] = usage
            if lens.counts_on:
                running[turn.turn_id] = after
        followed = {turn.parent for turn, _row in shown if turn.turn_id in running}
        depths = {turn.turn_id: turn.depth for turn, _row in shown}
        counted.running |= {
            turn: said for turn, said in running.items() if turn not in followed or _is_kept(depths.get(turn, 0))
        }
        return told

    def _payloads(self, shown: Sequence[Shown]) -> Iterator[tuple[Turn, bytes]]:
        """Yield the payloads of turns, empty where one cannot be read or is too large to be looked into."""
        batch: list[Turn] = []
        size = 0
        for turn, row in shown:
            if batch and size + row.payload_size > _BYTES_AT_ONCE:
                yield from self._batch(batch)
                batch, size = [], 0
            if row.payload_size > LARGEST_VIEWED:
                yield from self._batch(batch)
                yield turn, b""
                batch, size = [], 0
                continue
            batch.append(turn)
            size += row.payload_size
        yield from self._batch(batch)

    def _batch(self, turns: Sequence[Turn]) -> Iterator[tuple[Turn, bytes]]:
        found = self._store.resolver.blobs([turn.payload_hash for turn in turns])
        for turn in turns:
            payload = found[turn.payload_hash]
            yield turn, payload if isinstance(payload, bytes) else b""

    def _behind(self, turn: Turn, running: dict[int, Running], counted: Counted) -> Running:
        """Return what goes on to hold behind the parent of a turn."""
        parent = turn.parent
        if not parent:
            return NOTHING_RUNNING
        if (known := running.get(parent)) is not None:
            return known
        if (known := self._ledger.running(parent, parent).get(parent)) is not None:
            if not _is_kept(turn.depth - 1):
                # what follows is kept in its place
                counted.forgotten.append(parent)
            running[parent] = known
            return known
        try:
            before = self._store.turns.back(parent, _KEPT_EVERY)
        except ConvfsError:
            return NOTHING_RUNNING
        kept = self._ledger.running(before[0].turn_id, before[-1].turn_id)
        said = NOTHING_RUNNING
        start = 0
        for at, earlier in enumerate(before):
            if earlier.turn_id in kept:
                said, start = kept[earlier.turn_id], at + 1
        for earlier, payload in self._batch(before[start:]):
            lens = self._store.viewer.lens(earlier)
            if lens.counts_on:
                _usage, said = lens.usage(payload, said)
        running[parent] = said
        return said

    # -- conversations -----------------------------------------------------------------------------------------------

    def _hold(self, window: Window, contexts: Iterable[int]) -> None:
        held = []
        for context in contexts:
            try:
                # what it is drawn as is measured, too: that is the number of its events
                conversation = self._store.conversation(context)
                before = self._ledger.holding(context)
                own = before.own or window.firsts.get(context, 0)
                held.append(self._holding(before, conversation.head, own, self._beside(conversation)))
            except ConvfsError:
                # it is gone, or its branch cannot be followed
                continue
        self._ledger.hold(held)

    def _beside(self, conversation: Conversation) -> int:
        """Return how many bytes the contents have that the metadata of a conversation names."""
        total = 0
        for digest in set(named_in(msgspec.json.encode(conversation.metadata).decode())):
            with suppress(ConvfsError):
                # not all that looks like a hash is one of ours
                total += self._store.blob_size(digest)
        return total

    def _holding(self, before: Holding, tip: int, own: int, beside: int) -> Holding:
        store, turn, old = self._store, turn_of(tip), turn_of(before.head)
        if not turn:
            return Holding(before.context, tip, own, 0, 0, beside)
        size_of = store.views.payload_bytes
        depth = store.turns.get(turn).depth
        if old and own == before.own and store.turns.ancestor(turn, reached := store.turns.get(old).depth) == old:
            grown = tuple(branch.joined((one.turn_id, 1) for one in store.turns.back(turn, depth - reached)))
            return Holding(before.context, tip, own, before.bytes + size_of(grown), before.shared, beside)
        runs = store.runs(turn)
        shared = _before(runs, own) if own else runs
        return Holding(before.context, tip, own, size_of(runs), size_of(shared), beside)


def _is_kept(depth: int) -> bool:
    return depth % _KEPT_EVERY == _KEPT_EVERY - 1


def _before(runs: Sequence[Run], own: int) -> tuple[Run, ...]:
    """Return what of a branch came before turn ``own``."""
    return tuple((first, min(count, own - first)) for first, count in runs if first < own)

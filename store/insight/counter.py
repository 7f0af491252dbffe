"""The counting of turns, a few at a time: answers and their tokens, uses of tools, bytes.

Turns are counted in the order of the log, each once, for the conversation that had it first; the counts and the
place reached are filed in one change, so that an interruption at any moment counts nothing twice. A record that an
edit appended in place of another counts as that record. Turns whose payload cannot be read count as what their row
says. They are noted, and tried again every now and then: once some of them can be read, everything is counted
again, for later counts may follow from them.

The new turns, and whose they were first.

The head log says it in order: a turn belongs to the first context whose state it was part of.
Later ones that have it too, as forks do, share it.
"""

import threading
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from store.conversations import branch
from store.conversations.library import Library
from store.conversations.viewer import LARGEST_VIEWED
from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import (
    Commit,
    ContextCreated,
    Deleted,
    HeadFrame,
    HeadMoved,
    Metadata,
    Patched,
    Reclaimed,
    Superseded,
)
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, NotFound
from store.events.conversation import Conversation
from store.events.event import Kind
from store.events.usage import NOTHING_RUNNING, Running, Usage, combined, summed_up
from store.ids import hash_bytes, hash_key, turn_of
from store.index.database import Row
from store.index.frames import day_of
from store.insight.ledger import AccountName, Answer, Counted, Followed, Holding, Tally, Uses
from store.search.reader import ShownTurn, TurnReader
from store.upkeep.recovery import Files
from store.upkeep.roots import named_in

_MOST_TURNS = 1 << 15
_LINKS_AT_ONCE = 4096
_TURNS_AT_ONCE = 128
_BYTES_AT_ONCE = 4 << 20
_KEPT_EVERY = 256
"""The interval of records of a branch at which the running state is kept, so that a fork needs little reading."""
_NO_TOOL = "(unnamed)"
_NANO = 1_000_000_000
_AGAIN_SECONDS = 600.0
"""The interval of retrying unreadable turns: the disk may have failed for a moment only."""


class Window(Struct):
    """The turns behind ``after`` up to ``last``, as far as the head log tells of them up to ``end``.

    ``owners`` has the context of each, 0 where none has it, ``firsts`` the first turn of each context; ``replacing``
    says which turns took the place of others in an edit. ``moved`` are the contexts that changed, in order. ``gone``:
    contexts were deleted, or turns reclaimed, that may have been counted.
    """

    after: int
    last: int
    end: int
    owners: "array[int]"
    firsts: dict[int, int]
    replacing: bytearray
    moved: list[int]
    gone: bool

    def owned(self, first: int, last: int) -> list[int]:
        """Return the turns from ``first`` to ``last`` that belong to anyone."""
        return [turn for turn in range(first, last + 1) if self.owners[turn - self.after - 1]]


def window_after(files: Files, library: Library, followed: Followed) -> Window | None:
    """Return the turns since the head log was last followed, or a good part of them; None if there are none."""
    after, end = followed.turn, files.heads.length
    if followed.heads >= end:
        return None
    tips: dict[int, list[int]] = {}
    order: list[tuple[int, int]] = []
    replacing: list[tuple[int, int, int]] = []
    last, reached, gone = after, end, False
    for frame in files.heads.frames(followed.heads or HEADER_SIZE):
        if not isinstance(frame, HeadFrame):
            continue
        if frame.offset >= end or last - after >= _MOST_TURNS:
            reached = frame.offset
            break
        match frame.body:
            case ContextCreated(base_turn=tip) | HeadMoved(tip=tip):
                known = tips.setdefault(frame.context, [])
                # what is appended goes on from what was there, and belongs where that does in the order
                if not (known and isinstance(frame.body, HeadMoved) and frame.body.action == "append"):
                    order.append((frame.context, len(known)))
                    known.append(0)
                known[-1] = turn_of(tip)
                # the end of its group may be lost
                last = max(last, min(turn_of(tip), files.turns.count))
            case Patched() | Metadata():
                tips.setdefault(frame.context, [])
            case Superseded(turns=turns):
                replacing += [step for step in turns if step[1]]
            case Commit(turn_count=count):
                last = max(last, count)
            case Deleted() | Reclaimed():
                gone = gone or frame.offset >= followed.anew
    there = library.catalogue.ids()
    owners = array("Q", bytes(8 * (last - after)))
    parents = _parents(files.turns, after, last)
    for context, place in order:
        if context in there:
            _claim(owners, parents, after, tips[context][place], context)
    firsts: dict[int, int] = {}
    for turn, owner in enumerate(owners, after + 1):
        firsts.setdefault(owner, turn)
    moved = [context for context in tips if context in there]
    return Window(after, last, reached, owners, firsts, _replacing(replacing, owners, after), moved, gone)


def _replacing(steps: Iterable[tuple[int, int, int]], owners: "array[int]", after: int) -> bytearray:
    """Return 1 for each turn behind ``after`` that took the place of one which somebody has, else 0.

    ``steps`` are (old, new, count): the turns ``old``, ``old + 1`` … became ``new``, ``new + 1`` ….
    """
    marks = bytearray(len(owners))
    for old, new, count in steps:
        for was, now in zip(range(old, old + count), range(new, new + count), strict=True):
            # a restored version was there before
            if was < now <= after + len(marks) and now > after and (was <= after or owners[was - after - 1]):
                marks[now - after - 1] = 1
    return marks


def _parents(log: TurnLog, after: int, last: int) -> "array[int]":
    parents = array("Q")
    while (first := after + 1 + len(parents)) <= last:
        parents.extend(link[0] if link else 0 for link in log.links(first, min(last + 1 - first, _LINKS_AT_ONCE)))
    return parents


def _claim(owners: "array[int]", parents: "array[int]", after: int, turn: int, context: int) -> None:
    while after < turn <= after + len(owners) and not owners[turn - after - 1]:
        owners[turn - after - 1] = context
        turn = parents[turn - after - 1]


class TurnCounter:
    """Counts what one store holds. Safe to call from any thread; one counts, the others wait."""

    def __init__(self, files: Files, library: Library, ledger: Tally) -> None:
        self._files = files
        self._library = library
        self._ledger = ledger
        self._reading = TurnReader(library)
        self._lock = threading.Lock()
        self._window: Window | None = None
        self._waiting: list[int] = []
        self._created: dict[int, int] = {}
        self._untried: list[Row] = []
        self._again = 0.0
        """The next time to try unreadable turns, by the monotonic clock."""

    def count_some(self) -> bool:
        """Count some turns; return whether there is more to do."""
        with self._lock:
            window = self._window
            if window is None:
                window = self._window = window_after(self._files, self._library, self._ledger.followed)
                if window is None:
                    return self._try_some()
                if window.gone and self._ledger.last:
                    # these cannot be told from the rest of the counts
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

    def _try_some(self) -> bool:
        """Try a few unreadable turns, when it is time; return whether there is more to do."""
        if not self._untried:
            if time.monotonic() < self._again:
                return False
            self._again = time.monotonic() + _AGAIN_SECONDS
            self._untried = self._ledger.unread()
        some, self._untried = self._untried[:_TURNS_AT_ONCE], self._untried[_TURNS_AT_ONCE:]
        held = (self._is_held(context) for _turn, context in some if context)
        if self._is_read([turn for turn, _context in some if turn]) or any(held):
            self._untried = []
            self._ledger.reset(self._files.heads.length)
            return True
        return bool(self._untried)

    def _is_read(self, turns: Sequence[int]) -> bool:
        rows = self._reading.rows(turns)
        sure = [pair for pair in rows if not isinstance(pair, ConvfsError) and not pair[1].unsure]
        counted = Counted()
        for _turn, _payload in self._payloads(sure, counted):
            pass
        return len(counted.unread) < len(sure)

    def _is_held(self, context: int) -> bool:
        """Return whether everything can be read that a conversation's sums follow from."""
        try:
            return self._held(self._ledger.holding(context), 0)[1]
        except ConvfsError:
            return False

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

    def _counted(self, window: Window, first: int, last: int) -> Counted:
        counted = Counted()
        shown: list[ShownTurn] = []
        owned = window.owned(first, last)
        for turn_id, pair in zip(owned, self._reading.rows(owned), strict=True):
            if not isinstance(pair, ConvfsError):
                shown.append(pair)
                if pair[1].unsure:
                    counted.unread.append(turn_id)
            elif not isinstance(pair, NotFound):
                counted.unread.append(turn_id)
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
                counted.uses[tool] = combined(counted.uses.get(tool, Uses()), use)
        return counted

    def _created_ms(self, context: int) -> int:
        if context not in self._created:
            try:
                self._created[context] = self._library.catalogue.entry(context).created_ms
            except NotFound:
                self._created[context] = 0
        return self._created[context]

    def _key(self, turn: Turn, usage: Usage) -> int:
        """Return the key of an answer: of its name, or of what tells of it and its distance from the beginning."""
        if usage.answer:
            return hash_key(hash_bytes(f"{self._library.viewer.format_name(turn.type_tag)}:{usage.answer}".encode()))
        return hash_key(hash_bytes(turn.payload_hash + turn.depth.to_bytes(4, "little")))

    def _told(self, shown: Sequence[ShownTurn], counted: Counted) -> dict[int, Usage]:
        """Return the usage that turns tell, by their ids; the running state behind the last of them is kept."""
        lenses = {turn.turn_id: self._library.viewer.lens(turn) for turn, _row in shown}
        told: dict[int, Usage] = {}
        running: dict[int, Running] = {}
        for turn, payload in self._payloads([pair for pair in shown if lenses[pair[0].turn_id].telling], counted):
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

    def _payloads(self, shown: Sequence[ShownTurn], counted: Counted) -> Iterator[tuple[Turn, bytes]]:
        """Yield the payloads of turns, empty where one cannot be read or is too large to be looked into."""
        batch: list[Turn] = []
        size = 0
        for turn, row in shown:
            large = row.payload_size > LARGEST_VIEWED
            if batch and (large or size + row.payload_size > _BYTES_AT_ONCE):
                yield from self._batch(batch, counted)
                batch, size = [], 0
            if large:
                yield turn, b""
            else:
                batch.append(turn)
                size += row.payload_size
        yield from self._batch(batch, counted)

    def _batch(self, turns: Sequence[Turn], counted: Counted) -> Iterator[tuple[Turn, bytes]]:
        found = self._library.contents.blobs.blobs([turn.payload_hash for turn in turns])
        for turn in turns:
            payload = found[turn.payload_hash]
            if not isinstance(payload, bytes):
                counted.unread.append(turn.turn_id)
                payload = b""
            yield turn, payload

    def _behind(self, turn: Turn, running: dict[int, Running], counted: Counted) -> Running:
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
            before = self._library.turns.back(parent, _KEPT_EVERY)
        except ConvfsError:
            return NOTHING_RUNNING
        kept = self._ledger.running(before[0].turn_id, before[-1].turn_id)
        said = NOTHING_RUNNING
        start = 0
        for at, earlier in enumerate(before):
            if earlier.turn_id in kept:
                said, start = kept[earlier.turn_id], at + 1
        for earlier, payload in self._batch(before[start:], counted):
            lens = self._library.viewer.lens(earlier)
            if lens.counts_on:
                _usage, said = lens.usage(payload, said)
        running[parent] = said
        return said

    def _hold(self, window: Window, contexts: Iterable[int]) -> None:
        held: list[Holding] = []
        unread: list[int] = []
        sums: list[Answer] = []
        for context in contexts:
            try:
                sums += self._sum(context)
                holding, sure = self._held(self._ledger.holding(context), window.firsts.get(context, 0))
            except NotFound:
                # it is gone
                continue
            except ConvfsError:
                # its branch cannot be followed
                unread.append(context)
                continue
            held.append(holding)
            if not sure:
                unread.append(context)
        self._ledger.hold(held, unread, sums)

    def _sum(self, context: int) -> Iterator[Answer]:
        """Yield all answers of a conversation as one, where its metadata has their sum, once for all copies."""
        entry = self._library.catalogue.entry(context)
        if (usage := summed_up(entry.metadata)) is None:
            return
        session = str(entry.metadata.get("format")), str(entry.metadata.get("session"))
        if any(other.id < context for other in self._library.catalogue.by_origin("session", *session, most=-1)):
            return
        name = AccountName(context, day_of(entry.created_ms), usage.model, 0, told=False)
        cost = None if usage.cost is None else round(usage.cost * _NANO)
        yield Answer(hash_key(hash_bytes(":".join(("all", *session)).encode())), name, usage.tokens, cost)

    def _held(self, before: Holding, first: int) -> tuple[Holding, bool]:
        """Return the holding of a conversation, ``first`` as of :class:`Window`, and if all of it could be read."""
        # its drawing is measured, too: that is the number of its events
        conversation = self._library.conversation(before.context)
        beside, sure = self._beside(conversation)
        holding = self._holding(before, conversation.head, before.own or first, beside)
        return holding, sure and not conversation.unsure

    def _beside(self, conversation: Conversation) -> tuple[int, bool]:
        """Return the size in bytes of the contents that a conversation's metadata names, and if all could be read."""
        total, sure = 0, True
        for digest in set(named_in(msgspec.json.encode(conversation.metadata).decode())):
            try:
                total += self._library.contents.blobs.size(digest)
            except NotFound:
                # not everything that looks like a hash is one of ours
                continue
            except ConvfsError:
                sure = False
        return total, sure

    def _holding(self, before: Holding, tip: int, own: int, beside: int) -> Holding:
        library, turn, old = self._library, turn_of(tip), turn_of(before.head)
        if not turn:
            return Holding(before.context, tip, own, 0, 0, beside)
        size_of = library.views.payload_bytes
        depth = library.turns.get(turn).depth
        if old and own == before.own and library.turns.ancestor(turn, reached := library.turns.get(old).depth) == old:
            grown = tuple(branch.joined((one.turn_id, 1) for one in library.turns.back(turn, depth - reached)))
            return Holding(before.context, tip, own, before.bytes + size_of(grown), before.shared, beside)
        runs = library.records.runs(turn)
        shared = tuple((first, min(count, own - first)) for first, count in runs if first < own) if own else runs
        return Holding(before.context, tip, own, size_of(runs), size_of(shared), beside)


def _is_kept(depth: int) -> bool:
    return depth % _KEPT_EVERY == _KEPT_EVERY - 1

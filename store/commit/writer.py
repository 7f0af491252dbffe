"""The one writer: whatever waits is made durable together.

Every caller brings a :class:`Request`. The first to come leads: it takes all that waits, allots turn ids, puts one
entry into the journal (one write, one fdatasync) and answers all; meanwhile others gather behind the next leader.
There is no thread of its own to hand work to, so a lone caller pays for the sync and hardly more.

What is in the journal is durable. The logs and the index are brought up to it without syncs, and blobs wait in
memory (:class:`Pending`) until a checkpoint packs them (``store.commit.checkpointer``).

A write or sync that fails is an error to everyone waiting, and from then on to everyone: what the disk holds is
unknown, so nothing is retried.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from store.commit.pending import Pending
from store.commit.request import ContextHead, Request
from store.disk import head_format as heads
from store.disk import turn_format
from store.disk.head_log import HeadLog
from store.disk.journal import Journal
from store.disk.journal_format import Entry, JournalBlob, encode_entry
from store.disk.pack import PackSet
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, NotFound, StoreFailed, UsageError
from store.ids import now_ms
from store.index.catalogue import Catalogue
from store.index.index import Index

_GROUP_BYTES = 4 << 20
_CACHED_HEADS = 65_536
_UNAPPLIED_FRAMES = 8192


class Writer:
    """Serializes all changes of one store. Safe to call from any thread."""

    def __init__(
        self,
        turns: TurnLog,
        head_log: HeadLog,
        packs: PackSet,
        journal: Journal,
        index: Index,
        seq: int,
    ) -> None:
        self.turns = turns
        self.head_log = head_log
        self.packs = packs
        self.journal = journal
        self.index = index
        self.pending = Pending()
        self.seq = seq
        self.failure: Exception | None = None
        self.journal_full: Callable[[], None] = lambda: None
        self.committed: Callable[[list[Request]], None] = lambda _requests: None
        self._catalogue = Catalogue(index.db)
        self._next_context = self._catalogue.last_id() + 1
        self._heads: dict[int, ContextHead] = {}
        self._unapplied: list[heads.Frame] = []
        self._apply_lock = threading.Lock()
        self._mutex = threading.Lock()
        self._queue: list[Request] = []
        self._leading = False
        self.commit_lock = threading.Lock()

    # -- callers ---------------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> Request:
        """Make ``request`` durable and return it, filled in. Raises what went wrong, if nothing of it happened."""
        with self._mutex:
            self._queue.append(request)
            leads = not self._leading
            self._leading = True
        if not leads:
            request.gate.acquire()
            leads = request.leads
        if leads:
            self._lead(request)
        if request.error is not None:
            raise request.error
        return request

    def settle(self) -> None:
        """Bring the index up to what has been committed; whoever queries it calls this first."""
        if self._unapplied:
            with self._apply_lock:
                frames = self._unapplied[:]
                if frames:
                    self.index.apply(frames)
                    del self._unapplied[: len(frames)]

    def head(self, context: int) -> ContextHead:
        """Return the head of ``context`` as last committed; NotFound if there is no such context."""
        known = self._heads.get(context)
        if known is not None:
            return known
        self.settle()
        entry = self._catalogue.by_id(context)
        if entry is None:
            raise NotFound(f"there is no context {context}")
        head = ContextHead(context, entry.head, max(entry.records - 1, 0))
        if len(self._heads) >= _CACHED_HEADS:
            self.settle()
            self._heads = {}
        self._heads[context] = head
        return head

    # -- the leader ------------------------------------------------------------------------------------------------

    def _lead(self, own: Request) -> None:
        group: list[Request] = []
        with self._mutex:
            size = 0
            for request in self._queue:
                size += sum(len(blob.body) for blob in request.blobs) + 80 * len(request.turns)
                if group and size > _GROUP_BYTES:
                    break
                group.append(request)
            del self._queue[: len(group)]
        with self.commit_lock:
            self._commit(group)
        with self._mutex:
            if self._queue:
                self._queue[0].leads = True
                self._queue[0].gate.release()
            else:
                self._leading = False
        for request in group:
            if request is not own:
                request.leads = False
                request.gate.release()
        self.committed(group)

    def _commit(self, group: list[Request]) -> None:
        if self.failure is not None:
            for request in group:
                request.error = self._failed()
            return
        draft = _Draft(self)
        for request in group:
            try:
                draft.add(request)
            except ConvfsError as error:
                request.error = error
        if draft.empty:
            return
        try:
            self._write(draft)
        except Exception as error:
            # whatever it was, the disk's state is unknown now: see the module's docstring
            self.failure = error
            for request in group:
                request.error = request.error or self._failed()

    def _write(self, draft: _Draft) -> None:
        entry = draft.close()
        encoded = encode_entry(entry)
        while not self.journal.room(len(encoded)):
            self.journal_full()
        self.journal.append(encoded)
        self.turns.append(entry.turns)
        self.head_log.append(entry.heads)
        self.pending.add(draft.blobs)
        self.seq = draft.seq
        self._next_context = draft.next_context
        self._heads.update(draft.heads)
        self._unapplied.extend(draft.frames)
        if len(self._unapplied) > _UNAPPLIED_FRAMES:
            self.settle()

    def _failed(self) -> StoreFailed:
        return StoreFailed(
            f"a write to the store failed ({self.failure}); it takes no more writes: free space or repair the disk,"
            " then open it again"
        )


class _Draft:
    """What one group will change, worked out before anything is written."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.seq = writer.seq
        self.next_context = writer._next_context
        self.next_turn = writer.turns.count + 1
        self.heads: dict[int, ContextHead] = {}
        self.turns: list[bytes] = []
        self.frames: list[heads.Frame] = []
        self.encoded: list[bytes] = []
        self.blobs: list[JournalBlob] = []

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.frames or self.turns or self.blobs)

    def add(self, request: Request) -> None:
        """Work out one request; raises (and changes nothing) if it cannot be done."""
        writer = self.writer
        now = now_ms()
        created = request.context is None
        context = self.next_context if request.context is None else request.context
        if created or context == 0:
            head = ContextHead(context, 0, 0)
        else:
            head = self.heads.get(context) or writer.head(context)
        parent, depth = head.turn, head.depth
        if request.parent:
            base = self._turn(request.parent)
            parent, depth = base.turn_id, base.depth
        if created:
            self.next_context += 1
            self._frame(context, heads.ContextCreated(request.parent, now, 0))
        for name, tag in request.types:
            self._frame(0, heads.TypeRegistered(name, 0, tag))
        for algorithm, digest, target in request.aliases:
            self._frame(0, heads.Alias(algorithm, digest, target))
        for tag, target in request.dictionaries:
            self._frame(0, heads.Dictionary(tag, target))
        for new in request.turns:
            depth = depth + 1 if parent else 0
            turn = Turn(
                self.next_turn, parent, depth, new.codec, new.type_tag, new.payload_hash, new.flags, new.created_ms
            )
            self.next_turn += 1
            self.turns.append(turn_format.encode(turn))
            request.written.append(turn)
            parent = turn.turn_id
        if context and request.move_head and (request.turns or request.parent) and parent != head.turn:
            head = ContextHead(context, parent, depth)
            self._frame(context, heads.HeadMoved(parent, depth, now, request.action))
        if request.changes is not None:
            self._frame(context, heads.Metadata(now, request.changes))
        if context:
            self.heads[context] = head
        request.head = head
        self.blobs.extend(request.blobs)

    def _turn(self, turn_id: int) -> Turn:
        written = self.writer.turns.count
        if turn_id <= written:
            return self.writer.turns.get(turn_id)
        position = turn_id - written - 1
        if position >= len(self.turns):
            raise UsageError(f"there is no turn {turn_id} to follow")
        return turn_format.decode(self.turns[position])

    def _frame(self, context: int, body: heads.Body) -> None:
        self.seq += 1
        self.encoded.append(heads.encode(self.seq, context, body))
        self.frames.append(heads.Frame(0, self.seq, context, body))

    def close(self) -> Entry:
        """End the group with its COMMIT and return it as one journal entry."""
        writer = self.writer
        offset = writer.head_log.length
        pack, length = writer.packs.synced
        self._frame(0, heads.Commit(self.next_turn - 1, pack, length, offset))
        return Entry(
            self.seq,
            writer.turns.count + 1,
            b"".join(self.turns),
            offset,
            b"".join(self.encoded),
            (pack, length),
            self.blobs,
        )

"""The one writer: whatever waits is made durable together.

Every caller brings a :class:`Request`. A group of them (``store.commit.gathering``) is one entry of the journal: turn
ids are allotted, and one write and one fdatasync make all of it durable.

What is in the journal is durable. The logs and the index are brought up to it without syncs, and blobs wait in the
journal (:class:`Pending`) until a checkpoint packs them (``store.commit.checkpointer``).

A write or sync that fails is an error to everyone waiting, and from then on to everyone: what the disk holds is
unknown, so nothing is retried. A disk that is full is found out before anything is written, and an error to those alone
who wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from store.commit.applying import Applying
from store.commit.draft import Draft
from store.commit.gathering import Gathering
from store.commit.keys import Keys
from store.commit.open_texts import FOLLOWED, OpenText, OpenTexts
from store.commit.pending import Pending
from store.commit.replaced import Replaced
from store.commit.request import ContextHead, Request
from store.commit.unshown import Unshown
from store.disk import head_format as heads
from store.disk.head_log import HeadLog
from store.disk.journal import Journal
from store.disk.journal_format import encode_entry
from store.disk.note_format import TEXT_NOTES
from store.disk.pack import PackSet
from store.disk.turn_format import RECORD_SIZE
from store.disk.turn_log import TurnLog
from store.errors import DamageError, NotFound, StoreFailed, StoreFull, UsageError
from store.ids import patch_of, turn_of
from store.index.catalogue import Catalogue
from store.index.index import Index
from store.index.notes import Notes
from store.index.patches import Patches

_GROUP_BYTES = 4 << 20
_JOURNALLED_BYTES = 1 << 20
_JOURNALLED_TURNS = 2 << 20
_CACHED_HEADS = 65_536
_ROOM_BYTES = 1 << 20
"""What is left of the disk for the index and the logs."""
_UNAPPLIED_FRAMES = 4096
_MOST_UNAPPLIED_FRAMES = 65_536


class Live(NamedTuple):
    """The head of a context and its open turns, in the order in which they were opened.

    ``leading`` is the one that the conversation goes on with, None if there is none.
    """

    head: ContextHead
    texts: list[OpenText]
    leading: OpenText | None


class Writer:
    """Serializes all changes of one store. Safe to call from any thread."""

    def __init__(
        self,
        turns: TurnLog,
        head_log: HeadLog,
        packs: PackSet,
        journal: Journal,
        index: Index,
        pending: Pending,
        seq: int,
    ) -> None:
        self.turns = turns
        self.head_log = head_log
        self.packs = packs
        self.journal = journal
        self.index = index
        self.pending = pending
        self.seq = seq
        self.types = index.type_names()
        """The names of the payload types that turns may have, by tag."""
        self.commit_lock = threading.Lock()
        self.journal_full: Callable[[], None] = lambda: None
        """Called under ``commit_lock`` to make room in the journal."""
        self.pace: Callable[[], None] = lambda: None
        """Called under ``commit_lock`` before something is written."""
        self.wanted: Callable[[], None] = lambda: None
        """Called after a commit when there is work for the background."""
        self.committed: Callable[[list[Request]], None] = lambda _requests: None
        """Called with every group, after its callers have been answered."""
        self.journalled_bytes = min(_JOURNALLED_BYTES, journal.capacity // 4)
        """Who brings more new content than this should write it to the packs, not through the journal."""
        self.turns_at_once = min(_JOURNALLED_TURNS, journal.capacity // 8) // RECORD_SIZE
        """Who appends more turns than this should make several requests of it."""
        self._largest = journal.capacity // 2
        self._group_bytes = min(_GROUP_BYTES, journal.capacity // 4)
        self._failure: str = ""
        self._closed = False
        self._catalogue = Catalogue(index.db)
        self._next_context = self._catalogue.last_id() + 1
        self._next_patch = Patches(index.db).last() + 1
        notes = Notes(index.db)
        self.keys = Keys(notes)
        self.replaced = Replaced()
        """Blobs that others have taken the places of."""
        self.texts = OpenTexts()
        """The turns that are being written."""
        if opened := notes.open_turns():
            first = min(offset for _context, offset in opened.values())
            self.texts.replay(head_log.frames(first), {number: context for number, (context, _) in opened.items()})
        self.unshown = Unshown()
        """The turns that no branch shows yet."""
        self._heads: dict[int, ContextHead] = {}
        self._applying = Applying(index, head_log, self.keys.filed)
        self._publishing = threading.Lock()
        self.gathering = Gathering(self._make_durable, lambda group: self.committed(group), self._group_bytes)

    # -- callers ---------------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> Request:
        """Make ``request`` durable and return it, filled in.

        Raises StoreFailed if a write failed, now or before, or what is wrong with the request: then nothing of it
        happened.
        """
        self.submit_all([request])
        if request.error is not None:
            raise request.error
        return request

    def submit_all(self, requests: Sequence[Request]) -> None:
        """Make requests durable, as many as fit with one sync; each is filled in, or has its ``error``."""
        fitting: list[Request] = []
        for request in requests:
            if request.measure() <= self._largest:
                fitting.append(request)
                continue
            request.error = UsageError(
                f"{request.size} bytes in one request are too many, {self._largest} the most: make several of it"
            )
        self.gathering.submit(fitting)

    @property
    def at_once(self) -> bool:
        """Whether a commit would have to wait for nothing but its own sync, as far as that can be told."""
        journal = self.journal
        if self.commit_lock.locked() or 2 * journal.backlog > journal.total:
            # where so much waits to be packed, commits are paced
            return False
        return journal.free or journal.room(self._group_bytes)

    def settle(self) -> None:
        """Bring the index up to what has been committed; whoever queries it calls this first."""
        self._applying.settle()

    def head(self, context: int) -> ContextHead:
        """Return the head of ``context`` as last committed; NotFound if there is no such context."""
        known = self._heads.get(context)
        if known is not None:
            return known
        self.settle()
        with self._publishing:
            known = self._heads.get(context)
            if known is None:
                # what has been committed since, so little that commits can wait for it
                self.settle()
                found = self._catalogue.head(context)
                if found is None:
                    raise NotFound(f"there is no context {context}")
                tip, records = found
                known = ContextHead(context, turn_of(tip), max(records - 1, 0), patch_of(tip))
                if len(self._heads) < _CACHED_HEADS:
                    self._heads[context] = known
        return known

    def _named(self, project: str, name: str) -> int:
        """Return which conversation is called ``project/name`` as last committed, 0 if none is."""
        self.settle()
        found = self._catalogue.by_name(project, name)
        return found.id if found else 0

    def live(self, context: int, most: int = -1) -> Live:
        """Return the head of ``context`` and its open turns, all as of the same commit; see :meth:`OpenTexts.of`."""
        while True:
            head = self.head(context)
            with self._publishing:
                # one that is not remembered has not changed since
                if self._heads.get(context, head) == head:
                    leading = self.texts.get(self.texts.leading(context))
                    return Live(head, self.texts.of(context, most), leading)

    # -- failing ---------------------------------------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """Whether a write has failed."""
        return bool(self._failure)

    def fail(self, error: BaseException) -> StoreFailed:
        """Take no more writes, since ``error`` has left the disk in an unknown state; return what to raise."""
        self._failure = self._failure or str(error) or type(error).__name__
        return self._refusal()

    def check(self) -> None:
        """Raise StoreFailed if a write has failed or the store is closed."""
        if self._failure or self._closed:
            raise self._refusal()

    def has_room(self, size: int = 0) -> bool:
        """Say whether the disk has room for ``size`` bytes, and for packing all that is in the journal."""
        return self.journal.free_bytes() >= size + self.journal.backlog + _ROOM_BYTES

    def check_room(self, size: int = 0) -> None:
        """Raise StoreFull unless :meth:`has_room`."""
        if not self.has_room(size):
            raise StoreFull("there is hardly any room left on the disk of the store: free space, then try again")

    def close(self) -> None:
        """Take no more requests. The caller holds ``commit_lock``."""
        self._closed = True

    def _refusal(self) -> StoreFailed:
        if not self._failure:
            return StoreFailed("the store has been closed")
        return StoreFailed(
            f"a write to the store failed ({self._failure}); it takes no more writes: free space or repair the disk,"
            " then open it again"
        )

    # -- committing ------------------------------------------------------------------------------------------------

    def _make_durable(self, group: list[Request]) -> None:
        try:
            with self.commit_lock:
                self._commit(group)
        except BaseException as error:
            # interrupted between writing and saying so
            for request in group:
                request.error = self.fail(error)
            raise

    def submit_then(self, request: Request, before: Callable[[], bool], after: Callable[[], None]) -> bool:
        """Make ``request`` durable by itself, if ``before`` says so; then do ``after``. No other commit comes between.

        Returns whether it was done. Raises as :meth:`submit`; what ``after`` raises fails the store.
        """
        request.measure()
        with self.commit_lock:
            if not before():
                return False
            self._commit([request])
            if request.error is not None:
                raise request.error
            try:
                after()
            except BaseException as error:
                raise self.fail(error) from error
        self.committed([request])
        return True

    def _commit(self, group: list[Request]) -> None:
        if self._failure or self._closed:
            for request in group:
                request.error = self._refusal()
            return
        keyed = [request.place for request in group if request.key]
        draft = Draft(
            self.turns,
            self.seq,
            self._next_context,
            self._next_patch,
            self.head_log.length,
            self.head,
            self._named,
            self.keys.look_up(keyed) if keyed else {},
        )
        for request in group:
            try:
                if self.replaced:
                    self.replaced.rename(request)
                draft.add(request)
            except Exception as error:
                request.error = error
        if draft.empty:
            return
        try:
            self._write(draft)
            self.unshown.note(group)
        except StoreFull as error:
            # before anything was written
            for request in group:
                request.error = request.error or error
        except Exception as error:
            for request in group:
                request.error = request.error or self.fail(error)

    def _write(self, draft: Draft) -> None:
        entry = draft.close(self.packs.synced)
        encoded = encode_entry(entry)
        self.check_room(2 * len(encoded))
        self.pace()
        while not self.journal.room(len(encoded)):
            self.journal_full()
        first = not self.journal.used
        end = self.journal.append(encoded)
        self.turns.append(entry.turns)
        self.head_log.append(entry.heads)
        self.pending.add(draft.blobs, end)
        texts: list[heads.Frame] = []
        followed = FOLLOWED if self.texts else TEXT_NOTES
        for frame in draft.frames:
            body = frame.body
            if isinstance(body, heads.TypeRegistered):
                self.types[body.tag] = body.name
            elif isinstance(body, heads.Appended):
                self.keys.note(frame.context, body)
            elif isinstance(body, followed):
                texts.append(frame)
        with self._publishing:
            waiting = self._applying.add(draft.frames)
            if waiting > _MOST_UNAPPLIED_FRAMES or len(self._heads) >= _CACHED_HEADS:
                # what is committed stands, whatever becomes of the index
                with suppress(DamageError):
                    self.settle()
                    if len(self._heads) >= _CACHED_HEADS:
                        self._heads = {}
            self._heads.update(draft.heads)
            for context in draft.deleted:
                del self._heads[context]
            for frame in texts:
                self.texts.apply(frame)
        self.seq = draft.seq
        self._next_context = draft.next_context
        self._next_patch = draft.next_patch
        if first or waiting > _UNAPPLIED_FRAMES:
            self.wanted()

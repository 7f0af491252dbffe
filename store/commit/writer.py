"""The one writer: it makes all waiting requests durable together.

Every caller brings a :class:`Request`. A group of them (``store.commit.gathering``) is one entry of the journal: turn
ids are allotted, and one write and one fdatasync make all of it durable.

The contents of the journal are durable. The logs and the index are brought up to it without syncs, and blobs wait in
the journal (:class:`Pending`) until a checkpoint packs them (``store.commit.checkpointer``).

A write or sync that fails is an error to everyone waiting, and from then on to everyone: the state of the disk is
unknown, so nothing is retried. A full disk is an error only to those that wait: an entry that did not fit into the
journal does not exist, and the changes that follow from one that did wait in memory until there is room (``LogFile``,
``Database``). Once there is room, everything goes on.

Replaced blobs: blobs whose places others have taken, kept for requests that are about to name them.

A caller with much content writes it to the packs first, or finds it there, and then commits the turns that name it. If
the content was replaced for good in between, so are the names.

Unshown turns: turns that no branch shows yet, of an import or a large edit, until its last request shows them.

Nothing leads to them, yet they are not garbage. If that last request never comes, they are known here until the store
is closed. Those that a store holds when it is opened belong to nobody.
"""

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from itertools import count
from typing import NamedTuple

from msgspec import structs

from store.commit import patience
from store.commit.gathering import Gathering
from store.commit.interrupts import WHOLE
from store.commit.open_texts import FOLLOWED, OpenText, OpenTexts
from store.commit.order import NOWHERE, Alone, Order
from store.commit.pending import Backlog, Generation, Pending
from store.commit.precedence import Precedence
from store.commit.request import ContextHead, Group, Request
from store.disk import durable
from store.disk import head_format as heads
from store.disk.file_header import Damage
from store.disk.head_format import TEXT_NOTES, AppendNoted, HeadFrame
from store.disk.head_log import HeadLog
from store.disk.journal import Journal
from store.disk.journal_format import JournalEntry, decode_entry, entry_pieces
from store.disk.pack import PackSet
from store.disk.turn_format import RECORD_SIZE, REDACTED
from store.disk.turn_log import TurnLog
from store.errors import DamageError, Gone, NotFound, StoreFailed, StoreFull, Unreachable, Unredacted, UsageError
from store.events.conversation import Change
from store.ids import HEX, Hash, now_ms, patch_of, turn_of, type_tag
from store.index.catalogue import Catalogue
from store.index.database import held_if_full
from store.index.fresh import Sieve
from store.index.index import Index
from store.index.notes import KEPT_MS, KeyPlace, Notes
from store.index.patches import Patches

_LOG = logging.getLogger(__name__)


class Applying:
    """Frames of the head log that the index has not been told of yet; ``applied`` is called with those that it was."""

    def __init__(self, index: Index, head_log: HeadLog, applied: Callable[[Sequence[HeadFrame]], None]) -> None:
        self._index = index
        self._head_log = head_log
        self._applied = applied
        self._waiting: list[HeadFrame] = []
        self._last = index.seq
        self._lock = threading.Lock()

    def add(self, frames: Sequence[HeadFrame]) -> int:
        """Add frames that have been committed; return how many wait. Only one thread at a time may add."""
        self._waiting += frames
        return len(self._waiting)

    def settle(self) -> None:
        """Apply all waiting frames to the index. DamageError if it is damaged and the log cannot refill it."""
        db = self._index.db
        if self._waiting or db.lost:
            with self._lock:
                frames = self._waiting[:]
                if frames:
                    self._file(frames)
                    del self._waiting[: len(frames)]
                    self._last = frames[-1].seq
                    self._applied(frames)
                if db.lost:
                    self._find()

    def _find(self) -> None:
        """Apply to the index once more the frames that were held in memory and could not be written."""
        self._index.db.lost = False
        reached = self._index.seq
        lost = DamageError(f"{self._index.db.path}: what was held in memory is lost: open the store again")
        held_if_full(self._index.apply)([frame for frame in self._logged(self._last, lost) if frame.seq > reached])

    def _file(self, frames: list[HeadFrame]) -> None:
        """Apply ``frames`` to the index. If it turns out to be damaged, refill it from the log."""
        try:
            held_if_full(self._index.apply)(frames)
        except DamageError as damage:
            _LOG.warning("%s; it is being filled anew from the head log", damage)
            self._index.renew(self._logged(frames[-1].seq, damage))

    def _logged(self, last: int, damage: DamageError) -> Iterator[HeadFrame]:
        """Yield what the head log has up to seq ``last``; ``damage`` is raised if something of that is lost."""
        for frame in self._head_log.frames():
            if isinstance(frame, Damage):
                # the index may know more than is left in the log
                raise damage
            if frame.seq > last:
                return
            yield frame


_SIEVED = 1 << 16
"""The keys that a sieve is made for: with more, it lets more of those pass that the index does not have."""


class Keys:
    """Answers from the index, and from memory what that does not have yet.

    Clients give each append a key of its own, and hardly ever send one again: so the index is not asked for a key that
    cannot be in it. A sieve has all that were noted here.
    """

    def __init__(self, notes: Notes, later: int) -> None:
        """The index has no keys of contexts from ``later`` on yet: all of theirs will be noted here."""
        self._notes = notes
        self._later = later
        self._fresh: dict[KeyPlace, tuple[int, int]] = {}
        self._noted: Sieve | None = None
        """Made once there is a key: most processes append none."""

    def __len__(self) -> int:
        return len(self._fresh)

    def get(self, context: int, key: bytes) -> int:
        """Return which turn was appended to a context under a key, as last committed; 0 if none was, within a day."""
        found = self.look_up([(context, key)]).get((context, key), 0)
        if isinstance(found, DamageError):
            raise found
        return found

    def look_up(self, places: Sequence[KeyPlace]) -> dict[KeyPlace, int | DamageError]:
        """Return the results of :meth:`get` for many keys at once: the known ones, or the damage to their notes."""
        # in this order: a note that leaves the one is already in the other
        fresh = {place: appended for place in places if (appended := self._fresh.get(place))}
        filed = self._notes.keys([place for place in self._perhaps_filed(places) if place not in fresh])
        since = now_ms() - KEPT_MS
        found: dict[KeyPlace, int | DamageError] = {}
        for place, entry in {**filed, **fresh}.items():
            if isinstance(entry, DamageError):
                found[place] = entry
            elif since < entry[1] < since + 2 * KEPT_MS:
                found[place] = entry[0]
        return found

    def note(self, frames: Iterable[HeadFrame]) -> None:
        """Remember the keys of frames that have been committed, until they are filed."""
        new = {
            (frame.context, body.key): (body.turn, body.time_ms)
            for frame in frames
            if isinstance(body := frame.body, AppendNoted)
        }
        self._fresh.update(new)
        if self._noted is None:
            self._noted = Sieve(_SIEVED)
        self._noted.add([hash(place) for place in new])

    def _perhaps_filed(self, places: Sequence[KeyPlace]) -> list[KeyPlace]:
        """Return those of some places that the index may have."""
        noted = set(self._noted.passing(map(hash, places))) if self._noted else ()
        return [place for place in places if place[0] < self._later or (noted and hash(place) in noted)]

    def filed(self, frames: Sequence[HeadFrame]) -> None:
        """Forget the keys of frames that the index has now."""
        for frame in frames:
            body = frame.body
            if isinstance(body, AppendNoted):
                place = (frame.context, body.key)
                if self._fresh.get(place) == (body.turn, body.time_ms):
                    self._fresh.pop(place, None)


class Replaced:
    """The blobs that were replaced since the store was opened. Guarded by the lock that commits hold."""

    def __init__(self) -> None:
        self._new: dict[Hash, Hash] = {}

    def __bool__(self) -> bool:
        return bool(self._new)

    def add(self, new: Mapping[Hash, Hash]) -> None:
        """Record blobs that took the places of others."""
        self._new |= new

    def written(self, digests: Iterable[Hash]) -> None:
        """Record that replaced blobs were written again: their names then mean these blobs."""
        for digest in digests:
            self._new.pop(digest, None)

    def rename(self, request: Request) -> None:
        """Change a request to name the replacements, except for content that it brings itself."""
        self.written([blob.hash for blob in request.blobs])
        new = self._new
        if any(turn.payload_hash in new for turn in request.turns):
            request.turns = [
                structs.replace(turn, payload_hash=new[turn.payload_hash], flags=turn.flags | REDACTED)
                if turn.payload_hash in new
                else turn
                for turn in request.turns
            ]
        request.patches = [
            (turn, new[digest], flags | REDACTED, created) if digest in new else (turn, digest, flags, created)
            for turn, digest, flags, created in request.patches
        ]
        if request.fs_root is not None:
            request.fs_root = new.get(request.fs_root, request.fs_root)
        if request.changes is not None:
            request.changes = HEX.sub(self._in_hex, request.changes)

    def _in_hex(self, match: re.Match[bytes]) -> bytes:
        name = self._new.get(Hash(bytes.fromhex(match[0].decode())))
        return match[0] if name is None else name.hex().encode()


class Unshown:
    """Tracks commits, in order, on the committing thread."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}
        """The turn before the first turn of each request, by its last turn."""

    def note(self, group: Sequence[Request]) -> None:
        """Record requests that have been committed, or have an error."""
        for request in group:
            if (request.context and not self._parents) or request.error is not None:
                continue
            if request.context == 0 and request.written:
                self._parents[request.written[-1].turn_id] = request.written[0].parent
            elif self._parents and request.written:
                self._show(request.written[0].parent)
            elif self._parents:
                self._show(request.head.turn)

    def _show(self, turn: int) -> None:
        while (parent := self._parents.pop(turn, None)) is not None:
            turn = parent

    def ends(self) -> Iterable[int]:
        """Return turns that all of them are, or lead to. Safe to call from any thread."""
        return list(self._parents)


class Observers:
    """Callbacks that are told of what was committed, from the committing thread."""

    def __init__(self) -> None:
        self._callbacks: list[tuple[Callable[[Change], None], bool]] = []
        self.added: Callable[[], None] = lambda: None
        """Called with each one that is added: somebody is shown what others commit."""

    def add(self, callback: Callable[[Change], None], *, texts: bool = False) -> None:
        """Call ``callback`` after each commit for every context that it changed.

        With ``texts``, also for every piece of an open turn. The change can be read by then.
        """
        self._callbacks = [*self._callbacks, (callback, texts)]
        self.added()

    def remove(self, callback: Callable[[Change], None]) -> None:
        """Call ``callback`` no more; a call that is on its way may still come."""
        self._callbacks = [known for known in self._callbacks if known[0] != callback]

    def announce(self, group: list[Request]) -> None:
        """Notify observers of requests that have been committed, or have an error."""
        if not self._callbacks:
            return
        for request in group:
            head = request.head
            if request.plain and request.error is None and not request.repeated:
                change = Change(head.context, False, True, tip=head.tip, depth=head.depth, seq=request.seq)
                for callback, _texts in self._callbacks:
                    callback(change)
                continue
            if request.error is not None or request.repeated or not head.context:
                continue
            streamed = bool(request.closes) or any(isinstance(note, TEXT_NOTES) for note in request.notes)
            quiet = not (request.move_head or request.changes or request.deletes)
            if quiet and not streamed:
                continue
            created, described = request.context is None, request.changes is not None
            moved = request.move_head and bool(created or request.turns or request.patches or request.parent != 0)
            change = Change(
                head.context, created, moved, described, streamed, head.tip, head.depth, request.seq, request.deletes
            )
            self.tell(change, quiet=quiet)

    def tell(self, change: Change, *, quiet: bool) -> None:
        """Notify observers of one change; if it is ``quiet``, only those that follow the pieces of open turns."""
        for callback, texts in self._callbacks:
            if texts or not quiet:
                callback(change)


_GROUP_BYTES = 4 << 20
_JOURNALLED_BYTES = 1 << 20
_JOURNALLED_TURNS = 2 << 20
_CACHED_HEADS = 65_536
_ROOM_BYTES = 1 << 20
"""The bytes of the disk that are left for the index and the logs."""
_GRANTED_BYTES = 1 << 20
"""The bytes that commits may take before the disk is asked again, where it has more room than that."""
_MANY = 500
"""How many entries that come at once may not be all that there are."""
_PATIENCE = 2
"""How often others may be first before they are asked to wait."""
_UNAPPLIED_FRAMES = 4096
_PLAIN = {heads.HeadMoved, AppendNoted, heads.Commit}
"""The frames of turns that are appended behind a head."""
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
        observers: Observers,
        read_only: str = "",
    ) -> None:
        """``observers`` are told of every group, once it is durable."""
        self.order: Order = Alone()
        """Says which entry is next."""
        self.noted: Callable[[Sequence[HeadFrame]], None] = lambda _notes: None
        """Called with notes for the machines of a space before their entry is published; if it raises, that waits."""
        self.brought: Callable[[Sequence[Hash]], None] = lambda _digests: None
        """Called with the blobs that an entry of a space brings, before it is published."""
        self.lacks: Callable[[Hash], bool] | None = None
        """Says of a blob whether the space lacks it: then an entry that names it must bring it. None if alone."""
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
        self.standing = False
        """True while one who holds that lock for long waits for it, or has it."""
        self.backlog = Backlog(journal)
        """The full journals, which wait to be packed."""
        self.observers = observers
        self._elsewhere: deque[Change] = deque()
        """The changes by other machines that observers have not been told of yet."""
        self.journalled_bytes = min(_JOURNALLED_BYTES, journal.capacity // 4)
        """The most new content, in bytes, that should go through the journal; more should be written to the packs."""
        self.turns_at_once = min(_JOURNALLED_TURNS, journal.capacity // 8) // RECORD_SIZE
        """The most turns that one request should append; more should be split into several requests."""
        self._largest = journal.capacity // 2
        self._group_bytes = min(_GROUP_BYTES, journal.capacity // 4)
        self.read_only = read_only
        """The reason why nothing may be written, "" if it may."""
        self._failure: str = ""
        self._closed = False
        self._granted = 0
        """The bytes that the disk had room for when it was last asked, and that no commit has taken."""
        notes = Notes(index.db)
        self._next_context = Catalogue(index.db).last_id() + 1
        self.keys = Keys(notes, self._next_context)
        self._applying = Applying(index, head_log, self.keys.filed)
        self._catalogue = Catalogue(index.db, self._applying.settle)
        self._next_patch = Patches(index.db).last() + 1
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
        self._publishing = threading.Lock()
        self.precedence = Precedence()
        self.gathering = Gathering(self._make_durable, self._committed, self._group_bytes)
        journal.syncing = self.gathering.wake

    # -- callers ---------------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> Request:
        """Make ``request`` durable and return it, filled in.

        Types that it is the first to use must be in it (:meth:`types_for`). Raises StoreFailed if a write failed, now
        or before, or what is wrong with the request: then nothing of it happened.
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
        if not patience.steps_aside():
            self.gathering.submit(fitting)
            return
        with patience.waiting([request.context for request in fitting if request.context]):
            self.gathering.submit(fitting)

    @property
    def at_once(self) -> bool:
        """True if a commit would wait only for its own sync, as far as can be told."""
        journal = self.journal
        if self.standing or self.commit_lock.locked():
            return False
        if self.backlog.tasks and 2 * journal.backlog > journal.total:
            # where so much waits to be packed, commits are paced
            return False
        return journal.free or journal.room(self._group_bytes)

    def types_for(self, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """Return (name, tag) of the types that the store does not know yet."""
        return tuple((name, tag) for name in sorted(set(names)) if (tag := type_tag(name)) not in self.types)

    def settle(self) -> None:
        """Bring the index up to the last commit. To be called before querying it."""
        self._applying.settle()

    def head(self, context_id: int) -> ContextHead:
        """Return the head of ``context_id`` as last committed; NotFound if there is no such context."""
        known = self._heads.get(context_id)
        if known is not None:
            return known
        self.settle()
        with self._publishing:
            known = self._heads.get(context_id)
            if known is None:
                # there are so few later commits that commits can wait for it
                found = self._catalogue.head(context_id)
                if found is None:
                    raise NotFound(f"there is no context {context_id}")
                tip, records = found
                known = ContextHead(context_id, turn_of(tip), max(records - 1, 0), patch_of(tip))
                if len(self._heads) < _CACHED_HEADS:
                    self._heads[context_id] = known
        return known

    def _described(self, context: int) -> Mapping[str, object]:
        """Return the metadata of a context as last committed; NotFound if there is none."""
        return self._catalogue.entry(context).metadata

    def _named(self, project: str, name: str) -> int:
        """Return the id of the conversation called ``project/name`` as last committed, 0 if there is none."""
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
        """True if a write has failed."""
        return bool(self._failure)

    def fail(self, error: BaseException) -> StoreFailed:
        """Refuse all further writes, since ``error`` left the disk in an unknown state; return the error to raise."""
        self._failure = self._failure or str(error) or type(error).__name__
        return self._refusal()

    def failure(self, error: BaseException) -> StoreFailed:
        """Return the error to raise for ``error``: StoreFull, Unreachable, otherwise that of :meth:`fail`."""
        if isinstance(error, StoreFull | Unreachable):
            return error
        if isinstance(error, OSError) and error.errno in durable.FULL:
            where = f"{error.filename}: " if error.filename else f"{self.journal.directory.parent}: "
            return StoreFull(f"{where}{error.strerror}: free space on its disk, then try again")
        return self.fail(error)

    def check(self) -> None:
        """Raise StoreFailed if a write has failed or the store is closed."""
        if self._failure or self._closed or self.read_only:
            raise self._refusal()

    def check_writable(self) -> None:
        """Raise StoreFailed if the store takes no more writes, StoreFull while there is no room for any."""
        self.check()
        self.check_room()

    def has_room(self, size: int = 0) -> bool:
        """Return whether the disk has room for ``size`` bytes and for packing the whole journal."""
        return self.journal.free_bytes() >= size + self.journal.backlog + _ROOM_BYTES

    def check_room(self, size: int = 0) -> None:
        """Raise StoreFull unless :meth:`has_room`."""
        if not self.has_room(size):
            raise self._no_room()

    def check_least_room(self) -> None:
        """Raise StoreFull if nothing should be packed: the last bytes are kept for bringing the index up to date."""
        if self.journal.free_bytes() < _ROOM_BYTES:
            raise self._no_room()

    def _no_room(self) -> StoreFull:
        root = self.journal.directory.parent
        return StoreFull(f"{root}: there is hardly any room left on its disk: free space, then try again")

    def close(self) -> None:
        """Refuse further requests. The caller holds ``commit_lock``."""
        self._closed = True

    def _refusal(self) -> StoreFailed:
        if self.read_only:
            return StoreFailed(self.read_only)
        if not self._failure:
            return StoreFailed("the store has been closed")
        return StoreFailed(
            f"a write to the store failed ({self._failure}); it takes no more writes: free space or repair the disk,"
            " then open it again"
        )

    # -- committing ------------------------------------------------------------------------------------------------

    def _make_durable(self, group: list[Request]) -> None:
        # in a space it may have to wait for others, for long
        with nullcontext() if self.order.shared else WHOLE:
            self._until_durable(group)

    def _until_durable(self, group: list[Request]) -> None:
        if self.order.shared or self.commit_lock.locked():
            # it may take long until there is something to sync
            self.gathering.wake()
        while True:
            try:
                # nothing of this machine is given up
                with patience.held(self.commit_lock, self.order.away) if self.order.shared else self.commit_lock:
                    self._commit(group)
            except Unreachable as error:
                for request in group:
                    request.error = error
                return
            except BaseException as error:
                # interrupted between writing and saying so
                for request in group:
                    request.error = self.fail(error)
                raise
            outdated = [request for request in group if isinstance(request.error, Unredacted)]
            if not outdated:
                return
            try:
                self.order.renew()
            except StoreFailed as error:
                for request in outdated:
                    request.error = error
                return
            for request in outdated:
                request.error = None
            group = outdated

    def submit_alone(self, request: Request) -> None:
        """Make ``request`` durable by itself, in an entry of its own. Raises as :meth:`submit`, and Unredacted."""
        with self.commit_lock:
            self.submit_within(request)
        self._committed([request])

    def submit_within(self, request: Request) -> None:
        """As :meth:`submit_alone`, for who holds ``commit_lock``; observers are not told."""
        request.measure()
        self._commit([request])
        if request.error is not None:
            raise request.error

    def _committed(self, group: list[Request]) -> None:
        if self._elsewhere:
            self.announce()
        self.observers.announce(group)

    def _commit(self, group: list[Request]) -> None:
        if self._failure or self._closed or self.read_only:
            for request in group:
                request.error = self._refusal()
            return
        try:
            draft = self._drafted(group)
            if self._write_among_others(draft, group) if self.order.shared else not draft.empty and self._write(draft):
                self.unshown.note(group)
        except (StoreFull, Unreachable) as error:
            # nothing of this is known to have been written: also what was refused was so for a state that never came
            for request in group:
                request.error = error
        except Exception as error:
            for request in group:
                request.error = self.fail(error)

    def _drafted(self, group: list[Request]) -> Group:
        """Work out a group for the state that the store is in; requests that cannot be done have their errors."""
        places = [request.place for request in group if request.key]
        keyed = self.keys.look_up(places) if places else {}
        at = (self.seq, self._next_context, self._next_patch, self.head_log.length)
        draft = Group(self.turns, *at, self.head, self._described, self._named, keyed)
        replaced, lacks = self.replaced or None, self.lacks
        for request in group:
            try:
                if replaced is not None:
                    replaced.rename(request)
                if lacks is not None and not request.plain:
                    self._check_names(request, lacks)
                draft.add(request)
            except Exception as error:
                request.error = error
        return draft

    def _check_names(self, request: Request, lacks: Callable[[Hash], bool]) -> None:
        """Raise Gone where a blob was dropped that running work has found, and nobody had it to bring it again."""
        for name in request.names():
            if lacks(name):
                raise Gone(f"the blob {name.hex()} was deleted for good by another machine: bring it once more")

    def _write_among_others(self, draft: Group, group: list[Request]) -> bool:
        """Commit a group in a space, drafted anew as often as others were first; return whether anything was.

        Nothing is refused, or answered as done before, because of a state from before it came.
        """
        refused, followed = 0, False
        with ExitStack() as held:
            while True:
                if draft.empty or any(request.error is not None for request in group):
                    # as of a moment after the request came
                    current = followed or not self._follow()
                    followed = True
                    if current and draft.empty:
                        return False
                else:
                    current = True
                if current:
                    if self._write(draft):
                        return True
                    refused += 1
                    if refused == _PATIENCE:
                        held.enter_context(self.order.turn())
                    self._follow()
                for request in group:
                    request.error, request.repeated = None, False
                draft = self._drafted(group)

    def _write(self, draft: Group) -> bool:
        """Put a group in its place and publish it; False, and nothing is done, if others were first."""
        self.packs.check_place()
        entry = draft.close(NOWHERE if self.order.shared else self.packs.synced)
        encoded = entry_pieces(entry)
        self._make_room(sum(map(len, encoded)))
        if self.order.shared and not self.order.append(self.seq, b"".join(encoded)):
            return False
        patience.over()
        self._publish(entry, encoded, draft.frames, draft.heads, draft.deleted)
        self._next_context = draft.next_context
        self._next_patch = draft.next_patch
        return True

    def _make_room(self, size: int) -> None:
        need = 2 * size
        if need > self._granted:
            self.check_room(need)
            self._granted = need + (_GRANTED_BYTES if self.has_room(need + 2 * _GRANTED_BYTES) else 0)
        self._granted -= need
        if pause := self.backlog.pause:
            self.gathering.wake()
            time.sleep(pause)
        while not self.journal.room(size):
            self.gathering.wake()
            self.switch()

    def _publish(
        self,
        entry: JournalEntry,
        encoded: Sequence[bytes],
        frames: Sequence[HeadFrame],
        moved: Mapping[int, ContextHead],
        deleted: Iterable[int],
    ) -> None:
        """Bring an entry that has its place into the journal, the logs and memory."""
        kinds = {type(frame.body) for frame in frames}
        # most are appends of turns, and bring nothing that must be looked for
        plain = kinds <= _PLAIN and not self.texts
        if not plain and not kinds.isdisjoint(heads.SHARED):
            self.noted([frame for frame in frames if isinstance(frame.body, heads.SHARED)])
        if self.order.shared and entry.blobs:
            self.brought([blob.hash for blob in entry.blobs])
        first = not self.journal.used
        end = self.journal.append(*encoded)
        if not plain and not kinds.isdisjoint((heads.Reclaimed, *heads.SHARED)):
            # what these take away is not to be missed after a power failure
            self.journal.sync()
        self.turns.append(entry.turns)
        self.head_log.append(entry.heads)
        self.pending.add(entry.blobs, end)
        if AppendNoted in kinds:
            self.keys.note(frames)
        texts: list[heads.HeadFrame] = []
        followed = FOLLOWED if self.texts else TEXT_NOTES
        for frame in () if plain else frames:
            body = frame.body
            if isinstance(body, heads.TypeRegistered):
                self.types[body.tag] = body.name
            elif isinstance(body, heads.Reclaimed):
                # the frame is durable
                for first_turn, count in body.runs:
                    self.turns.blank(first_turn, count)
            elif isinstance(body, followed):
                texts.append(frame)
        with self._publishing:
            waiting = self._applying.add(frames)
            if waiting > _MOST_UNAPPLIED_FRAMES or len(self._heads) >= _CACHED_HEADS:
                # the commit stands, whatever happens to the index
                with suppress(DamageError, StoreFull):
                    self.settle()
                    if len(self._heads) >= _CACHED_HEADS:
                        self._heads = {}
            self._heads.update(moved)
            for context in deleted:
                self._heads.pop(context, None)
            for frame in texts:
                self.texts.apply(frame)
        self.seq = entry.seq
        if first or waiting > _UNAPPLIED_FRAMES:
            self.backlog.wake()

    # -- other machines --------------------------------------------------------------------------------------------

    def catch_up(self) -> bool:
        """Apply what other machines have committed since; return whether there was anything.

        Raises Unreachable, StoreFull, and StoreFailed.
        """
        with self.commit_lock:
            self.check()
            try:
                found = self._follow()
            except Exception as error:
                raise self.failure(error) from error
        self.announce()
        return found

    def announce(self) -> None:
        """Tell observers of changes by other machines."""
        while self._elsewhere:
            with suppress(IndexError):
                change = self._elsewhere.popleft()
                self.observers.tell(
                    change, quiet=not (change.created or change.moved or change.described or change.deleted)
                )

    def _follow(self) -> bool:
        """Apply what others have committed by now; return whether there was anything."""
        found = False
        for asked in count(1):
            entries = self.order.entries(self.seq)
            for encoded in entries:
                self._apply(encoded)
            found = found or bool(entries)
            # The first may have come with a refusal. Whoever is far away is never told that there are no more.
            few = len(entries) < _MANY and sum(map(len, entries)) < _GROUP_BYTES // 2
            if not entries or (asked > 1 and few):
                break
        return found

    def _apply(self, encoded: bytes) -> None:
        """Publish an entry of another machine."""
        entry = decode_entry(encoded)
        if (entry.first_turn, entry.heads_offset) != (self.turns.count + 1, self.head_log.length):
            raise DamageError(
                f"entry {entry.seq} of the space does not follow what this replica has: make another with"
                " convfs remote join"
            )
        self._make_room(len(encoded))
        frames = heads.decode_all(entry.heads, entry.heads_offset)
        moved: dict[int, ContextHead] = {}
        changes: dict[int, Change] = {}
        next_context, next_patch = self._next_context, self._next_patch
        for frame in frames:
            context, body = frame.context, frame.body
            change = changes.get(context) or Change(context, created=False)
            match body:
                case heads.ContextCreated():
                    moved[context] = ContextHead(context, 0, 0)
                    next_context = max(next_context, context + 1)
                    change = structs.replace(change, created=True, moved=True)
                case heads.HeadMoved():
                    moved[context] = ContextHead(context, turn_of(body.tip), body.depth, patch_of(body.tip))
                    change = structs.replace(change, moved=True)
                case heads.Patched():
                    head = moved.get(context) or self.head(context)
                    moved[context] = structs.replace(head, patch=body.number)
                    next_patch = max(next_patch, body.number + 1)
                    change = structs.replace(change, moved=True)
                case heads.Metadata():
                    change = structs.replace(change, described=True)
                case heads.Deleted():
                    change = structs.replace(change, deleted=True)
                case heads.TurnOpened() | heads.TextAdded() | heads.Closed():
                    change = structs.replace(change, streamed=True)
            if context:
                changes[context] = structs.replace(change, seq=frame.seq)
        for context, change in changes.items():
            if not change.deleted:
                head = moved.get(context) or self.head(context)
                changes[context] = structs.replace(change, tip=head.tip, depth=head.depth)
        self._publish(entry, [encoded], frames, moved, [one.context_id for one in changes.values() if one.deleted])
        self._next_context, self._next_patch = next_context, next_patch
        self._elsewhere += changes.values()

    # -- the journal -----------------------------------------------------------------------------------------------

    def switch(self) -> None:
        """Switch to another journal and schedule packing of the one in use. The caller holds ``commit_lock``."""
        backlog = self.backlog
        with backlog.work:
            backlog.hurry(lambda: self.journal.free)
            self.check()
            if backlog.full is not None and not self.journal.free:
                raise backlog.full
            backlog.tasks.append(self.take())
            backlog.work.notify_all()

    def take(self) -> Generation:
        """Switch to another journal; return the contents of the one that was in use."""
        self._granted = 0
        try:
            self.journal.switch()
        except OSError as error:
            raise self.failure(error) from error
        return self.pending.take(self.seq, self.turns.count, self.head_log.length)

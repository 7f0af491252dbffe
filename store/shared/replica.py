"""A replica: a store that takes part in a space, and follows it.

What a commit names is *held*, in the space's packs or in the entries of its log, before the entry that names it is
appended: a pack of this machine alone does not count. So what loads write is published before it is filed (``Intake``),
and the file ``published`` has how far that has come. What lies behind that place when a store is opened, perhaps from a
process that was killed in between, is published before anything is committed.

What is in packs of other machines is taken before the entries that may name it are applied (``store.shared.holdings``).
The numbers of packs differ from machine to machine; the logs are the same, byte by byte.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from store.commit import patience
from store.commit.intake import Intake
from store.commit.order import NOWHERE
from store.commit.writer import Writer
from store.content.compression import Member, pack_records
from store.content.sealed import names_of
from store.disk.blob_format import Form, Record, encode_record
from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import COMMIT_SIZE, Commit, Dropped, HeadFrame, Held, Redacted, decode_all
from store.disk.journal_format import JournalEntry, decode_entry, encode_entry, entry_seq
from store.disk.turn_format import decode_run
from store.errors import (
    DamageError,
    FormatTooNew,
    StoreFailed,
    StoreFull,
    Unreachable,
    Unredacted,
    UsageError,
)
from store.ids import Hash, hash_bytes, hash_key
from store.shared import generations, roster, sessions
from store.shared.archive import Archive
from store.shared.cache import Cache
from store.shared.connect import enter
from store.shared.entry import BEGINNING, Entry, chained, new_token
from store.shared.history import History
from store.shared.holdings import Holdings
from store.shared.leases import Leases
from store.shared.packs import PACK_BYTES, Packs
from store.shared.presence import SAY_SECONDS, Presence
from store.shared.published import PublishedFile, Reached
from store.shared.redactions import Redactions
from store.shared.space import ANOTHER, LOGS_BACK, Membership, Space

if TYPE_CHECKING:
    from store.shared.access import Access

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""How often the space is looked at, where it does not tell of what comes."""
_PAUSE_SECONDS = 0.005
_HISTORY_COMMITS = 1024
"""How many frames may come before the history of a replica is noted again."""
_SESSION_SECONDS = 2.0
_COPIED = (
    "a copy of this replica has been opened since: convfs remote adopt makes this one a replica of its own; what it has"
    " can still be read"
)
_WENT_ON = (
    "does not have the last commits of this replica, and went on without them: make another with convfs remote join,"
    " and convfs push what this one has to it"
)
_HOLD_SECONDS = 0.05


class Replica:
    """Puts a store's commits in the order of its space, and applies those of others, in a thread of its own."""

    shared = True

    def __init__(self, root: Path, member: Membership, writer: Writer, intake: Intake, cache: Cache) -> None:
        self.member = member
        self._root = root
        self.access: Access | None = None
        """The keys of the space, once it was reached; None if it is not encrypted."""
        self._writer = writer
        self._intake = intake
        self._space: Space | None = None
        self._packs: Packs | None = None
        self._connecting = threading.RLock()
        self._ahead: Sequence[Entry] = ()
        """The entries that came with a refusal."""
        self._verified = False
        """True once the space, as it is connected, is known to have this replica's history."""
        self.away = ""
        """The reason why the space could not be asked the last time; see :class:`store.commit.order.Order`."""
        self._away_since = 0.0
        """The time of the first of the failures, in Unix seconds."""
        self._told = ""
        """The reason that was logged, while it lasts."""
        self._asked_again = 0.0
        """The monotonic time before which a space that takes long to fail is not asked once more."""
        self._looked = 0.0
        """The monotonic time at which the session was looked at last."""
        self._published = PublishedFile(root)
        if self._published.now.reached.seq > writer.seq:
            # a power failure took that back: the space may go on otherwise
            self._published.note(reached=Reached())
        self.history = History(self._published, writer.turns, writer.head_log)
        self.holdings = Holdings(intake, self._published, cache, self._reading)
        """The packs of the space, as far as they are here."""
        self._complete = False
        """True once the space has all that an earlier process wrote: until then the place to begin at stays."""
        self._left: set[int] = set()
        """The keys of blobs that an earlier process has left."""
        self._looks_at = 0.0
        """When it is looked next for what is to be done."""
        self._is_watched = False
        """True once somebody is shown what others commit: it is followed at once then."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="convfs-following", daemon=True)
        self.leases = Leases(member.number)
        """The work that this machine does alone in the space."""
        self.presence = Presence()
        """The machines that are there."""
        self._says_at = 0.0
        """When it says next that this one is."""
        self.drops: Callable[[], None] = lambda: None
        """Called when the space has dropped something."""
        self.redactions = Redactions(member, writer, self._published, self.history, self._only_read)
        intake.publish = self._publish
        intake.admit = self._check_role
        intake.published = self._note
        intake.prepare = self._prepare
        intake.owes = lambda: self.owes
        writer.order = self
        writer.noted = self._note_shared
        writer.observers.added = self._listen
        writer.lacks = self._lacks
        writer.brought = lambda digests: intake.doomed.restore(map(hash_key, digests))

    @property
    def administers(self) -> bool:
        """True if this replica may take away what the space has; to be asked once that was reached."""
        return self.access is None or self.access.role == "admin"

    def start(self) -> None:
        """Catch up if the space can be reached, and go on in the background."""
        try:
            self._catch_up()
            if not self.redactions.is_done:
                self.redactions.complete()
        except (Unreachable, StoreFull) as error:
            self._note_away(error)
        except StoreFailed as error:
            _LOG.warning("%s", error)
        self._thread.start()

    def close(self) -> None:
        """Follow no more. Nothing may be committed afterwards."""
        self._ended.set()
        with self._connecting:
            if self._space is not None:
                self._space.log.wake()
        if self._thread.is_alive():
            self._thread.join()

    def disconnect(self) -> None:
        """Let go of the space, once everything has been written."""
        with self._connecting:
            if self._space is not None:
                with suppress(StoreFailed):
                    if self._verified and self.redactions.has_news:
                        self._say_as_looked(self._space)
                self._space.close()
                self._space = None
                self.history.keep(self._writer.seq)

    def status(self) -> str:
        """Return "" if the space was there when it was asked last, else the reason why not."""
        return self.away or self._told

    # -- the order -------------------------------------------------------------------------------------------------

    def append(self, expected: int, entry: bytes) -> bool:
        self._check_writes()
        with self._asking() as (space, packs):
            self._drop_left()
            if self.redactions.holder and not self._wait(space, expected):
                return False
            if expected >= self._published.now.reached.seq + _HISTORY_COMMITS:
                self.history.keep(expected)
            chain = chained(self._chain_at(expected), entry)
            placed = Entry(
                expected, entry_seq(entry), new_token(), self.member.number, 0, packs.reached, chain, entry
            )
            self._ahead = space.log.append(placed)
            if self._ahead:
                return False
            self.history.reach(placed.seq, chain)
            return True

    def _drop_left(self) -> None:
        """Have what a killed process has left in the packs brought again where running work relies on it.

        Some has begun without the space. For who commits, not where the space is connected: whoever does that may be
        syncing the packs.
        """
        if self._left:
            # but for what was written once more, and published, since
            self._intake.drop(self._left.intersection(self._intake.doomed))
            self._left = set()

    def _lacks(self, name: Hash) -> bool:
        self._drop_left()
        return self._intake.lacks(name)

    def entries(self, after: int) -> Sequence[bytes]:
        with self._asking() as (space, packs):
            ahead, self._ahead = self._ahead, ()
            found = ahead if ahead and ahead[0].prev == after else space.log.entries(after)
            if not found:
                return ()
            self.redactions.holder = 0
            chain, found = self._checked(space, found)
            if max(entry.packs for entry in found) > self._published.now.taken:
                # what these name was published before them
                self.holdings.take(packs)
            self.history.reach(found[-1].seq, chain)
            return [entry.body for entry in found]

    def _checked(self, space: Space, found: Sequence[Entry]) -> tuple[bytes, Sequence[Entry]]:
        """Return the entries that follow this replica's history, before the first that does not, and their chain.

        Raises DamageError if there are none; Unredacted, Unreachable if that is because of a redaction.
        """
        chain = self._chain_at(found[0].prev)
        for number, entry in enumerate(found):
            linked = chained(chain, entry.body)
            # the entries of format 1 have none
            if linked != (entry.chain or linked):
                if number:
                    return chain, found[:number]
                self.redactions.check(space, entry)
                raise DamageError(f"commit {entry.seq} of the space {self.member.space} follows another history")
            chain = linked
        return chain, found

    def turn(self) -> AbstractContextManager[None]:
        with self._asking() as (space, _packs):
            return space.log.turn()

    @contextmanager
    def alone(self, work: str) -> Iterator[bool]:
        self._check_writes()
        with self.leases.held(self.connected()[0].records, work) as other:
            yield not other

    def is_left(self, seq: int) -> bool:
        space, _packs = self.connected()
        _turns, group = self._writer.head_log.group_at(seq)
        there = space.log.entries(group[0].seq - 1) if group else ()
        machine = there[0].machine if there else 0
        return machine == self.member.number or self.presence.is_away(space.records, machine)

    def _check_writes(self) -> None:
        if self.member.only_follows:
            raise Unreachable(f"this replica of the space {self.member.space} only follows it")

    def _check_role(self) -> None:
        self._check_writes()
        if self.access is not None:
            self.access.check_writes()

    def _chain_at(self, seq: int) -> bytes:
        if not self.history.is_at(seq):
            # what came last was not applied
            known = self.history.logged(seq)
            if not known:
                # turns were reclaimed since a place was noted
                entry, _frames, _group = self._last_entry(self.connected()[0])
                known = entry.chain if entry is not None and entry.seq == seq else b""
            if not known:
                raise self._only_read(f"a log of this replica, up to commit {seq}, cannot be read: {LOGS_BACK}")
            self.history.reach(seq, known)
        return self.history.chain

    # -- the space -------------------------------------------------------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[tuple[Space, Packs]]:
        """Give the space and its packs; errors say since when it is away. Writes wait until it is back."""
        try:
            yield self.connected()
        except Unredacted:
            raise
        except DamageError as error:
            raise self._only_read(str(error)) from error
        except Unreachable as error:
            self._verified = False
            if self._writer.read_only or str(error) == self.away:
                raise
            self._away_since = self._away_since or time.time()
            since = time.strftime("%H:%M", time.localtime(self._away_since))
            self.away = f"since {since} {error}"
            raise Unreachable(self.away) from error
        self.away, self._away_since = "", 0.0

    def connected(self) -> tuple[Space, Packs]:
        """Return the space and its packs; where it may be another by now, see that it is the right one first."""
        with patience.held(self._connecting, self.away):
            if self._verified and self._space is not None and self._packs is not None:
                return self._space, self._packs
            begun = time.monotonic()
            if begun < self._asked_again and self.away:
                raise Unreachable(self.away)
            try:
                return self._connect()
            except Unredacted:
                raise
            except Unreachable:
                # those that wait for each other do not wait for it one by one
                now = time.monotonic()
                self._asked_again = now + min(now - begun, _LOOK_SECONDS)
                raise

    def _connect(self) -> tuple[Space, Packs]:
        if self._space is None or self._packs is None:
            try:
                self._space, self.access = enter(self._root, self.member)
            except UsageError as error:
                # gone, or a library is missing here
                raise Unreachable(str(error)) from error
            except FormatTooNew as error:
                raise self._only_read(str(error)) from error
            self._packs = Packs(self._space, self.member.number)
            if self._is_watched:
                self._space.log.listen()
        self._verify(self._space)
        self.holdings.check(self._packs)
        self.holdings.cache.keeps = self.redactions.last.purged
        self._packs.known(self._published.now.taken)
        self._verified = True
        self._say_as_looked(self._space)
        self._prepare()
        return self._space, self._packs

    def take_all(self) -> int:
        """Apply all entries and take all packs that there are; return the number of the last one.

        Raises Unreachable, StoreFull, StoreFailed.
        """
        self._writer.catch_up()
        with self._writer.commit_lock:
            self.holdings.take(self.connected()[1])
        return self._published.now.taken

    def _reading(self) -> Packs:
        """Return the packs of the space for reading, whatever else is wrong with it."""
        return self._packs if self._space is not None and self._packs is not None else self.connected()[1]

    def _only_read(self, why: str) -> Unreachable:
        """Have nothing written until the store is opened again; return the error to raise."""
        self._writer.read_only = why
        return Unreachable(why)

    def _verify(self, space: Space) -> None:
        """See that the space has the history of this replica, up to its last commit, and that this one is no copy."""
        name, seq = self.member.space, self._writer.seq
        self.redactions.begin(space)
        if seq:
            entry, frames, group = self._last_entry(space)
            if entry is None:
                self.redactions.check(space)
                raise Unreachable(
                    f"the space {name} does not have commit {seq}, which this replica has: convfs remote repair puts"
                    " back what it has lost"
                )
            known, ahead = self.history.logged(seq), self.redactions.ahead(space)
            differs = entry.seq != seq or frames[:-1] != group or (entry.chain and known not in (b"", entry.chain))
            if differs and not ahead:
                # whoever was killed while it applied a redaction may have part of it
                self.redactions.check(space, next(iter(space.log.entries(seq)), None))
                raise self._only_read(f"the space {name} {_WENT_ON}")
            if ahead and not known:
                raise Unreachable(f"the space {name} is being redacted: try again in a while")
            self.history.reach(seq, known or entry.chain)
        self._take_session(space)

    def _last_entry(self, space: Space) -> tuple[Entry | None, list[HeadFrame], list[HeadFrame]]:
        """Return what the space has in the place of this replica's last commit, its frames, and those of this one."""
        seq = self._writer.seq
        _turns, group = self._writer.head_log.group_at(seq - 1)
        there = space.log.entries(group[0].seq - 1 if group else seq - 1)
        if not there:
            return None, [], group
        entry = decode_entry(there[0].body)
        return there[0], decode_all(entry.heads, entry.heads_offset), group

    def _take_session(self, space: Space) -> None:
        """Note that this process has the replica, once; no copy of it may go on."""
        if self.member.only_follows:
            return
        record = sessions.of(space.records, self.member.number)
        if not sessions.own(record, self._published.now.sessions):
            raise self._only_read(_COPIED)
        if self._looked and record.version:
            return
        session = sessions.new()
        # before the space has it: who is killed in between still knows it as its own
        taken = (*self._published.now.sessions[1 - sessions.KEPT :], session)
        self._published.note(sessions=taken)
        if not space.records.swap(record.key, record.version, session.encode()):
            raise self._only_read(_COPIED)
        if not record.version:
            # in an encrypted space its name is on its card
            roster.keep(space.records, self.member.number, "" if self.access else self.member.machine)
        self._looked = time.monotonic()

    def _check_session(self) -> None:
        """See, once in a while, that nobody has opened a copy of this replica."""
        if self.member.only_follows or time.monotonic() - self._looked < _SESSION_SECONDS:
            return
        with self._asking() as (space, _packs):
            record = sessions.of(space.records, self.member.number)
            self._looked = time.monotonic()
            self.holdings.cache.keeps = self.holdings.cache.keeps or generations.current(space.records).purged
            if not sessions.own(record, self._published.now.sessions):
                raise self._only_read(_COPIED)

    def _doom_rest(self) -> None:
        """Have what a killed process has left in the packs count as missing, durably: the space may not have it."""
        packs, start = self._writer.packs, (self._published.now.pack, self._published.now.length)
        end = packs.end
        numbers = [number for number in packs.appended() if number >= start[0]]
        for _pack, _offset, found in packs.scan(start if packs.path(start[0]).exists() else None, numbers):
            if isinstance(found, Record):
                self._left.update(map(hash_key, names_of(found)))
        self._intake.doomed.add(self._left)
        self._complete = True
        self._note(end)

    def _note(self, end: tuple[int, int]) -> None:
        if self._complete:
            self._published.advance(end)

    def _prepare(self) -> None:
        if not self._complete:
            self._doom_rest()

    def publish_all(self, packs: Packs, *, again: bool = False) -> None:
        """Publish all that the packs of this machine have, see :meth:`Packs.publish`."""
        records: list[bytes] = []
        size = 0
        for _pack, _offset, found in self._writer.packs.scan():
            if not isinstance(found, Record):
                continue
            records.append(encode_record(found.codec, found.raw_len, found.hash, found.stored))
            size += len(records[-1])
            if size >= PACK_BYTES:
                self.holdings.own(packs.publish(records, again=again))
                records, size = [], 0
        if records:
            self.holdings.own(packs.publish(records, again=again))

    # -- repair ----------------------------------------------------------------------------------------------------

    def repair(self) -> int:
        """Put back the entries that the space has lost, at the end of its log or in its archive; return how many.

        The contents that these name may have been lost, too, wherever they were: all that this replica has is
        published once more, and packs of others that are still there are counted again. Raises Unreachable; UsageError
        if the space went on without them.
        """
        space, _access = enter(self._root, self.member)
        with self._writer.commit_lock, closing(space):
            known, archive = self._known(), Archive(space)
            count = 0
            if gone := archive.gone():
                self._check_follows(known, space.log.entries(archive.now().seq))
                count = archive.put_back(gone, known, self._publish_again(space).reached)
            lost = self._lost(space, known)
            if lost:
                packs = self._publish_again(space)
                for entry in lost:
                    placed = msgspec.structs.replace(entry, packs=packs.reached)
                    if space.log.append(placed):
                        raise UsageError(f"the space {self.member.space} goes on meanwhile: try again")
        with self._connecting:
            # what was found before is over
            self._asked_again = 0.0
        return count + len(lost)

    def _publish_again(self, space: Space) -> Packs:
        packs = Packs(space, self.member.number)
        packs.known(0)
        self.publish_all(packs)
        self.holdings.register(packs)
        waiting = [self._intake.resolver.blob(digest) for digest in self._writer.pending.hashes()]
        members = [Member(hash_bytes(data), Form.PLAIN, len(data), data) for data in waiting]
        if members:
            packs.publish([record for record, _names in pack_records(members, None)])
        return packs

    def _known(self) -> list[Entry]:
        """Return all entries that this replica has applied, from its logs: without contents.

        Where turns were reclaimed since, the logs no longer say what the chain is: it is b"" from there on.
        """
        writer = self._writer
        entries: list[Entry] = []
        chain, turns, seq = BEGINNING, 0, 0
        for commit, frames in writer.head_log.groups(HEADER_SIZE):
            assert isinstance(commit.body, Commit)
            records = writer.turns.records(turns + 1, commit.body.turn_count - turns)
            offset = commit.offset + COMMIT_SIZE - len(frames)
            body = encode_entry(JournalEntry(commit.seq, turns + 1, records, offset, frames, NOWHERE, ()))
            chain = chained(chain, body) if chain and not _reclaimed(records, turns + 1) else b""
            entries.append(Entry(seq, commit.seq, new_token(), self.member.number, 0, 0, chain, body))
            turns, seq = commit.body.turn_count, commit.seq
        return entries

    def _lost(self, space: Space, known: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries that the space lacks at its end. UsageError if it has others there."""
        there = bisect_left(known, True, key=lambda entry: not space.log.entries(entry.prev))
        chain = BEGINNING
        if there:
            last = space.log.entries(known[there - 1].prev)
            self._check_follows(known, last)
            chain = last[0].chain
        lost = []
        for entry in known[there:]:
            logged = decode_entry(entry.body)
            if not entry.chain and (not chain or _reclaimed(logged.turns, logged.first_turn)):
                raise UsageError(f"the space lacks commit {entry.seq}, of which some was deleted for good: {ANOTHER}")
            chain = entry.chain or chained(chain, entry.body)
            lost.append(msgspec.structs.replace(entry, chain=chain))
        return lost

    def _check_follows(self, known: Sequence[Entry], there: Sequence[Entry]) -> None:
        """Raise UsageError unless the first of some entries of the space is one that this replica has applied."""
        for entry in there[:1]:
            at = bisect_left(known, entry.prev, key=lambda one: one.prev)
            own = known[at] if at < len(known) else None
            differs = own is not None and b"" not in (entry.chain, own.chain) and entry.chain != own.chain
            if own is None or entry.seq != own.seq or differs or not _same_frames(entry, own):
                raise UsageError(f"the space {self.member.space} {_WENT_ON}")

    def _publish(self, records: Sequence[bytes]) -> None:
        self._check_writes()
        with self._asking() as (_space, packs):
            if records:
                self.holdings.own(packs.publish(records))

    # -- redaction -------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The last redaction that this replica has applied."""
        return self.redactions.generation

    def renew(self) -> None:
        """Apply the redaction that comes next, if it has not been; return when that is done. Raises StoreFailed."""
        with self.redactions.applying:
            due = self.redactions.due
            if due is None:
                return
            space = self._space or enter(self._root, self.member)[0]
            try:
                data = self.redactions.patch_of(space, due)
                with self._writer.commit_lock:
                    self._prepare()
                    self.holdings.take(self._packs or Packs(space, self.member.number))
                cache = self.holdings.cache
                # as long as the space has it
                cache.keeps = False
                self.renewed(due.generation, *self.redactions.patch(data, space.log))
                cache.forget(overwrite=True)
                self._say(space)
            finally:
                if space is not self._space:
                    space.close()

    def renewed(self, generation: int, seq: int, chain: bytes) -> None:
        """Note that a redaction was applied, with which the commit ``seq`` has the chain ``chain``. StoreFailed."""
        # entries are compared with both at once
        with self._writer.commit_lock:
            self.redactions.applied(generation, seq, chain)
            self._ahead = ()

    def behind(self) -> list[tuple[str, int]]:
        """Return the machines that have not applied the last redaction, and when they were last there, in Unix ms.

        Raises Unreachable, DamageError.
        """
        return self.redactions.named(self.connected()[0], self.access, generations.behind)

    def uncollected(self) -> list[tuple[str, int]]:
        """Return the machines that may still have something that the space has dropped, and when they were last there.

        In Unix ms. Raises Unreachable, DamageError.
        """
        if self.owes:
            # also this one
            self.say()
        return self.redactions.named(self.connected()[0], self.access, generations.uncollected)

    @property
    def dropped(self) -> int:
        """The last commit by which the space has dropped something, as far as this replica has come."""
        return self._published.now.dropped

    @property
    def owes(self) -> bool:
        """True if this machine may still have something that the space has dropped."""
        return self._published.now.collected < self.dropped

    def note_dropped(self, seq: int) -> None:
        """Note a commit by which the space has dropped something; an earlier one than is noted is not."""
        if seq > self.dropped:
            self._published.note(dropped=seq)

    def note_collected(self, seq: int) -> None:
        """Note that nothing is left here of what was dropped up to a commit, and say so. Raises Unreachable."""
        self._published.note(collected=seq)
        self.say()

    def say(self) -> None:
        """Say in the space that this replica is there, and which redaction it has applied."""
        self._say(self.connected()[0])

    def _say(self, space: Space) -> None:
        self.redactions.look(space)
        self._say_as_looked(space)

    def _say_as_looked(self, space: Space) -> None:
        self._says_at = time.monotonic() + SAY_SECONDS
        self.redactions.say(space, self.access, lambda: self.administers)

    def _wait(self, space: Space, expected: int) -> bool:
        """Wait while another machine redacts; return False if it, or somebody, has gone on."""
        while self.redactions.waits(space.records, self.leases):
            self._ahead = space.log.entries(expected)
            if self._ahead:
                return False
            if self._ended.wait(_HOLD_SECONDS):
                raise Unreachable(f"the space {self.member.space} is being redacted: try again in a while")
        return True

    # -- what machines are told ------------------------------------------------------------------------------------

    def _note_shared(self, notes: Sequence[HeadFrame]) -> None:
        for frame in notes:
            match frame.body:
                case Dropped():
                    self.holdings.drop(frame.body, self.connected()[1])
                    self.note_dropped(frame.seq)
                    # others are to know that this machine owes something
                    self._says_at = 0.0
                    self.drops()
                case Held() | Redacted():
                    self.redactions.told(frame.body)

    # -- following -------------------------------------------------------------------------------------------------

    def _catch_up(self) -> bool:
        known = self.generation
        while True:
            try:
                found = self._writer.catch_up()
                break
            except Unredacted:
                self.renew()
        if self.generation > known:
            self.redactions.complete()
        if self.holdings.incomplete:
            self.take_all()
        if not found:
            self.holdings.tidy()
        if found and not self._intake.has_dictionary:
            self._writer.settle()
            self._intake.note_dictionary()
        self._told = ""
        return found

    def _attend(self) -> None:
        """Let in who has come with an invitation, and end what a redaction has begun, once in a while."""
        if time.monotonic() < self._looks_at:
            return
        self._looks_at = time.monotonic() + _LOOK_SECONDS
        with self._asking() as (space, _packs):
            if self.redactions.owes:
                self.redactions.complete()
                self._say(space)
            elif time.monotonic() >= self._says_at:
                self._say(space)
            try:
                if self.access is not None and self.administers:
                    for machine in self.access.approve():
                        _LOG.info("%s has joined the space %s", machine, self.member.space)
            except DamageError as error:
                # of a request that makes no sense
                _LOG.warning("the space %s: %s", self.member.space, error)

    def _run(self) -> None:
        while not self._ended.is_set():
            space = self._space
            if space is None or self._told:
                self._ended.wait(_LOOK_SECONDS)
            else:
                space.log.wait(_LOOK_SECONDS)
            if self._ended.is_set():
                return
            try:
                self._catch_up()
                self._check_session()
                self._attend()
            except (Unreachable, StoreFull) as error:
                self._note_away(error)
            except StoreFailed:
                # whoever writes is told
                return
            except Exception:
                _LOG.exception("the space %s cannot be followed any more", self.member.space)
                return
            # so that those who commit here are not held up for each of their own entries
            self._ended.wait(_PAUSE_SECONDS)

    def _listen(self) -> None:
        # without the lock, which others hold while they wait: whoever connects looks at this afterwards
        self._is_watched = True
        space = self._space
        if space is not None:
            space.log.listen()

    def _note_away(self, error: StoreFailed) -> None:
        if not self._told:
            _LOG.warning("%s", error)
        self._told = str(error)


def _reclaimed(records: bytes | memoryview, first: int) -> bool:
    """Return whether any of some records of turns was reclaimed."""
    return any(turn.reclaimed for turn in decode_run(records, first))


def _same_frames(one: Entry, other: Entry) -> bool:
    return decode_entry(one.body).heads == decode_entry(other.body).heads

"""Garbage collection: removes turns and blobs that nothing leads to any more from the files.

A collection first determines, without changing anything, the roots of the store (``store.upkeep.roots``), the blobs
that these reach (``store.upkeep.reachable``), and the garbage in each pack. Then it runs, in this order:

* Turns that nothing leads to are blanked (below). If somebody continues from one of them meanwhile, they stay this
  time.
* Packs with a good part of garbage are chosen. Blobs in the others stay, with all that they need: so every blob that is
  left in a store is whole.
* The garbage of the chosen packs is doomed (``store.commit.reliance``), except for blobs that are about to be named.
* Packs with nothing else in them are removed; the others are copied without it (``store.upkeep.copying``).

Before anything is removed, the roots are taken from the head log itself, filed in an index of their own: rows that the
store's index has lost without a trace do not make garbage. And if anything that leads to something else is damaged, its
targets are unknown, so nothing is removed at all.

An unnamed blob counts as garbage only when its pack was not written to for a day: a client may bring blobs first
and name them later. A blob may also lie in several packs, after a crash in the middle of a rewriting, or after sweeps
during which it was written again: copies in chosen packs are not kept if there is another elsewhere.

Everything here is a generator that pauses every few hundredths of a second, so that the background can do it in slices.

The records of turns that nothing leads to are blanked, and only their places are left. These turns are determined while
others go on committing, so they are checked once more while no commit can come between: if any later commit names one
of them (a client that continues after a turn that it once got, or a version that is restored), nothing is blanked, and
the search starts over another time. Blanked turns can no longer be named: a reclaimed turn cannot be followed, and no
frame leads to it.

A frame that lists them is durable before the first record is overwritten. It shows that records torn by a power failure
meanwhile are no loss. Blanked turns must have been in the log for good, not in a journal that may be replayed: so a
collection begins with a checkpoint.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Container, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, structs

from store.commit.intake import Intake
from store.commit.request import Request
from store.commit.writer import Writer
from store.content.resolver import Resolver
from store.content.sealed import members_of, names_of
from store.content.shelf import Shelf, StoredBlobs
from store.disk.blob_format import OVERHEAD
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import (
    Alias,
    Commit,
    ContextCreated,
    Dictionary,
    Dropped,
    FsRoot,
    HeadFrame,
    HeadMoved,
    Metadata,
    Patched,
    Reclaimed,
)
from store.disk.pack import RecordPlace
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.errors import Conflict, ConvfsError, DamageError
from store.ids import Hash, hash_key, now_ms, turn_of
from store.index.beside import remove_database
from store.index.database import Database
from store.index.index import Index
from store.index.views import Run
from store.paths import GC_INDEX
from store.upkeep import roots
from store.upkeep.archiving import Archived, Drop, drops_in
from store.upkeep.copying import Copy
from store.upkeep.reachable import Reachable
from store.upkeep.rewrite import Rewriting, told
from store.upkeep.roots import LiveTurns, TurnRuns
from store.upkeep.sealer import Sealer

if TYPE_CHECKING:
    from store.shared.replica import Replica
    from store.upkeep.archiving import Archiving

_AT_ONCE = 16_384
"""The number of records that are overwritten at a time while commits wait."""
_RUN_BYTES = 128 << 20
_KEYS_AT_ONCE = 256 << 10
"""The number of blobs that one commit drops."""
_RECORDS_AT_ONCE = 64
_SHELF_BYTES = 16 << 20
_TURNS_AT_ONCE = 4096
GOOD_PART = 0.25
"""The part of a pack that must be garbage for it to be rewritten in the background."""

_NS = 10**9
_CLOCK_MS = 60_000
_UNSHOWN_MS = 24 * 3600 * 1000
"""How long turns of other machines stay that no branch shows."""

CollectionSteps = Generator[None, None, "Collected"]


class Since(Struct, frozen=True):
    """A moment of a store: how long its head log was, and how many turns there were, all of them in their log."""

    heads_length: int
    turn_count: int


class Reclaiming:
    """Blanks turns: ``runs`` are all those that nothing led to at the moment ``since``.

    Unshown turns (:class:`store.commit.writer.Unshown`) are not among them. A turn that is not blanked in the end must
    keep its payload.
    """

    def __init__(self, writer: Writer, runs: Iterable[Run], since: Since) -> None:
        self._writer = writer
        self._runs = TurnRuns(runs)
        self._looked_at = since
        self._led_to = False

    def run(self) -> int:
        """Blank them; return how many were, which is fewer where some are led to again. Raises StoreFailed."""
        done = 0
        for some in self._runs.batches(_AT_ONCE):
            # most of the later commits are checked while others go on
            self._still()
            try:
                request = Request(0, move_head=False, notes=[Reclaimed(tuple(some))], still=self._still)
                self._writer.submit_alone(request)
            except Conflict:
                break
            done += sum(count for _first, count in some)
        try:
            self._writer.turns.sync()
        except OSError as error:
            raise self._writer.failure(error) from error
        return done

    def _still(self) -> bool:
        turns, heads = self._writer.turns, self._writer.head_log
        since, self._looked_at = self._looked_at, Since(heads.length, turns.count)
        for frame in heads.frames(since.heads_length):
            body = frame.body if isinstance(frame, HeadFrame) else None
            if isinstance(body, HeadMoved):
                self._led_to |= turn_of(body.tip) in self._runs
            elif isinstance(body, ContextCreated):
                self._led_to |= body.base_turn in self._runs
            else:
                # nobody knows what a damaged one said
                self._led_to |= body is None
        for _turn_id, turn in turns.scan(since.turn_count + 1):
            self._led_to |= not isinstance(turn, Turn) or turn.parent in self._runs
        return not self._led_to


class Dropping:
    """Tells all machines of a space that it holds blobs no longer: those that are not ``found`` to be reached.

    What was committed since the moment ``since`` is looked at until the commit that says so is in its place: a blob
    that it leads to stays. Whoever commits later has been told.
    """

    def __init__(self, intake: Intake, resolver: Resolver, found: Reachable, since: Since) -> None:
        self._writer = intake.writer
        self._doomed = intake.doomed
        self._resolver = resolver
        self._found = found
        self._looked_at = since

    def run(self, packs: int) -> Generator[None, None, None]:
        """Drop them. The space has the pack ``packs``. Raises StoreFailed, DamageError."""
        told: set[int] = set()
        while True:
            # most of the later commits are looked at while others go on
            self._still()
            left = [key for key in self._found.unreached() if key not in told and key not in self._doomed]
            if not left:
                return
            some = left[:_KEYS_AT_ONCE]
            note = Dropped(packs, array("q", some).tobytes())
            with suppress(Conflict):
                self._writer.submit_alone(Request(0, move_head=False, notes=[note], still=self._still))
                told.update(some)
            yield

    def _still(self) -> bool:
        """Reach what was named since the last call; return whether none of that was to be dropped."""
        turns, log = self._writer.turns, self._writer.head_log
        since, self._looked_at = self._looked_at, Since(log.length, turns.count)
        named: set[Hash] = set()
        trees: list[Hash] = []
        for _turn_id, turn in turns.scan(since.turn_count + 1):
            if isinstance(turn, Turn):
                named.add(turn.payload_hash)
        for frame in log.frames(since.heads_length):
            if isinstance(frame, Damage):
                raise DamageError(f"heads.log is damaged at offset {frame.offset}: nobody knows what is garbage")
            match frame.body:
                case Patched():
                    named.update(digest for _turn, digest, *_what in frame.body.turns)
                case Alias() | Dictionary():
                    named.add(frame.body.hash)
                case Metadata():
                    named.update(roots.named_in(frame.body.changes.decode(errors="replace")))
                case FsRoot():
                    trees.append(frame.body.root)
        if not named and not trees:
            return True
        before = self._found.reached
        for digest in self._resolver.parts([*named, *trees]):
            self._found.reach(digest)
        for _pause in chain(self._found.expand(), self._found.expand_trees(trees)):
            pass
        return self._found.reached == before


class _Doomed(Container[object]):
    """The blobs that must not be written again, by hashes or keys: garbage, and blobs with a copy elsewhere."""

    def __init__(self, found: Reachable, elsewhere: Collection[int]) -> None:
        self._found = found
        self._elsewhere = elsewhere

    def __contains__(self, blob: object) -> bool:
        key = hash_key(blob) if isinstance(blob, bytes) else blob
        return key in self._found or key in self._elsewhere


class Sweep:
    """One sweep of the packs ``cold``, of what is not ``found`` to be reached.

    ``garbage`` and ``repeated`` are bytes by pack: of blobs that are not reached, and of further copies of others.
    ``blobs`` says how many of the former there are, ``damaged`` which packs could not be rewritten.
    """

    def __init__(
        self,
        intake: Intake,
        rewriting: Rewriting,
        sealer: Sealer,
        found: Reachable,
        cold: Collection[int],
        dictionaries: Collection[Hash],
    ) -> None:
        self.garbage: Counter[int] = Counter()
        self.repeated: Counter[int] = Counter()
        self.blobs = 0
        self.chosen: list[int] = []
        self.damaged: list[str] = []
        self._intake = intake
        self._packs = intake.writer.packs
        self._rewriting = rewriting
        self._sealer = sealer
        self._found = found
        self._cold = frozenset(cold)
        # these lie in the packs twice, so that one damaged block does not take very much with it
        self._twice = frozenset(map(hash_key, dictionaries))
        self._elsewhere: set[int] = set()
        self._doomed = _Doomed(found, self._elsewhere)

    def measure(self) -> Generator[None, None, None]:
        """Find out how much of which packs is left over."""
        self.blobs, left = self._found.left()
        _every, kept = self._found.rows(())
        yield
        for pack, places in groupby(map(self._found.place, left), key=itemgetter(0)):
            if kept[pack]:
                yield from self._measure(places, self.garbage)
            else:
                self.garbage[pack] = self._packs.length(pack) - HEADER_SIZE
        again = [place for key, places in self._found.repeated() if key not in self._twice for place in places[1:]]
        yield from self._measure(map(self._found.place, sorted(again)), self.repeated)

    def _measure(self, places: Iterable[RecordPlace], sizes: Counter[int]) -> Generator[None, None, None]:
        """Add up what the blobs at some places take, each a part of its record as large as any other."""
        counted = ((place, sum(1 for _ in same)) for place, same in groupby(places))
        while some := dict(islice(counted, _RECORDS_AT_ONCE)):
            yield
            for (pack, offset), record in self._packs.read_many(list(some)):
                if isinstance(record, ConvfsError):
                    continue
                size = OVERHEAD + len(record.stored)
                sizes[pack] += size * min(some[pack, offset], members_of(record)) // members_of(record)

    def choose(self, least_part: float) -> Generator[None, None, None]:
        """Choose packs of which ``least_part`` or more is garbage. Blobs in the others stay, with all they need."""
        packs, found = self._packs, self._found
        for pack in sorted(self._cold):
            left = self.garbage[pack] + self.repeated[pack]
            if left and left >= least_part * packs.length(pack) and pack not in self._sealer.damaged:
                self.chosen.append(pack)
        if not self.chosen:
            return
        rest = frozenset(packs.numbers()).difference(self.chosen)
        found.reach_packs(rest)
        yield from found.expand()
        yield from found.expand_copies(rest)
        yield from self._look_elsewhere(rest)
        every, kept = found.rows(self._elsewhere)
        self.chosen = [pack for pack in self.chosen if kept[pack] < every[pack] or not every[pack]]

    def _look_elsewhere(self, rest: Collection[int]) -> Generator[None, None, None]:
        """Find out which blobs can be read in the packs that stay, and need not be kept in the chosen ones."""
        copies: dict[RecordPlace, set[int]] = {}
        for key, places in self._found.repeated():
            for place in map(self._found.place, places):
                if place[0] in rest and key not in self._twice:
                    copies.setdefault(place, set()).add(key)
        ordered = iter(sorted(copies))
        while some := list(islice(ordered, _RECORDS_AT_ONCE)):
            yield
            for place, record in self._packs.read_many(some):
                with suppress(ConvfsError):
                    if not isinstance(record, ConvfsError):
                        self._elsewhere |= copies[place].intersection(map(hash_key, names_of(record)))

    def spare(self, keys: Collection[int]) -> None:
        """Keep some blobs, by their keys, and what they need."""
        _spare(self._found, keys)

    def removed(self) -> list[int]:
        """Return those of the chosen packs in which nothing is to be kept."""
        _every, kept = self._found.rows(self._elsewhere)
        return [pack for pack in self.chosen if not kept[pack]]

    def run(self) -> Generator[None, None, tuple[int, int, int]]:
        """Sweep the chosen packs; return how many were removed and rewritten, and how many bytes that has freed."""
        packs = self._packs
        # others may have been spared since
        every, kept = self._found.rows(self._elsewhere)
        self.chosen = [pack for pack in self.chosen if kept[pack] < every[pack] or not every[pack]]
        whole = [pack for pack in self.chosen if not kept[pack]]
        removed = rewritten = freed = 0
        for pack in whole:
            yield
            size = packs.length(pack)
            try:
                self._rewriting.switch([], {}, [pack], dropped=self._doomed)
            except DamageError as error:
                self.damaged.append(str(error))
                continue
            removed += 1
            freed += size
        for some in self._batches([pack for pack in self.chosen if pack not in whole]):
            numbers = some
            while numbers:
                try:
                    freed += yield from self._copy(numbers)
                except DamageError as error:
                    self.damaged.append(str(error))
                    numbers = [pack for pack in numbers if pack not in self._sealer.damaged]
                    if len(numbers) == len(some):
                        raise
                    continue
                rewritten += len(numbers)
                break
        return removed, rewritten, freed

    def _copy(self, numbers: Sequence[int]) -> Generator[None, None, int]:
        """Put copies without the garbage in the place of packs; return how many bytes that has freed."""
        writer, doomed = self._intake.writer, self._doomed
        before = sum(map(self._packs.length, numbers))
        writer.check_room(before)
        copy = Copy(writer, self._intake.dictionary(), doomed)
        try:
            yield from copy.write(numbers)
            copy.at = 0
            new = copy.written.finish()
            self._sealer.note_copied(numbers, new)
            self._rewriting.switch(copy.places, new, numbers, dropped=doomed, held=copy.opened)
        except DamageError as error:
            # another attempt must get farther, or find less to do
            self._sealer.damaged.update(dict.fromkeys([copy.at] if copy.at else numbers, str(error)))
            raise
        finally:
            copy.written.abandon()
        return before - sum(new.values())

    def _batches(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        some: list[int] = []
        size = 0
        for pack in numbers:
            some.append(pack)
            size += self._packs.length(pack)
            if size >= _RUN_BYTES:
                yield some
                some, size = [], 0
        if some:
            yield some


class Collected(Struct, frozen=True):
    """The outcome of a collection. ``turns`` and ``blobs`` that nothing leads to, ``bytes`` that these blobs
    take in packs; of these, ``freed_bytes`` by removing ``packs_removed`` and rewriting ``packs_rewritten``.

    ``young_bytes`` lie in packs that were written to within the grace period: nothing was looked for there.
    ``repeated_bytes`` are further copies of blobs. ``damaged`` says which packs were left alone as they are.
    ``space_bytes`` were freed in the space that the store is of, and ``archived`` of its entries went into its archive;
    if its replica ``collector`` collects just now, 0. ``cleared`` is the last commit by which the space has dropped
    something, if nothing of that is left in packs here. ``behind`` are the machines that have not come so far, and when
    they were last there, in Unix ms.
    """

    turns: int = 0
    blobs: int = 0
    bytes: int = 0
    repeated_bytes: int = 0
    young_bytes: int = 0
    packs_removed: int = 0
    packs_rewritten: int = 0
    freed_bytes: int = 0
    damaged: tuple[str, ...] = ()
    space_bytes: int = 0
    collector: int = 0
    cleared: int = 0
    behind: tuple[tuple[str, int], ...] = ()
    archived: int = 0


class _Said:
    """Notes of the head log of a space that are not filed."""

    def __init__(self) -> None:
        self.drops: list[Drop] = []
        """All that the space has ever dropped."""
        self._shown: list[int] = []
        self._counts: list[tuple[int, int]] = []
        self._time = 0

    def note(self, frame: HeadFrame) -> HeadFrame:
        match body := frame.body:
            case Dropped():
                self.drops.append(Drop(frame.seq, body))
            case HeadMoved():
                self._shown.append(turn_of(body.tip))
                self._time = max(self._time, body.time_ms)
            case ContextCreated():
                self._time = max(self._time, body.created_ms)
            case Commit():
                if self._time > (self._counts[-1][0] + _CLOCK_MS if self._counts else 0):
                    self._counts.append((self._time, body.turn_count))
        return frame

    def unshown(self, log: TurnLog, count: int) -> list[int]:
        """Return the turns that no branch has ever shown, but for old ones: a machine may be about to show them."""
        before = now_ms() - _UNSHOWN_MS
        old = max((turns for time_ms, turns in self._counts if time_ms < before), default=0)
        shown = LiveTurns(self._shown, log, count)
        return [turn for first, some in shown.dead() for turn in range(max(first, old + 1), first + some)]


class _Marked(NamedTuple):
    """The state that a collection goes by: what is ``found`` to be reached at the moment ``since``, by ``resolver``.

    ``dead`` are the turns that nothing leads to, ``cold`` the packs that may be swept, ``warm`` the others;
    ``drops`` is all that a space has dropped by then.
    """

    found: Reachable
    resolver: Resolver
    since: Since
    dead: list[Run]
    cold: list[int]
    warm: list[int]
    dictionaries: list[Hash]
    drops: list[Drop]

    @property
    def last_drop(self) -> int:
        """The last frame by which the space has dropped something."""
        return self.drops[-1].seq if self.drops else 0


def _spare(found: Reachable, keys: Collection[int]) -> None:
    """Keep some blobs, by their keys, and what they need."""
    for key in keys:
        found.reach_key(key)
    for _pause in found.expand():
        pass


class Collector:
    """Collects the garbage of one store, one collection at a time."""

    def __init__(
        self, root: Path, intake: Intake, rewriting: Rewriting, sealer: Sealer, flush: Callable[[], None]
    ) -> None:
        """``flush`` brings everything that was committed into logs and packs; a scratch file is made in ``root``."""
        self._root = root
        self._intake = intake
        self._writer = intake.writer
        self._packs = intake.writer.packs
        self._rewriting = rewriting
        self._sealer = sealer
        self._flush = flush
        self.replica: Replica | None = None
        """The store's part in its space."""
        self.archiving: Archiving | None = None
        """Has old entries of the space archived."""

    def steps(
        self, *, grace_seconds: float, least_part: float = GOOD_PART, dry_run: bool, wait: bool = True
    ) -> CollectionSteps:
        """Collect garbage, except in packs that were written to in the last ``grace_seconds``.

        Packs are rewritten if
        ``least_part`` of them is garbage. If another thread rewrites packs, ``wait`` for it, or else do nothing.
        Raises DamageError if the garbage cannot be determined, StoreFailed, StoreFull; in a space Unreachable.
        """
        alone = self._rewriting.alone
        if not alone.acquire(blocking=wait):
            return Collected()
        try:
            with told(self._intake.writer.packs.directory), self._intake.reliance.watching():
                replica = None if dry_run else self.replica
                if replica is None:
                    return (yield from self._collect(grace_seconds, least_part, dry_run=dry_run))
                records = replica.connected()[0].records
                if not replica.administers:
                    # what the space has is for an admin to take away
                    other = replica.member.number
                    collected = yield from self._collect_shared(replica, grace_seconds, least_part, other)
                else:
                    with replica.leases.held(records, "gc", wait=wait) as other:
                        collected = yield from self._collect_shared(replica, grace_seconds, least_part, other)
                    if collected.collector != other:
                        # what it has dropped is still in the packs of the space
                        return collected
                return structs.replace(collected, cleared=(yield from self._cleared(replica)))
        finally:
            alone.release()

    def _collect(self, grace_seconds: float, least_part: float, *, dry_run: bool) -> CollectionSteps:
        marked = yield from self._mark(grace_seconds, reclaims=not dry_run, fresh=not dry_run)
        sweep, collected = yield from self._measured(marked)
        yield from sweep.choose(least_part)
        if dry_run:
            freed = sum(sweep.garbage[number] + sweep.repeated[number] for number in sweep.chosen)
            removed, rewritten = len(sweep.removed()), len(sweep.chosen) - len(sweep.removed())
        else:
            self._intake.reliance.doom(marked.found, sweep.spare)
            removed, rewritten, freed = yield from sweep.run()
        return structs.replace(
            collected, packs_removed=removed, packs_rewritten=rewritten, freed_bytes=freed, damaged=tuple(sweep.damaged)
        )

    def _collect_shared(
        self, replica: Replica, grace_seconds: float, least_part: float, other: int
    ) -> CollectionSteps:
        """Collect in a space: for all machines, if no ``other`` does, and then what all have dropped from own packs."""
        upto = replica.take_all()
        replica.holdings.forget_doomed()
        marked = yield from self._mark(grace_seconds, reclaims=not other, fresh=True, reads=not other)
        found = marked.found
        replica.note_dropped(marked.last_drop)
        if not other:
            self._intake.reliance.doom(found, partial(_spare, found))
            yield from Dropping(self._intake, marked.resolver, found, marked.since).run(upto)
        collected = yield from self._sweep_dropped(marked, least_part)
        shared = archived = 0
        if not other:
            drops = [*marked.drops, *drops_in(self._writer.head_log.frames(marked.since.heads_length))]
            archived, thinned = yield from self._archive(drops, least_part, at_once=not grace_seconds)
            notes = [drop.note for drop in drops]
            shared, other = yield from self._clean_space(replica, upto, notes, grace_seconds)
            shared += thinned
        return structs.replace(collected, space_bytes=shared, archived=archived, collector=other)

    def _cleared(self, replica: Replica) -> Generator[None, None, int]:
        """Remove all that the space has dropped from the packs of this machine, however little, however new.

        Nobody may name that any more. Returns the last commit by which something was dropped if nothing is left but
        what something else is made from; else 0.
        """
        if not replica.owes:
            return 0
        replica.take_all()
        replica.holdings.forget_doomed()
        dropped = replica.dropped
        marked = yield from self._mark(0, reclaims=False, fresh=True, reads=False)
        swept = yield from self._sweep_dropped(marked, 0)
        places_of = self._writer.index.places_of
        left = any(key in marked.found and places_of(key) for key in self._intake.doomed)
        return 0 if left or swept.damaged else dropped

    def _sweep_dropped(self, marked: _Marked, least_part: float) -> CollectionSteps:
        """Sweep the packs of this machine of what other machines may no longer name."""
        found, doomed = marked.found, self._intake.doomed
        # what they may still name stays, and what that needs
        found.reach_others(doomed)
        yield from found.expand()
        sweep, collected = yield from self._measured(marked)
        yield from sweep.choose(least_part)
        self._intake.reliance.doom(found, sweep.spare)
        removed, rewritten, freed = yield from sweep.run()
        index = self._writer.index
        doomed.keep(lambda key: bool(index.places_of(key)))
        return structs.replace(
            collected,
            packs_removed=removed,
            packs_rewritten=rewritten,
            freed_bytes=freed,
            damaged=tuple(sweep.damaged),
        )

    def _clean_space(
        self, replica: Replica, upto: int, drops: Sequence[Dropped], grace_seconds: float
    ) -> Generator[None, None, tuple[int, int]]:
        """Remove what was dropped from the packs of the space; without grace, seal them, too.

        Returns how many bytes that has freed and, if another machine replaces packs just now, its number.
        """
        # imported here, as most stores are of no space
        from store.upkeep.space_sealer import LEASE, SpaceSealer
        from store.upkeep.thinning import Thinning

        records = replica.connected()[0].records
        with replica.leases.held(records, LEASE, wait=not grace_seconds) as other:
            if other:
                return 0, other
            thinning = Thinning(replica, self._intake, upto)
            yield from thinning.run(drops)
            if not grace_seconds:
                for _size in SpaceSealer(replica, self._intake).all():
                    yield
            return thinning.remove(grace_seconds), 0
    def _archive(
        self, drops: Sequence[Drop], least_part: float, *, at_once: bool
    ) -> Generator[None, None, Archived]:
        if self.archiving is None:
            return Archived()
        return (
            yield from self.archiving.steps(least=1 if at_once else None, drops=drops, least_part=least_part)
        )

    def _mark(
        self, grace_seconds: float, *, reclaims: bool, fresh: bool, reads: bool = True
    ) -> Generator[None, None, _Marked]:
        """Find out what is reached; blank the turns that nothing leads to, if it ``reclaims``.

        With ``fresh``, roots are filed from nothing but the log. Unless it ``reads`` what only the space has, what was
        cut out of that is not reached.
        """
        writer, packs = self._writer, self._packs
        # packed blobs are seen
        packed = writer.turns.count
        self._flush()
        cold = self._cold(grace_seconds, dry_run=not fresh)
        with writer.commit_lock:
            since = Since(writer.head_log.length, writer.turns.count)
            unshown = list(writer.unshown.ends())
        source = StoredBlobs(writer.pending.get, writer.index, packs)
        resolver = Resolver(source, _SHELF_BYTES)
        holdings = self.replica.holdings if self.replica is not None else None
        remote = holdings.filed() if holdings is not None else {}
        needs = holdings.needs if holdings is not None and not reads else None
        found = Reachable(packs, Shelf(source, _SHELF_BYTES), resolver, remote, needs)
        yield from found.take_stock(writer.index.db)
        said = _Said()
        # in a space, the log says which turns were shown
        with self._filed(since, said, fresh=fresh or writer.order.shared) as db:
            if writer.order.shared:
                unshown += said.unshown(writer.turns, since.turn_count)
            tips = chain(roots.tips(db), roots.imported(db, resolver.blob), unshown)
            turns = LiveTurns(tips, writer.turns, since.turn_count)
            yield
            dead = list(turns.dead())
            if dead and reclaims:
                self._reclaim(dead, since, found)
            for number, turn in enumerate(turns.turns()):
                # later blobs may have been on their way into the packs as the blobs were counted
                if not found.reach(turn.payload_hash) and turn.turn_id <= packed:
                    raise DamageError(f"the payload of turn {turn.turn_id} is lost: nobody knows what it was made of")
                if number % _TURNS_AT_ONCE == 0:
                    yield
            for digest in roots.named(db):
                found.reach(digest)
            trees = [Hash(root) for turn, root in db.rows("SELECT turn, root FROM fs_roots") if turn in turns]
            dictionaries = [digest for (digest,) in db.query("SELECT hash FROM dictionaries")]
        yield from found.expand()
        if trees:
            yield from found.expand_trees(trees)
        # blobs that may not be swept stay, and so do the blobs that they need
        warm = [number for number in packs.numbers() if number not in cold]
        young_ms = now_ms() - int(grace_seconds * 1000)
        found.reach_packs([*warm, *(pack for pack, note in remote.items() if note.made_ms > young_ms)])
        yield from found.expand()
        return _Marked(found, resolver, since, dead, cold, warm, dictionaries, said.drops)

    def _measured(self, marked: _Marked) -> Generator[None, None, tuple[Sweep, Collected]]:
        sweep = Sweep(
            self._intake, self._rewriting, self._sealer, marked.found, marked.cold, marked.dictionaries
        )
        yield from sweep.measure()
        return sweep, Collected(
            turns=sum(count for _first, count in marked.dead),
            blobs=sweep.blobs,
            bytes=sum(sweep.garbage.values()),
            repeated_bytes=sum(sweep.repeated.values()),
            young_bytes=sum(self._packs.length(number) - HEADER_SIZE for number in marked.warm),
        )

    def _cold(self, grace_seconds: float, *, dry_run: bool) -> list[int]:
        before = time.time_ns() - int(grace_seconds * _NS)
        if dry_run and not grace_seconds:
            # all would be by then
            return self._packs.numbers()
        cold = self._intake.cold(roll=not grace_seconds)
        return [number for number in cold if not grace_seconds or self._packs.modified_ns(number) < before]

    @contextmanager
    def _filed(self, since: Since, said: _Said, *, fresh: bool) -> Iterator[Database]:
        """Give what is filed of the head log; ``fresh``, as it is filed from nothing but the log, and ``said``."""
        if not fresh:
            self._writer.settle()
            yield self._writer.index.db
            return
        path = self._root / GC_INDEX
        remove_database(path)
        index = Index(path)
        try:
            index.apply(map(said.note, self._frames(since)))
            yield index.db
        finally:
            index.close()
            remove_database(path)

    def _frames(self, since: Since) -> Iterator[HeadFrame]:
        for frame in self._writer.head_log.frames():
            if isinstance(frame, Damage):
                raise DamageError(f"heads.log is damaged at offset {frame.offset}: nobody knows what is garbage")
            if frame.offset >= since.heads_length:
                return
            yield frame

    def _reclaim(self, dead: Sequence[Run], since: Since, found: Reachable) -> None:
        """Blank turns; a turn that somebody continues from keeps its payload."""
        if Reclaiming(self._writer, dead, since).run() == sum(count for _first, count in dead):
            return
        for first, count in dead:
            for _turn_id, turn in self._writer.turns.scan(first, first + count - 1):
                if isinstance(turn, Turn) and not turn.reclaimed:
                    found.reach(turn.payload_hash)

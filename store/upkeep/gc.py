"""Collecting garbage: turns and blobs that nothing leads to any more are taken out of the files.

A collection finds out first, which changes nothing: what a store is kept for (``store.upkeep.roots``), what of its
blobs that reaches (``store.upkeep.reachable``), and how much of which packs is left over. Then it runs, in this order:

* Turns that nothing leads to are blanked (``store.upkeep.reclaiming``). Where somebody goes on from one of them
  meanwhile they stay, this time.
* Packs of which a good part is garbage are chosen. What lies in the others stays, with all that it needs: so every
  blob that is left in a store is whole.
* The garbage of the chosen packs is doomed (``store.commit.reliance``): but for what somebody is about to name.
* Packs with nothing else in them are removed; the others are written anew without it (``store.upkeep.sealing``).

Before anything goes, the roots are taken from the head log itself, filed in an index of their own: what the store's
index has lost without a trace is not garbage. And where anything is damaged that leads to something else, nobody knows
to what, so nothing goes at all.

What nothing names counts as garbage only when its pack was not written to for a day: a client may bring blobs first
and name them later. A blob may also lie in several packs, after a crash in the middle of a rewriting, or after sweeps
in which somebody wrote it anew: of copies in chosen packs none is kept if there is another elsewhere.

Everything here is a generator that pauses every few hundredths of a second, so that the background can do it in slices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from msgspec import Struct, structs

from store.commit.blob_source import StoredBlobs
from store.commit.intake import Intake
from store.content.resolver import Resolver
from store.content.shelf import Shelf
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import Frame
from store.disk.turn_format import Turn
from store.errors import DamageError
from store.index.database import Database
from store.index.index import Index
from store.index.views import Run
from store.upkeep import roots
from store.upkeep.opening_index import remove_database
from store.upkeep.reachable import Reachable
from store.upkeep.reclaiming import Reclaiming, Since
from store.upkeep.rewriting import Rewriting, told
from store.upkeep.sealing import Sealer
from store.upkeep.sweeping import Sweep

_SCRATCH = "gc.db"
_SHELF_BYTES = 16 << 20
_TURNS_AT_ONCE = 4096
GOOD_PART = 0.25
"""What part of a pack must be garbage for it to be rewritten in the background."""

_NS = 10**9

Steps = Generator[None, None, "Collected"]


class Collected(Struct, frozen=True):
    """What a collection has found, and done. ``turns`` and ``blobs`` that nothing leads to, ``bytes`` that these blobs
    take in packs; of these, ``freed_bytes`` by removing ``packs_removed`` and rewriting ``packs_rewritten``.

    ``young_bytes`` lie in packs that were written to within the grace period: nothing was looked for there.
    ``repeated_bytes`` are further copies of blobs. ``damaged`` says which packs were left alone as they are.
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

    def steps(self, *, grace_seconds: float, least_part: float = GOOD_PART, dry_run: bool, wait: bool = True) -> Steps:
        """Collect, but for what lies in packs that were written to in the last ``grace_seconds``.

        0: somebody waits, so what is written anew is compressed in less time, and not as well as it could be. Packs are
        rewritten of which ``least_part`` is garbage. Where others rewrite packs, ``wait`` for them or do nothing.
        Raises DamageError where it cannot be known what is garbage, StoreFailed, StoreFull.
        """
        alone = self._rewriting.alone
        if not alone.acquire(blocking=wait):
            return Collected()
        try:
            with told(), self._intake.reliance.watching():
                return (yield from self._collect(grace_seconds, least_part, dry_run=dry_run))
        finally:
            alone.release()

    def _collect(self, grace_seconds: float, least_part: float, *, dry_run: bool) -> Steps:
        writer, packs = self._writer, self._packs
        # what is blanked must not come back from the journal; and what is packed is seen
        packed = writer.turns.count
        self._flush()
        cold = self._cold(grace_seconds, dry_run=dry_run)
        with writer.commit_lock:
            since = Since(writer.head_log.length, writer.turns.count)
            unshown = list(writer.unshown.ends())
        source = StoredBlobs(writer.pending, writer.index, packs)
        resolver = Resolver(source, _SHELF_BYTES)
        found = Reachable(packs, Shelf(source, _SHELF_BYTES), resolver)
        yield from found.take_stock(writer.index.db)
        with self._filed(since, fresh=not dry_run) as db:
            tips = chain(roots.tips(db), roots.imported(db, resolver.blob), unshown)
            turns = roots.LiveTurns(tips, writer.turns, since.turn_count)
            yield
            dead = list(turns.dead())
            if dead and not dry_run:
                self._reclaim(dead, since, found)
            for number, turn in enumerate(turns.turns()):
                # what came since may have been on its way into the packs as the blobs were counted
                if not found.reach(turn.payload_hash) and turn.turn_id <= packed:
                    raise DamageError(f"the payload of turn {turn.turn_id} is lost: nobody knows what it was made of")
                if number % _TURNS_AT_ONCE == 0:
                    yield
            for digest in roots.named(db):
                found.reach(digest)
            trees = [root for turn, root in roots.trees(db) if turn in turns]
            dictionaries = [digest for (digest,) in db.query("SELECT hash FROM dictionaries")]
        yield from found.expand()
        if trees:
            yield from found.expand_trees(trees)
        # what may not be swept stays, and what it needs
        warm = [number for number in packs.numbers() if number not in cold]
        found.reach_packs(warm)
        yield from found.expand()
        sweep = Sweep(packs, self._rewriting, self._sealer, found, cold, dictionaries)
        yield from sweep.measure()
        collected = Collected(
            turns=sum(count for _first, count in dead),
            blobs=sweep.blobs,
            bytes=sum(sweep.garbage.values()),
            repeated_bytes=sum(sweep.repeated.values()),
            young_bytes=sum(packs.length(number) - HEADER_SIZE for number in warm),
        )
        yield from sweep.choose(least_part)
        if dry_run:
            freed = sum(sweep.garbage[number] + sweep.repeated[number] for number in sweep.chosen)
            removed, rewritten = len(sweep.removed()), len(sweep.chosen) - len(sweep.removed())
        else:
            self._intake.reliance.doom(found, sweep.spare)
            removed, rewritten, freed = yield from sweep.run(quick=not grace_seconds)
        return structs.replace(
            collected,
            packs_removed=removed,
            packs_rewritten=rewritten,
            freed_bytes=freed,
            damaged=tuple(sweep.damaged),
        )

    def _cold(self, grace_seconds: float, *, dry_run: bool) -> list[int]:
        """Return the packs that may be swept."""
        before = time.time_ns() - int(grace_seconds * _NS)
        if dry_run and not grace_seconds:
            # all would be by then
            return self._packs.numbers()
        cold = self._rewriting.cold(roll=not grace_seconds)
        return [number for number in cold if not grace_seconds or self._packs.modified_ns(number) < before]

    @contextmanager
    def _filed(self, since: Since, *, fresh: bool) -> Iterator[Database]:
        """Give what is filed of the head log; ``fresh``, as it is filed from nothing but the log."""
        if not fresh:
            self._writer.settle()
            yield self._writer.index.db
            return
        path = self._root / _SCRATCH
        remove_database(path)
        index = Index(path)
        try:
            index.apply(self._frames(since))
            yield index.db
        finally:
            index.close()
            remove_database(path)

    def _frames(self, since: Since) -> Iterator[Frame]:
        for frame in self._writer.head_log.frames():
            if isinstance(frame, Damage):
                raise DamageError(f"heads.log is damaged at offset {frame.offset}: nobody knows what is garbage")
            if frame.offset >= since.heads_length:
                return
            yield frame

    def _reclaim(self, dead: Sequence[Run], since: Since, found: Reachable) -> None:
        """Blank turns; what somebody goes on from keeps its payload."""
        if Reclaiming(self._writer, dead, since).run() == sum(count for _first, count in dead):
            return
        for first, count in dead:
            for _turn_id, turn in self._writer.turns.scan(first, first + count - 1):
                if isinstance(turn, Turn) and not turn.reclaimed:
                    found.reach(turn.payload_hash)

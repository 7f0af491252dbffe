"""The calls of the command for a whole store: collect, seal, file, count, prune."""

import operator
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from typing import TypeVar

from msgspec import Struct, structs

from store.errors import DamageError, StoreFailed, UsageError
from store.filing import Filing
from store.ids import now_ms
from store.insight.report import StatsReport
from store.retention.plan import Doomed, Selection, plan, rules
from store.retention.pruner import PruneReport, found_by_rules, prune
from store.service.call import Emit, Holder, Table
from store.service.jobs import cleared
from store.service.operations import Own, own
from store.store import Store
from store.upkeep.gc import Collected
from store.upkeep.sealer import Sealed
from store.upkeep.stats import Stats

T = TypeVar("T")
Result = TypeVar("Result")

UPKEEP = Table()


@UPKEEP.telling(400, progress=True)
def gc(holder: Holder, emit: Emit[None], dry_run: bool = False) -> Collected:
    """Delete unreferenced data from the files; ``dry_run``: report it, and change nothing."""
    store = holder.store
    # a client that goes away meanwhile ends it
    collected = _result(
        cleared(store, store.collector.steps(grace_seconds=0, least_part=0, dry_run=dry_run)), emit
    )
    return structs.replace(collected, behind=_uncollected(store))


def _uncollected(store: Store) -> tuple[tuple[str, int], ...]:
    """Return the machines of the store's space that may still have something that was dropped."""
    with suppress(StoreFailed):
        return tuple(store.replica.uncollected()) if store.replica is not None else ()
    # the space is away, and what was to be done was done
    return ()


def _result(steps: Generator[T, None, Result], told: Callable[[T], object]) -> Result:
    """Run ``steps`` to the end, or until ``told`` raises; return their result."""
    with closing(steps):
        while True:
            try:
                told(next(steps))
            except StopIteration as end:
                result: Result = end.value
                return result


class FilingProgress(Struct, frozen=True):
    """The progress of filing: the records filed so far, and all of them."""

    filed: int
    records: int


@UPKEEP.telling(401, progress=True)
def file_new(holder: Holder, emit: Emit[FilingProgress]) -> None:
    """Measure, draw and index what has come in, now and on all cores. What is left at an end is done another time."""
    Filing(holder.store, lambda filed, records: emit(FilingProgress(filed, records))).run()


class CountProgress(Struct, frozen=True):
    """The progress of counting: the turns counted so far, and all of them."""

    counted: int
    turns: int


class StoreReport(Struct, frozen=True):
    """A store, its holder (None for nobody), and its contents."""

    root: str
    store_id: str
    socket: str | None
    mountpoint: str | None
    stats: Stats
    report: StatsReport


@UPKEEP.telling(460, progress=True)
def insight(holder: Holder, emit: Emit[CountProgress], count: bool = True) -> StoreReport:
    """Return the store's contents, savings and costs; ``count``: first count new turns, which may take a while."""
    found = holder.store.insight
    if count:
        found.count(lambda counted, turns: emit(CountProgress(counted, turns)))
    return StoreReport(**own(holder), stats=holder.store.stats(), report=found.report())


def flat(told: StoreReport) -> dict[str, object]:
    """Return a report as one flat table, for programs."""
    return (
        {name: getattr(told, name) for name in Own.__annotations__}
        | structs.asdict(told.stats)
        | structs.asdict(told.report)
    )


_AT_ONCE = 200


@UPKEEP.pages(470)
def prune_plan(holder: Holder, selections: tuple[Selection, ...] = ()) -> Iterator[list[Doomed]]:
    """Return what would be deleted for good: the chosen items, or without any, those that the store's rules choose."""
    settings = holder.store.settings.retention
    doomed: Iterator[Doomed | None]
    if selections:
        doomed = plan(holder.store, selections, settings.keep_labels, now_ms())
    elif rules(settings) or settings.max_bytes is not None:
        doomed = found_by_rules(holder.store)
    else:
        raise UsageError("no rules are set, and nothing is chosen: see `convfs prune --help`")
    some: list[Doomed] = []
    for one in doomed:
        some += [one] if one is not None else []
        if len(some) == _AT_ONCE:
            yield some
            some = []
    if some:
        yield some


@UPKEEP.call(471)
def prune_planned(holder: Holder, doomed: tuple[Doomed, ...]) -> PruneReport:
    """Delete for good the findings of a plan, or some of them."""
    report = prune(holder.store, doomed)
    report.behind = _uncollected(holder.store)
    return report




class SealProgress(Struct, frozen=True):
    """The bytes of blobs sealed so far."""

    bytes: int


class SealReport(Struct, frozen=True):
    """The packs and blobs sealed, and their bytes before and after; ``damaged`` packs were left alone.

    For a dry run, ``blobs`` is 0, and ``bytes_after`` is their present size.
    """

    packs: int
    blobs: int
    bytes_before: int
    bytes_after: int
    damaged: list[str]


@UPKEEP.telling(410, progress=True)
def seal(holder: Holder, emit: Emit[SealProgress], dry_run: bool = False) -> SealReport:
    """Rewrite appended data in less room; ``dry_run``: report what would be sealed, and do nothing."""
    sealer = holder.store.sealer
    if dry_run:
        planned = sealer.planned()
        size = sum(map(holder.store.files.packs.length, planned))
        return SealReport(len(planned), 0, size, size, list(sealer.damaged.values()))
    total = Sealed()
    done = 0

    def told(size: int) -> None:
        nonlocal done
        done += size
        emit(SealProgress(done))

    # data appended meanwhile is left for another time, or there might be no end
    upto = sealer.now()
    while True:
        try:
            sealed = _result(sealer.steps(upto=upto), told)
        except DamageError:
            # that pack is left out of the next run
            continue
        if not sealed.packs:
            return SealReport(**structs.asdict(total), damaged=list(sealer.damaged.values()))
        total = Sealed(*map(operator.add, structs.astuple(total), structs.astuple(sealed)))

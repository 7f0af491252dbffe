"""Pruning: the deletion of what a plan says, as far as it still is what the plan saw.

Contexts are deleted for good, and versions that they were in.

Anything that only these led to may no longer be named from then on; gc removes it from the files.
"""

import logging
import time
from collections.abc import Generator, Iterable, Iterator

from msgspec import Struct

from store.commit.request import Request
from store.disk.head_format import Deleted, VersionsPruned
from store.errors import Conflict, ConvfsError, NotFound, UsageError
from store.ids import now_ms
from store.importing.provenance import ImportedFile, read_as
from store.retention.plan import Doomed, found, oldest, rules
from store.store import Store
from store.upkeep.gc import Collected
from store.upkeep.idle import SLICE_SECONDS

_LOG = logging.getLogger(__name__)


def delete(store: Store, context: int, tip: int) -> None:
    """Delete a context for good, with its versions and everything said of it; what forks share with it stays.

    NotFound if there is none, Conflict if its state is not ``tip``.
    """
    store.writer.submit(Request(_known(context), move_head=False, expected_head=tip, notes=[Deleted(now_ms())]))


def prune_versions(store: Store, context: int, last: int) -> None:
    """Delete for good a context's versions that began up to seq ``last``, except the present one. Raises NotFound."""
    store.writer.submit(Request(_known(context), move_head=False, notes=[VersionsPruned(last, now_ms())]))


def _known(context: int) -> int:
    if context <= 0:
        raise UsageError(f"{context} is no context")
    return context


class PruneReport(Struct):
    """Counts of conversations, versions and artifacts deleted for good; ``skipped`` has a line for each kept one.

    ``behind`` are the machines of a space that may still have what was deleted and collected before, and when they were
    last there, in Unix ms.
    """

    conversations: int = 0
    versions: int = 0
    artifacts: int = 0
    skipped: list[str] = []
    behind: tuple[tuple[str, int], ...] = ()


def prune(store: Store, doomed: Iterable[Doomed]) -> PruneReport:
    """Delete for good the finds of a plan; what has changed since then stays, and is reported.

    If nothing is left of a file of many conversations, the kept file itself goes with the last of them.
    """
    report = PruneReport()
    files: set[int] = set()
    for one in doomed:
        who = f"{one.project}/{one.name}"
        try:
            entry = store.catalogue.entry(one.id)
            if one.what == "versions":
                before = len(store.catalogue.versions(one.id))
                prune_versions(store, one.id, one.last)
                report.versions += before - len(store.catalogue.versions(one.id))
            elif one.what == "artifacts":
                there = [key for key in one.keys if key in entry.metadata]
                store.contexts.set_metadata(one.id, dict.fromkeys(there))
                report.artifacts += len(there)
            elif (entry.metadata.get("trashed_ms") or 0) != one.trashed_ms:
                report.skipped.append(f"{who}: it was put into the trash, or taken out, meanwhile")
            else:
                delete(store, one.id, one.tip)
                report.conversations += 1
                if isinstance(file := entry.metadata.get("file"), int):
                    files.add(file)
        except Conflict:
            report.skipped.append(f"{who}: it has changed meanwhile")
        except NotFound:
            report.skipped.append(f"{who}: it is gone already")
    for file in files:
        _delete_file(store, file)
    return report


def _delete_file(store: Store, context: int) -> None:
    """Delete the context of a file if none of its conversations exists any more."""
    try:
        file = store.catalogue.entry(context)
    except NotFound:
        return
    imported = read_as(file.metadata, ImportedFile)
    if imported is None:
        return
    if not any(store.contexts.exists(place.context) for place in imported.read_layout(store).places):
        delete(store, context, file.head)


def found_by_rules(store: Store) -> Iterator[Doomed | None]:
    """Yield the finds of a store's rules, each thing once, and None where it took a moment to find nothing."""
    settings = store.settings.retention
    gone: set[int] = set()
    for one in found(store, rules(settings), settings.keep_labels, now_ms()):
        if one is not None and one.what == "conversation":
            gone.add(one.id)
        yield one
    if settings.max_bytes is not None:
        kept = yield from _kept_bytes(store)
        yield from oldest(store, settings.max_bytes, kept, settings.keep_labels, gone)


def _kept_bytes(store: Store) -> Generator[None, None, int]:
    packs = store.files.packs
    if sum(map(packs.length, packs.numbers())) <= (store.settings.retention.max_bytes or 0):
        return 0
    collected: Collected = yield from store.collector.steps(grace_seconds=0, least_part=0, dry_run=True, wait=False)
    return sum(map(packs.length, packs.numbers())) - collected.bytes - collected.repeated_bytes


class RuleJob:
    """A job: prunes by the rules of a store; see :class:`store.upkeep.idle.Job`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._steps: Iterator[None] | None = None

    def step(self) -> bool:
        if self._steps is None:
            self._steps = self._follow()
        until = time.monotonic() + SLICE_SECONDS
        try:
            while time.monotonic() < until:
                next(self._steps)
        except StopIteration:
            self._steps = None
            return False
        except BaseException:
            self._steps = None
            raise
        return True

    def _follow(self) -> Iterator[None]:
        settings = self._store.settings.retention
        if not rules(settings) and settings.max_bytes is None:
            return
        doomed: list[Doomed] = []
        try:
            for one in found_by_rules(self._store):
                doomed += [one] if one is not None else []
                yield
        except ConvfsError as error:
            _LOG.warning("the rules of retention cannot be followed: %s", error)
            return
        for one in doomed:
            report = prune(self._store, [one])
            if not report.skipped:
                _LOG.info("pruned by the rules, %s: %s of %s/%s", one.why, one.what, one.project, one.name)
            yield

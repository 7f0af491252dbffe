"""The rules of a store: what they find, for the command that follows them at once, and for a daemon, now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator

from store.errors import ConvfsError
from store.ids import now_ms
from store.retention.plan import Doomed, found, oldest
from store.retention.pruning import prune
from store.retention.selection import rules
from store.store import Store
from store.upkeep.gc import Collected
from store.upkeep.idle import SLICE_SECONDS

_LOG = logging.getLogger(__name__)


def found_by_rules(store: Store) -> Iterator[Doomed | None]:
    """Yield what the rules of a store find now, each thing once, and None where it took a moment to find nothing."""
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
    """Find out how much the packs have of what something leads to, in bytes."""
    packs = store.files.packs
    if sum(map(packs.length, packs.numbers())) <= (store.settings.retention.max_bytes or 0):
        return 0
    collected: Collected = yield from store.collector.steps(grace_seconds=0, least_part=0, dry_run=True, wait=False)
    return sum(map(packs.length, packs.numbers())) - collected.bytes - collected.repeated_bytes


class Following:
    """A job: prunes by the rules of a store; see :class:`store.upkeep.idle.Job`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._steps: Iterator[None] | None = None

    def step(self) -> bool:
        """Do a slice of it."""
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

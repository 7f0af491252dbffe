"""Collecting garbage on request, and in the background of a daemon."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from msgspec import Struct

from store.errors import ConvfsError
from store.service.operation import Holder, Nothing, Operation
from store.store import Store
from store.upkeep.gc import Collected, Steps
from store.upkeep.idle import SLICE_SECONDS

_LOG = logging.getLogger(__name__)
_DAY_SECONDS = 24 * 3600.0
_LAST = "collected"
"""Under which key the index keeps what the store was when it was last looked through, and when that was."""


class GcParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``dry_run``: say what is left over, and change nothing."""

    dry_run: bool = False


def _collect(holder: Holder, params: GcParams, emit: Callable[[Nothing], None]) -> Collected:
    steps = holder.store.collector.steps(grace_seconds=0, least_part=0, dry_run=params.dry_run)
    try:
        while True:
            next(steps)
            # who goes away meanwhile ends it
            emit(Nothing())
    except StopIteration as end:
        found: Collected = end.value
        return found
    finally:
        steps.close()


GC = Operation(400, GcParams, Nothing, Collected, _collect, progress=True)


class Collecting:
    """A job: collects once a day, if anything has changed since; nothing that was written in the last hours.

    ``now`` is a clock, in seconds since 1970.
    """

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now
        self._steps: Steps | None = None
        self._state = ""

    def step(self) -> bool:
        """Do a slice of it; see :class:`store.upkeep.idle.Job`."""
        if self._steps is None and not self._begin():
            return False
        assert self._steps is not None
        until = time.monotonic() + SLICE_SECONDS
        try:
            while time.monotonic() < until:
                if self._store.rewriting.alone.wanted:
                    # somebody waits for what this can do another time
                    self.close()
                    return False
                next(self._steps)
        except StopIteration as end:
            self._end(end.value)
            return False
        except ConvfsError as error:
            _LOG.warning("nothing was collected: %s", error)
            self._end(Collected())
            return False
        return True

    def close(self) -> None:
        """Give up what was begun."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def _begin(self) -> bool:
        settings = self._store.settings.gc
        if not settings.background:
            return False
        # of what is written now, nothing is left over
        self._state = repr(self._store.changes)
        known = self._store.files.index.db.state(_LAST)
        state, _, when = known.rpartition(" ") if isinstance(known, str) else ("", "", "0")
        if state == self._state or self._now() < float(when) + _DAY_SECONDS:
            return False
        self._steps = self._store.collector.steps(grace_seconds=settings.grace_hours * 3600, dry_run=False, wait=False)
        return True

    def _end(self, collected: Collected) -> None:
        self._steps = None
        self._store.files.index.db.set_state(_LAST, f"{self._state} {self._now():.0f}")
        if collected.freed_bytes:
            _LOG.info("collected %d bytes of what nothing leads to", collected.freed_bytes)

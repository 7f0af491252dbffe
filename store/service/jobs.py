"""The jobs of a daemon that run when it is idle: they collect, seal and archive."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Generic, TypeVar

from store.errors import ConvfsError, DamageError, Unreachable
from store.store import Store
from store.upkeep.archiving import Archived
from store.upkeep.gc import Collected, CollectionSteps
from store.upkeep.idle import SLICE_SECONDS
from store.upkeep.sealer import Sealed, SealingSteps

Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)
_DAY_SECONDS = 24 * 3600.0
_OWED_SECONDS = 3600.0
"""After how long it is tried again to remove what a space has dropped."""
_LAST = "collected"
"""The index's key for the store's state at the last collection, and for its time."""


def cleared(store: Store, steps: CollectionSteps) -> CollectionSteps:
    """Collect; in a space, see then that nothing is left of what was dropped."""
    collected = yield from steps
    if collected.cleared:
        # imported here, as most stores are of no space
        from store.redaction.clearing import clear

        yield from clear(store, collected.cleared)
    return collected


class _Stepping(ABC, Generic[Result]):
    """A job whose work is a generator, a slice of its steps at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._steps: Generator[object, None, Result] | None = None

    def step(self) -> bool:
        """Do a slice of it; see :class:`store.upkeep.idle.Job`."""
        steps, self._steps = self._steps or self._begun(), None
        if steps is None:
            return False
        until = time.monotonic() + SLICE_SECONDS
        try:
            while time.monotonic() < until:
                if self._store.rewriting.alone.wanted:
                    # somebody is waiting, and this can run another time
                    steps.close()
                    return False
                next(steps)
        except StopIteration as end:
            return self._done(end.value)
        except ConvfsError as error:
            return self._failed(error)
        self._steps = steps
        return True

    def close(self) -> None:
        """Abandon the current run."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    @abstractmethod
    def _begun(self) -> Generator[object, None, Result] | None:
        """Return the steps of a run; None where there is nothing to do."""

    @abstractmethod
    def _done(self, result: Result) -> bool:
        """Record the end of a run; return whether there is more to do."""

    @abstractmethod
    def _failed(self, error: ConvfsError) -> bool:
        """Record the failure of a run; return whether there is more to do."""


class Collecting(_Stepping[Collected]):
    """A job: collects once a day if anything has changed since, and as soon as something was deleted for good.

    Nothing goes that lies next to what was written in the last hours. ``now`` is a clock, in seconds since 1970.
    """

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        super().__init__(store)
        self._now = now
        self._state = ""
        self._let_go = False

    def let_go(self) -> None:
        """Collect at the next opportunity: something was deleted for good."""
        self._let_go = True

    def _begun(self) -> CollectionSteps | None:
        settings = self._store.settings.gc
        if not settings.background:
            return None
        # data written now leaves nothing unreferenced
        self._state = repr(self._store.changes)
        known = self._store.files.index.db.state(_LAST)
        state, _, when = known.rpartition(" ") if isinstance(known, str) else ("", "", "0")
        let_go, self._let_go = self._let_go, False
        replica = self._store.replica
        owes = replica is not None and replica.owes
        if (state == self._state and not owes) or (
            not let_go and self._now() < float(when) + (_OWED_SECONDS if owes else _DAY_SECONDS)
        ):
            return None
        steps = self._store.collector.steps(grace_seconds=settings.grace_hours * 3600, dry_run=False, wait=False)
        return cleared(self._store, steps)

    def _done(self, result: Collected) -> bool:
        self._store.files.index.db.set_state(_LAST, f"{self._state} {self._now():.0f}")
        if result.freed_bytes:
            _LOG.info("collected %d bytes of what nothing leads to", result.freed_bytes)
        return False

    def _failed(self, error: ConvfsError) -> bool:
        _LOG.warning("nothing was collected: %s", error)
        return self._done(Collected())


class SpaceSealingJob(_Stepping[Sealed]):
    """A job: seals what the space has, as soon as there is enough of it, unless another machine does."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._sealer = None
        if store.replica is not None:
            # imported here, as most stores are of no space
            from store.upkeep.space_sealer import SpaceSealer

            self._sealer = SpaceSealer(store.replica, store.intake)

    def _begun(self) -> SealingSteps | None:
        settings, sealer = self._store.settings.sealing, self._sealer
        if sealer is None or not settings.background:
            return None
        with suppress(Unreachable):
            if sealer.unsealed_bytes() >= max(settings.at_bytes, 1):
                return sealer.steps()
        return None

    def _done(self, result: Sealed) -> bool:
        if result.packs:
            told = result.packs, result.bytes_before, result.bytes_after
            _LOG.info("sealed %d packs of the space: %d bytes became %d", *told)
        return False

    def _failed(self, error: ConvfsError) -> bool:
        _LOG.warning("not sealed in the space: %s", error)
        return False


class ArchivingJob(_Stepping[Archived]):
    """A job: has old entries of the space archived that the store is of, once there are many."""

    def _begun(self) -> Generator[None, None, Archived] | None:
        archiving = self._store.archiving
        return archiving.steps() if archiving is not None else None

    def _done(self, result: Archived) -> bool:
        if result.entries:
            _LOG.info("archived %d commits of the space", result.entries)
        return False

    def _failed(self, error: ConvfsError) -> bool:
        if not isinstance(error, Unreachable):
            _LOG.warning("nothing was archived: %s", error)
        return False


class SealingJob(_Stepping[Sealed]):
    """A job: seals appended data as soon as there is enough of it (``sealing.at_bytes``)."""

    def _begun(self) -> SealingSteps | None:
        settings, sealer = self._store.settings.sealing, self._store.sealer
        if not settings.background or sealer.unsealed_bytes() < max(settings.at_bytes, 1):
            return None
        return sealer.steps(wait=False)

    def _done(self, result: Sealed) -> bool:
        if result.packs:
            _LOG.info("sealed %d packs: %d bytes became %d", result.packs, result.bytes_before, result.bytes_after)
        return bool(result.packs)

    def _failed(self, error: ConvfsError) -> bool:
        # of a pack that is damaged the sealer takes note; there may be others
        _LOG.warning("not sealed: %s", error)
        return isinstance(error, DamageError)

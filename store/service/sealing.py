"""Sealing on request, and in the background of a daemon."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from msgspec import Struct

from store.errors import ConvfsError, DamageError
from store.service.operation import Holder, Operation
from store.store import Store
from store.upkeep.idle import SLICE_SECONDS
from store.upkeep.sealing import Sealed, Steps

_LOG = logging.getLogger(__name__)


class SealParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``dry_run``: say what would be sealed, and do nothing."""

    dry_run: bool = False


class SealProgress(Struct, frozen=True):
    """How many bytes of blobs have been sealed so far."""

    bytes: int


class SealReport(Struct, frozen=True):
    """How many packs and blobs were sealed, and the bytes that they took and take; ``damaged`` packs were left alone.

    Of a dry run, ``blobs`` is 0, and ``bytes_after`` is what they take.
    """

    packs: int
    blobs: int
    bytes_before: int
    bytes_after: int
    damaged: list[str]


def _seal(holder: Holder, params: SealParams, emit: Callable[[SealProgress], None]) -> SealReport:
    sealer = holder.store.sealer
    if params.dry_run:
        planned = sealer.planned()
        size = sum(map(holder.store.files.packs.length, planned))
        return SealReport(len(planned), 0, size, size, list(sealer.damaged.values()))
    total = Sealed()
    done = 0
    # what is appended meanwhile is left for another time, or there might be no end
    upto = sealer.now()
    while True:
        steps = sealer.steps(upto=upto)
        try:
            while True:
                done += next(steps)
                emit(SealProgress(done))
        except StopIteration as end:
            sealed: Sealed = end.value
        except DamageError:
            # that pack is left out of the next run
            continue
        finally:
            # a client that went away has ended it in the middle
            steps.close()
        if not sealed.packs:
            return SealReport(
                total.packs, total.blobs, total.bytes_before, total.bytes_after, list(sealer.damaged.values())
            )
        total = Sealed(
            total.packs + sealed.packs,
            total.blobs + sealed.blobs,
            total.bytes_before + sealed.bytes_before,
            total.bytes_after + sealed.bytes_after,
        )


SEAL = Operation(410, SealParams, SealProgress, SealReport, _seal, progress=True)


class SealingJob:
    """A job: seals what was appended as soon as there is enough of it (``sealing.at_bytes``)."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._steps: Steps | None = None

    def step(self) -> bool:
        """Do a slice of it; see :class:`store.upkeep.idle.Job`."""
        settings, sealer = self._store.settings.sealing, self._store.sealer
        if self._steps is None:
            if not settings.background or sealer.unsealed_bytes() < max(settings.at_bytes, 1):
                return False
            self._steps = sealer.steps(wait=False)
        until = time.monotonic() + SLICE_SECONDS
        steps, self._steps = self._steps, None
        try:
            while time.monotonic() < until:
                if self._store.rewriting.alone.wanted:
                    # somebody waits for what this can do another time
                    steps.close()
                    return False
                next(steps)
        except StopIteration as end:
            sealed: Sealed = end.value
            if sealed.packs:
                _LOG.info("sealed %d packs: %d bytes became %d", sealed.packs, sealed.bytes_before, sealed.bytes_after)
            return bool(sealed.packs)
        except ConvfsError as error:
            # of a pack that is damaged the sealer takes note; there may be others
            _LOG.warning("not sealed: %s", error)
            return isinstance(error, DamageError)
        self._steps = steps
        return True

    def close(self) -> None:
        """Give up what was begun."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None

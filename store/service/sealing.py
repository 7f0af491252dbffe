"""Sealing on request: how the command, and other programs, have a store's packs rewritten."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from store.errors import DamageError
from store.service.operation import Holder, Operation
from store.upkeep.sealing import Sealed


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
    while True:
        steps = sealer.steps()
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

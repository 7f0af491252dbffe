"""The operations that delete for good: what would be deleted, and deleting that."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from store.errors import UsageError
from store.ids import now_ms
from store.retention.plan import Doomed, plan
from store.retention.pruning import PruneReport, prune
from store.retention.rules import found_by_rules
from store.retention.selection import Selection, rules
from store.service.operation import Holder, Nothing, Operation

_AT_ONCE = 200


class PrunePlanParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``selections``: what is chosen; none: what the rules of the store choose."""

    selections: tuple[Selection, ...] = ()


class PruneParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``doomed``: what a plan has found, or some of that."""

    doomed: tuple[Doomed, ...]


def _plan(holder: Holder, params: PrunePlanParams, emit: Callable[[list[Doomed]], None]) -> Nothing:
    settings = holder.store.settings.retention
    doomed: Iterator[Doomed | None]
    if params.selections:
        doomed = plan(holder.store, params.selections, settings.keep_labels, now_ms())
    elif rules(settings) or settings.max_bytes is not None:
        doomed = found_by_rules(holder.store)
    else:
        raise UsageError("no rules are set, and nothing is chosen: see `convfs prune --help`")
    some: list[Doomed] = []
    for one in doomed:
        some += [one] if one is not None else []
        if len(some) == _AT_ONCE:
            emit(some)
            some = []
    if some:
        emit(some)
    return Nothing()


def _prune(holder: Holder, params: PruneParams, emit: Callable[[Nothing], None]) -> PruneReport:
    return prune(holder.store, params.doomed)


PRUNE_PLAN = Operation(470, PrunePlanParams, list[Doomed], Nothing, _plan)
PRUNE = Operation(471, PruneParams, Nothing, PruneReport, _prune)

PRUNING = (PRUNE_PLAN, PRUNE)

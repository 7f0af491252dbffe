"""The operation that says what a store holds, saves and costs."""

from collections.abc import Callable

from msgspec import Struct, structs

from store.insight.insight import Insight
from store.insight.report import Report
from store.service.operation import Holder, Operation
from store.upkeep.stats import Stats


class InsightParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``count``: whether to count first what was not yet; that may take a while."""

    count: bool = True


class CountProgress(Struct, frozen=True):
    """How far counting is: so many turns of so many."""

    counted: int
    turns: int


class StoreReport(Struct, frozen=True):
    """A store, who holds it (None for nobody), and what is in it."""

    root: str
    store_id: str
    socket: str | None
    mountpoint: str | None
    stats: Stats
    report: Report


def _insight(holder: Holder, params: InsightParams, emit: Callable[[CountProgress], None]) -> StoreReport:
    store = holder.store
    insight = Insight.of(store)
    if params.count:
        insight.count(lambda counted, turns: emit(CountProgress(counted, turns)))
    return StoreReport(
        str(store.root),
        store.store_id.hex(),
        holder.socket or None,
        holder.mountpoint or None,
        store.stats(),
        insight.report(),
    )


INSIGHT = Operation(460, InsightParams, CountProgress, StoreReport, _insight, progress=True)


def numbers(told: StoreReport) -> dict[str, object]:
    """Return a report as one flat table, for programs."""
    own = {name: getattr(told, name) for name in ("root", "store_id", "socket", "mountpoint")}
    return own | structs.asdict(told.stats) | structs.asdict(told.report)

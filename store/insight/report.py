"""What a store holds, saves and cost, put together from what was counted.

*Logical* is what there would be if each conversation, fork and copy were files of its own: the records of every
conversation, those that it shares with others too, and those of earlier versions. *Unique* is what of that is kept once
everything that is the same is kept once: the contents of all packs, decompressed. *Stored* is what these are compressed
to. What waits to be packed counts with both.
From each to the next, something is saved: by keeping things once (``deduplication``, less what it costs to refer to
them), by storing what resembles something else as its difference (``delta``), and by ``compression``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct, structs

from store.disk.blob_format import Compression
from store.insight import prices
from store.insight.ledger import Account, Ledger, ToolDay, Uses
from store.insight.packing import PackSums
from store.insight.prices import Prices
from store.store import Store

NO_PROJECT = ""
"""The project of what has none: contexts without a name."""

_NANO = 1_000_000_000

K = TypeVar("K")


class Spent(Struct, frozen=True):
    """What answers took, and what they cost in US dollars.

    ``told_cost`` is the part of ``cost`` that sessions told themselves; ``unpriced`` answers, which nobody here knows a
    price of, cost nothing in this. For tokens see :class:`store.events.usage.Tokens`.
    """

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: float = 0.0
    told_cost: float = 0.0
    unpriced: int = 0


class ProjectSpent(Spent, frozen=True, kw_only=True):
    """What the answers in a project took; ``bytes`` are those of the records of its ``conversations``."""

    project: str
    conversations: int = 0
    bytes: int = 0


class ModelSpent(Spent, frozen=True, kw_only=True):
    """What the answers of a model took ("" where sessions do not say which one)."""

    model: str


class DaySpent(Spent, frozen=True, kw_only=True):
    """What the answers of a day took, in UTC (``2026-03-05``; "" where nothing says when)."""

    day: str


class ToolUsed(Uses, frozen=True, kw_only=True):
    """How often a tool was called and answered, and the bytes of the records that say so."""

    tool: str


class Saved(Struct, frozen=True):
    """Bytes that are not stored, by what saves them."""

    deduplication: int
    delta: int
    compression: int


class Report(Struct, frozen=True):
    """What is known of a store. For its bytes see :mod:`store.insight.report`.

    It is of ``counted_turns`` turns; ``complete`` says whether these are all, and all packs were looked at.
    ``shared_bytes`` are those of records that conversations share with older ones. Lists begin with what cost most;
    days are in order.
    """

    complete: bool
    counted_turns: int
    logical_bytes: int
    shared_bytes: int
    unique_bytes: int
    stored_bytes: int
    saved: Saved
    total: Spent
    prices_of: str
    projects: list[ProjectSpent]
    models: list[ModelSpent]
    days: list[DaySpent]
    tools: list[ToolUsed]


def report(store: Store, ledger: Ledger, packs: PackSums) -> Report:
    """Return what is known by now."""
    accounts = ledger.accounts()
    names = store.projects_by_id()
    known = Prices(store.settings.prices)
    spent = [(account, _spent(account, known)) for account in accounts]
    holdings = ledger.holdings()
    conversations: dict[str, int] = {}
    held: dict[str, int] = {}
    for context, holding in holdings.items():
        if project := names.get(context):
            conversations[project] = conversations.get(project, 0) + 1
            held[project] = held.get(project, 0) + holding.bytes
    shared = sum(holding.shared for holding in holdings.values())
    logical = ledger.bytes + shared
    sums = packs.by_compression()
    # what came last is not in a pack yet, and not compressed
    waiting = store.files.pending.body_bytes
    unique = sum(one.body_bytes for one in sums.values()) + waiting
    stored = sum(one.stored_bytes for one in sums.values()) + waiting
    delta = sum(one.body_bytes - one.stored_bytes for kind, one in sums.items() if kind is Compression.DELTA)
    by_project = _summed(spent, lambda account: names.get(account.name.context, NO_PROJECT))
    by_project |= {project: Spent() for project in conversations.keys() - by_project.keys()}
    return Report(
        complete=ledger.last == store.files.turns.count and not packs.behind,
        counted_turns=ledger.last,
        logical_bytes=logical,
        shared_bytes=shared,
        unique_bytes=unique,
        stored_bytes=stored,
        saved=Saved(max(0, logical - unique), delta, unique - stored - delta),
        total=_summed(spent, lambda _account: None).get(None, Spent()),
        prices_of=prices.AS_OF,
        projects=[
            ProjectSpent(
                *structs.astuple(one),
                project=project,
                conversations=conversations.get(project, 0),
                bytes=held.get(project, 0),
            )
            for project, one in _dearest(by_project)
        ],
        models=[
            ModelSpent(*structs.astuple(one), model=model)
            for model, one in _dearest(_summed(spent, lambda account: prices.undated(account.name.model)))
        ],
        days=[
            DaySpent(*structs.astuple(one), day=day)
            for day, one in sorted(_summed(spent, lambda account: account.name.day).items())
        ],
        tools=_tools(ledger.uses()),
    )


def _spent(account: Account, known: Prices) -> Spent:
    tokens, name = account.tokens, account.name
    told, cost, unpriced = account.nanodollars / _NANO, 0.0, 0
    if not name.told:
        price = known.of(name.model, name.day)
        cost = price.of(tokens, name.length) if price else 0.0
        unpriced = account.answers if price is None else 0
    return Spent(
        account.answers,
        tokens.input,
        tokens.output,
        tokens.cache_read,
        tokens.cache_write,
        tokens.reasoning,
        round(told + cost, 6),
        round(told, 6),
        unpriced,
    )


def _summed(spent: list[tuple[Account, Spent]], key: Callable[[Account], K]) -> dict[K, Spent]:
    sums: dict[K, list[float]] = {}
    for account, one in spent:
        values = structs.astuple(one)
        into = sums.setdefault(key(account), [0] * len(values))
        for at, value in enumerate(values):
            into[at] += value
    return {name: Spent(*values) for name, values in sums.items()}  # type: ignore[arg-type]  # counts stay whole


def _dearest(sums: Mapping[K, Spent]) -> list[tuple[K, Spent]]:
    return sorted(sums.items(), key=lambda item: (-item[1].cost, -item[1].output, str(item[0])))


def _tools(uses: list[tuple[ToolDay, Uses]]) -> list[ToolUsed]:
    sums: dict[str, Uses] = {}
    for (_context, _day, tool), use in uses:
        sums[tool] = sums[tool].and_(use) if tool in sums else use
    found = [ToolUsed(*structs.astuple(use), tool=tool) for tool, use in sums.items()]
    return sorted(found, key=lambda used: (-used.calls - used.results, used.tool))

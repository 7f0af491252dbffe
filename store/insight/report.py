"""What a store holds, saves and cost, put together from what was counted.

*Logical* is what there would be if each conversation, fork and copy were files of its own: the records of every
conversation, those that it shares with others too, and those of earlier versions; outputs of tools, and what else is
kept beside records. *Unique* is what of that is kept once
everything that is the same is kept once: the contents of all packs, decompressed. *Stored* is what these are compressed
to. What waits to be packed counts with both.
From each to the next, something is saved: by keeping things once (``deduplication``, less what it costs to refer to
them), by storing what resembles something else as its difference (``delta``), and by ``compression``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct, structs

from store.disk.blob_format import Compression
from store.events.usage import Tokens
from store.insight import prices
from store.insight.ledger import Account, Ledger, ToolDay, Uses
from store.insight.packing import PackSums
from store.insight.prices import Prices
from store.store import Store

NO_PROJECT = ""
"""The project of what has none: contexts without a name."""

_NANO = 1_000_000_000

K = TypeVar("K")


class _Group(NamedTuple):
    """Answers that cost the same: see :class:`store.insight.ledger.AccountName`."""

    project: str
    day: str
    model: str
    length: int
    told: bool


class _Sums(Struct):
    """What answers took; the tokens are those of :class:`store.events.usage.Tokens`."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0
    reasoning: int = 0
    nanodollars: int = 0

    @property
    def tokens(self) -> Tokens:
        return Tokens(self.input, self.output, self.cache_read, self.cache_write, self.cache_write_hour, self.reasoning)


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
    """What the answers in a project took; ``bytes`` is what its ``conversations`` hold, each in full."""

    project: str
    conversations: int = 0
    bytes: int = 0


class ModelSpent(Spent, frozen=True, kw_only=True):
    """What the answers of a model took ("" where sessions do not say which one)."""

    model: str


class DaySpent(Spent, frozen=True, kw_only=True):
    """What the answers of a day took, in UTC (``2026-03-05``; "" where nothing says when)."""

    day: str


class PartSpent(Spent, frozen=True, kw_only=True):
    """What the answers of a model took in a project on a day."""

    project: str
    model: str
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
    days are in order, and so are the ``parts`` that all answers are made up of.
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
    parts: list[PartSpent]


def report(store: Store, ledger: Ledger, packs: PackSums) -> Report:
    """Return what is known by now."""
    names = store.projects_by_id()
    known = Prices(store.settings.prices)
    spent = [(group, _spent(group, account, known)) for group, account in _grouped(ledger.accounts(), names).items()]
    holdings = ledger.holdings()
    conversations: dict[str, int] = {}
    held: dict[str, int] = {}
    for context, holding in holdings.items():
        if project := names.get(context):
            conversations[project] = conversations.get(project, 0) + 1
            held[project] = held.get(project, 0) + holding.bytes + holding.beside
    shared = sum(holding.shared for holding in holdings.values())
    logical = ledger.bytes + shared + sum(holding.beside for holding in holdings.values())
    sums = packs.by_compression()
    # what came last is not in a pack yet, and not compressed
    waiting = store.files.pending.body_bytes
    unique = sum(one.body_bytes for one in sums.values()) + waiting
    stored = sum(one.stored_bytes for one in sums.values()) + waiting
    delta = sum(one.body_bytes - one.stored_bytes for kind, one in sums.items() if kind is Compression.DELTA)
    by_project = _summed(spent, lambda group: group.project)
    by_project |= {project: Spent() for project in conversations.keys() - by_project.keys()}
    return Report(
        complete=ledger.last == store.files.turns.count and not packs.behind,
        counted_turns=ledger.last,
        logical_bytes=logical,
        shared_bytes=shared,
        unique_bytes=unique,
        stored_bytes=stored,
        saved=Saved(max(0, logical - unique), delta, unique - stored - delta),
        total=_summed(spent, lambda _group: None).get(None, Spent()),
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
            for model, one in _dearest(_summed(spent, lambda group: prices.undated(group.model)))
        ],
        days=[
            DaySpent(*structs.astuple(one), day=day)
            for day, one in sorted(_summed(spent, lambda group: group.day).items())
        ],
        tools=_tools(ledger.uses()),
        parts=[
            PartSpent(*structs.astuple(one), project=project, model=model, day=day)
            for (day, project, model), one in sorted(
                _summed(spent, lambda group: (group.day, group.project, prices.undated(group.model))).items()
            )
        ],
    )


def _grouped(accounts: Iterable[Account], projects: Mapping[int, str]) -> dict[_Group, _Sums]:
    """Return the sums of conversations by their projects: there may be very many conversations."""
    groups: dict[_Group, _Sums] = {}
    for account in accounts:
        name = account.name
        group = _Group(projects.get(name.context, NO_PROJECT), name.day, name.model, name.length, name.told)
        sums = groups.get(group)
        if sums is None:
            sums = groups[group] = _Sums()
        tokens = account.tokens
        sums.answers += account.answers
        sums.input += tokens.input
        sums.output += tokens.output
        sums.cache_read += tokens.cache_read
        sums.cache_write += tokens.cache_write
        sums.cache_write_hour += tokens.cache_write_hour
        sums.reasoning += tokens.reasoning
        sums.nanodollars += account.nanodollars
    return groups


def _spent(group: _Group, sums: _Sums, known: Prices) -> Spent:
    told, cost, unpriced = sums.nanodollars / _NANO, 0.0, 0
    if not group.told:
        price = known.of(group.model, group.day)
        cost = price.of(sums.tokens, group.length) if price else 0.0
        unpriced = sums.answers if price is None else 0
    return Spent(
        sums.answers,
        sums.input,
        sums.output,
        sums.cache_read,
        sums.cache_write,
        sums.reasoning,
        told + cost,
        told,
        unpriced,
    )


def _summed(spent: Sequence[tuple[_Group, Spent]], key: Callable[[_Group], K]) -> dict[K, Spent]:
    sums: dict[K, list[float]] = {}
    for group, one in spent:
        values = structs.astuple(one)
        into = sums.setdefault(key(group), [0] * len(values))
        for at, value in enumerate(values):
            into[at] += value
    # counts stay whole, and of a dollar nobody wants to know more
    return {name: Spent(*(round(value, 6) for value in values)) for name, values in sums.items()}  # type: ignore[arg-type]


def _dearest(sums: Mapping[K, Spent]) -> list[tuple[K, Spent]]:
    return sorted(sums.items(), key=lambda item: (-item[1].cost, -item[1].output, str(item[0])))


def _tools(uses: list[tuple[ToolDay, Uses]]) -> list[ToolUsed]:
    sums: dict[str, Uses] = {}
    for (_context, _day, tool), use in uses:
        sums[tool] = sums[tool].and_(use) if tool in sums else use
    found = [ToolUsed(*structs.astuple(use), tool=tool) for tool, use in sums.items()]
    return sorted(found, key=lambda used: (-used.calls - used.results, used.tool))

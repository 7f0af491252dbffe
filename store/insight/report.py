"""A report on a store: its content, savings and cost, put together from the counts.

*Logical* is what there would be if each conversation, fork and copy were files of its own: the records of every
conversation, those that it shares with others too, and those of earlier versions; outputs of tools, and what else is
kept beside records. *Unique* is what of that is kept once
everything that is the same is kept once: the contents of all packs, decompressed. *Stored* is what these are compressed
to. What waits to be packed counts with both.
From each to the next, something is saved: by keeping things once (``deduplication``, less what it costs to refer to
them), by storing what resembles something else as its difference (``delta``), and by ``compression``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from store.disk.blob_format import Compression
from store.events.usage import Tokens, summed_up
from store.index.catalogue import Catalogue
from store.insight import prices
from store.insight.ledger import AccountName, Tally, ToolDay, Uses
from store.insight.pack_sums import PackSums
from store.insight.prices import Prices
from store.settings import PriceSettings
from store.upkeep.recovery import Files

NO_PROJECT = ""
"""The project of contexts without one: they have no name."""

_NANO = 1_000_000_000

K = TypeVar("K")


class _Group(NamedTuple):
    project: str
    day: str
    model: str
    length: int
    told: bool


class Spent(Struct, frozen=True):
    """The tokens of answers, and what they cost in US dollars.

    ``told_cost`` is the part of ``cost`` that sessions stated themselves; ``unpriced`` answers, whose price is
    unknown, cost nothing in this. For tokens see :class:`store.events.usage.Tokens`.
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
    """The answers in a project; ``bytes`` is the size of its ``conversations``, each in full."""

    project: str
    conversations: int = 0
    bytes: int = 0


class ModelSpent(Spent, frozen=True, kw_only=True):
    """The answers of a model ("" where sessions do not say which one)."""

    model: str


class DaySpent(Spent, frozen=True, kw_only=True):
    """The answers of a day in UTC (``2026-03-05``; "" where the day is unknown)."""

    day: str


class PartSpent(Spent, frozen=True, kw_only=True):
    """The answers of a model in a project on a day."""

    project: str
    model: str
    day: str


class ToolUsed(Uses, frozen=True, kw_only=True):
    """Calls and answers of a tool, and the bytes of the records that tell of them."""

    tool: str


class BytesSaved(Struct, frozen=True):
    """Saved bytes, by the way they are saved."""

    deduplication: int
    delta: int
    compression: int


class StatsReport(Struct, frozen=True, omit_defaults=True):
    """All knowledge about a store. For its bytes see :mod:`store.insight.report`.

    It is of ``counted_turns`` turns; ``complete`` says whether these are all, and all packs were looked at.
    ``shared_bytes`` are those of records that conversations share with older ones. Lists begin with what cost most;
    days are in order, and so are the ``parts`` that all answers are made up of. ``credits`` of their makers is what
    tools count in that tell of no other cost.
    """

    complete: bool
    counted_turns: int
    logical_bytes: int
    shared_bytes: int
    unique_bytes: int
    stored_bytes: int
    saved: BytesSaved
    total: Spent
    prices_of: str
    projects: list[ProjectSpent]
    models: list[ModelSpent]
    days: list[DaySpent]
    tools: list[ToolUsed]
    parts: list[PartSpent]
    credits: float = 0.0


def report(
    files: Files, catalogue: Catalogue, settings: Mapping[str, PriceSettings], ledger: Tally, packs: PackSums
) -> StatsReport:
    """Return the report as of now."""
    names = catalogue.projects_by_id()
    known = Prices(settings)
    accounts = (
        (_group(one.name, names), (one.answers, *astuple(one.tokens), one.nanodollars)) for one in ledger.accounts()
    )
    groups = _summed(accounts)
    spent = [(group, _spent(group, sums, known)) for group, sums in groups.items()]
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
    # the latest records are not in a pack yet, and not compressed
    waiting = files.pending.body_bytes
    unique = sum(one.body_bytes for one in sums.values()) + waiting
    stored = sum(one.stored_bytes for one in sums.values()) + waiting
    delta = sum(one.body_bytes - one.stored_bytes for kind, one in sums.items() if kind is Compression.DELTA)
    by_project = _spent_by(spent, lambda group: group.project)
    by_project |= {project: Spent() for project in conversations.keys() - by_project.keys()}
    by_model = _spent_by(spent, lambda group: prices.undated(group.model))
    by_day = _spent_by(spent, lambda group: group.day)
    by_part = _spent_by(spent, lambda group: (group.day, group.project, prices.undated(group.model)))
    return StatsReport(
        complete=ledger.last == files.turns.count and not packs.behind,
        counted_turns=ledger.last,
        logical_bytes=logical,
        shared_bytes=shared,
        unique_bytes=unique,
        stored_bytes=stored,
        saved=BytesSaved(max(0, logical - unique), delta, unique - stored - delta),
        total=_spent_by(spent, lambda _group: None).get(None, Spent()),
        prices_of=prices.AS_OF,
        projects=[
            ProjectSpent(
                *astuple(one), project=project, conversations=conversations.get(project, 0), bytes=held.get(project, 0)
            )
            for project, one in _dearest(by_project)
        ],
        models=[ModelSpent(*astuple(one), model=model) for model, one in _dearest(by_model)],
        days=[DaySpent(*astuple(one), day=day) for day, one in sorted(by_day.items())],
        tools=_tools(ledger.uses()),
        parts=[
            PartSpent(*astuple(one), project=project, model=model, day=day)
            for (day, project, model), one in sorted(by_part.items())
        ],
        credits=_credits(catalogue),
    )


def _credits(catalogue: Catalogue) -> float:
    """Return the credits that sessions took, each once for all its copies."""
    found: dict[tuple[object, object], float] = {}
    for entry in catalogue.mentioning('"credits":'):
        if (usage := summed_up(entry.metadata)) and usage.credits:
            found.setdefault((entry.format, entry.metadata.get("session") or entry.id), usage.credits)
    return round(sum(found.values()), 6)


def _group(name: AccountName, projects: Mapping[int, str]) -> _Group:
    return _Group(projects.get(name.context, NO_PROJECT), name.day, name.model, name.length, name.told)


def _spent(group: _Group, sums: list[int], known: Prices) -> Spent:
    answers, tokens, nanodollars = sums[0], Tokens(*sums[1:-1]), sums[-1]
    told, cost, unpriced = nanodollars / _NANO, 0.0, 0
    if not group.told:
        price = known.of(group.model, group.day)
        cost = price.of(tokens, group.length) if price else 0.0
        unpriced = answers if price is None else 0
    taken = tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, tokens.reasoning
    return Spent(answers, *taken, told + cost, told, unpriced)


def _summed(some: Iterable[tuple[K, tuple[Any, ...]]]) -> dict[K, list[Any]]:
    """Return the sums, place by place, of the values of each key."""
    sums: dict[K, list[Any]] = {}
    for key, values in some:
        known = sums.get(key)
        sums[key] = [*values] if known is None else [one + more for one, more in zip(known, values, strict=True)]
    return sums


def _spent_by(spent: Iterable[tuple[_Group, Spent]], key: Callable[[_Group], K]) -> dict[K, Spent]:
    sums = _summed((key(group), astuple(one)) for group, one in spent)
    # counts stay whole, and a finer fraction of a dollar interests nobody
    return {name: Spent(*(round(value, 6) for value in values)) for name, values in sums.items()}


def _dearest(sums: Mapping[K, Spent]) -> list[tuple[K, Spent]]:
    return sorted(sums.items(), key=lambda item: (-item[1].cost, -item[1].output, str(item[0])))


def _tools(uses: list[tuple[ToolDay, Uses]]) -> list[ToolUsed]:
    sums = _summed((tool, astuple(use)) for (_context, _day, tool), use in uses)
    found = [ToolUsed(*values, tool=tool) for tool, values in sums.items()]
    return sorted(found, key=lambda used: (-used.calls - used.results, used.tool))

"""``convfs stats``."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import columns, echo_json, progress, widths_of
from store import visible

if TYPE_CHECKING:
    from store.insight.report import Spent, StatsReport
    from store.service.upkeep import StoreReport

_ROWS = 20
"""The rows of a table that was not asked for."""

_WAYS = ("project", "model", "day", "tool")


@click.command(short_help="Show what the store holds and what answers cost.")
@click.option("--by", type=click.Choice(_WAYS), help="Show all tokens and costs, or uses of tools, by this.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.pass_obj
def stats(store: Path | None, by: str | None, as_json: bool) -> None:
    """Show what the store holds and saves, what the answers of models used and cost, and where the store is mounted.

    Answers count once, however many forks, copies and subagents repeat them. A cost recorded in the session is used as
    is; otherwise API list prices apply, or those in `[prices."MODEL"]` in convfs.toml.
    """
    from fusefs.cli.backend import reach, store_root
    from store.service.upkeep import CountProgress, flat, insight

    def fields(told: CountProgress) -> dict[str, int]:
        return {"completed": told.counted, "total": told.turns}

    with reach(store_root(store)) as backend, progress("Counting", "Text Bar MofNComplete", fields) as show:
        told = backend.call(insight(), show)
    if as_json:
        echo_json(flat(told))
        return
    if by is None:
        _write_pairs(_summary(told))
        if told.report.models:
            sys.stdout.write("\n")
            _write_table(told.report, "model", _ROWS)
    else:
        _write_table(told.report, by, None)


def _summary(told: "StoreReport") -> list[tuple[str, str]]:
    from fusefs.text.amounts import count_text, counted, dollars_text, share_text, size_text

    stats, report = told.stats, told.report
    logical, saved, spent = report.logical_bytes, report.saved, report.total
    pairs = [("store", told.root)]
    pairs += [("mounted at", told.mountpoint)] if told.mountpoint else []
    pairs += [("socket", told.socket)] if told.socket else []
    pairs += [
        ("holds", f"{counted(stats.conversations, 'conversation')}, {counted(stats.events, 'event')}"),
        ("logical", f"{size_text(logical)}, every conversation and fork in full, and earlier versions"),
        ("  once", f"{size_text(saved.deduplication)} less ({share_text(saved.deduplication, logical)})"),
        ("  deltas", f"{size_text(saved.delta)} less ({share_text(saved.delta, logical)})"),
        ("  compressed", f"{size_text(saved.compression)} less ({share_text(saved.compression, logical)})"),
        ("stored", f"{size_text(report.stored_bytes)}; {size_text(stats.total_bytes)} on disk, with logs and indexes"),
    ]
    if spent.answers:
        sent = f"{count_text(spent.input)} sent, {count_text(spent.cache_read)} from caches"
        said = f"{count_text(spent.cache_write)} to caches, {count_text(spent.output)} answered"
        pairs.append(("tokens", f"{sent}, {said}, in {counted(spent.answers, 'answer')}"))
        known = f"{dollars_text(spent.cost)} at prices of {report.prices_of}"
        pairs.append(("cost", known if spent.unpriced < spent.answers else "unknown: these models have no price"))
        if spent.told_cost:
            pairs.append(("", f"{dollars_text(spent.told_cost)} of it as recorded in the sessions"))
        if 0 < spent.unpriced < spent.answers:
            pairs.append(("", f"without {spent.unpriced:,} answers of models without a price"))
    if report.credits:
        pairs.append(("credits", f"{report.credits:,.2f} of the makers of tools, as recorded in the sessions"))
    return pairs


def _write_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _value in pairs)
    for name, value in pairs:
        sys.stdout.write(f"{name:{width}}  {visible.line(value)}\n")


def _write_table(report: "StatsReport", by: str, most: int | None) -> None:
    """Write a table: a column of names, then right-aligned numbers."""
    rows = list(_rows(report, by))
    head, body = rows[0], rows[1:]
    shown = [head, *body[: most or len(body)]]
    widths = widths_of(shown)
    for row in shown:
        name, *amounts = row
        cells = [name + " " * (widths[0] - columns(name))]
        cells += [amount.rjust(width) for amount, width in zip(amounts, widths[1:], strict=True)]
        sys.stdout.write("  ".join(cells) + "\n")
    if len(shown) <= len(body):
        sys.stdout.write(f"and {len(body) + 1 - len(shown)} more: `convfs stats --by {by}`\n")


def _rows(report: "StatsReport", by: str) -> Sequence[tuple[str, ...]]:
    from fusefs.text.amounts import size_text

    if by == "tool":
        rows: list[tuple[str, ...]] = [("TOOL", "CALLS", "ASKED", "RESULTS", "RETURNED")]
        for used in report.tools:
            asked, returned = size_text(used.call_bytes), size_text(used.result_bytes)
            rows.append((visible.line(used.tool), f"{used.calls:,}", asked, f"{used.results:,}", returned))
        return rows
    if by == "project":
        rows = [("PROJECT", "CONVERSATIONS", "SIZE", *_SPENT)]
        for one in report.projects:
            rows.append((_name(one.project), f"{one.conversations:,}", size_text(one.bytes), *_spent(one)))
        return rows
    if by == "model":
        return [("MODEL", *_SPENT), *((_name(one.model), *_spent(one)) for one in report.models)]
    return [("DAY", *_SPENT), *((_name(one.day), *_spent(one)) for one in report.days)]


_SPENT = ("ANSWERS", "INPUT", "CACHED", "TO CACHE", "OUTPUT", "COST")


def _spent(spent: "Spent") -> tuple[str, ...]:
    from fusefs.text.amounts import count_text, dollars_text

    tokens = (spent.input, spent.cache_read, spent.cache_write, spent.output)
    cost = "?" if spent.unpriced == spent.answers and spent.answers else dollars_text(spent.cost)
    return (f"{spent.answers:,}", *map(count_text, tokens), cost)


def _name(name: str) -> str:
    return visible.line(name) or "(unknown)"

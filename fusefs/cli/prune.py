"""``convfs prune``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import agreed, echo, echo_json, tell_uncollected, write_table
from fusefs.text.amounts import size_text
from store import visible
from store.formats.core.times import SPANS

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from store.retention.plan import Doomed
    from store.retention.pruner import PruneReport


_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([a-zA-Z]*)")
_SECOND_MS = 1000
_SIZES = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "kib": 1 << 10, "m": 10**6, "mb": 10**6, "mib": 1 << 20}
_SIZES |= {"g": 10**9, "gb": 10**9, "gib": 1 << 30, "t": 10**12, "tb": 10**12, "tib": 1 << 40}


class Span(click.ParamType[int]):
    """A span of time, in milliseconds: ``12h``, ``90d``, ``2w``, ``1y``; a number alone is days."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _AMOUNT.fullmatch(str(value).strip())
        seconds = SPANS.get(found[2].lower() or "d") if found else None
        if found is None or seconds is None:
            self.fail(f"{value} is not a span of time: write 12h, 90d, 2w or 1y", param, ctx)
        return int(float(found[1]) * seconds * _SECOND_MS)


class Size(click.ParamType[int]):
    """A size in bytes: ``5000``, ``10MB``, ``1GiB``."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _AMOUNT.fullmatch(str(value).strip())
        factor = _SIZES.get(found[2].lower()) if found else None
        if found is None or factor is None:
            self.fail(f"{value} is not a size: write 5000, 10MB or 1GiB", param, ctx)
        return int(float(found[1]) * factor)


_AT_ONCE = 500
_SHOWN = 20


@click.command(short_help="Delete conversations, versions or artifacts for good.")
@click.argument("conversations", metavar="[CONV...]", nargs=-1)
@click.option("--older-than", "older_ms", type=Span(), help="Only without a change for this long: 90d, 12h, 1y.")
@click.option("--label", default="", help="Only conversations with this label.")
@click.option("--project", default="", help="Only conversations of this project.")
@click.option("--larger-than", "larger_bytes", type=Size(), help="Only conversations larger than this: 10MB.")
@click.option("--versions", is_flag=True, help="Delete earlier versions instead of conversations.")
@click.option("--artifacts", is_flag=True, help="Delete outputs of tools and agents instead of conversations.")
@click.option("--trash", is_flag=True, help="Delete the contents of the trash.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="One object with finds and deletions, for programs.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def prune(
    store: Path | None,
    conversations: tuple[str, ...],
    older_ms: int | None,
    label: str,
    project: str,
    larger_bytes: int | None,
    versions: bool,
    artifacts: bool,
    trash: bool,
    dry_run: bool,
    as_json: bool,
    yes: bool,
) -> None:
    """Delete for good everything that meets all the given conditions; without any, apply the rules of [retention] in
    convfs.toml.

    Lists everything first, and asks. Pinned conversations and those labelled "keep" stay, and so does everything that
    forks share. `convfs gc` then frees the space on the disk. CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import all_located
    from store.retention.plan import Selection, What
    from store.service.upkeep import prune_plan

    kinds: list[What] = ["versions"] if versions else []
    kinds += ["artifacts"] if artifacts else []
    kinds += ["trash"] if trash else []
    asked = kinds or conversations or label or project or not (older_ms is None and larger_bytes is None)
    kinds = kinds or ["conversations"]
    doomed: list[Doomed] = []
    with all_located(store, conversations) as (backend, found):
        contexts = tuple(line.id for line in found)
        chosen = [Selection(what, older_ms, label, project, larger_bytes, contexts) for what in kinds if asked]
        backend.call(prune_plan(tuple(chosen)), doomed.extend)
        if not as_json:
            _show(doomed)
        go_on = bool(doomed) and not dry_run and agreed("delete", yes=yes, as_json=as_json)
        report = _prune(backend, doomed) if go_on else None
    _tell(doomed, report, dry_run, as_json)


def _prune(backend: Backend, doomed: Sequence[Doomed]) -> PruneReport:
    from store.retention.pruner import PruneReport
    from store.service.upkeep import prune_planned

    total = PruneReport(skipped=[])
    for start in range(0, len(doomed), _AT_ONCE):
        report = backend.call(prune_planned(tuple(doomed[start : start + _AT_ONCE])))
        total.conversations += report.conversations
        total.versions += report.versions
        total.artifacts += report.artifacts
        total.skipped += report.skipped
        total.behind = report.behind
    return total


def _show(doomed: Sequence[Doomed]) -> None:
    """Print the finds as a table, the largest first."""
    if not doomed:
        echo("Nothing to prune.")
        return
    ordered = sorted(doomed, key=lambda one: one.bytes, reverse=True)
    write_table(
        [
            (
                one.what if one.what == "conversation" else f"{one.count} {one.what}",
                size_text(one.bytes) if one.bytes else "",
                visible.line(f"{one.project}/{one.name}"),
                one.why,
            )
            for one in ordered[:_SHOWN]
        ]
    )
    if len(doomed) > _SHOWN:
        echo(f"… and {len(doomed) - _SHOWN} more (--json has them all)")


def _tell(doomed: Sequence[Doomed], report: PruneReport | None, dry_run: bool, as_json: bool) -> None:
    if as_json:
        echo_json({"found": doomed, "pruned": report})
    elif report is not None:
        for line in report.skipped:
            echo(f"convfs: {line}", err=True)
        counts = [
            (report.conversations, "conversations"),
            (report.versions, "versions"),
            (report.artifacts, "artifacts"),
        ]
        done = ", ".join(f"{count} {what}" for count, what in counts if count) or "nothing"
        echo(f"Deleted for good: {done}. `convfs gc` frees the space.")
        tell_uncollected(report.behind)
    elif doomed:
        echo("Nothing was deleted." + (" A dry run." if dry_run else ""))

"""``convfs prune``."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.amounts import Size, Span
from fusefs.cli.output import columns, escape, write_row
from fusefs.text.amounts import size_text

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from store.retention.plan import Doomed
    from store.retention.pruning import PruneReport

_AT_ONCE = 500
_SHOWN = 20


@click.command(short_help="Delete conversations, versions or artifacts for good.")
@click.argument("conversations", metavar="[CONV...]", nargs=-1)
@click.option("--older-than", "older_ms", type=Span(), help="Only what has not changed for so long: 90d, 12h, 1y.")
@click.option("--label", default="", help="Only conversations with this label.")
@click.option("--project", default="", help="Only conversations of this project.")
@click.option("--larger-than", "larger_bytes", type=Size(), help="Only conversations that are larger: 10MB.")
@click.option("--versions", is_flag=True, help="Their earlier versions, not the conversations.")
@click.option("--artifacts", is_flag=True, help="Outputs of their tools and agents, not the conversations.")
@click.option("--trash", is_flag=True, help="What is in the trash.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="What was found, and what was deleted, for programs.")
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
    """Delete for good what meets all that is asked for; without any of it, what the rules of [retention] in
    convfs.toml say.

    Says first what that is, and asks. What is pinned or has the label "keep" stays, and so does what forks share. The
    room on the disk comes back with `convfs gc`. CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.backend import reach, store_root
    from fusefs.cli.conversations import located
    from store.retention.selection import Selection, What
    from store.service.pruning import PRUNE_PLAN, PrunePlanParams

    contexts = []
    for name in conversations:
        with located(store, name) as (_backend, found):
            contexts.append(found.id)
    kinds: list[What] = ["versions"] if versions else []
    kinds += ["artifacts"] if artifacts else []
    kinds += ["trash"] if trash else []
    chosen: list[Selection] = []
    if kinds or contexts or label or project or not (older_ms is None and larger_bytes is None):
        kinds = kinds or ["conversations"]
        chosen = [Selection(what, older_ms, label, project, larger_bytes, tuple(contexts)) for what in kinds]
    doomed: list[Doomed] = []
    with reach(store_root(store)) as backend:
        backend.call(PRUNE_PLAN, PrunePlanParams(tuple(chosen)), doomed.extend)
        if not as_json:
            _show(doomed)
        go_on = bool(doomed) and not dry_run
        if go_on and not yes:
            if as_json or not sys.stdin.isatty():
                raise click.UsageError("nobody can be asked here: add --yes to delete this, or --dry-run to look only")
            go_on = click.confirm("Delete this for good?")
        report = _prune(backend, doomed) if go_on else None
    _tell(doomed, report, dry_run, as_json)


def _prune(backend: "Backend", doomed: "Sequence[Doomed]") -> "PruneReport":
    """Have it deleted, so many at a time."""
    from store.retention.pruning import PruneReport
    from store.service.pruning import PRUNE, PruneParams

    total = PruneReport(skipped=[])
    for start in range(0, len(doomed), _AT_ONCE):
        report = backend.call(PRUNE, PruneParams(tuple(doomed[start : start + _AT_ONCE])))
        total.conversations += report.conversations
        total.versions += report.versions
        total.artifacts += report.artifacts
        total.skipped += report.skipped
    return total


def _show(doomed: "Sequence[Doomed]") -> None:
    """Write what would go as a table, the largest first."""
    if not doomed:
        click.echo("Nothing is to be pruned.")
        return
    ordered = sorted(doomed, key=lambda one: one.bytes, reverse=True)
    rows = [
        (
            one.what if one.what == "conversation" else f"{one.count} {one.what}",
            size_text(one.bytes) if one.bytes else "",
            escape(f"{one.project}/{one.name}"),
            one.why,
        )
        for one in ordered[:_SHOWN]
    ]
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)][:3]
    for row in rows:
        write_row(row, widths)
    if len(doomed) > _SHOWN:
        click.echo(f"… and {len(doomed) - _SHOWN} more (--json has them all)")


def _tell(doomed: "Sequence[Doomed]", report: "PruneReport | None", dry_run: bool, as_json: bool) -> None:
    import msgspec

    if as_json:
        done = None if report is None else msgspec.to_builtins(report)
        found = {"found": msgspec.to_builtins(doomed), "pruned": done}
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif report is not None:
        for line in report.skipped:
            click.echo(f"convfs: {escape(line)}", err=True)
        counts = [
            (report.conversations, "conversations"),
            (report.versions, "versions"),
            (report.artifacts, "artifacts"),
        ]
        done = ", ".join(f"{count} {what}" for count, what in counts if count) or "nothing"
        click.echo(f"Deleted for good: {done}. `convfs gc` gives the room back.")
    elif doomed:
        click.echo("Nothing was deleted." + (" A dry run." if dry_run else ""))

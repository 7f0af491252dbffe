"""``convfs gc`` and ``convfs seal``: the upkeep of packs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import echo, echo_json, progress, tell_uncollected
from fusefs.text.amounts import size_text

if TYPE_CHECKING:
    from store.service.upkeep import SealReport
    from store.upkeep.gc import Collected


@click.command(short_help="Free the space of data that was deleted for good.")
@click.option("--dry-run", is_flag=True, help="Show how much is unreachable, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.pass_obj
def gc(store: Path | None, dry_run: bool, as_json: bool) -> None:
    """Remove unreachable data from the files of the store: pruned data, and data that was brought in but never used.

    Everything that a conversation, an earlier version, a fork or the trash leads to stays. A daemon does the same once
    a day by itself, and after something was deleted for good ([gc] in convfs.toml).
    """
    from fusefs.cli.backend import reach, store_root
    from store.service import upkeep

    with reach(store_root(store)) as backend:
        collected = backend.call(upkeep.gc(dry_run=dry_run))
    if as_json:
        _write_json(collected, dry_run=dry_run)
        return
    for line in collected.damaged:
        echo(f"convfs: left alone: {line}", err=True)
    if collected.collector:
        echo(f"convfs: replica {collected.collector} collects in the space just now; here, what it drops", err=True)
    tell_uncollected(collected.behind)
    if collected.archived:
        echo(f"In the space: archived {collected.archived} commits.")
    if not (collected.blobs or collected.turns or collected.repeated_bytes or collected.space_bytes):
        echo("Nothing to collect.")
        return
    what = f"{collected.turns} records and {collected.blobs} contents"
    packs = collected.packs_removed + collected.packs_rewritten
    freed = f"{size_text(max(collected.freed_bytes, 0))} of {packs} pack{'s' * (packs != 1)}"
    if dry_run:
        echo(f"Unreachable: {what}. Collecting them would free about {freed}.")
    else:
        echo(f"Collected {what}: freed {freed}.")
    if collected.space_bytes:
        echo(f"In the space: freed {size_text(collected.space_bytes)}.")


@click.command(short_help="Rewrite stored data compactly, in reading order.")
@click.option("--dry-run", is_flag=True, help="Show how much would be sealed, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.pass_obj
def seal(store: Path | None, dry_run: bool, as_json: bool) -> None:
    """Rewrite stored data so that each conversation is in reading order and compressed together.

    A daemon does so by itself when it is idle and there is enough to seal ([sealing] in convfs.toml). Sealed data stays
    sealed; an interruption loses nothing.
    """
    from fusefs.cli.backend import reach, store_root
    from store.service import upkeep

    shown = progress("Sealing", "Spinner Text FileSize", lambda told: {"completed": told.bytes})
    with reach(store_root(store)) as backend, shown as show:
        report = backend.call(upkeep.seal(dry_run=dry_run), show)
    if as_json:
        _write_json(report, dry_run=dry_run)
        return
    for line in report.damaged:
        echo(f"convfs: left alone: {line}", err=True)
    packs = f"{report.packs} pack{'s' * (report.packs != 1)}"
    before, after = size_text(report.bytes_before), size_text(report.bytes_after)
    if not report.packs:
        echo("Everything is sealed." if not report.damaged else "Everything undamaged is sealed.")
    elif dry_run:
        echo(f"{packs} with {before} would be sealed.")
    else:
        echo(f"Sealed {report.blobs} contents of {packs}: {before} became {after}.")


def _write_json(report: Collected | SealReport, *, dry_run: bool) -> None:
    from msgspec import structs

    echo_json(structs.asdict(report) | {"dry_run": dry_run})

"""``convfs gc``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import escape
from fusefs.text.amounts import size_text

if TYPE_CHECKING:
    from store.upkeep.gc import Collected


@click.command(short_help="Give back the room of what was deleted for good.")
@click.option("--dry-run", is_flag=True, help="Say what is left over, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.pass_obj
def gc(store: Path | None, dry_run: bool, as_json: bool) -> None:
    """Take what nothing leads to any more out of the files of the store.

    That is what was pruned, and what was brought in and never named. What a conversation, an earlier version, a fork or
    the trash leads to stays. A daemon does the same by itself once a day ([gc] in convfs.toml).
    """
    import msgspec

    from fusefs.cli.backend import reach, require, store_root
    from store.service.collecting import GC, GcParams

    root = store_root(store)
    require(root)
    with reach(root) as backend:
        collected = backend.call(GC, GcParams(dry_run=dry_run))
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(collected) | {"dry_run": dry_run}, indent=2, ensure_ascii=False))
        return
    _tell(collected, dry_run=dry_run)


def _tell(collected: "Collected", *, dry_run: bool) -> None:
    for line in collected.damaged:
        click.echo(f"convfs: left alone: {escape(line)}", err=True)
    if not (collected.blobs or collected.turns or collected.repeated_bytes):
        click.echo("Nothing is left over.")
        return
    what = f"{collected.turns} records and {collected.blobs} contents"
    packs = collected.packs_removed + collected.packs_rewritten
    freed = f"{size_text(max(collected.freed_bytes, 0))} of {packs} pack{'s' * (packs != 1)}"
    if dry_run:
        click.echo(f"Nothing leads to {what}: some {freed} would be free.")
    else:
        click.echo(f"Nothing led to {what}: {freed} are free now.")

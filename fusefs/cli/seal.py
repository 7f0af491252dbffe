"""``convfs seal``."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import escape
from fusefs.text.amounts import size_text

if TYPE_CHECKING:
    from store.service.sealing import SealProgress, SealReport


@click.command(short_help="Store what is there in less room, in the order of reading.")
@click.option("--dry-run", is_flag=True, help="Say how much would be sealed, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.pass_obj
def seal(store: Path | None, dry_run: bool, as_json: bool) -> None:
    """Rewrite what has been stored so that conversations lie in the order in which they are read, compressed together.

    A daemon does that by itself, when nobody asks anything of it and there is enough to seal ([sealing] in
    convfs.toml). What is sealed stays so; nothing is lost whenever it is interrupted.
    """
    import msgspec

    from fusefs.cli.backend import reach, require, store_root
    from store.service.sealing import SEAL, SealParams

    root = store_root(store)
    require(root)
    with reach(root) as backend, _progress() as show:
        report = backend.call(SEAL, SealParams(dry_run=dry_run), show)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(report) | {"dry_run": dry_run}, indent=2, ensure_ascii=False))
        return
    _tell(report, dry_run=dry_run)


def _tell(report: "SealReport", *, dry_run: bool) -> None:
    for line in report.damaged:
        click.echo(f"convfs: left alone: {escape(line)}", err=True)
    packs = f"{report.packs} pack{'s' * (report.packs != 1)}"
    before, after = size_text(report.bytes_before), size_text(report.bytes_after)
    if not report.packs:
        click.echo("Everything is sealed." if not report.damaged else "Everything that is not damaged is sealed.")
    elif dry_run:
        click.echo(f"{packs} with {before} would be sealed.")
    else:
        click.echo(f"Sealed {report.blobs} contents of {packs}: {before} became {after}.")


@contextmanager
def _progress() -> "Iterator[Callable[[SealProgress], None] | None]":
    """Show how much has been sealed, if standard error is a terminal; yields what to tell it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import FileSizeColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("Sealing"), FileSizeColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda progress: bars.update(task, completed=progress.bytes)

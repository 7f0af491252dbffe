"""``convfs import``."""

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import escape
from fusefs.text.amounts import size_text

if TYPE_CHECKING:
    from store.importing.importer import ImportReport

_FILING_SECONDS = 0.25
"""How long what was imported is indexed for searches: enough for what has come since the last import."""

DEMO = Path(__file__).parent / "demo"


@click.command("import", short_help="Import sessions of AI tools.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--format", "format_name", metavar="FORMAT", default="", help="Take every PATH for this tool's.")
@click.option("--dry-run", is_flag=True, help="Say what would be imported, and import nothing.")
@click.option("--pruned", is_flag=True, help="Also what was here before and was pruned.")
@click.option("--demo", is_flag=True, help="Where no session is found, import a small demo set.")
@click.pass_obj
def import_(
    store: Path | None, paths: tuple[Path, ...], format_name: str, dry_run: bool, pruned: bool, demo: bool
) -> None:
    """Import session files, or directories of them. Without a PATH: your own sessions, where the tools keep them.

    What was imported before costs nothing again; a session that grew gets its new records. What was pruned stays away.
    """
    if paths and demo:
        raise click.UsageError("--demo goes without a PATH")
    from fusefs.cli.backend import exists, reach, store_root
    from fusefs.cli.progress import import_progress
    from fusefs.cli.searching import FILE, FileParams
    from store.service.operations import IMPORT, ImportParams

    chosen = _named(paths) if paths else _own_sessions(demo)
    if not chosen:
        return
    params = ImportParams(tuple(map(os.fsencode, chosen)), format_name, dry_run, pruned=pruned)
    with ExitStack() as stack:
        root = store_root(store)
        if dry_run and not exists(root):
            # What an empty store would take in, without making one where it would stay.
            root = Path(stack.enter_context(TemporaryDirectory(prefix="convfs-")))
        backend = stack.enter_context(reach(root, create=True))
        with import_progress(chosen) as progress:
            report = backend.call(IMPORT, params, progress)
        if not dry_run:
            backend.call(FILE, FileParams(_FILING_SECONDS))
    click.echo(_summary(report, dry_run))
    for warning in report.warnings:
        click.echo(f"convfs: warning: {escape(warning)}", err=True)
    for error in report.errors:
        click.echo(f"convfs: {escape(error)}", err=True)
    if report.errors:
        raise click.exceptions.Exit(1)


def _named(paths: tuple[Path, ...]) -> list[Path]:
    from fusefs.cli.mounts import convfs_above
    from store.errors import NotFound, UsageError

    absolute = [Path(os.path.abspath(path)) for path in paths]
    for path in absolute:
        if mount := convfs_above(path):
            raise UsageError(f"{path} lies in a mounted store ({mount.path}): name the session files themselves")
        if not os.path.lexists(path):
            raise NotFound(f"{path} does not exist: name a session file, or a directory of sessions")
    return absolute


def _own_sessions(demo: bool) -> list[Path]:
    from store.formats.format import Source
    from store.importing.walk import discover, walk

    found = [
        path for path in discover(Path.home(), Path.cwd()) if any(isinstance(found, Source) for found in walk(path))
    ]
    if found:
        return found
    if demo:
        click.echo("No sessions of yours were found; importing a small demo set instead.")
        return [DEMO]
    click.echo("No sessions of yours were found: name files or directories to import, as in `convfs import DIR`.")
    return []


def _summary(report: "ImportReport", dry_run: bool) -> str:
    counts = [
        f"{report.imported} {'new' if dry_run else 'imported'}",
        f"{report.grown} grown",
        f"{report.unchanged} unchanged",
    ]
    if report.pruned:
        counts.append(f"{report.pruned} pruned before (--pruned brings them back)")
    if report.skipped:
        counts.append(f"{report.skipped} other files skipped")
    line = "Conversations: " + ", ".join(counts)
    if report.records:
        line += f" ({report.records} records, {size_text(report.bytes_read)} read)"
    return line + (". Nothing was imported: a dry run." if dry_run else ".")

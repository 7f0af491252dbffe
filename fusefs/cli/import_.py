"""``convfs import``."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import echo, ended_by_signals, name_column, progress, write_table
from fusefs.text.amounts import size_text
from store import visible

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from store.importing.importer import Counts, ImportReport, Planned
    from store.service.upkeep import FilingProgress

_MANY_RECORDS = 4000
"""Records that are not indexed at once, so that it is told of."""

_SESSION_SUFFIXES = (".jsonl", ".json")

DEMO = Path(__file__).parent / "demo"


@click.command("import", short_help="Import sessions of AI tools.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--format", "format_name", metavar="FORMAT", default="", help="Read every PATH as this tool's.")
@click.option("--as-text", is_flag=True, help="Read every PATH as a log in plain text.")
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and import nothing.")
@click.option("--verbose", "-v", is_flag=True, help="List what is skipped, with the reason.")
@click.option("--pruned", is_flag=True, help="Also import sessions that were pruned.")
@click.option("--demo", is_flag=True, help="If no session is found, import a small demo set.")
@click.option("--no-wait", is_flag=True, help="Do not index what came: that is done later, or by a daemon.")
@click.pass_obj
def import_(
    store: Path | None,
    paths: tuple[Path, ...],
    format_name: str,
    as_text: bool,
    dry_run: bool,
    verbose: bool,
    pruned: bool,
    demo: bool,
    no_wait: bool,
) -> None:
    """Import session files, or directories of them. Without a PATH: your own sessions, where the tools keep them, and
    in the `folders` of the section `sessions` in the store's settings.

    Repeating an import costs nothing; a session that grew gets its new records. Pruned sessions are not imported again.
    A file of no known tool is skipped in a directory. Named itself, it is read as a guess if it looks like messages;
    --format reads it as a tool's, --as-text as a log of passages that begin with `User:` and `Assistant:`.

    Once all is imported and the summary is printed, what came is indexed. Ctrl-C ends that, and nothing is missing:
    what is not indexed is read when it is asked for, and indexed by a daemon or the next import.
    """
    if paths and demo:
        raise click.UsageError("--demo goes without a PATH")
    if as_text:
        if format_name or not paths:
            raise click.UsageError("--as-text goes with a PATH, and without --format")
        format_name = "text-log"
    from fusefs.cli.backend import on_trial, reach, store_root
    from store.commit import interrupts
    from store.service.importing import import_sessions

    chosen = _named(paths) if paths else _own_sessions(store_root(store), demo)
    if not chosen:
        return
    asked = import_sessions(tuple(map(os.fsencode, chosen)), format_name, dry_run, pruned=pruned)
    with ExitStack() as stack:
        root = store_root(store)
        if dry_run:
            root = stack.enter_context(on_trial(root))
        backend = stack.enter_context(reach(root, create=True))
        with progress(
            name_column("Importing"),
            "Text Bar Download TimeRemaining",
            lambda told: {"completed": told.bytes, "description": name_column(told.session)},
            partial(_size_of, chosen),
        ) as show, interrupts.waits():
            report = backend.call(asked, show)
        if verbose and not format_name:
            _list_skipped(chosen, root)
        _tell(report, dry_run)
        if not (dry_run or no_wait):
            _file(backend)
    if report.errors:
        raise click.exceptions.Exit(1)


def _tell(report: "ImportReport", dry_run: bool) -> None:
    if report.planned:
        write_table(
            [(_plan(one), one.format, visible.line(one.name), visible.line(one.path)) for one in report.planned]
        )
    echo(_summary(report, dry_run))
    if report.tools:
        write_table(
            [
                ("", tool, ", ".join(one for one in _counts(own, dry_run) if one[:2] != "0 "))
                for tool, own in sorted(report.tools.items())
            ]
        )
    sys.stdout.flush()
    for warning in report.warnings:
        echo(f"convfs: warning: {warning}", err=True)
    for error in report.errors:
        echo(f"convfs: {error}", err=True)


class _Enough(Exception):
    """The user has ended what need not be done now."""


def _file(backend: "Backend") -> None:
    """Have what came indexed, until that is done or the user has enough."""
    from store.service.upkeep import file_new

    is_said = False
    with (
        ended_by_signals() as ended,
        progress("Indexing", "Text Bar MofNComplete TimeRemaining", _shown_filing) as show,
    ):

        def told(item: "FilingProgress") -> None:
            nonlocal is_said
            if ended.is_set():
                raise _Enough
            if not is_said and item.records - item.filed >= _MANY_RECORDS:
                is_said = True
                echo("Indexing; Ctrl-C ends that: the rest is read when it is asked for.", err=True)
            if show is not None:
                show(item)

        with suppress(_Enough):
            backend.call(file_new(), told)


def _shown_filing(told: "FilingProgress") -> dict[str, int]:
    return {"completed": told.filed, "total": told.records}


def _list_skipped(paths: Sequence[Path], root: Path) -> None:
    from store import paths as paths_of_store
    from store.formats.registry import learn
    from store.importing.skipped import skipped
    from store.importing.snapshot import path_text

    # the daemon reads these, and is another process
    learn(root / paths_of_store.FORMATS)
    for path, reason in skipped(paths, root):
        echo(f"skipped {visible.line(path_text(path))}: {reason}")


def _named(paths: tuple[Path, ...]) -> list[Path]:
    from fusefs.cli.mounts import convfs_above
    from store.errors import NotFound, UsageError

    absolute = [Path(os.path.abspath(path)) for path in paths]
    for path in absolute:
        if mount := convfs_above(path):
            raise UsageError(f"{path} lies in a mounted store ({mount.path}): name the session files themselves")
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"{path} does not exist: name a session file, or a directory of sessions") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return absolute


def _own_sessions(root: Path, demo: bool) -> list[Path]:
    from store.formats.core.format import Source
    from store.importing.walk import discover, walk
    from store.settings import load

    folders = load(root)[0].sessions.folders
    found = [
        path
        for path in discover(Path.home(), Path.cwd(), folders)
        if any(isinstance(found, Source) for found in walk(path))
    ]
    if found:
        return found
    if demo:
        echo("No sessions of yours were found; importing a small demo set instead.")
        return [DEMO]
    echo("No sessions of yours were found: name files or directories to import, as in `convfs import DIR`.")
    return []


def _size_of(paths: Sequence[Path]) -> int:
    """Return the approximate size of the sessions at or under ``paths``."""
    total = 0
    for path in paths:
        if path.is_file():
            total += path.stat().st_size
        for directory, _, files in os.walk(path):
            for name in files:
                if name.endswith(_SESSION_SUFFIXES):
                    try:
                        total += os.lstat(os.path.join(directory, name)).st_size
                    except OSError:
                        continue
    return total


def _plan(one: "Planned") -> str:
    """Return what would become of a file, in words."""
    if one.new + one.grown == 1:
        return "new" if one.new else "grown"
    return ", ".join(f"{count} {what}" for count, what in ((one.new, "new"), (one.grown, "grown")) if count)


def _counts(counted: "ImportReport | Counts", dry_run: bool) -> list[str]:
    return [
        f"{counted.imported} {'new' if dry_run else 'imported'}",
        f"{counted.grown} grown",
        f"{counted.unchanged} unchanged",
    ]


def _summary(report: "ImportReport", dry_run: bool) -> str:
    counts = _counts(report, dry_run)
    if report.pruned:
        counts.append(f"{report.pruned} pruned before (--pruned brings them back)")
    if report.skipped:
        counts.append(f"{report.skipped} other files skipped")
    line = "Conversations: " + ", ".join(counts)
    if report.records:
        line += f" ({report.records} records, {size_text(report.bytes_read)} read)"
    return line + (". Nothing was imported: a dry run." if dry_run else ".")

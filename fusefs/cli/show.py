"""``convfs show``."""

import os
from pathlib import Path

import click

from fusefs.cli.export import FORMATS
from fusefs.cli.output import escape, write_text


@click.command(short_help="Print a conversation.")
@click.argument("conversation", metavar="CONV")
@click.option("--json", "as_json", is_flag=True, help="One object with all events, for programs.")
@click.option("--files", is_flag=True, help="The files of an export of it: what a version control system must stage.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), help="The format of that export.  [default: jp]")
@click.pass_obj
def show(store: Path | None, conversation: str, as_json: bool, files: bool, format_name: str | None) -> None:
    """Print a conversation as Markdown, as it stands under transcripts/ in the mount.

    With --files print, a line each, the paths of the files that `convfs export` makes of it, relative to the directory
    that it is told to write to. CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from fusefs.cli.operations import SHOW, ShowParams
    from store.service.exporting import EXPORTED_NAMES, NamesParams

    if format_name and not files:
        raise click.UsageError("--format goes with --files")
    if as_json and files:
        raise click.UsageError("--json and --files are two different things to print")
    with located(store, conversation) as (backend, found):
        if files:
            for name in backend.call(EXPORTED_NAMES, NamesParams(found.id, format_name or "jp")):
                click.echo(escape(os.fsdecode(name)))
        else:
            backend.call(SHOW, ShowParams(found.id, as_json), write_text)

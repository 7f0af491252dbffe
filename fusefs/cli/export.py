"""``convfs export``."""

import os
from pathlib import Path

import click

from fusefs.cli.output import escape


@click.command(short_help="Write conversations back as the session files they came from.")
@click.argument("conversations", metavar="CONV...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["native"]),
    default="native",
    show_default=True,
    help="native: the files of the tool that the conversation came from.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The directory to write to; made if it is not there.",
)
@click.pass_obj
def export(store: Path | None, conversations: tuple[str, ...], format_name: str, output: Path) -> None:
    """Write conversations as session files, and print the paths of these.

    An imported conversation that nobody edited comes back as the same bytes. Nothing is overwritten: what would take
    the name of a file that is there goes to PROJECT/NAME/ in the directory. CONV is PROJECT/NAME, an id, or a path in
    the mount.
    """
    from fusefs.cli.conversations import located
    from store.service.operations import EXPORT, ExportParams

    directory = Path(os.path.abspath(output))
    for name in conversations:
        with located(store, name) as (backend, conversation):
            for path in backend.call(EXPORT, ExportParams(conversation.id, os.fsencode(directory))):
                click.echo(escape(os.fsdecode(path)))

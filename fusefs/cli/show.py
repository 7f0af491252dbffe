"""``convfs show``."""

from pathlib import Path

import click

from fusefs.cli.output import write_text


@click.command(short_help="Print a conversation.")
@click.argument("conversation", metavar="CONV")
@click.option("--json", "as_json", is_flag=True, help="One object with all events, for programs.")
@click.pass_obj
def show(store: Path | None, conversation: str, as_json: bool) -> None:
    """Print a conversation as Markdown, as it stands under transcripts/ in the mount.

    CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from fusefs.cli.operations import SHOW, ShowParams

    with located(store, conversation) as (backend, found):
        backend.call(SHOW, ShowParams(found.id, as_json), write_text)

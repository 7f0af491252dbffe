"""``convfs export``."""

import os
from pathlib import Path

import click

from fusefs.cli.output import escape

FORMATS = (
    "native",
    "markdown",
    "html",
    "json",
    "jsonl",
    "openai",
    "anthropic",
    "jp",
    "claude-code",
    "codex",
    "pi",
    "oh-my-pi",
    "gemini-cli",
)
"""What ``store.exporting.export`` knows; said here, so that help need not import it."""


@click.command(short_help="Write conversations as files: those they came from, or other forms.")
@click.argument("conversations", metavar="CONV...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
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
@click.option("--json", "as_json", is_flag=True, help="What was written, and what could not be, for programs.")
@click.pass_obj
def export(store: Path | None, conversations: tuple[str, ...], format_name: str, output: Path, as_json: bool) -> None:
    """Write conversations as files, and print the paths of these.

    In the native format an imported conversation that nobody edited comes back as the same bytes. What another format
    cannot say is told on standard error, a line each. Nothing is overwritten: what would take the name of a file that
    is there goes to PROJECT/NAME/ in the directory. CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from fusefs.cli.progress import export_progress
    from store.exporting.event_json import encoded
    from store.exporting.losses import Loss
    from store.service.exporting import EXPORT_AS, ExportAsParams
    from store.service.operations import EXPORT, ExportParams

    directory = os.fsencode(os.path.abspath(output))
    done: list[dict[str, object]] = []
    for name in conversations:
        with located(store, name) as (backend, conversation):
            lost: list[Loss] = []
            if format_name == "native":
                files = backend.call(EXPORT, ExportParams(conversation.id, directory))
            else:
                params = ExportAsParams(conversation.id, directory, format_name)
                with export_progress(conversation.name) as progress:
                    exported = backend.call(EXPORT_AS, params, progress)
                files, lost = exported.files, exported.lost
        paths = [os.fsdecode(path) for path in files]
        who = f"{conversation.project}/{conversation.name}"
        for loss in lost:
            click.echo(escape(f"{who}: not in {format_name}: {loss.line()}"), err=True)
        if as_json:
            done.append({"id": conversation.id, "conversation": who, "files": paths, "lost": lost})
        else:
            for path in paths:
                click.echo(escape(path))
    if as_json:
        click.echo(encoded(done))

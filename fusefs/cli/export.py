"""``convfs export``."""

import os
from pathlib import Path

import click

from fusefs.cli.completion import complete_conversation
from fusefs.cli.output import echo, name_column, progress, write_json

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
    "opencode",
    "aider",
)
"""The formats of ``store.exporting.export``; repeated here so that help need not import it."""


@click.command(short_help="Write conversations as files, in any format.")
@click.argument("conversations", metavar="CONV...", nargs=-1, required=True, shell_complete=complete_conversation)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
    default="native",
    show_default=True,
    help="native: the files of the conversation's own tool.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The directory to write to; created if need be.",
)
@click.option("--json", "as_json", is_flag=True, help="Written files and lost content, for programs.")
@click.pass_obj
def export(store: Path | None, conversations: tuple[str, ...], format_name: str, output: Path, as_json: bool) -> None:
    """Write conversations as files, and print their paths.

    In the native format, an imported conversation that nobody edited comes back as the same bytes. Content that another
    format cannot express is listed on standard error, one line each. Nothing is overwritten: a file whose name is taken
    goes to PROJECT/NAME/ in the directory. CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from store.exporting.dialogue import Loss
    from store.exporting.event_json import encoded
    from store.service import operations

    directory = os.fsencode(os.path.abspath(output))
    done: list[dict[str, object]] = []
    for name in conversations:
        with located(store, name) as (backend, conversation):
            lost: list[Loss] = []
            if format_name == "native":
                files = backend.call(operations.export_sessions(conversation.id, directory))
            else:
                asked = operations.export_as(conversation.id, directory, format_name)
                label = name_column(conversation.name)
                with progress(label, "Spinner Text FileSize", lambda told: {"completed": told.bytes}) as show:
                    exported = backend.call(asked, show)
                files, lost = exported.files, exported.lost
        paths = [os.fsdecode(path) for path in files]
        who = f"{conversation.project}/{conversation.name}"
        for loss in lost:
            echo(f"{who}: not in {format_name}: {loss.line()}", err=True)
        if as_json:
            done.append({"id": conversation.id, "conversation": who, "files": paths, "lost": lost})
        else:
            for path in paths:
                echo(path)
    if as_json:
        write_json(encoded(done) + "\n")

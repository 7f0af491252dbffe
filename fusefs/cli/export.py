"""``convfs export``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.completion import complete_conversation
from fusefs.cli.output import echo, name_column, progress, write_json

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from store.conversations.lines import ConversationLine
    from store.exporting.dialogue import Loss

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
    "kilo",
    "aider",
    "messages-jsonl",
    "copilot-cli",
    "droid",
    "grok-build",
    "kimi-cli",
    "kimi-code",
    "mistral-vibe",
    "qwen-code",
    "cline",
    "cline-tasks",
    "continue",
)
"""The formats of ``store.exporting.export``; repeated here so that help need not import it."""


class Names(click.Choice[str]):
    """Names that there are; those of users' own pages are taken, too, and the store tells of all others."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a name as it is."""
        return str(value)


@click.command(short_help="Write conversations as files, in any format.")
@click.argument("conversations", metavar="CONV...", nargs=-1, required=True, shell_complete=complete_conversation)
@click.option(
    "--format",
    "format_name",
    type=Names(FORMATS),
    default="native",
    show_default=True,
    help="native: the files of the conversation's own tool. Formats of your own are taken, too.",
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
    format cannot express is listed on standard error, one line each. Files that an earlier export wrote are brought up
    to date; where anything else has the name of one, all goes to PROJECT/NAME/ in the directory. CONV is PROJECT/NAME,
    an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from store.exporting.event_json import encoded
    from store.service import exporting

    directory = os.fsencode(os.path.abspath(output))
    done: list[dict[str, object]] = []
    for name in conversations:
        with located(store, name) as (backend, conversation):
            found = _into_native(backend, conversation, Path(os.fsdecode(directory)), format_name)
            if found is None:
                asked = exporting.export_as(conversation.id, directory, format_name)
                label = name_column(conversation.name)
                with progress(label, "Spinner Text FileSize", lambda told: {"completed": told.bytes}) as show:
                    exported = backend.call(asked, show)
                found = [os.fsdecode(path) for path in exported.files], exported.lost
        paths, lost = found
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


def _into_native(
    backend: "Backend", conversation: "ConversationLine", directory: Path, format_name: str
) -> "tuple[list[str], list[Loss]] | None":
    """Export into a directory whose sessions are in a mount; None if none of the files goes into one."""
    import tempfile

    from fusefs.cli.into_mount import is_native, leads_into_native, put
    from store.service import exporting

    home = Path(os.path.realpath(directory))
    if not leads_into_native(home):
        return None
    with tempfile.TemporaryDirectory(prefix="convfs-export-") as folder:
        asked = exporting.stage_export(conversation.id, os.fsencode(folder), os.fsencode(home), format_name)
        staged = backend.call(asked)
        files = {Path(os.fsdecode(file.path)): file.before for file in staged.files}
        if not any(is_native(home / name) for name in files):
            return None
        put(Path(folder), home, files)
        backend.call(exporting.note_staged(conversation.id, os.fsencode(home), format_name, staged.files))
    return [os.fspath(directory / name) for name in files], staged.lost

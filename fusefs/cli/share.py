"""``convfs share``."""

import os
import re
from pathlib import Path

import click

from fusefs.cli.completion import complete_conversation
from fusefs.cli.output import echo

_RANGE = re.compile(r"(.+)@([0-9]{1,9})(?:(-)([0-9]{1,9})?)?", re.DOTALL)
_FORMS = {".html": "html", ".md": "md"}


@click.command(short_help="Write one file for others to read, without secrets.")
@click.argument("conversation", metavar="CONV[@A-B]", shell_complete=complete_conversation)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write: FILE.html or FILE.md. It must not exist yet.",
)
@click.option("--replace", "replaced", multiple=True, metavar="OLD=NEW", help="Write NEW for the text OLD: a name.")
@click.option("--keep-paths", is_flag=True, help="Leave home directories and the names of their owners as they are.")
@click.option("--no-images", is_flag=True, help="Leave out images, which nobody looks through.")
@click.option("--dry-run", is_flag=True, help="Only say what would be taken out.")
@click.pass_obj
def share(
    store: Path | None,
    conversation: str,
    output: Path | None,
    replaced: tuple[str, ...],
    keep_paths: bool,
    no_images: bool,
    dry_run: bool,
) -> None:
    """Write events A to B of a conversation, or all, as one HTML or Markdown file for others to read.

    \b
    convfs share @latest -o talk.html
    convfs share webshop/login@4-12 -o talk.md --replace 'Ada Lovelace=A.'

    Keys, tokens and passwords become [redacted], as `convfs redact --secrets` finds them, home directories become ~,
    and their owners' names in paths become "user". Standard error says what was taken out, and of which events; read
    the file before you send it. The conversation stays as it is. CONV is PROJECT/NAME, an id, or a path in the mount.
    """  # noqa: D301  (click takes the character for a mark)
    from fusefs.cli.conversations import located
    from store.errors import Conflict
    from store.service import exporting

    if output is None and not dry_run:
        raise click.UsageError("which file? Name it with -o FILE.html or -o FILE.md")
    form = _FORMS.get(output.suffix.lower(), "") if output else "md"
    if not form:
        raise click.UsageError(f"{output} must end in .html or .md, which says what to write")
    if output is not None and os.path.lexists(output):
        raise Conflict(f"{output} exists already: name another file")
    name, first, last = _range(conversation)
    pieces: list[bytes] = []
    with located(store, name) as (backend, found):
        asked = exporting.share(
            found.id, form, first, last, tuple(map(_pair, replaced)), not keep_paths, str(Path.home()), not no_images
        )
        shared = backend.call(asked, pieces.append)
    if output is not None and not dry_run:
        _write(output, pieces)
        echo(str(output))
    for loss in (*shared.taken, *shared.lost):
        echo(loss.line(), err=True)
    if not shared.taken:
        echo("Nothing was found to take out.", err=True)


def _range(text: str) -> tuple[str, int, int]:
    """Return a conversation, and the first and the last of its events (0: the last of all)."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return text, 1, 0
    name, first, to, last = found.groups()
    numbers = int(first), int(last or 0) if to else int(first)
    if not numbers[0] or (last and numbers[1] < numbers[0]):
        raise click.UsageError(f"{text.removeprefix(name)} is no range of events: write CONV@4-12")
    return name, *numbers


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not old or not equals:
        raise click.UsageError(f"--replace {text!r} must be OLD=NEW")
    return old, new


def _write(path: Path, pieces: list[bytes]) -> None:
    """Write a new file, or nothing; it is for its owner until they give it away."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        try:
            file.writelines(pieces)
            file.flush()
        except OSError:
            path.unlink()
            raise

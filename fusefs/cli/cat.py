"""``convfs cat``."""

import sys
from pathlib import Path

import click


@click.command(short_help="Print what a URL in a conversation leads to.")
@click.argument("url")
@click.option("--in", "conversation", metavar="CONV", help="The conversation that the URL is of: see below.")
@click.option("--offset", type=click.IntRange(min=1), metavar="LINE", help="Begin at this line; the first is 1.")
@click.option("--limit", type=click.IntRange(min=1), metavar="LINES", help="Print so many lines.")
@click.pass_obj
def cat(store: Path | None, url: str, conversation: str | None, offset: int | None, limit: int | None) -> None:
    """Print what URL leads to: artifact://0, the full output of a tool; agent://0-Explore, that of an agent, and parts
    of one that is JSON (agent://0-Explore/findings/0 or agent://0-Explore?q=findings[0].title); blob:sha256:HEX and
    blob:blake3:HEX, content by its hash.

    CONV is PROJECT/NAME, an id, or a path in the mount. Without it, the conversation is the one in whose directory in a
    mount this runs, or the only one that has what URL names.
    """
    from fusefs.cli.conversations import conversation_here, located
    from fusefs.cli.output import escape_text
    from store.service.artifact_operations import READ_URL, ReadUrlParams

    def write(piece: bytes) -> None:
        if sys.stdout.isatty():
            sys.stdout.write(escape_text(piece.decode(errors="replace")))
        else:
            sys.stdout.buffer.write(piece)

    sys.stdout.flush()
    here = located(store, conversation) if conversation else conversation_here(store)
    with here as (backend, found):
        name = str(found.id) if found else ""
        backend.call(READ_URL, ReadUrlParams(url, name, offset or 0, limit or 0), write)

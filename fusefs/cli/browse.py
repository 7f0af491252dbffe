"""``convfs browse``: the list is on the terminal before the libraries that draw the rest are loaded."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.source import PROMPT, Source, clipped, row_of

if TYPE_CHECKING:
    from store.conversations.lines import ConversationLine


@click.command(short_help="Look through everything on the terminal.")
@click.argument("query", nargs=-1)
@click.pass_obj
def browse(store: Path | None, query: tuple[str, ...]) -> None:
    """Look through the conversations on the terminal: find as you type, preview, resume, edit, fork, label, export.

    QUERY is as in `convfs search`. The key ? lists the keys.
    """
    from importlib.util import find_spec

    from store.errors import UsageError

    if find_spec("textual") is None:
        raise UsageError("the browser needs one more package: run ./mount.sh --setup, or pip install textual")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the browser needs a terminal: `convfs ls` and `convfs search` print to anything")
    with Source(store) as source:
        first = source.latest()
        with _painted(first):
            # it takes longer to load than all that was done so far
            from fusefs.cli.browser import Browser

            Browser(source, first, " ".join(query)).run()


@contextmanager
def _painted(conversations: list[ConversationLine]) -> Iterator[None]:
    """Draw the list as the browser is going to; afterwards the terminal is as it was."""
    width, height = shutil.get_terminal_size()
    rows = [PROMPT, *(row_of(one) for one in conversations)][: height - 1]
    drawn = "\r\n".join(clipped(row, width // 2) for row in rows)
    try:
        sys.stdout.write(f"\x1b[?1049h\x1b[?25l\x1b[2J\x1b[H{drawn}")
        sys.stdout.flush()
        yield
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()

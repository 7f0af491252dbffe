"""``convfs ls``, ``convfs show``, ``convfs cat`` and ``convfs context``: the commands that print conversations."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.completion import complete_conversation
from fusefs.cli.export import FORMATS, Names
from fusefs.cli.output import columns, echo, json_array, local_time, widths_of, write_json, write_table, write_text
from store import visible

if TYPE_CHECKING:
    from store.conversations.lines import NestedLine

_HASH = re.compile(r"[0-9a-fA-F]{64}")


@click.command(short_help="Print the content behind a URL in a conversation.")
@click.argument("url")
@click.option(
    "--in",
    "conversation",
    metavar="CONV",
    shell_complete=complete_conversation,
    help="The conversation of the URL: see below.",
)
@click.option("--offset", type=click.IntRange(min=1), metavar="LINE", help="Start at this line; the first is 1.")
@click.option("--limit", type=click.IntRange(min=1), metavar="LINES", help="Print this many lines.")
@click.pass_obj
def cat(store: Path | None, url: str, conversation: str | None, offset: int | None, limit: int | None) -> None:
    """Print the content of a URL: artifact://0, the full output of a tool; agent://0-Explore, the output of an agent or
    a part of it if it is JSON (agent://0-Explore/findings/0 or agent://0-Explore?q=findings[0].title);
    blob:blake3:HEX, blob:sha256:HEX or just HEX, content by its hash.

    CONV is PROJECT/NAME, an id, or a path in the mount. The default is the conversation of the working directory in a
    mount, or the only conversation that has the URL.
    """
    from fusefs.cli.conversations import conversation_here, located
    from store.service.calls import read_url

    def write(piece: bytes) -> None:
        if sys.stdout.isatty():
            sys.stdout.write(visible.lines(piece.decode(errors="replace")))
        else:
            sys.stdout.buffer.write(piece)

    if _HASH.fullmatch(url):
        url = f"blob:{url}"
    sys.stdout.flush()
    here = located(store, conversation) if conversation else conversation_here(store)
    with here as (backend, found):
        name = str(found.id) if found else ""
        backend.call(read_url(url, name, offset or 0, limit or 0), write)


FORMS = ("anthropic", "openai", "jsonl")
"""The formats of ``store.delivery.context``; repeated here so that help need not import it."""


@click.command(short_help="Print the messages to send to a model.")
@click.argument("conversation", metavar="CONV", shell_complete=complete_conversation)
@click.option(
    "--last", metavar="N", type=click.IntRange(min=1), help="Only the last N requests and everything after each."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMS),
    default=FORMS[0],
    show_default=True,
    help="jsonl: one object per step, including content that the others cannot express.",
)
@click.option("--json", "as_json", is_flag=True, help="One object with the savings, as context.json.")
@click.pass_obj
def context(store: Path | None, conversation: str, last: int | None, format_name: str, as_json: bool) -> None:
    """Print the messages of a conversation to send to a model, in the form of its API.

    Events that a compaction dropped are left out. A file that a tool returned again, unchanged, is referred to, not
    repeated; the savings are reported on standard error, and so is content that the format cannot express. CONV is
    PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from store.service import calls

    with located(store, conversation) as (backend, found):
        report = backend.call(calls.context(found.id, format_name, last, as_json), write_json)
    if as_json:
        return
    for loss in report.lost:
        echo(f"{found.project}/{found.name}: not in {format_name}: {loss.line()}", err=True)
    if saved := report.saved.references:
        what = "1 content that was sent before is" if saved == 1 else f"{saved} contents that were sent before are"
        spared = f"{report.saved.bytes} bytes, about {report.saved.tokens} tokens, saved"
        echo(f"{what} only referred to: {spared}", err=True)


@click.command(short_help="List the conversations.")
@click.argument("project", default="")
@click.option("--all", "every", is_flag=True, help="Also warm-ups of tools, and sessions in which nobody speaks.")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def ls(store: Path | None, project: str, every: bool, as_json: bool) -> None:
    """List the conversations, or those of one PROJECT.

    Those of subagents are below the one that started them. Days are local; times in JSON are UTC.
    """
    from fusefs.cli.backend import store_root

    root = store_root(store)
    if as_json:
        with json_array() as write:
            _list(root, project, every, write)
        return
    lines: list[NestedLine] = []
    _list(root, project, every, lines.extend)
    _table(lines)


def _list(root: Path, project: str, every: bool, take: Callable[[list[NestedLine]], None]) -> None:
    """Hand out conversations in pages, without opening the store where a daemon or a glance tells."""
    from fusefs.cli.backend import daemon, reach

    client = daemon(root)
    if client is None and (pages := _glanced(root, project, every)) is not None:
        for page in pages:
            take(page)
        return
    from store.service.operations import list_nested

    with client or reach(root) as backend:
        backend.call(list_nested(project, every), take)


def _glanced(root: Path, project: str, every: bool) -> list[list[NestedLine]] | None:
    """Return conversations in pages, None where the store must be opened to list them."""
    from fusefs.cli.backend import glanced
    from store.conversations.listing import NotMeasured, nested_lines
    from store.errors import DamageError

    with glanced(root) as listing, suppress(NotMeasured, DamageError):
        if listing is not None:
            # whole, before anything is handed out: who opens the store measures what is missing, and mends
            return list(nested_lines(listing, project, every=every))
    return None


def _table(lines: list[NestedLine]) -> None:
    rows = [("ID", "UPDATED", "EVENTS", "NAME")]
    depths: dict[int, int] = {}
    for one in lines:
        depths[one.id] = depth = depths[one.parent] + 1 if one.parent in depths else 0
        name = "  " * depth + visible.line(f"{one.project}/{one.name}")
        rows.append((str(one.id), local_time(one.updated)[:10], str(one.events), name))
    room = None
    if sys.stdout.isatty():
        import shutil

        room = shutil.get_terminal_size().columns - sum(widths_of(rows)) - 8
    titles = ["TITLE", *(_fit(visible.line(line.title), room) for line in lines)]
    write_table([(*row, title) for row, title in zip(rows, titles, strict=True)])


def _fit(title: str, room: int | None) -> str:
    if room is None or columns(title) <= room:
        return title
    if room < 10:
        return ""
    while columns(title) >= room:
        title = title[:-1]
    return title + "…"


@click.command(short_help="Print a conversation.")
@click.argument("conversation", metavar="CONV", shell_complete=complete_conversation)
@click.option("--json", "as_json", is_flag=True, help="One object with all events, for programs.")
@click.option("--files", is_flag=True, help="The files of its export: the paths to stage in a version control system.")
@click.option("--format", "format_name", type=Names(FORMATS), help="The format of that export.  [default: jp]")
@click.pass_obj
def show(store: Path | None, conversation: str, as_json: bool, files: bool, format_name: str | None) -> None:
    """Print a conversation as Markdown, like its file under transcripts/ in the mount.

    With --files, print the paths of the files that `convfs export` makes of it, one per line, relative to its output
    directory. CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from fusefs.daemon import operations

    if format_name and not files:
        raise click.UsageError("--format goes with --files")
    if as_json and files:
        raise click.UsageError("--json and --files are two different things to print")
    with located(store, conversation) as (backend, found):
        if files:
            from store.service.exporting import exported_names

            for name in backend.call(exported_names(found.id, format_name or "jp")):
                echo(os.fsdecode(name))
        else:
            backend.call(operations.show(found.id, as_json), write_json if as_json else write_text)

"""``convfs ls``."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import columns, escape, json_array, write_row

if TYPE_CHECKING:
    from store.service.operations import ConversationLine


@click.command(short_help="List the conversations.")
@click.argument("project", default="")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def ls(store: Path | None, project: str, as_json: bool) -> None:
    """List the conversations, or those of one PROJECT."""
    import msgspec

    from fusefs.cli.backend import reach, store_root
    from store.service.operations import LIST, ListParams

    with reach(store_root(store)) as backend:
        if as_json:
            with json_array() as write:
                backend.call(LIST, ListParams(project), lambda page: write(map(msgspec.to_builtins, page)))
            return
        lines: list[ConversationLine] = []
        backend.call(LIST, ListParams(project), lines.extend)
    _table(lines)


def _table(lines: "list[ConversationLine]") -> None:
    rows = [("ID", "UPDATED", "EVENTS", "NAME")]
    rows += [
        (str(line.id), line.updated[:10], str(line.events), escape(f"{line.project}/{line.name}")) for line in lines
    ]
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    room = shutil.get_terminal_size().columns - sum(widths) - 8 if sys.stdout.isatty() else None
    for row, title in zip(rows, ["TITLE", *(_fit(escape(line.title), room) for line in lines)], strict=True):
        write_row((*row, title), widths)


def _fit(title: str, room: int | None) -> str:
    if room is None or columns(title) <= room:
        return title
    if room < 10:
        return ""
    while columns(title) >= room:
        title = title[:-1]
    return title + "…"

"""``convfs ls``."""

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import escape, write_row

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

    first = True

    def rows(page: "list[ConversationLine]") -> None:
        nonlocal first
        if as_json:
            for line in page:
                sys.stdout.write("[\n" if first else ",\n")
                sys.stdout.write("  " + json.dumps(msgspec.to_builtins(line), ensure_ascii=False))
                first = False
            return
        cells = [(str(line.id), line.updated[:10], str(line.events), f"{line.project}/{line.name}") for line in page]
        titles = [escape(line.title) for line in page]
        cells = [(id_, day, events, escape(name)) for id_, day, events, name in cells]
        head = ("ID", "UPDATED", "EVENTS", "NAME")
        widths = [max(len(row[column]) for row in [head, *cells]) for column in range(4)]
        if first:
            write_row((*head, "TITLE"), widths)
            first = False
        room = shutil.get_terminal_size().columns - sum(widths) - 8 if sys.stdout.isatty() else None
        for row, title in zip(cells, titles, strict=True):
            write_row((*row, _fit(title, room)), widths)

    with reach(store_root(store)) as backend:
        backend.call(LIST, ListParams(project), rows)
    if as_json:
        sys.stdout.write("[]\n" if first else "\n]\n")


def _fit(title: str, room: int | None) -> str:
    if room is None or len(title) <= room:
        return title
    return title[: room - 1] + "…" if room > 10 else ""

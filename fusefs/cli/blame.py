"""``convfs blame``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import columns, echo_json, local_time, write_text

if TYPE_CHECKING:
    from fusefs.daemon.answers import BlameLine

_NOBODY = "no conversation known"


@click.command(short_help="Say which request wrote each line of a file.")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def blame(store: Path | None, file: str, as_json: bool) -> None:
    """Print the lines of FILE, each with the request that it was written for: CONV@EVENT, and the time.

    All conversations that read or changed FILE count, in order of time. Lines that none is known to have written say
    so. Of a FILE that is gone, its last known lines are printed.
    """
    from fusefs.cli.backend import reach, store_root
    from fusefs.daemon import operations

    path = os.path.abspath(os.path.expanduser(file))
    names = tuple(dict.fromkeys(os.fsencode(name).decode(errors="replace") for name in (path, os.path.realpath(path))))
    lines: list[BlameLine] = []
    with reach(store_root(store)) as backend:
        backend.call(operations.blame(names, _text(path)), lines.extend)
    if as_json:
        echo_json(lines)
        return
    who = [f"{line.conversation}@{line.request or line.event}" if line.conversation else _NOBODY for line in lines]
    width, digits = max(map(columns, who), default=0), len(str(len(lines)))
    for number, (line, named) in enumerate(zip(lines, who, strict=True), 1):
        padding = " " * (width - columns(named))
        write_text(f"{named}{padding} ({local_time(line.time):16} {number:{digits}}) {line.text}\n")


def _text(path: str) -> str | None:
    """Return the text of a file, None if it is gone."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    if b"\0" in data:
        raise click.UsageError(f"{path} is no text: name a file of lines")
    return data.decode(errors="replace")

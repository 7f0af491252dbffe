"""``convfs log``, ``convfs restore``, ``convfs fork``."""

import json
import re
from pathlib import Path, PurePath

import click

from fusefs.cli.output import columns, escape, write_row

_VERSION = re.compile(r"0*([1-9][0-9]{0,17})(?:-|$)")
_AT = re.compile(r"(.+)@([0-9]{1,18})", re.DOTALL)


@click.command(short_help="List the versions of a conversation.")
@click.argument("conversation", metavar="CONV")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def log(store: Path | None, conversation: str, as_json: bool) -> None:
    """List the versions of a conversation, oldest first.

    CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    import msgspec

    from fusefs.cli.conversations import located
    from store.editing.log import LogLine
    from store.service.history import LOG, LogParams

    lines: list[LogLine] = []
    with located(store, conversation) as (backend, found):
        backend.call(LOG, LogParams(found.id), lines.extend)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(lines), indent=2, ensure_ascii=False))
        return
    rows = [("VERSION", "TIME"), *((str(line.version), line.time[:19].replace("T", " ")) for line in lines)]
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    for row, action in zip(rows, ["ACTION", *(escape(line.action) for line in lines)], strict=True):
        write_row((*row, action), widths)


@click.command(short_help="Bring back an earlier version of a conversation.")
@click.argument("conversation", metavar="CONV")
@click.argument("version")
@click.pass_obj
def restore(store: Path | None, conversation: str, version: str) -> None:
    """Make a conversation what it was in VERSION. That is a version too; none is lost.

    CONV is PROJECT/NAME, an id, or a path in the mount, VERSION a number of `convfs log` or a name in .versions/.
    """
    from fusefs.cli.conversations import located
    from store.service.history import RESTORE, RestoreParams

    number = _VERSION.match(PurePath(version).name)
    if number is None:
        raise click.UsageError(f"{version} is no version: name one by its number in `convfs log`")
    with located(store, conversation) as (backend, found):
        backend.call(RESTORE, RestoreParams(found.id, int(number[1])))


@click.command(short_help="Branch off a conversation.")
@click.argument("conversation", metavar="CONV[@N]")
@click.argument("name")
@click.pass_obj
def fork(store: Path | None, conversation: str, name: str) -> None:
    """Make a conversation NAME that goes on from another one's end, or from its event N.

    CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from store.service.history import FORK, ForkParams

    at = _AT.fullmatch(conversation)
    with located(store, at[1] if at else conversation) as (backend, found):
        made = backend.call(FORK, ForkParams(found.id, name, int(at[2]) if at else 0))
    click.echo(f"{made.project}/{made.name}")

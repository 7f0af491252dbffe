"""``convfs log``, ``convfs restore``, ``convfs fork``."""

import re
from pathlib import Path, PurePath

import click

from fusefs.cli.completion import complete_conversation
from fusefs.cli.output import echo, echo_json, local_time, write_table
from store import visible

_VERSION = re.compile(r"0*([1-9][0-9]{0,17})(?:-|$)")
_AT = re.compile(r"(.+)@([0-9]{1,18})", re.DOTALL)


@click.command(short_help="List the versions of a conversation.")
@click.argument("conversation", metavar="CONV", shell_complete=complete_conversation)
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def log(store: Path | None, conversation: str, as_json: bool) -> None:
    """List the versions of a conversation, oldest first.

    CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from store.conversations.lines import LogLine
    from store.service import operations

    lines: list[LogLine] = []
    with located(store, conversation) as (backend, found):
        backend.call(operations.log(found.id), lines.extend)
    if as_json:
        echo_json(lines)
        return
    rows = [(str(line.version), local_time(line.time, "seconds"), visible.line(line.action)) for line in lines]
    write_table([("VERSION", "TIME", "ACTION"), *rows])


@click.command(short_help="Bring back an earlier version of a conversation.")
@click.argument("conversation", metavar="CONV", shell_complete=complete_conversation)
@click.argument("version")
@click.pass_obj
def restore(store: Path | None, conversation: str, version: str) -> None:
    """Return a conversation to its state in VERSION. That makes a new version; none is lost.

    CONV is PROJECT/NAME, an id, or a path in the mount, VERSION a number of `convfs log` or a name in .versions/.
    """
    from fusefs.cli.conversations import located
    from store.service import operations

    number = _VERSION.match(PurePath(version).name)
    if number is None:
        raise click.UsageError(f"{version} is no version: name one by its number in `convfs log`")
    with located(store, conversation) as (backend, found):
        backend.call(operations.restore(found.id, int(number[1])))


@click.command(short_help="Branch off a conversation.")
@click.argument("conversation", metavar="CONV[@N]", shell_complete=complete_conversation)
@click.argument("name")
@click.pass_obj
def fork(store: Path | None, conversation: str, name: str) -> None:
    """Create a conversation NAME that continues another one from its end, or from its event N.

    CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    from fusefs.cli.conversations import located
    from store.service import operations

    at = _AT.fullmatch(conversation)
    with located(store, at[1] if at else conversation) as (backend, found):
        made = backend.call(operations.fork_as(found.id, name, int(at[2]) if at else 0))
    echo(f"{made.project}/{made.name}")

"""``convfs remote``: spaces, which several machines share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from fusefs.cli.output import echo, echo_json

if TYPE_CHECKING:
    from store.shared.space import Place

_F = TypeVar("_F", bound=Callable[..., None])


def _placed(command: _F) -> _F:
    """Give a command the options that say where spaces are."""
    for option in (
        click.option(
            "--s3",
            metavar="URL",
            default="",
            help="The bucket of the packs: s3://BUCKET/PREFIX, or https://[KEY:SECRET@]HOST/BUCKET/PREFIX.",
        ),
        click.option("--pg", metavar="URL", default="", help="The PostgreSQL server that puts commits in order."),
        click.option(
            "--dir",
            "directory",
            metavar="DIR",
            type=click.Path(path_type=Path, file_okay=False),
            help="A directory that all machines reach, instead of servers.",
        ),
    ):
        command = option(command)
    return command


def _place(directory: Path | None, pg: str, s3: str) -> Place:
    from store.shared.space import Place

    if directory is not None and not pg and not s3:
        return Place(os.path.abspath(directory))
    if directory is None and pg and s3:
        return Place(postgres=pg, objects=s3)
    raise click.UsageError("say where spaces are: --dir DIR, or --pg URL and --s3 URL")


@click.group("remote", short_help="Share one store between machines.")
def remote() -> None:
    """Share one store between machines: a space, of which each has a replica.

    All that one machine imports, edits or appends is in the mounts of the others a moment later.
    """


@remote.command("init", short_help="Make a space.")
@click.argument("name")
@_placed
def init(name: str, directory: Path | None, pg: str, s3: str) -> None:
    """Make the empty space NAME, in a directory or on servers.

    What the URLs do not say is taken from where libpq and Amazon's programs look, too: PGPASSWORD, ~/.pgpass,
    PGSERVICEFILE, AWS_ACCESS_KEY_ID and so on. A server on another machine needs sslmode=verify-full, and https.
    """
    from store.shared import remote as spaces

    spaces.init(_place(directory, pg, s3), name)
    echo(f"Made the space {name}. Each machine joins it with:")
    where = f"--dir {os.path.abspath(directory)}" if directory else "--pg URL --s3 URL"
    echo(f"  convfs remote join {name} REPLICA {where}")


@remote.command("join", short_help="Make a replica of a space.")
@click.argument("name")
@click.argument("replica", type=click.Path(path_type=Path, file_okay=False))
@_placed
@click.option("--machine", metavar="NAME", default="", help="The name of this machine.  [default: its host name]")
def join(name: str, replica: Path, directory: Path | None, pg: str, s3: str, machine: str) -> None:
    """Make REPLICA, a new directory, a replica of the space NAME, and bring it up to date.

    It is a store like any other: convfs --store REPLICA mount, import and so on. What the replicas import remembers
    the machine, so that another's files at the same paths are not taken for the same sessions. The URLs are kept in
    the file REPLICA/space, which only you can read.
    """
    from fusefs.text.render import FileRenderer
    from store.shared import remote as spaces
    from store.store import Store

    root = Path(os.path.abspath(replica))
    member = spaces.join(_place(directory, pg, s3), name, root, machine)
    with Store.open(root, renderer=FileRenderer()) as store:
        count = store.stats().conversations
    echo(f"Made replica {member.number} of the space {name}, as {member.machine}: {count} conversations.")
    echo(f"  convfs --store {root} mount ~/{name}")


@remote.command("status", short_help="Show the state of a replica.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.pass_obj
def status(store: Path | None, as_json: bool) -> None:
    """Show which space the store is a replica of, how far behind it is, and who else has one."""
    from fusefs.cli.backend import store_root
    from store.shared import remote as spaces

    found = spaces.status(store_root(store))
    if as_json:
        echo_json(found)
        return
    state = f"{found.behind} commits behind" if found.behind else "up to date"
    echo(f"space    {found.space}, in {found.where}")
    echo(f"replica  {found.number}, {found.machine}: at commit {found.commit}, {state}")
    for member in found.members:
        if not member.own:
            echo(f"also     {member.number}, {member.machine}")

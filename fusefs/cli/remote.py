"""``convfs remote``: spaces, which several machines share."""

from __future__ import annotations

import os
from pathlib import Path

import click

from fusefs.cli.output import echo, echo_json

_DIRECTORY = click.option(
    "--dir",
    "directory",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory that holds the spaces; all machines must reach it.",
)


@click.group("remote", short_help="Share one store between machines.")
def remote() -> None:
    """Share one store between machines: a space, of which each has a replica.

    All that one machine imports, edits or appends is in the mounts of the others a moment later.
    """


@remote.command("init", short_help="Make a space.")
@click.argument("name")
@_DIRECTORY
def init(name: str, directory: Path) -> None:
    """Make the empty space NAME in DIR."""
    from store.shared import remote as spaces
    from store.shared.space import Place

    place = Place(os.path.abspath(directory))
    spaces.init(place, name)
    echo(f"Made the space {name}. Each machine joins it with:")
    echo(f"  convfs remote join {name} REPLICA --dir {place.directory}")


@remote.command("join", short_help="Make a replica of a space.")
@click.argument("name")
@click.argument("replica", type=click.Path(path_type=Path, file_okay=False))
@_DIRECTORY
@click.option("--machine", metavar="NAME", default="", help="The name of this machine.  [default: its host name]")
def join(name: str, replica: Path, directory: Path, machine: str) -> None:
    """Make REPLICA, a new directory, a replica of the space NAME, and bring it up to date.

    It is a store like any other: convfs --store REPLICA mount, import and so on. What the replicas import remembers
    the machine, so that another's files at the same paths are not taken for the same sessions.
    """
    from fusefs.text.render import FileRenderer
    from store.shared import remote as spaces
    from store.shared.space import Place
    from store.store import Store

    root = Path(os.path.abspath(replica))
    member = spaces.join(Place(os.path.abspath(directory)), name, root, machine)
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

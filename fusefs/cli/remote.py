"""``convfs remote``: spaces, which several machines share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from fusefs.cli.output import echo, echo_json, last_seen

if TYPE_CHECKING:
    from store.shared.access import Role
    from store.shared.space import Place

_F = TypeVar("_F", bound=Callable[..., None])
_WAIT_SECONDS = 60.0


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


@click.group("remote", short_help="Share one store between machines.", invoke_without_command=True)
@click.pass_context
def remote(context: click.Context) -> None:
    """Share one store between machines: a space, of which each has a replica.

    All that one machine imports, edits or appends is in the mounts of the others a moment later.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@remote.command("init", short_help="Make a space.")
@click.argument("name")
@_placed
@click.option("--plain", is_flag=True, help="Do not encrypt it: who can read DIR can read all.")
def init(name: str, directory: Path | None, pg: str, s3: str, plain: bool) -> None:
    """Make the empty space NAME, in a directory or on servers.

    It is encrypted: the first machine that joins it makes the key, and invites others.

    What the URLs do not say is taken from where libpq and Amazon's programs look, too: PGPASSWORD, ~/.pgpass,
    PGSERVICEFILE, AWS_ACCESS_KEY_ID and so on. A server on another machine needs sslmode=verify-full, and https.
    """
    from store.shared import remote as spaces

    spaces.init(_place(directory, pg, s3), name, plain=plain)
    echo(f"Made the space {name}. {'Each' if plain else 'The first'} machine joins it with:")
    where = f"--dir {os.path.abspath(directory)}" if directory else "--pg URL --s3 URL"
    echo(f"  convfs remote join {name} REPLICA {where}")


@remote.command("join", short_help="Make a replica of a space.")
@click.argument("name", metavar="LINE|NAME")
@click.argument("replica", type=click.Path(path_type=Path, file_okay=False))
@_placed
@click.option("--machine", metavar="NAME", default="", help="The name of this machine.  [default: its host name]")
@click.option(
    "--wait",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=_WAIT_SECONDS,
    show_default=True,
    help="How long to wait until a machine that is in lets this one in.",
)
def join(name: str, replica: Path, directory: Path | None, pg: str, s3: str, machine: str, wait: float) -> None:
    """Make REPLICA, a new directory, a replica of a space, and bring it up to date.

    LINE is what convfs remote invite has said on a machine that is in. The first machine, and each of a space that is
    not encrypted, gives the NAME of the space and where it is.

    The replica is a store like any other: convfs --store REPLICA mount, import and so on. What the replicas import
    remembers the machine, so that another's files at the same paths are not taken for the same sessions. The URLs are
    kept in the file REPLICA/space, which only you can read.
    """
    from fusefs.text.render import FileRenderer
    from store.shared import invitation
    from store.shared import remote as spaces
    from store.store import Store

    root = Path(os.path.abspath(replica))
    if invitation.is_invitation(name):
        invited = invitation.parse(name)
        accepted = spaces.accept(invited, root, machine, wait)
        if accepted is None:
            echo(f"Asked the space {invited.space} to let this machine in. On one that is in:")
            echo("  convfs --store REPLICA remote approve")
            echo("Then the same command once more, here.")
            return
        member = accepted
    else:
        member = spaces.join(_place(directory, pg, s3), name, root, machine)
    with Store.open(root, renderer=FileRenderer()) as store:
        count = store.stats().conversations
    echo(f"Made replica {member.number} of the space {member.space}, as {member.machine}: {count} conversations.")
    echo(f"  convfs --store {root} mount ~/{member.space}")


@remote.command("invite", short_help="Make a line that another machine joins by.")
@click.option(
    "--role",
    type=click.Choice(["reader", "writer", "admin"]),
    default="writer",
    show_default=True,
    help="What it may: read, write as well, or also let in and revoke others.",
)
@click.option(
    "--s3", "objects", metavar="URL", default="", help="The bucket, with what that machine logs in to it by."
)
@click.pass_obj
def invite(store: Path | None, role: Role, objects: str) -> None:
    """Print one line, for one machine and one day: convfs remote join LINE REPLICA.

    Who has the line gets the keys of the space, so send it as you would a password. The machine is let in by any admin
    that has its replica mounted or served, or by convfs remote approve. On PostgreSQL it gets a login of its own.
    """
    from fusefs.cli.backend import store_root
    from store.shared import remote as spaces

    echo(spaces.invite(store_root(store), role, objects).line)


@remote.command("approve", short_help="Let in who has an invitation.")
@click.pass_obj
def approve(store: Path | None) -> None:
    """Let in the machines that have come with an invitation."""
    from fusefs.cli.backend import store_root
    from store.shared import remote as spaces

    for machine in spaces.approve(store_root(store)):
        echo(f"Let in {machine}.")


@remote.command("revoke", short_help="Give a machine no more keys.")
@click.argument("machine")
@click.pass_obj
def revoke(store: Path | None, machine: str) -> None:
    """Have a new key used from now on, which MACHINE does not get; name it, or give the number of its replica.

    It can read nothing newer, and nothing that it writes is taken. What it has, it has: its replica stays readable.
    """
    from fusefs.cli.backend import store_root
    from store.shared import remote as spaces

    generation = spaces.revoke(store_root(store), machine)
    echo(f"Revoked {machine}: key {generation} is used from now on. What it has, it has.")


@remote.command("rotate", short_help="Have a new key used.")
@click.pass_obj
def rotate(store: Path | None) -> None:
    """Have a new key used for all that comes from now on."""
    from fusefs.cli.backend import store_root
    from store.shared import remote as spaces

    echo(f"Key {spaces.rotate(store_root(store))} is used from now on.")


@remote.command("snapshot", short_help="Have machines that join begin with a copy.")
@click.pass_obj
def snapshot(store: Path | None) -> None:
    """Put a snapshot into the space of the store: the files of a replica that is up to date.

    A machine that joins begins with it, and applies what came later. There is one at most: it takes the place of the
    one before. It is made beside the store, and takes as much room there while that goes on.
    """
    import tempfile

    from fusefs.cli.backend import store_root
    from fusefs.text.render import FileRenderer
    from store.errors import Unreachable
    from store.shared import remote as spaces
    from store.store import Store

    root = store_root(store)
    with tempfile.TemporaryDirectory(prefix=".convfs-snapshot-", dir=root.parent) as directory:
        aside = Path(directory) / "replica"
        with spaces.observing(root, aside) as publish:
            with Store.open(aside, renderer=FileRenderer()) as opened:
                assert opened.replica is not None
                if away := opened.replica.status():
                    raise Unreachable(away)
                for project in opened.catalogue.projects():
                    # what is measured need not be measured by those who begin with it
                    opened.library.conversations(project)
                seq, count = opened.writer.seq, opened.stats().conversations
            publish(seq)
    echo(f"Made a snapshot at commit {seq}: {count} conversations.")


@remote.command("status", short_help="Show the state of a replica.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.pass_obj
def status(store: Path | None, as_json: bool) -> None:
    """Show which space the store is a replica of, how far behind it is, who else has one, and who may what."""
    from fusefs.cli.backend import store_root
    from fusefs.text.amounts import size_text
    from store.shared import remote as spaces

    found = spaces.status(store_root(store))
    if as_json:
        echo_json(found)
        return
    state = f"{found.behind} commits behind" if found.behind else "up to date"
    echo(f"space    {found.space}, in {found.where}")
    echo(f"replica  {found.number}, {found.machine}: at commit {found.commit}, {state}")
    if found.cached_bytes:
        echo(f"cache    {size_text(found.cached_bytes)} of what others brought")
    if found.archived:
        echo(f"archive  {size_text(found.archived_bytes)}, up to commit {found.archived}")
    if found.key:
        echo(f"key      {found.key}")
    for member in found.members:
        state = f", {member.role}, key {member.key}" if member.key else ""
        if member.revoked_ms:
            state += ", revoked"
        elif member.redactions < found.redactions:
            state += f", has not redacted what was, {last_seen(member.seen_ms)}"
        elif member.collected < found.dropped:
            state += f", may still have some of what was deleted for good, {last_seen(member.seen_ms)}"
        if member.own and member.collected < found.dropped:
            echo("here     there may still be some of what was deleted for good: convfs gc removes it")
        if not member.own:
            echo(f"also     {member.number}, {member.machine}{state}")


@remote.command("repair", short_help="Put back what the space, or a log here, has lost.")
@click.pass_obj
def repair(store: Path | None) -> None:
    """Put back the last commits of this replica, which the space has lost; and a damaged log here, from the space.

    A server that took over from another, or was put back from a backup, may lack them. Where others went on without
    them, this is refused: then make another replica, and push what this one has to it.
    """
    from fusefs.cli.backend import store_root
    from fusefs.text.render import FileRenderer
    from store.shared import remote as spaces
    from store.store import Store
    from store.upkeep.log_repair import put_logs_back

    root = store_root(store)
    spaces.membership_of(root)
    logs = put_logs_back(root)
    with Store.open(root, renderer=FileRenderer(), reindex=bool(logs)) as opened:
        for name in logs:
            echo(f"Put back {name} from the space.")
        count = opened.replica.repair() if opened.replica else 0
    echo(f"Put back {count} commits." if count else "The space has everything that this replica has.")


@remote.command("adopt", short_help="Make a copied replica one of its own.")
@click.option("--machine", metavar="NAME", default="", help="The name of this machine.  [default: as it was]")
@click.pass_obj
def adopt(store: Path | None, machine: str) -> None:
    """Make a replica that was copied, or is the copy of another, one of its own.

    Two replicas with one number would speak for each other; so of a directory and its copies only the one that was
    opened last goes on.
    """
    from fusefs.cli.backend import store_root
    from store.shared import remote as spaces

    member = spaces.adopt(store_root(store), machine)
    echo(f"This is now replica {member.number} of the space {member.space}, as {member.machine}.")


@remote.command("upgrade", short_help="Bring a server up to date.")
@click.option(
    "--pg", metavar="URL", required=True, help="The PostgreSQL server, with the login that made its first space."
)
def upgrade(pg: str) -> None:
    """Replace what an earlier convfs has put on a PostgreSQL server: the functions that all machines call.

    The logins of machines cannot do that. Earlier versions of convfs go on with the new functions.
    """
    from store.shared import connect

    echo("Replaced the functions of the server." if connect.upgrade(pg) else "The functions of the server are current.")

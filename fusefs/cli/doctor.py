"""``convfs doctor``."""

import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from fusefs.cli.output import command_line, echo
from fusefs.text.amounts import size_text

_LITTLE_SPACE = 1 << 30


@click.command(short_help="Check what this machine needs for a mount.")
@click.pass_obj
def doctor(store: Path | None) -> None:
    """Check this machine and the store for everything that a mount needs; exits with 1 if something is wrong."""
    wrong = False
    for verdict, message in _checks(store):
        echo(f"{verdict:5} {message}")
        wrong = wrong or verdict == "wrong"
    if wrong:
        raise click.exceptions.Exit(1)


def _checks(chosen: Path | None) -> Iterator[tuple[str, str]]:
    from fusefs.cli.backend import store_root
    from fusefs.cli.mounts import problems

    yield "ok", f"Python {platform.python_version()} ({sys.executable}), Linux {platform.release()}"
    found = list(problems())
    for message in found:
        yield "wrong", message
    if not found:
        yield "ok", "FUSE: the device can be opened, fusermount3 is installed"
    try:
        import pyfuse3
    except ImportError as error:
        yield "wrong", f"pyfuse3 cannot be loaded ({error}): run ./mount.sh --setup again"
    else:
        yield "ok", f"pyfuse3 {pyfuse3.__version__}"
    root = store_root(chosen)
    yield from _stale_mounts(root)
    yield from _store(root)
    yield from _space(root)
    yield from _sessions(root)


def _stale_mounts(root: Path) -> Iterator[tuple[str, str]]:
    from fusefs.cli.mounts import hanging
    from fusefs.mount_table import FSTYPE, Condition, condition, mounts

    for mount in mounts():
        if mount.fstype == FSTYPE and (how := condition(mount.path)) is not Condition.ANSWERS:
            ends = command_line("umount", mount.path)
            dead = f"{mount.path} has a mount whose daemon died: `{ends}`"
            # of another store it is in nobody's way
            verdict = "wrong" if os.path.realpath(mount.source) == os.path.realpath(root) else "note"
            yield verdict, dead if how is Condition.DEAD else hanging(mount)


def _store(root: Path) -> Iterator[tuple[str, str]]:
    from fusefs.cli.backend import running
    from store.errors import UsageError
    from store.service import address
    from store.service.operations import status as asked
    from store.settings import load

    try:
        mode = root.stat().st_mode
    except FileNotFoundError:
        yield "ok", f"no store at {root} yet: `convfs import` makes one"
        return
    if stat.S_IMODE(mode) & 0o077:
        yield "wrong", f"other users can read the store: `chmod 700 {root}`"
    try:
        for warning in load(root)[1]:
            yield "note", warning
    except UsageError as error:
        yield "wrong", str(error)
    free = shutil.disk_usage(root).free
    yield "ok" if free > _LITTLE_SPACE else "note", f"store {root}, {size_text(free)} free on its disk"
    client = running(root)
    if client:
        with client:
            status = client.call(asked())
        what = f"mounted at {status.mountpoint}" if status.mountpoint else "served"
        yield "ok", f"{what} by process {status.pid}, socket {client.path}"
    elif address.noted_socket(root):
        yield "note", "the last daemon was killed; the next command recovers its unfinished work"
    else:
        yield "ok", "not mounted"


def _space(root: Path) -> Iterator[tuple[str, str]]:
    from store.errors import ConvfsError, NotFound, Unreachable
    from store.shared.space import membership

    try:
        if (member := membership(root)) is None:
            return
        from store.shared.connect import connect, risks

        space = connect(member.place, member.space)
        try:
            found = risks(member.place)
            yield "ok", f"replica {member.number} of the space {member.space}, in {space.where}"
        finally:
            space.close()
    except (NotFound, Unreachable) as error:
        yield "note", f"{error}: what is there can be read, and nothing written"
    except ConvfsError as error:
        yield "wrong", str(error)
    else:
        for setting in found:
            yield "wrong", f"{setting} on the server of the space {member.space}: a power failure there loses commits"


def _sessions(root: Path) -> Iterator[tuple[str, str]]:
    from store.importing.walk import discover
    from store.settings import load

    found = discover(Path.home(), Path(os.getcwd()), load(root)[0].sessions.folders)
    for path in found:
        yield "ok", f"sessions in {path}"
    if not found:
        yield "note", "no sessions of yours were found: `convfs import PATH` imports them from anywhere"

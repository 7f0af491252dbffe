"""``convfs doctor``."""

import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from fusefs.cli.output import escape
from fusefs.text.amounts import size_text

_LITTLE_SPACE = 1 << 30


@click.command(short_help="Check what this machine needs for a mount.")
@click.pass_obj
def doctor(store: Path | None) -> None:
    """Check what a mount needs of this machine and of the store; exits with 1 where something is wrong."""
    wrong = False
    for verdict, message in _checks(store):
        click.echo(f"{verdict:5} {escape(message)}")
        wrong = wrong or verdict == "wrong"
    if wrong:
        raise click.exceptions.Exit(1)


def _checks(chosen: Path | None) -> Iterator[tuple[str, str]]:
    from fusefs.cli.backend import store_root
    from fusefs.cli.machine import problems

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
    yield from _stale_mounts()
    yield from _store(store_root(chosen))
    yield from _sessions()


def _stale_mounts() -> Iterator[tuple[str, str]]:
    from fusefs.cli.mounts import answers
    from fusefs.mount_table import FSTYPE, mounts

    for mount in mounts():
        if mount.fstype == FSTYPE and not answers(mount.path):
            yield "wrong", f"{mount.path} is the mount of a daemon that died or hangs: `convfs umount {mount.path}`"


def _store(root: Path) -> Iterator[tuple[str, str]]:
    from fusefs.cli.backend import running
    from store.errors import UsageError
    from store.service import address
    from store.service.operation import Nothing
    from store.service.operations import STATUS
    from store.settings import load

    try:
        mode = root.stat().st_mode
    except FileNotFoundError:
        yield "ok", f"no store at {root} yet: `convfs import` makes one"
        return
    if stat.S_IMODE(mode) & 0o077:
        yield "wrong", f"others may look into the store: `chmod 700 {root}`"
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
            status = client.call(STATUS, Nothing())
        what = f"mounted at {status.mountpoint}" if status.mountpoint else "served"
        yield "ok", f"{what} by process {status.pid}, socket {client.path}"
    elif address.noted_socket(root):
        yield "note", "the last daemon did not end by itself; the next command recovers what it was at"
    else:
        yield "ok", "not mounted"


def _sessions() -> Iterator[tuple[str, str]]:
    from store.importing.walk import discover

    found = discover(Path.home(), Path(os.getcwd()))
    for path in found:
        yield "ok", f"sessions in {path}"
    if not found:
        yield "note", "no sessions of your own were found: `convfs import PATH` takes them from anywhere"

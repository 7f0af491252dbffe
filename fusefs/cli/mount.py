"""``convfs mount``."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path

import click

from fusefs.cli.output import command_line
from fusefs.cli.service import SWITCH_SECONDS, held, tcp_options, tcp_place

_LOG_BYTES = 1 << 20


@click.command(short_help="Mount the conversations at DIR.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--foreground", is_flag=True, help="Stay in the foreground; Ctrl-C unmounts.")
@click.option("--watch", is_flag=True, help="Import the sessions of your tools, and go on as they grow.")
@click.option("--allow-other", is_flag=True, help="Let in whoever may read another user's private files: root.")
@tcp_options
@click.pass_obj
def mount(
    store: Path | None,
    directory: Path,
    foreground: bool,
    watch: bool,
    allow_other: bool,
    tcp: str | None,
    no_token: bool,
) -> None:
    """Mount the conversations at DIR, which is made if it is not there. Returns when the mount is ready.

    Where the very store is mounted there already, that is all right.
    """
    from fusefs.cli.backend import store_root
    from fusefs.cli.daemon import in_background
    from fusefs.cli.machine import problems
    from fusefs.cli.main import explain
    from store.errors import ConvfsError

    for problem in problems():
        raise ConvfsError(problem)
    root = Path(os.path.realpath(store_root(store)))
    port = tcp_place(tcp)
    if _is_mounted(root, directory):
        click.echo(f"Mounted at {directory} already; `{command_line('umount', directory)}` unmounts.")
        return
    path = _prepared(directory)
    cwd = Path.cwd() if watch else None
    if foreground:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        logging.getLogger().addHandler(handler)
        ready = partial(click.echo, f"Mounted at {path}; Ctrl-C unmounts.", err=True)
        _serve(root, path, allow_other, port, no_token, cwd, ready)
    else:
        in_background(partial(_serve, root, path, allow_other, port, no_token, cwd), explain)
        click.echo(f"Mounted at {path}; `{command_line('umount', directory)}` unmounts.")


def _is_mounted(root: Path, directory: Path) -> bool:
    """Say whether the store at ``root`` is mounted at a directory, by a daemon that answers."""
    from fusefs.cli.mounts import answers, mountpoint, root_of
    from fusefs.mount_table import FSTYPE, mount_at

    path = mountpoint(directory)
    mounted = mount_at(path)
    return mounted is not None and mounted.fstype == FSTYPE and root_of(mounted) == root and answers(path)


def _prepared(directory: Path) -> Path:
    """Return the directory to mount at: made, empty, and free of what a dead daemon left there."""
    from fusefs.cli.mounts import answers, mountpoint, unmount
    from fusefs.mount_table import FSTYPE, mount_at
    from store.errors import UsageError

    path = mountpoint(directory)
    mounted = mount_at(path)
    if mounted and mounted.fstype == FSTYPE:
        if answers(path):
            raise UsageError(f"{path} is mounted already: use it, or `{command_line('umount', path)}` first")
        unmount(path, lazy=True)
        click.echo(f"convfs: cleaned up {path} after a daemon that had died.", err=True)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file: name a directory to mount at")
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise UsageError(f"{path} is not empty, and mounting would hide what is in it: name another directory")
    return path.resolve()


def _serve(
    root: Path,
    mountpoint: Path,
    allow_other: bool,
    tcp: tuple[str, int] | None,
    no_token: bool,
    watched_from: Path | None,
    ready: Callable[[], None],
) -> None:
    """Mount and answer; ``watched_from`` is the working directory of who wants sessions to be watched, if they do."""
    import trio

    from fusefs.cli.backend import daemon_or_store
    from fusefs.cli.operations import ALL_OPERATIONS
    from fusefs.cli.watch import watching
    from fusefs.mount import run
    from store.service import address
    from store.service.client import Client
    from store.service.server import Service, serving_beside

    with daemon_or_store(root, create=True) as store:
        if isinstance(store, Client):
            raise held(store)
        _log_to(root)
        sys.setswitchinterval(SWITCH_SECONDS)
        service = Service(
            store,
            ALL_OPERATIONS,
            mountpoint=str(mountpoint),
            stop=lambda: os.kill(os.getpid(), signal.SIGTERM),
            tcp=tcp,
            token=address.token(root) if tcp and not no_token else "",
        )

        async def beside(*, task_status: trio.TaskStatus[None]) -> None:
            async with serving_beside(service):
                task_status.started()
                await trio.sleep_forever()

        with watching(watched_from, store):
            run(store, mountpoint, ready=ready, background=beside, allow_other=allow_other)


def _log_to(root: Path) -> None:
    from fusefs.tree.control import LOG

    path = root / LOG
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    handler = RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)

"""``convfs mount``."""

import logging
import logging.handlers
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

LOG_NAME = "log"
_LOG_BYTES = 1 << 20
_ANSWER_SECONDS = 3


@click.command(short_help="Mount the conversations at DIR.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--foreground", is_flag=True, help="Stay in the foreground; Ctrl-C unmounts.")
@click.pass_obj
def mount(store: Path | None, directory: Path, foreground: bool) -> None:
    """Mount the conversations at DIR, which is made if it is not there. Returns when the mount is ready."""
    from fusefs.cli.backend import store_root
    from fusefs.cli.daemon import in_background
    from fusefs.cli.machine import problems
    from fusefs.cli.main import explain
    from store.errors import ConvfsError

    for problem in problems():
        raise ConvfsError(problem.message)
    root = Path(os.path.realpath(store_root(store)))
    mountpoint = _prepared(directory, root)
    ready = f"Mounted at {mountpoint}"
    if foreground:
        logging.basicConfig(format="convfs: %(message)s", level=logging.WARNING)
        _serve(root, mountpoint, lambda: click.echo(f"{ready}; Ctrl-C unmounts.", err=True))
    else:
        in_background(partial(_logged, root, mountpoint), explain)
        click.echo(f"{ready}; `convfs umount {directory}` unmounts.")


def _prepared(directory: Path, root: Path) -> Path:
    """Return the directory to mount at, made, empty, and free of what a dead daemon left there."""
    from fusefs.cli.mounts import mount_at, unmount
    from store.errors import UsageError

    path = Path(os.path.abspath(directory))
    path = Path(os.path.realpath(path.parent)) / path.name
    if (mounted := mount_at(path)) is not None:
        if answers(path):
            raise UsageError(f"{path} is mounted already ({mounted.fstype}): use it, or `convfs umount {path}` first")
        unmount(path, lazy=True)
        click.echo(f"convfs: cleaned {path} up after a daemon that had died.", err=True)
    path.mkdir(parents=True, exist_ok=True)
    path = path.resolve()
    if root.is_relative_to(path) or path.is_relative_to(root):
        raise UsageError(f"the store ({root}) and the mount ({path}) may not lie in each other: mount elsewhere")
    if any(path.iterdir()):
        raise UsageError(f"{path} is not empty, and mounting would hide what is in it: name another directory")
    return path


def answers(path: Path) -> bool:
    """Say whether what is mounted at ``path`` answers; asked by another process, which may hang in its place."""
    try:
        return not subprocess.run(["stat", "--", path], capture_output=True, timeout=_ANSWER_SECONDS).returncode
    except subprocess.TimeoutExpired:
        return False


def _logged(root: Path, mountpoint: Path, ready: Callable[[], None]) -> None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(root / LOG_NAME, maxBytes=_LOG_BYTES, backupCount=1, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    _serve(root, mountpoint, ready)


def _serve(root: Path, mountpoint: Path, ready: Callable[[], None]) -> None:
    from fusefs.cli.backend import daemon_or_store
    from fusefs.cli.mounts import unmount
    from fusefs.cli.operations import ALL_OPERATIONS
    from fusefs.mount import run
    from store.errors import Conflict
    from store.service.client import Client
    from store.service.operation import Nothing
    from store.service.operations import STATUS
    from store.service.server import serve

    with daemon_or_store(root, create=True) as store:
        if isinstance(store, Client):
            elsewhere = store.call(STATUS, Nothing()).mountpoint
            raise Conflict(
                f"the store is mounted already, at {elsewhere}: use it there, or `convfs umount {elsewhere}`"
            )
        background = partial(
            serve, store, ALL_OPERATIONS, mountpoint=str(mountpoint), stop=partial(unmount, mountpoint)
        )
        run(store, mountpoint, ready=ready, background=background)

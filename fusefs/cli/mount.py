"""``convfs mount``."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from fusefs.cli.ahead import AHEAD
from fusefs.cli.daemon import held_alone, in_background, loading, log_to, prepare, serving_http, tcp_options, tcp_place
from fusefs.cli.output import command_line, echo
from store.disk import durable
from store.paths import LOCK

if TYPE_CHECKING:
    from store.service.server import Listening
    from store.store import Store

_LOG_BYTES = 1 << 20
_START_SECONDS = 30.0


class _Ports(NamedTuple):
    """The loopback addresses to serve at, and whether clients there need no token."""

    tcp: tuple[str, int] | None
    http: tuple[str, int] | None
    no_token: bool


@click.command(short_help="Mount the conversations at DIR.")
@click.argument("directory", metavar="DIR", type=Path)
@click.option("--foreground", is_flag=True, help="Stay in the foreground; Ctrl-C unmounts.")
@click.option("--watch", is_flag=True, help="Import your tools' sessions, and go on as they grow.")
@click.option("--allow-other", is_flag=True, help="Let in users who may read your private files: root.")
@tcp_options
@click.pass_obj
def mount(
    store: Path | None,
    directory: Path,
    foreground: bool,
    watch: bool,
    allow_other: bool,
    tcp: str | None,
    http: str | None,
    no_token: bool,
) -> None:
    """Mount the conversations at DIR, which is created if need be. Returns when the mount is ready.

    Succeeds if this very store is already mounted there.
    """
    from fusefs.cli.backend import store_root
    from fusefs.cli.main import explain
    from fusefs.cli.mounts import problems
    from fusefs.mount_table import ANSWER_SECONDS
    from store.errors import ConvfsError

    for problem in problems():
        raise ConvfsError(problem)
    root = Path(os.path.realpath(store_root(store)))
    ports = _Ports(tcp_place(tcp), tcp_place(http), no_token)
    if _is_mounted(root, directory, ANSWER_SECONDS):
        echo(f"Mounted at {directory} already; `{command_line('umount', directory)}` unmounts.")
        return
    cwd = Path.cwd() if watch else None
    with _prepared(directory) as path:
        if foreground:
            handler = logging.StreamHandler()
            handler.setLevel(logging.WARNING)
            log_to(handler)
            ready = partial(echo, f"Mounted at {path}; Ctrl-C unmounts.", err=True)
            _serve(root, path, allow_other, ports, cwd, ready)
        else:
            in_background(partial(_serve, root, path, allow_other, ports, cwd), explain)
            if not _is_mounted(root, path, _START_SECONDS):
                from fusefs.tree.control import LOG

                raise ConvfsError(f"{path} was mounted, but its daemon has ended or does not answer: see {root / LOG}")
            echo(f"Mounted at {path}; `{command_line('umount', directory)}` unmounts.")


def _is_mounted(root: Path, directory: Path, seconds: float) -> bool:
    """Return whether the store at ``root`` is mounted at a directory by a daemon that answers in time."""
    from fusefs.cli.mounts import mountpoint
    from fusefs.mount_table import Condition, alive, condition, mount_at, notes

    path = mountpoint(directory)
    mounted = mount_at(path)
    if mounted is None:
        return False
    noted = any(note.connection == mounted.device and alive(note) for _path, note in notes(root))
    # where nothing can be noted, its source tells
    can_be_noted = durable.unwritable((root, root / LOCK)) is None
    if not noted and (can_be_noted or os.path.realpath(mounted.source) != os.fspath(root)):
        return False
    return condition(path, seconds) is Condition.ANSWERS


@contextmanager
def _prepared(directory: Path) -> Iterator[Path]:
    """Yield the directory to mount at: created, empty, and without the mount of a dead daemon.

    What was created is removed again where the block fails.
    """
    from fusefs.cli.mounts import hanging, mountpoint, unmount
    from fusefs.mount_table import FSTYPE, Condition, condition, mount_at
    from store.errors import ConvfsError, UsageError

    path = mountpoint(directory)
    while (mounted := mount_at(path)) and mounted.fstype == FSTYPE:
        match condition(path):
            case Condition.ANSWERS:
                raise UsageError(f"{path} is mounted already: use it, or `{command_line('umount', path)}` first")
            case Condition.HANGS:
                raise ConvfsError(hanging(mounted))
        unmount(path, lazy=True)
        echo(f"convfs: cleaned up {path} after a daemon that had died.", err=True)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file: name a directory to mount at")
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise UsageError(f"{path} is not empty, and mounting would hide what is in it: name another directory")
    try:
        yield path.resolve()
    except BaseException:
        for one in missing:
            # one that is in use stays
            with suppress(OSError):
                one.rmdir()
        raise


def _serve(
    root: Path,
    mountpoint: Path,
    allow_other: bool,
    ports: _Ports,
    watched_from: Path | None,
    ready: Callable[[], None],
) -> None:
    """Mount and serve; ``watched_from`` is the working directory for watching sessions, None for not watching."""
    with loading():
        from fusefs.cli.libraries import load_fuse

        load_fuse()
        import trio

        from fusefs.cli.watch import watching
        from fusefs.mount import run

    prepare()
    with held_alone(root) as store:
        if not store.files.read_only:
            _log_to(root)

        async def beside(*, task_status: trio.TaskStatus[None]) -> None:
            # what all calls need is loaded in a thread: the mount answers meanwhile
            async with await trio.to_thread.run_sync(_service, store, mountpoint, ports):
                task_status.started()
                await trio.to_thread.run_sync(AHEAD.note)
                await trio.sleep_forever()

        with serving_http(store, ports.http, no_token=ports.no_token), watching(watched_from, store):
            run(store, mountpoint, ready=ready, background=beside, allow_other=allow_other)


def _service(store: Store, mountpoint: Path, ports: _Ports) -> AbstractAsyncContextManager[Listening]:
    """Return the service of a mounted store, which begins when it is entered."""
    with loading():
        from fusefs.daemon.calls import ALL_OPERATIONS
        from store.service import address
        from store.service.server import Service, serving_beside

    return serving_beside(
        Service(
            store,
            ALL_OPERATIONS,
            mountpoint=str(mountpoint),
            stop=lambda: os.kill(os.getpid(), signal.SIGTERM),
            tcp=ports.tcp,
            token=address.token(store.root) if ports.tcp and not ports.no_token else "",
        )
    )


class _PrivateFiles(RotatingFileHandler):
    """A log that only its owner can read, also after it rotates."""

    def _open(self) -> TextIOWrapper:
        durable.make_file(Path(self.baseFilename))
        return super()._open()


def _log_to(root: Path) -> None:
    from fusefs.tree.control import LOG

    handler = _PrivateFiles(root / LOG, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
    log_to(handler, "%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger().setLevel(logging.INFO)

"""The life of a mount: checks before, options, signals, and an end that leaves nothing behind.

While a store is mounted, a note under ``mounts/`` in its directory tells the mountpoint, the process, and the number
of the FUSE connection, so that what a killed daemon left is cleaned at the next start.
"""

from __future__ import annotations

import logging
import os
import re
import resource
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyfuse3
import trio
from msgspec import Struct

from fusefs import polling
from fusefs.editing.recovery import recover
from fusefs.handler import WAITING_AT_MOST
from fusefs.kernel import Invalidations, refresh
from fusefs.mount_table import FSTYPE, mount_at, mounts
from fusefs.operations import Operations
from fusefs.tree.tree import Tree
from store.disk import durable
from store.errors import UsageError
from store.store import Store
from store.upkeep.recovery import cannot_open

log = logging.getLogger(__name__)

NOTES = "mounts"
_CONNECTIONS = Path("/sys/fs/fuse/connections")
_OPTIONS = frozenset({"subtype=convfs", "default_permissions", "nosuid", "nodev", "noatime"})
_FUSERMOUNT_SECONDS = 10
_TICK_SECONDS = 0.25
_DESCRIPTORS = 1 << 19
_TASKS = WAITING_AT_MOST + 8
"""More than handlers may wait: one always reads requests."""


class Note(Struct, frozen=True):
    """What is remembered of a mount. ``started`` is the process's start time in clock ticks since boot."""

    mountpoint: str
    pid: int
    started: int
    connection: int


Background = Callable[..., Awaitable[object]]
"""Something that runs beside the mount. It is called as ``nursery.start`` calls, and cancelled when the mount ends."""


def run(
    store: Store,
    mountpoint: Path,
    *,
    ready: Callable[[], object] = lambda: None,
    background: Background | None = None,
    allow_other: bool = False,
) -> None:
    """Mount ``store`` at ``mountpoint`` and answer until it is unmounted or SIGINT, SIGTERM or SIGHUP comes.

    ``ready`` is called once the mount answers and ``background`` has started. Only this user gets in, unless
    ``allow_other`` says that whoever may by the files' modes does. Runs in the main thread. Raises UsageError where it
    cannot be mounted there.
    """
    clean(store.root)
    target = _checked(store.root, mountpoint)
    _raise_limit()
    try:
        operations = Operations(Tree(store))
        recover(operations.desk)
    except OSError as error:
        raise cannot_open(store.root, error) from error
    polling.install(store.settings.poll_microseconds)
    options = _OPTIONS | {"allow_other"} if allow_other else _OPTIONS
    with _mounted(operations, target, store.root, options), _noted(store.root, target):
        invalidations = Invalidations(operations.tree, operations.lookups)
        invalidations.changed = operations.desk.check
        invalidations.forget_all = operations.forget_all
        operations.desk.invalidate = invalidations.put
        operations.desk.refresh = refresh
        try:
            trio.run(_serve, operations, invalidations, ready, background)
        finally:
            operations.gestures.close()
            invalidations.end()
            operations.tree.workers.end()
    log.info("unmounted from %s", target)


def _raise_limit() -> None:
    """Let this process have as many descriptors as it may: every scratch file that the kernel knows takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(
    operations: Operations, invalidations: Invalidations, ready: Callable[[], object], background: Background | None
) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(_end_on_signal, operations)
        if background is not None:
            await nursery.start(background)
        invalidations.start()
        operations.desk.outputs.keeper.start()
        nursery.start_soon(_tick, operations)
        nursery.start_soon(operations.desk.native.run)
        nursery.start_soon(operations.desk.imports.run)
        nursery.start_soon(_tell, ready)
        try:
            await _answer()
        finally:
            nursery.cancel_scope.cancel()


async def _tick(operations: Operations) -> None:
    """Do what is to be done after a while: no request asks for it."""
    while True:
        await trio.sleep(_TICK_SECONDS)
        operations.gestures.tick()


async def _tell(ready: Callable[[], object]) -> None:
    # by now the task that answers has begun, or will before the first request comes in
    log.info("mounted")
    ready()


async def _answer() -> None:
    """Answer requests until the mount ends.

    One task does it; while its handler waits for the work of a thread, another does. A request that was there may be
    gone when it is to be read, because whoever made it was killed; the read then fails instead of waiting, and
    pyfuse3's loop ends and is begun again.
    """
    while True:
        vanished = False
        try:
            await pyfuse3.main(min_tasks=1, max_tasks=_TASKS)
        except* BlockingIOError:
            vanished = True
        except* ConnectionAbortedError:
            log.warning("the mount was taken away by force")
        if not vanished:
            return


async def _end_on_signal(operations: Operations, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            log.info("ending on %s", signal.Signals(number).name)
            operations.tree.workers.give_up()
            pyfuse3.terminate()


@contextmanager
def _mounted(operations: Operations, target: Path, root: Path, options: frozenset[str]) -> Iterator[None]:
    # the store's directory is what `mount` and `df` show as the source; libfuse reads octal escapes in options
    source = re.sub(rb"[^\w/.-]", lambda match: b"\\%03o" % ord(match[0]), os.fsencode(os.path.abspath(root))).decode()
    try:
        pyfuse3.init(operations, str(target), {f"fsname={source}", *options})
    except RuntimeError as error:
        also = ", and does /etc/fuse.conf say user_allow_other?" if "allow_other" in options else "?"
        raise UsageError(f"{target} cannot be mounted ({error}): is FUSE available, is it yours{also}") from error
    try:
        _set_non_blocking()
        yield
    finally:
        pyfuse3.close(unmount=True)


def _set_non_blocking() -> None:
    """Make reads of the FUSE device fail where no request is there. pyfuse3 does not tell which descriptor it is."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}") == "/dev/fuse":
                os.set_blocking(int(name), False)
        except OSError:
            continue  # the descriptor of the listing itself


def _checked(root: Path, mountpoint: Path) -> Path:
    """Return the absolute path to mount at; UsageError where that would not do."""
    target = Path(os.path.abspath(mountpoint))
    there = mount_at(target)
    if there is not None and there.fstype == FSTYPE:
        raise UsageError(f"{target} is mounted already: use it there, or `convfs umount {target}` first")
    if not target.is_dir():
        raise UsageError(f"{target} is not a directory: make it first")
    target = target.resolve()
    store = root.resolve()
    if store.is_relative_to(target):
        raise UsageError(f"the store {store} lies inside {target}, which the mount would hide: mount elsewhere")
    if target.is_relative_to(store):
        raise UsageError(f"{target} lies inside the store {store}: mount elsewhere")
    return target


# -- notes, and what a killed daemon left ------------------------------------------------------------------------------


@contextmanager
def _noted(root: Path, target: Path) -> Iterator[None]:
    there = mount_at(target)
    if there is None:
        raise UsageError(f"{target} was unmounted at once")
    directory = root / NOTES
    path = directory / f"{os.getpid()}.json"
    note = Note(str(target), os.getpid(), _started(os.getpid()), there.device)
    try:
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            fd = durable.open_file(path, create=True)
            try:
                durable.pwrite_all(fd, msgspec.json.encode(note), 0)
            finally:
                os.close(fd)
        except OSError as error:
            raise cannot_open(root, error) from error
        yield
    finally:
        _forget(path)


def notes(root: Path) -> Iterator[tuple[Path, Note]]:
    """Yield what is noted of mounts of the store at ``root``, each with the note's path."""
    for path in sorted((root / NOTES).glob("*.json")):
        try:
            yield path, msgspec.json.decode(path.read_bytes(), type=Note)
        except (OSError, msgspec.DecodeError):
            _forget(path)


def _forget(path: Path) -> None:
    """Remove a note. One that stays is of a process that is dead, and harms nobody."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.error("%s could not be removed: %s", path, error)


def alive(note: Note) -> bool:
    """Say whether the process that a note names still runs."""
    return _started(note.pid) == note.started


def _started(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if there is none or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def clean(root: Path) -> None:
    """Take down the mounts of the store at ``root`` whose daemon is dead.

    Whoever calls this has the store open, so no other process serves it: a mount of it that no living one has noted is
    what a daemon left that was killed, be it before it could write its note.
    """
    living = set()
    for path, note in notes(root):
        if alive(note):
            living.add(note.connection)
        else:
            _forget(path)
    own = os.path.realpath(root)
    for there in list(mounts()):
        if there.fstype == FSTYPE and there.device not in living and os.path.realpath(there.source) == own:
            _abort(there.device)
            _fusermount("-uz", str(there.path))


def _abort(connection: int) -> None:
    try:
        (_CONNECTIONS / str(connection) / "abort").write_text("1")
    except OSError:
        log.debug("connection %d is gone, or fusectl is not mounted", connection)


def _fusermount(options: str, mountpoint: str) -> None:
    subprocess.run(
        ["fusermount3", options, "--", mountpoint], capture_output=True, check=False, timeout=_FUSERMOUNT_SECONDS
    )

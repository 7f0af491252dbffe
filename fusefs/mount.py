"""The life of a mount: checks before, options, signals, and an end that leaves nothing behind."""

import logging
import os
import re
import resource
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import msgspec
import pyfuse3
import trio

from fusefs import opens, polling
from fusefs.editing.recovery import recover
from fusefs.editing.stand_in import PATIENCE_SECONDS
from fusefs.handler import WAITING_AT_MOST
from fusefs.kernel import Invalidations, invalidate
from fusefs.mount_table import FSTYPE, Condition, MountNote, alive, condition, mount_at, mounts, notes, started
from fusefs.operations import Operations
from fusefs.tree.tree import Tree
from store import visible
from store.commit import patience
from store.disk import durable
from store.errors import UsageError
from store.paths import MOUNTS
from store.store import Store
from store.upkeep.recovery import cannot_open

log = logging.getLogger(__name__)

_CONNECTIONS = Path("/sys/fs/fuse/connections")
_OPTIONS = frozenset({"subtype=convfs", "default_permissions", "nosuid", "nodev", "noatime"})
_FUSERMOUNT_SECONDS = 10
_TICK_SECONDS = 0.25
_SPARE = "spare"
"""The name of a note that is of no mount: the next one is written over it, which a full disk has room for."""
_NOTE_BYTES = 4096
_DESCRIPTORS = 1 << 19
_TASKS = WAITING_AT_MOST + 256
"""More than handlers may wait, and changes wait for each other: one always reads requests."""


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

    ``ready`` is called once the mount answers and ``background`` has started beside it. Only this user gets in, unless
    ``allow_other`` admits all that the files' modes allow. Runs in the main thread. Raises UsageError if it cannot be
    mounted there.
    """
    if not store.files.read_only:
        # several may have a store open that they only read
        clean(store.root)
    target = _checked(store.root, mountpoint)
    _raise_limit()
    _run(store, target, ready, background, allow_other=allow_other)
    log.info("unmounted from %s", target)


def _run(
    store: Store,
    target: Path,
    ready: Callable[[], object],
    background: Background | None,
    *,
    allow_other: bool,
) -> None:
    try:
        tree = Tree(store)
        settings = store.settings
        answered = opens.answered() if settings.opens_in_c and settings.poll_microseconds else None
        if answered is not None:
            tree.opens = answered
        operations = Operations(tree, invalidate)
        if not store.files.read_only:
            with patience.at_most(PATIENCE_SECONDS):
                recover(operations.desk, operations.gestures.removals)
    except OSError as error:
        raise cannot_open(store.root, error) from error
    polling.install(settings.poll_microseconds, answered)
    options = _OPTIONS | ({"allow_other"} if allow_other else set()) | ({"ro"} if store.files.read_only else set())
    noted = nullcontext() if store.files.read_only else _noted(store, target)
    with _mounted(operations, target, store.root, options), noted:
        desk = operations.desk
        invalidations = Invalidations(operations.tree, desk.kernel, desk.stand_in, desk.check, operations.forget_all)
        try:
            with patience.at_most(PATIENCE_SECONDS):
                trio.run(_serve, operations, invalidations, ready, background)
        finally:
            desk.stand_in.end()
            with patience.at_most(PATIENCE_SECONDS):
                operations.gestures.close()
            invalidations.end()
            operations.tree.workers.end()


def _raise_limit() -> None:
    """Raise this process's limit of descriptors as far as allowed: every file that a program has open takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(
    operations: Operations, invalidations: Invalidations, ready: Callable[[], object], background: Background | None
) -> None:
    async with trio.open_nursery() as nursery:
        operations.desk.stand_in.start()
        await nursery.start(_end_on_signal, operations)
        invalidations.start()
        operations.desk.outputs.start()
        nursery.start_soon(_tick, operations)
        nursery.start_soon(operations.desk.native.run)
        nursery.start_soon(operations.desk.imports.run)
        nursery.start_soon(_begin, nursery, operations, ready, background)
        try:
            await _answer()
        finally:
            nursery.cancel_scope.cancel()


async def _begin(
    nursery: trio.Nursery, operations: Operations, ready: Callable[[], object], background: Background | None
) -> None:
    """Start what runs beside the mount, which answers meanwhile."""
    if background is not None:
        await nursery.start(background)
    log.info("mounted")
    ready()
    operations.tree.store.texts.warm()


async def _tick(operations: Operations) -> None:
    told: list[str] = []
    while True:
        tree = operations.tree
        if (damage := tree.store.files.check.lines) != told:
            told = damage
            for line in damage:
                tree.errors.add(line.partition(" ")[0], line)
        await trio.sleep(_TICK_SECONDS)
        await operations.desk.stand_in.make(operations.gestures.tick)


async def _answer() -> None:
    """Answer requests until the mount ends.

    One task does it; while its handler waits for the work of a thread, another does. A request that was there may be
    gone when it is to be read, because its caller was killed; the read then fails instead of waiting, and pyfuse3's
    loop ends and is begun again.
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
        first = visible.command("convfs", "umount", target)
        raise UsageError(f"{target} is mounted already: use it there, or `{first}` first")
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
def _noted(store: Store, target: Path) -> Iterator[None]:
    root, there = store.root, mount_at(target)
    if there is None:
        raise UsageError(f"{target} was unmounted at once")
    directory = root / MOUNTS
    path = directory / f"{os.getpid()}.json"
    note = MountNote(str(target), os.getpid(), started(os.getpid()), there.device, store.files.directory)
    try:
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                os.rename(directory / _SPARE, path)
            fd = durable.open_file(path, create=True)
            try:
                durable.pwrite_all(fd, msgspec.json.encode(note).ljust(_NOTE_BYTES), 0)
            finally:
                os.close(fd)
        except OSError as error:
            raise cannot_open(root, error) from error
        yield
    finally:
        _forget(path)


def _forget(path: Path) -> None:
    """Remove a note, but not its room on the disk. One that stays is of a process that is dead, and harms nobody."""
    try:
        with suppress(FileNotFoundError):
            os.replace(path, path.with_name(_SPARE))
    except OSError as error:
        log.error("%s could not be removed: %s", path, error)


def clean(root: Path) -> None:
    """Unmount the mounts of the store at ``root`` whose daemon is dead.

    The caller has the store open, so all processes noted for it are dead. A daemon that was killed before it could
    write its note leaves a mount, too, that names this path and is dead; a living one belongs to a store that was here
    before.
    """
    left, living = set(), set()
    for path, note in notes(root):
        if alive(note):
            living.add(path)
        else:
            left.add(note.connection)
    for path in set((root / MOUNTS).glob("*.json")) - living:
        _forget(path)
    own = os.path.realpath(root)
    for there in list(mounts()):
        if there.fstype != FSTYPE or os.path.realpath(there.source) != own:
            continue
        how = condition(there.path)
        if how is Condition.DEAD or (how is Condition.HANGS and there.device in left):
            _abort(there.device)
            command = ["fusermount3", "-uz", "--", str(there.path)]
            subprocess.run(command, capture_output=True, check=False, timeout=_FUSERMOUNT_SECONDS)


def _abort(connection: int) -> None:
    try:
        (_CONNECTIONS / str(connection) / "abort").write_text("1")
    except OSError:
        log.debug("connection %d is gone, or fusectl is not mounted", connection)

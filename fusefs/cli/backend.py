"""The way of a command to the store: through the process that holds it, or by opening it here.

A command that is answered by a glance, or by a daemon, loads little: what opens a store is imported where it is opened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from fusefs.cli.output import echo
from store import visible
from store.errors import NotFound, StoreBusy
from store.paths import CHECKED, LOCK, TURNS

if TYPE_CHECKING:
    from store.conversations.listing import Listing
    from store.service.call import Emit, Invocation, Item, T
    from store.service.caller import Caller
    from store.store import Store

_PATIENCE_SECONDS = 10.0
_RETRY_SECONDS = 0.05


class Backend(Protocol):
    """A store on which operations can be run, wherever it is held."""

    def call(self, invocation: Invocation[Item, T], on_item: Emit[Item] | None = None) -> T:
        """Run the call and pass each item to ``on_item``. Raises what the call raises."""


def store_root(chosen: Path | None) -> Path:
    """Return the directory of the store: the chosen one, or the default in this user's data."""
    if chosen:
        return chosen
    # a relative path there is to be taken for none, says the XDG Base Directory Specification
    data = os.environ.get("XDG_DATA_HOME", "")
    return Path(data if os.path.isabs(data) else os.path.expanduser("~/.local/share")) / "convfs"


def running(root: Path) -> Caller | None:
    """Return a connection to the daemon that holds the store at ``root``, None if no daemon does."""
    from store.service.address import sockets

    if not any(path.exists() for path in sockets(root)):
        return None
    from store.service.caller import Caller, ServiceGone

    try:
        return Caller.of(root)
    except ServiceGone:
        return None


def daemon(root: Path) -> Caller | None:
    """Return what :func:`running` does, once it is said which damage the daemon has found."""
    client = running(root)
    if client is not None and (root / CHECKED).exists():
        from store.upkeep.log_check import noted_damage

        for line in noted_damage(root):
            echo(f"convfs: {line}", err=True)
    return client


def exists(root: Path) -> bool:
    """Return whether there is a store at ``root``."""
    return (root / LOCK).exists() or (root / TURNS).exists()


def require(root: Path) -> None:
    """Raise NotFound if there is no store at ``root``."""
    if not exists(root):
        raise NotFound(f"there is no store at {root} yet: `convfs import` creates one")


def open_store(root: Path, *, create: bool = False) -> Store:
    """Open the store at ``root`` in this process. Raises NotFound if there is none and ``create`` is not set."""
    from fusefs.text.late import late_renderer
    from store.service import address
    from store.store import Store

    if not create:
        require(root)
    store = Store.open(root, renderer=late_renderer(), create=create)
    if not store.files.read_only:
        address.note(root, store.files.directory)
    for line in (*store.warnings, *store.recovered, *store.files.check.lines):
        echo(f"convfs: {line}", err=True)
    return store


def daemon_or_store(root: Path, *, create: bool = False) -> Caller | Store:
    """Return a connection to the daemon that holds the store at ``root``, or the opened store if there is none.

    Waits for commands that hold the store for a moment. Raises StoreBusy if a process keeps holding it without
    answering, and like :func:`open_store`.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        if client := daemon(root):
            return client
        try:
            return open_store(root, create=create)
        except StoreBusy as error:
            if time.monotonic() > until:
                raise StoreBusy(f"{_holder(root)} is using the store at {root}: {_remedy(root)}") from error
            time.sleep(_RETRY_SECONDS)


def _remedy(root: Path) -> str:
    """Return what to do where a process holds the store and answers nobody, as a daemon of another version."""
    from fusefs.mount_table import FSTYPE, mounts

    where = [mount.path for mount in mounts() if mount.fstype == FSTYPE and mount.source == str(root.resolve())]
    unmounting = f"`{visible.command('convfs', 'umount', where[0])}` ends it, or " if where else ""
    return f"{unmounting}try again when it has ended"


def _holder(root: Path) -> str:
    from store.service import address

    process = address.noted_process(root)
    try:
        words = Path(f"/proc/{process}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return "another process"
    return f"process {process} ({' '.join(words).strip()})"


@contextmanager
def on_trial(root: Path) -> Iterator[Path]:
    """Yield ``root``, or an empty directory for the time being where there is no store: what is made there is lost."""
    from tempfile import gettempdir

    from store.disk.files import temporary_folder

    if exists(root):
        yield root
        return
    with temporary_folder(Path(gettempdir())) as folder:
        yield folder


@contextmanager
def reach(root: Path, *, create: bool = False) -> Iterator[Backend]:
    """Reach the store at ``root``, wherever it is held; raises as :func:`daemon_or_store`."""
    from store.service.call import Holder

    with daemon_or_store(root, create=create) as found:
        # to ask for its class would load what talks to a daemon, where none is
        yield cast("Backend", found) if hasattr(found, "call") else Holder(found)


@contextmanager
def glanced(root: Path) -> Iterator[Listing | None]:
    """Yield the conversations of the store at ``root`` if nobody holds it, and nothing of it must be opened for that.

    None otherwise: :func:`reach` it. Raises NotFound if there is none, and UsageError for settings that are none.
    """
    from fusefs.text import RENDERER_VERSION
    from store.settings import load
    from store.upkeep.glance import glance

    require(root)
    settings, warnings = load(root)
    with glance(root, settings, RENDERER_VERSION) as listing:
        if listing is not None:
            for line in warnings:
                echo(f"convfs: {line}", err=True)
        yield listing

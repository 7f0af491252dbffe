"""Reaching the store: through the process that holds it, or by opening it here."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import click
import platformdirs

from fusefs.cli.output import escape
from fusefs.text.render import FileRenderer
from store.errors import NotFound, StoreBusy
from store.service import address
from store.service.client import Client, ServiceGone
from store.service.operation import Holder, Item, Operation, Params, Result
from store.store import Store

_PATIENCE_SECONDS = 10.0
_RETRY_SECONDS = 0.05


class Backend(Protocol):
    """Has operations done on a store, wherever it is held."""

    def call(
        self,
        operation: Operation[Params, Item, Result],
        params: Params,
        on_item: Callable[[Item], None] | None = None,
    ) -> Result:
        """Have ``operation`` done: each item goes to ``on_item``. Raises what the operation raises."""


class _Here:
    """The store is open in this process."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder

    def call(
        self,
        operation: Operation[Params, Item, Result],
        params: Params,
        on_item: Callable[[Item], None] | None = None,
    ) -> Result:
        return operation.run(self._holder, params, on_item or (lambda item: None))


def store_root(chosen: Path | None) -> Path:
    """Return the directory of the store: the one chosen, else where this user's data belongs."""
    return chosen or platformdirs.user_data_path("convfs", appauthor=False)


def running(root: Path) -> Client | None:
    """Return a connection to the daemon that holds the store at ``root``, None if no daemon does."""
    path = address.noted_socket(root)
    try:
        return Client(path) if path else None
    except ServiceGone:
        return None


def exists(root: Path) -> bool:
    """Say whether there is a store at ``root``."""
    return (root / address.LOCK_NAME).exists()


def require(root: Path) -> None:
    """Raise NotFound where there is no store at ``root``."""
    if not exists(root):
        raise NotFound(f"there is no store at {root} yet: `convfs import` makes one")


def open_store(root: Path, *, create: bool = False) -> Store:
    """Open the store at ``root`` in this process. Raises NotFound where there is none and ``create`` is not set."""
    if not create:
        require(root)
    store = Store.open(root, renderer=FileRenderer(), create=create)
    address.note(root)
    for line in (*store.warnings, *store.recovered):
        click.echo(f"convfs: {escape(str(line))}", err=True)
    return store


def daemon_or_store(root: Path, *, create: bool = False) -> Client | Store:
    """Return a connection to the daemon that holds the store at ``root``, or the store, opened, if there is none.

    Commands that hold it for a moment are waited for. Raises StoreBusy where somebody holds it on and on without
    answering, and what :func:`open_store` raises.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        if client := running(root):
            return client
        try:
            return open_store(root, create=create)
        except StoreBusy as error:
            if time.monotonic() > until:
                holder = _holder(root)
                raise StoreBusy(f"{holder} is at work on the store at {root}: try again when it has ended") from error
            time.sleep(_RETRY_SECONDS)


def _holder(root: Path) -> str:
    process = address.noted_process(root)
    try:
        words = Path(f"/proc/{process}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return "another process"
    return f"process {process} ({' '.join(words).strip()})"


@contextmanager
def reach(root: Path, *, create: bool = False) -> Iterator[Backend]:
    """Reach the store at ``root``, wherever it is held; raises as :func:`daemon_or_store`."""
    with daemon_or_store(root, create=create) as found:
        yield found if isinstance(found, Client) else _Here(Holder(found))

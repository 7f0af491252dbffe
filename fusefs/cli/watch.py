"""``convfs watch``, and the watching of ``convfs mount --watch``."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.daemon import log_to
from fusefs.cli.output import echo

if TYPE_CHECKING:
    from store.importing.importer import ImportReport
    from store.store import Store

log = logging.getLogger(__name__)

_END_SECONDS = 60.0


@click.command(short_help="Keep importing your sessions as they grow.")
@click.pass_obj
def watch(store: Path | None) -> None:
    """Import your sessions, and additions to them within a second, until SIGTERM or Ctrl-C.

    Prints the conversations that are new or have grown. The store may be mounted or served meanwhile.
    """
    from fusefs.cli.backend import store_root
    from store.importing.watch import Watching

    root = Path(os.path.realpath(store_root(store)))
    log_to(logging.StreamHandler(), "convfs: %(message)s")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    watching = Watching(_Homes(root, Path.cwd()), partial(_take, root), root, _tell)
    watching.run(ended, lambda: echo("Watching your sessions; Ctrl-C ends.", err=True))


@contextmanager
def watching(cwd: Path | None, store: Store) -> Iterator[None]:
    """Watch this user's sessions in a thread while the block runs, as seen from ``cwd``; not if it is None."""
    if cwd is None:
        yield
        return
    from store.importing.importer import Importer
    from store.importing.watch import Watching

    ended = threading.Event()

    def go_on(_size: int, _session: str) -> None:
        if ended.is_set():
            raise _Ended

    def take(paths: Sequence[Path]) -> ImportReport:
        return Importer(store).run(paths, by_hand=False, progress=go_on)

    follower = Watching(_Homes(store.root, cwd), take, store.root, lambda report: log.info("%s", _line(report)))
    thread = threading.Thread(target=_run, args=(follower.run, ended), name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_SECONDS)


class _Ended(Exception):
    """Ends an import in the middle because the watch ends; the import is repeated next time."""


def _run(run: Callable[[threading.Event], None], ended: threading.Event) -> None:
    try:
        run(ended)
    except _Ended:
        return
    except Exception:
        log.exception("sessions are no longer watched")


class _Homes:
    """The directories in which this user has sessions: those of tools, and those that the store's settings name now."""

    def __init__(self, root: Path, cwd: Path) -> None:
        self._root = root
        self._cwd = cwd
        self._folders: Sequence[str] = ()

    def __call__(self) -> list[Path]:
        from store.errors import UsageError
        from store.importing.walk import discover
        from store.settings import load

        # until a file with a mistake in it is mended, what it said before holds
        with suppress(UsageError):
            self._folders = load(self._root)[0].sessions.folders
        return discover(Path.home(), self._cwd, self._folders)


def _take(root: Path, paths: Sequence[Path]) -> ImportReport:
    """Import through the process that holds the store, or hold it for a moment."""
    from fusefs.cli.backend import reach
    from store.service.importing import import_sessions

    with reach(root, create=True) as backend:
        return backend.call(import_sessions(tuple(map(os.fsencode, paths)), watched=True))


def _tell(report: ImportReport) -> None:
    echo(_line(report))
    sys.stdout.flush()


def _line(report: ImportReport) -> str:
    return f"{', '.join(report.conversations)}: {report.records} records"

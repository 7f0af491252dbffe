"""Daemons: their start in the background, their hold on the store, and the format of their logs.

The command returns when the daemon is ready, or with the reason why it is not.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from store import visible
from store.errors import ConvfsError

if TYPE_CHECKING:
    from store.service.caller import Caller
    from store.store import Store


Command = TypeVar("Command", bound=Callable[..., Any])


_SWITCH_SECONDS = 0.00005
"""The time for which one thread of a daemon may keep the others from running Python: it delays answers.

It is as short as the work between two calls that let others run, such as a read or a hash. Whoever waits is woken by
each, finds that the thread has gone on already, and begins to wait anew: only after this time does it insist.
"""
_OBJECTS = 2000, 5, 200
"""The new objects after which a daemon looks for garbage among them; after how many such looks it looks among those of
all of these, and after how many of those among all objects. It answers nobody meanwhile: 10,000 take some 3 ms."""
_MALLOC = {-8: 1, -3: 2 << 20, -1: 2 << 20}
"""Parameters of ``mallopt``: one arena (M_ARENA_MAX), so that what one thread frees serves the others; and 2 MiB from
which on something is mapped by itself (M_MMAP_THRESHOLD), or given back at the end of the heap (M_TRIM_THRESHOLD). The
blocks of kept texts are smaller: to have the kernel clear new memory for each takes as long as to decompress it."""
_SQLITE_BYTES = 8 << 20
"""The memory of SQLite in this process from which on its caches take no more: there is one a database and thread."""


def prepare() -> None:
    """Set up this process as a daemon: it answers soon, and keeps no more memory than it uses.

    Called before it starts threads, each of which would have an arena of its own.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*_OBJECTS)
    # the C library of GNU has it
    if (set_parameter := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        for parameter, value in _MALLOC.items():
            set_parameter(parameter, value)
    with closing(sqlite3.connect(":memory:")) as database:
        # it holds for the process
        database.execute(f"PRAGMA soft_heap_limit = {_SQLITE_BYTES}").fetchone()


@contextmanager
def loading() -> Iterator[None]:
    """Load modules without a look for garbage among them, now or ever: they stay as long as the daemon."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def tcp_options(command: Command) -> Command:
    """Add the options for connections over TCP."""
    command = click.option(
        "--no-token", is_flag=True, help="Let in every TCP client without a token: for clients that cannot send one."
    )(command)
    command = click.option(
        "--http", metavar="HOST:PORT", help="Also answer CXDB's HTTP requests on this loopback address."
    )(command)
    return click.option(
        "--tcp", metavar="HOST:PORT", help="Also serve on this loopback address; the token is in STORE/token."
    )(command)


def tcp_place(tcp: str | None) -> tuple[str, int] | None:
    """Return the address in ``--tcp``, None without one. Raises UsageError if other machines could reach it."""
    from store.service import address

    if tcp is None:
        return None
    host, port = address.parsed(tcp)
    address.loopback(host, port)
    return host, port


@contextmanager
def serving_http(store: Store, place: tuple[str, int] | None, *, no_token: bool) -> Iterator[str]:
    """Answer HTTP at an address, if there is one, while the block runs; yields it as ``HOST:PORT``, else ""."""
    if place is None:
        yield ""
        return
    from store.errors import UsageError
    from store.service import address

    try:
        from store.web.server import serving
    except ImportError as error:
        raise UsageError(
            "HTTP needs two more packages: run ./mount.sh --setup, or pip install 'hypercorn[trio]' starlette"
        ) from error
    with serving(store, *place, "" if no_token else address.token(store.root)) as listening:
        yield listening


def held_alone(root: Path) -> Store:
    """Open the store at ``root``, created if need be, for a process that will serve it.

    Raises Conflict if another process does, and like :func:`fusefs.cli.backend.daemon_or_store`.
    """
    from fusefs.cli.backend import daemon_or_store
    from store.errors import Conflict
    from store.service.caller import Caller, ServiceGone

    while True:
        found = daemon_or_store(root, create=True)
        if not isinstance(found, Caller):
            return found
        with found, suppress(ServiceGone):
            who, how = whose(found)
            raise Conflict(f"{who} already: use it there, or {how} first")
        # it has ended since


def whose(client: Caller) -> tuple[str, str]:
    """Return the holder of the store, as the beginning of a sentence, and the command that ends it."""
    from fusefs.cli.output import command_line
    from store.service.operations import status as asked

    status = client.call(asked())
    if status.mountpoint:
        return f"the store is mounted at {status.mountpoint}", f"`{command_line('umount', status.mountpoint)}`"
    return f"process {status.pid} serves the store", f"`kill {status.pid}`"


_READY = b"\0"
_MAX_MESSAGE = 64 << 10


class LogFormatter(logging.Formatter):
    """Formats each message as one line, whatever it holds; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        """Return the line of a record."""
        record.message = visible.line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and those of its traceback."""
        return visible.lines(super().format(record))


def log_to(handler: logging.Handler, form: str = "%(message)s") -> None:
    """Have everything that is logged go to a handler, in a form."""
    # without room for a line, nobody wants a traceback instead
    logging.raiseExceptions = False
    handler.setFormatter(LogFormatter(form))
    logging.getLogger().addHandler(handler)


def in_background(work: Callable[[Callable[[], None]], None], explain: Callable[[Exception], str]) -> int:
    """Run ``work`` in a daemon, and return its process id once it has called the function that it is given.

    The daemon has no terminal, ``/`` as its directory, and no standard streams except standard error until it is ready.
    Raises ConvfsError, with the explanation by ``explain``, if an exception ends ``work`` before it is ready.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        # Not a session leader, so that no terminal ever becomes this daemon's own.
        os.setsid()
        if os.fork():
            os._exit(0)
        _run(work, explain, writing)
    os.close(writing)
    os.waitpid(child, 0)
    message = b""
    with open(reading, "rb") as pipe:
        message = pipe.read(_MAX_MESSAGE)
    if message.startswith(_READY):
        return int(message[1:])
    raise ConvfsError(message.decode("utf-8", "replace") or "the daemon died before it was ready")


def _run(work: Callable[[Callable[[], None]], None], explain: Callable[[Exception], str], writing: int) -> NoReturn:
    told = False

    def tell(message: bytes) -> None:
        nonlocal told
        if not told:
            told = True
            os.write(writing, message)
            os.close(writing)

    status, null = 1, os.open(os.devnull, os.O_RDWR)
    try:
        os.chdir("/")
        for stream in range(2):
            os.dup2(null, stream)

        def ready() -> None:
            os.dup2(null, 2)
            tell(_READY + str(os.getpid()).encode())

        work(ready)
        status = 0
    except Exception as error:
        # said by the caller; the log has the details
        os.dup2(null, 2)
        logging.getLogger(__name__).exception("the daemon ends in an error")
        tell(explain(error).encode("utf-8", "replace"))
    finally:
        # Exits here, whatever happens: the caller's own clean-up is its parent's to do.
        os._exit(status)

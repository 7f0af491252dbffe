"""The service: answers other processes of the same user, on a unix socket, and on a loopback port where that is wanted.

It runs in a trio loop, either its caller's (:func:`serve`) or one of its own in a thread (:func:`serving`): a mount's
requests and the service's then do not wait for each other.
"""

import contextlib
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio
from msgspec import Struct

from store.errors import ConvfsError
from store.service import address
from store.service.abandoned import end_abandoned
from store.service.artifact_operations import ARTIFACT_OPERATIONS
from store.service.background import in_background
from store.service.delivery import DELIVERY_OPERATIONS
from store.service.hub import MOST_CONNECTIONS, Hub
from store.service.measuring import measuring
from store.service.naming import naming
from store.service.operating import AnyOperation, Operating
from store.service.operation import Holder
from store.service.plane import Plane
from store.service.streaming_operations import STREAMING_OPERATIONS
from store.service.turn_operations import TURN_OPERATIONS
from store.service.watch_message import WATCH
from store.service.watching import Watchers
from store.store import Store

_LOG = logging.getLogger(__name__)


class Service(Struct, frozen=True):
    """What a service answers to and where.

    ``mountpoint`` and ``stop`` are those of :class:`Holder`. ``socket`` is the path of the unix socket (None: where
    clients of the store look for it), ``tcp`` a loopback address to listen on, too; who connects there needs
    ``token``, unless it is empty.
    """

    store: Store
    operations: Iterable[AnyOperation]
    mountpoint: str = ""
    stop: Callable[[], None] | None = None
    socket: Path | None = None
    tcp: tuple[str, int] | None = None
    token: str = ""


class Place(Struct, frozen=True):
    """Where a service listens: the path of its unix socket, and ``HOST:PORT``, "" if on none."""

    socket: Path
    tcp: str = ""


async def serve(service: Service, *, task_status: trio.TaskStatus[Place] = trio.TASK_STATUS_IGNORED) -> None:
    """Answer until cancelled. Reports where it listens; the unix socket has mode 0600 and is noted for clients."""
    store = service.store
    with contextlib.ExitStack() as stack:
        path = service.socket or address.new_socket_path(store.store_id)
        unix = stack.enter_context(_unix(path))
        port = stack.enter_context(_tcp(*service.tcp)) if service.tcp else None
        place = Place(path, address.host_and_port(port) if port else "")
        address.note(store.root, path, place.tcp)
        stack.callback(address.note, store.root)
        operations = (
            *service.operations,
            *TURN_OPERATIONS,
            *STREAMING_OPERATIONS,
            *ARTIFACT_OPERATIONS,
            *DELIVERY_OPERATIONS,
        )
        holder = Holder(store, service.mountpoint, str(path), service.stop)
        stack.enter_context(naming(store))
        stack.enter_context(measuring(store))
        stack.enter_context(in_background(store))
        hub = Hub(Plane(store), {WATCH, *(operation.number for operation in operations)})
        stack.callback(hub.close)
        watchers = Watchers(store, hub)
        stack.callback(watchers.close)
        hub.listen(unix, _own_user)
        if port:
            hub.listen(port, _at_once, service.token)
        async with trio.open_nursery() as nursery:
            hub.operate = Operating(holder, operations, hub, watchers, nursery).begin
            nursery.start_soon(end_abandoned, store)
            task_status.started(place)
            await hub.run()


@contextlib.contextmanager
def serving(service: Service) -> Iterator[Place]:
    """Have a service answer from a thread of its own while the block runs; gives where it listens."""
    started: threading.Event = threading.Event()
    place: list[Place] = []
    failure: list[BaseException] = []
    scope = trio.CancelScope()
    token: list[trio.lowlevel.TrioToken] = []

    async def main() -> None:
        token.append(trio.lowlevel.current_trio_token())
        async with trio.open_nursery() as nursery:
            place.append(await nursery.start(partial(serve, service)))
            started.set()
            with scope:
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            if started.is_set():
                _LOG.exception("the service ended in an unexpected error")
            failure.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, name="convfs-service", daemon=True)
    thread.start()
    started.wait()
    if failure:
        thread.join()
        raise _first(failure[0])
    try:
        yield place[0]
    finally:
        with contextlib.suppress(trio.RunFinishedError):
            token[0].run_sync_soon(scope.cancel)
        thread.join()
    if failure:
        raise _first(failure[0])


@asynccontextmanager
async def serving_beside(service: Service) -> AsyncIterator[Place]:
    """As :func:`serving`, without holding up the loop of the caller while it starts and ends."""
    context = serving(service)
    place = await trio.to_thread.run_sync(context.__enter__)
    try:
        yield place
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(context.__exit__, None, None, None)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@contextlib.contextmanager
def _unix(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        if path.exists() and not path.is_socket():
            raise ConvfsError(f"{path} is there and no socket: name another path")
        # Whatever stands there is left over from a process that died: this one holds the store's lock.
        path.unlink(missing_ok=True)
        try:
            listener.bind(os.fspath(path))
        except OSError as error:
            raise ConvfsError(f"no socket can be made at {path}: {error.strerror or error}") from error
        try:
            path.chmod(0o600)
            listener.listen(MOST_CONNECTIONS)
            yield listener
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _tcp(host: str, port: int) -> Iterator[socket.socket]:
    family, place = address.loopback(host, port)
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(place)
        except OSError as error:
            raise ConvfsError(f"nothing can listen at {host}:{port}: {error.strerror or error}") from error
        listener.listen(MOST_CONNECTIONS)
        yield listener


def _own_user(sock: socket.socket) -> bool:
    return address.peer(sock)[1] == os.geteuid()


def _at_once(sock: socket.socket) -> bool:
    # answers are small and waited for
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return True

"""The service: answers other processes of the same user, on a unix socket, and on a loopback port if one is set.

It runs in a trio loop, either its caller's (:func:`serve`) or one of its own in a thread (:func:`serving`): a mount's
requests and the service's then do not wait for each other.

A call of convfs's own runs in a worker thread, and may hand out items on the way. A client that goes away, and the end
of the service, cancel it at its next item. A watcher is told of changes once they are durable; one that reads slowly is
told less often, of several changes at once, and misses none.
"""

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
from msgspec import Struct, structs

from store.errors import Conflict, ConvfsError, UsageError
from store.events.conversation import Change
from store.service import address
from store.service.background import filing, in_background, measuring, naming
from store.service.call import AnyCall, Call, Holder, Late
from store.service.calls import CALLS, add_text, watch
from store.service.hub import MOST_CONNECTIONS, Hub, Joined, Link, Returns
from store.service.operations import stop
from store.service.plane import Plane
from store.service.protocol import Request
from store.service.wire import parameters
from store.store import Store

_MOST_AT_ONCE = 1000
_LISTENING = Change(0, False)
"""The first change that a watcher is told: from now on none is missed."""



class _Watcher:
    """A watching client, and the changes to tell it."""

    def __init__(self, contexts: Iterable[int], *, texts: bool) -> None:
        self.pending: dict[int, Change] = {}
        self.something = trio.Event()
        self._contexts = frozenset(contexts)
        self._texts = texts

    def note(self, change: Change) -> None:
        if self._contexts and change.context_id not in self._contexts:
            return
        if change.created or change.moved or change.described or change.deleted or self._texts:
            before = self.pending.get(change.context_id)
            self.pending[change.context_id] = change if before is None else both(before, change)
            self.something.set()

    def take(self) -> list[Change]:
        some = list(self.pending)[:_MOST_AT_ONCE]
        changes = [self.pending.pop(context) for context in some]
        if not self.pending:
            self.something = trio.Event()
        return changes


class Watchers:
    """All watchers of one store, until it is closed."""

    def __init__(self, store: Store, returns: Returns) -> None:
        self._store = store
        self._returns = returns
        self._watchers: set[_Watcher] = set()
        store.observers.add(self._changed, texts=True)

    def close(self) -> None:
        """Follow the store no more."""
        self._store.observers.remove(self._changed)

    async def watch(self, hub: Hub, link: Link, request: Request) -> None:
        """Tell a peer, until it is gone."""
        params: Any = parameters(request.body, watch.params)
        for context in params.contexts:
            if context <= 0:
                raise UsageError(f"{context} is no context")
            self._store.writer.head(context)
        watcher = _Watcher(params.contexts, texts=params.texts)
        self._watchers.add(watcher)
        try:
            changes = [_LISTENING]
            while True:
                hub.item(link, request, watch.item.encode(changes))
                hub.finish()
                await link.room()
                await watcher.something.wait()
                changes = watcher.take()
        finally:
            self._watchers.discard(watcher)

    def _changed(self, change: Change) -> None:
        """Pass a change on to the loop; called by the thread that has made it durable."""
        if self._watchers:
            self._returns.put(partial(self._tell, change))

    def _tell(self, change: Change) -> None:
        for watcher in self._watchers:
            watcher.note(change)


def both(one: Change, other: Change) -> Change:
    """Return two changes of a context as one."""
    either = ("created", "moved", "described", "streamed", "deleted")
    told = {name: getattr(one, name) or getattr(other, name) for name in either}
    return structs.replace(max(one, other, key=lambda change: change.seq), **told)


_MAX_THREADS = 4
_MAX_BRIEF_THREADS = 16
"""Their writes are made durable together."""
_PROGRESS_SECONDS = 0.1
_MOST_JOINED = 64 << 10
"""Larger requests would take the loop too long."""


class Operating:
    """Does calls for the connections of a hub."""

    def __init__(self, holder: Holder, calls: dict[int, AnyCall | Late], watchers: Watchers) -> None:
        self._holder = holder
        self._calls = calls
        self._watchers = watchers
        self._threads = trio.CapacityLimiter(_MAX_THREADS)
        self._brief_threads = trio.CapacityLimiter(_MAX_BRIEF_THREADS)

    def joining(self, request: Request) -> Joined | None:
        """Return the commit that is all of a request, so that it is made with the appends; None for any other."""
        if request.number != add_text.number or len(request.body) > _MOST_JOINED:
            return None
        params: Any = parameters(request.body, add_text.params)
        adding = self._holder.store.open_turns.adding(params.number, params.text, params.at)
        return adding and Joined(adding.request, add_text.result.encode(adding.size), adding.release)

    async def perform(self, hub: Hub, link: Link, request: Request) -> None:
        """Carry out a request, and answer it."""
        known = self._calls[request.number]
        call = known if isinstance(known, Call) else await self._loaded(known)
        try:
            if call is watch:
                await self._watchers.watch(hub, link, request)
                return
            params = parameters(request.body, call.params)
            hub.answer(link, request, call.result.encode(await self._run(call, params, hub, link, request)))
        except trio.ClosedResourceError:
            return
        except Exception as error:
            hub.fail(link, request, error)
        hub.finish()
        if call is stop and self._holder.stop:
            # Not before: it may end this service at once.
            self._holder.stop()

    async def _loaded(self, late: Late) -> AnyCall:
        # in a thread: the loop goes on meanwhile
        call = await trio.to_thread.run_sync(late.loaded, limiter=self._threads)
        self._calls[late.number] = call
        return call

    async def _run(self, call: AnyCall, params: Struct, hub: Hub, link: Link, request: Request) -> object:
        encode = call.item.encode
        work: Callable[[Callable[[object], None]], object] = partial(call.run, self._holder, params)
        if not call.progress:
            # The thread waits until an item is taken, so a slow reader holds up no more than its own request.
            async def send(item: bytes) -> None:
                hub.item(link, request, item)
                hub.finish()
                await link.room()

            def emit(item: object) -> None:
                trio.from_thread.run(send, encode(item))

            limiter = self._brief_threads if call.brief else self._threads
            return await trio.to_thread.run_sync(work, emit, limiter=limiter)

        # Progress must never hold up the work (a client may be stopped): items that cannot be sent at once are dropped.
        last = 0.0

        def show(item: bytes) -> None:
            if link.has_room:
                hub.item(link, request, item)
                hub.finish()

        def report(item: object) -> None:
            nonlocal last
            trio.from_thread.check_cancelled()
            if (now := time.monotonic()) - last >= _PROGRESS_SECONDS:
                last = now
                with contextlib.suppress(trio.RunFinishedError):
                    trio.from_thread.run_sync(show, encode(item))

        return await trio.to_thread.run_sync(work, report, limiter=self._threads)


_LOG = logging.getLogger(__name__)


class Service(Struct, frozen=True):
    """A service: the calls that it answers, and its addresses.

    ``mountpoint`` and ``stop`` are those of :class:`Holder`. ``socket`` is the path of the unix socket (None: where
    clients of the store look for it), ``tcp`` a loopback address to listen on, too; clients there need ``token``,
    unless it is empty.
    """

    store: Store
    operations: Iterable[AnyCall | Late]
    mountpoint: str = ""
    stop: Callable[[], None] | None = None
    socket: Path | None = None
    tcp: tuple[str, int] | None = None
    token: str = ""


class Listening(Struct, frozen=True):
    """The addresses of a service: the path of its unix socket, and ``HOST:PORT``, "" if on none."""

    socket: Path
    tcp: str = ""


def _check_free(path: Path) -> None:
    """Raise Conflict if a process answers at the path for a new socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.setblocking(False)
        try:
            other.connect(os.fspath(path))
        except BlockingIOError:
            # more wait to be let in than there is room for
            pass
        except OSError:
            return
    raise Conflict(f"another process answers at {path}: name another path, or end it first")


async def serve(service: Service, *, task_status: trio.TaskStatus[Listening] = trio.TASK_STATUS_IGNORED) -> None:
    """Answer until cancelled. Reports where it listens; the unix socket has mode 0600 and is noted for clients."""
    store = service.store
    with contextlib.ExitStack() as stack:
        if service.socket is not None:
            # the path derived from the directory belongs to the store's holder alone
            _check_free(service.socket)
        path = service.socket or address.new_socket_path(store.files.directory)
        unix = stack.enter_context(_unix(path))
        port = stack.enter_context(tcp_listener(*service.tcp)) if service.tcp else None
        place = Listening(path, address.host_and_port(port) if port else "")
        if not store.files.read_only:
            address.note(store.root, store.files.directory, path, place.tcp)
            stack.callback(address.note, store.root, store.files.directory)
        calls: dict[int, AnyCall | Late] = {call.number: call for call in (*service.operations, *CALLS)}
        holder = Holder(store, service.mountpoint, str(path), service.stop)
        if not store.files.read_only:
            stack.enter_context(naming(store))
            stack.enter_context(filing(store))
        stack.enter_context(measuring(store))
        stack.enter_context(in_background(store))
        returns = Returns()
        stack.callback(returns.close)
        watchers = Watchers(store, returns)
        stack.callback(watchers.close)
        operating = Operating(holder, calls, watchers)
        async with trio.open_nursery() as nursery:
            hub = Hub(nursery, Plane(store), store.writer, returns, calls, operating, store.files.directory)
            stack.callback(hub.close)
            hub.listen(unix, _own_user)
            if port:
                hub.listen(port, _at_once, service.token)
            task_status.started(place)
            await hub.run()


@contextlib.contextmanager
def serving(service: Service) -> Iterator[Listening]:
    """Run a service in a thread of its own while the block runs; yields its addresses."""
    with in_thread(partial(serve, service), "convfs-service") as place:
        yield place


@contextlib.contextmanager
def in_thread(task: Callable[..., Awaitable[None]], name: str) -> Iterator[Any]:
    """Run an endless task in a loop and a thread of its own while the block runs; yields what it reports as started."""
    started: Future[tuple[Any, Callable[[], None]]] = Future()
    ended: Future[None] = Future()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            place = await nursery.start(task)
            soon = trio.lowlevel.current_trio_token().run_sync_soon
            started.set_result((place, partial(soon, nursery.cancel_scope.cancel)))

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            if started.done():
                _LOG.exception("%s ended in an unexpected error", name)
                ended.set_exception(_first(error))
            else:
                started.set_exception(_first(error))

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        place, end = started.result()
        try:
            yield place
        finally:
            with contextlib.suppress(trio.RunFinishedError):
                end()
    finally:
        thread.join()
    if ended.done():
        ended.result()


@asynccontextmanager
async def serving_beside(service: Service) -> AsyncIterator[Listening]:
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
        # A socket that nobody answers at is left over from a process that died.
        path.unlink(missing_ok=True)
        try:
            listener.bind(os.fspath(path))
        except OSError as error:
            raise ConvfsError(f"no socket can be made at {path}: {error.strerror or error}") from error
        made = path.stat()
        try:
            path.chmod(0o600)
            listener.listen(MOST_CONNECTIONS)
            yield listener
        finally:
            with contextlib.suppress(FileNotFoundError):
                # another may have replaced it
                if os.path.samestat(path.stat(), made):
                    path.unlink()


@contextlib.contextmanager
def tcp_listener(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on a loopback address while the block runs. UsageError if other machines could reach it."""
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

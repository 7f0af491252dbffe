"""A client of the service for tasks of trio. The calls are those of the store, awaited.

Any number of tasks share one connection, each waiting for its own answer. See ``store.service.client`` on broken
connections.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, Protocol

import trio

from store.disk.turn_format import Encoding, Turn
from store.errors import ConvfsError
from store.events.conversation import Change
from store.service import address, calls, channel, frames
from store.service.call import Ask, P, T, dress
from store.service.channel import HELLO_SECONDS, Endpoint, ServiceGone, nobody_serves, places
from store.service.frames import BadFrame, Decoder, Frame
from store.service.wire import Buffer

_PATIENCE_SECONDS = 10.0
_CONNECT_SECONDS = 5.0
_RECEIVE = 256 << 10


class _Asks(Protocol):
    async def ask(self, ask: Ask[T]) -> T: ...


def awaited(call: Callable[P, Ask[T]]) -> Callable[Concatenate[_Asks, P], Coroutine[Any, Any, T]]:
    """Return the method that makes a call and awaits its result."""

    async def method(self: _Asks, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.ask(call(*args, **kwargs))

    dress(method, call)
    return method


class _Waiting:
    """A task that waits for the answer to a request."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.error: ConvfsError | None = None
        self.done = trio.Event()


class _Wire:
    """One connection: sends requests, and hands answers to the tasks that wait for them."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.gone = False
        self._sending = trio.Lock()
        self._waiting: dict[int, _Waiting] = {}

    async def greet(self, place: Endpoint) -> None:
        """Send the greeting of a connection to ``place``; raises as :meth:`Place.check`."""
        try:
            with trio.fail_after(HELLO_SECONDS):
                [answer] = await self._frames(place.hello())
        except trio.TooSlowError as error:
            raise ServiceGone(f"nobody answers at {place} ({error})") from error
        place.check(answer)

    async def exchange(self, request: Frame) -> list[Buffer]:
        """Send a request and return the payloads that answer it."""
        answers = await self._frames(request)
        if answers[-1].msg_type == frames.ERROR:
            raise frames.error_of(answers[-1])
        return [frame.payload for frame in answers]

    async def _frames(self, request: Frame) -> list[Frame]:
        waiting = self._waiting[request.req_id] = _Waiting()
        try:
            if self.gone:
                raise ServiceGone("the connection to the service broke off")
            try:
                async with self._sending:
                    await self.stream.send_all(frames.encode(request))
            except trio.Cancelled:
                # half a frame may be out: nothing can follow it
                self.lose()
                raise
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self.lose()
                raise ServiceGone("the connection to the service broke off") from error
            await waiting.done.wait()
        finally:
            del self._waiting[request.req_id]
        if waiting.error:
            raise waiting.error
        return waiting.frames

    async def receive(self) -> None:
        """Hand out answers until the connection breaks off."""
        decoder = Decoder()
        try:
            while data := await self.stream.receive_some(_RECEIVE):
                for frame in decoder.feed(data):
                    self._take(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError, BadFrame):
            pass
        finally:
            self.lose()

    def lose(self) -> None:
        """Tell all waiting tasks that no answer will come."""
        self.gone = True
        for waiting in self._waiting.values():
            if not waiting.done.is_set():
                waiting.error = ServiceGone("the process that holds the store ended before it had answered")
                waiting.done.set()

    def _take(self, frame: Frame) -> None:
        waiting = self._waiting.get(frame.req_id)
        if waiting is None:
            return
        waiting.frames.append(frame)
        if frame.msg_type == frames.ERROR or not frame.flags & frames.MORE:
            waiting.done.set()


class AsyncClient:
    """A connection to the process that holds a store. Made by :func:`open_client`."""

    def __init__(self, place: Endpoint, nursery: trio.Nursery, patience: float) -> None:
        self._place = place
        self._nursery = nursery
        self._patience = patience
        self._connecting = trio.Lock()
        self._wire: _Wire | None = None
        self._next_id = 1

    async def ask(self, ask: Ask[T]) -> T:
        """Make a call and return its result; raises as ``Client.ask``."""
        pauses = channel.pauses(self._patience)
        while True:
            asked = False
            try:
                wire = await self.connected()
                asked = True
                req_id, self._next_id = self._next_id, self._next_id + 1
                return ask.read(await wire.exchange(Frame(ask.number, req_id, ask.payload, ask.flags)))
            except ServiceGone:
                pause = next(pauses, None)
                if pause is None or (asked and not ask.repeats):
                    raise
                await trio.sleep(pause)

    create_context = awaited(calls.create_context)
    fork = awaited(calls.fork)
    head = awaited(calls.head)
    tip = awaited(calls.tip)
    set_metadata = awaited(calls.set_metadata)
    versions = awaited(calls.versions)
    append = awaited(calls.append)
    last = awaited(calls.last)
    before = awaited(calls.before)
    range_by_depth = awaited(calls.range_by_depth)
    turn = awaited(calls.turn)
    path_to_root = awaited(calls.path_to_root)
    patch = awaited(calls.patch)
    register_type = awaited(calls.register_type)
    canonicalize = awaited(calls.canonicalize)
    types = awaited(calls.types)
    open_turns = awaited(calls.open_turns)
    blob = awaited(calls.blob)
    blob_size = awaited(calls.blob_size)
    put_blob = awaited(calls.put_blob)
    attach_fs = awaited(calls.attach_fs)
    fs_root = awaited(calls.fs_root)
    projects = awaited(calls.projects)
    conversations = awaited(calls.conversations)
    conversation = awaited(calls.conversation)
    find = awaited(calls.find)
    stats = awaited(calls.stats)

    async def payload(self, turn_id: int) -> bytes:
        """Return the payload of a turn."""
        return await self.blob((await self.turn(turn_id)).payload_hash)

    async def open_turn(
        self, context_id: int, type_name: str, *, encoding: int = Encoding.RAW_BYTES, type_version: int = 0
    ) -> AsyncRemoteTurn:
        """Begin a turn of a context whose payload is added piece by piece."""
        number = await self.ask(calls.open_turn(context_id, type_name, encoding, type_version))
        return AsyncRemoteTurn(self, context_id, number, 0)

    async def resume_turn(self, context_id: int, number: int) -> AsyncRemoteTurn:
        """Return an open turn by its number, or one that was sealed within a day; else NotFound."""
        return AsyncRemoteTurn(self, context_id, number, await self.ask(calls.resume_turn(context_id, number)))

    async def connected(self) -> _Wire:
        """Return the connection, made anew if it broke off."""
        async with self._connecting:
            if self._wire is None or self._wire.gone:
                if self._wire is not None:
                    await trio.aclose_forcefully(self._wire.stream)
                self._wire = _Wire(await self._connect())
                self._nursery.start_soon(self._wire.receive)
                if self._place.greets:
                    try:
                        await self._wire.greet(self._place)
                    except BaseException:
                        self._wire.lose()
                        raise
            return self._wire

    async def _connect(self) -> trio.SocketStream:
        place = self._place
        try:
            with trio.fail_after(_CONNECT_SECONDS):
                if place.tcp is not None:
                    return await trio.open_tcp_stream(*place.tcp)
                stream = await trio.open_unix_socket(os.fspath(place.path or ""))
        except (OSError, trio.TooSlowError) as error:
            raise ServiceGone(f"nobody answers at {place} ({error})") from error
        pid, uid = address.peer(stream)
        if uid != os.geteuid():
            await trio.aclose_forcefully(stream)
            raise ConvfsError(f"the process {pid} that listens at {place} is another user's (uid {uid})")
        return stream

    async def watch(self, contexts: Sequence[int] = (), *, texts: bool = False) -> AsyncGenerator[Change, None]:
        """Yield changes of contexts (none named: of all) as they happen, over a connection of its own.

        Begins with a change of context 0, when it listens; ``texts``: also how open turns grow. Raises ServiceGone
        where the service ends.
        """
        decoder, stream = Decoder(), await self._connect()
        async with stream:
            ask = calls.watch(tuple(contexts), texts)
            first = frames.encode(self._place.hello()) if self._place.greets else b""
            await stream.send_all(first + frames.encode(Frame(ask.number, 1, ask.payload)))
            try:
                while data := await stream.receive_some(_RECEIVE):
                    for frame in decoder.feed(data):
                        if frame.req_id != 1:
                            self._place.check(frame)
                        elif frame.msg_type == frames.ERROR:
                            raise frames.error_of(frame)
                        else:
                            for change in calls.watch.item.decode(frame.payload):
                                yield change
            except trio.BrokenResourceError as error:
                raise ServiceGone("the connection to the service broke off") from error
        raise ServiceGone("the process that holds the store ended")

    async def aclose(self) -> None:
        """Close the connection."""
        if self._wire is not None:
            self._wire.lose()
            await trio.aclose_forcefully(self._wire.stream)


class AsyncRemoteTurn:
    """A turn that is being written, by this client alone: a piece that must be sent again is added once."""

    def __init__(self, client: AsyncClient, context_id: int, number: int, size: int) -> None:
        self.context_id = context_id
        self.number = number
        """Its name for every client."""
        self._client = client
        self._size = size
        self._lock = trio.Lock()

    async def add(self, text: bytes) -> int:
        """Go on with ``text``; return how many bytes there are once it is durable."""
        async with self._lock:
            self._size = await self._client.ask(calls.add_text(self.number, text, self._size))
            return self._size

    async def seal(self, *, expected_head: int | None = None, fs_root: bytes | None = None) -> Turn:
        """Append all of it to its context as one turn, and return that."""
        return await self._client.ask(calls.seal_turn(self.context_id, self.number, expected_head, fs_root))

    async def abort(self) -> None:
        """Drop it."""
        await self._client.ask(calls.drop_turn(self.context_id, self.number))


class AsyncRemoteDeliveries:
    """Does what :class:`store.delivery.deliveries.Deliveries` does, over the connection of a client."""

    def __init__(self, client: AsyncClient) -> None:
        self.ask = client.ask

    check = awaited(calls.check_delivery)


@asynccontextmanager
async def open_client(
    path: Path | None = None,
    *,
    tcp: tuple[str, int] | None = None,
    token: str = "",
    root: Path | None = None,
    patience: float = _PATIENCE_SECONDS,
) -> AsyncIterator[AsyncClient]:
    """Connect to the socket at ``path``, or to a port, while the block runs; see ``store.service.client.Client``.

    With ``root``, and neither, to the process that holds the store in that directory.
    """
    found = [Endpoint(path, tcp, token)] if root is None else list(places(root))
    try:
        async with trio.open_nursery() as nursery:
            client = await _first(found, root, nursery, patience)
            try:
                yield client
            finally:
                with trio.CancelScope(shield=True):
                    await client.aclose()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # the tasks of the nursery raise nothing: this came from the block
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


async def _first(found: Sequence[Endpoint], root: Path | None, nursery: trio.Nursery, patience: float) -> AsyncClient:
    """Return a connection to the first place that answers; ServiceGone where none does."""
    why: ServiceGone | None = None
    for place in found:
        client = AsyncClient(place, nursery, patience)
        try:
            await client.connected()
            return client
        except BaseException as error:
            with trio.CancelScope(shield=True):
                await client.aclose()
            if not isinstance(error, ServiceGone):
                raise
            why = why or error
    if root is not None:
        raise nobody_serves(root, why)
    assert why is not None
    raise why

"""A client of the service for tasks of trio. The calls are those of the store's facade, awaited.

Any number of tasks share one connection, each waiting for its own answer. See ``store.service.client`` for what
happens where the connection breaks off.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio
from msgspec import json

from store.errors import ConvfsError
from store.events.change import Change
from store.service import address, backoff, frames, watch_message
from store.service.asks import Ask
from store.service.async_facade import AsyncFacade
from store.service.channel import Place, ServiceGone
from store.service.frames import BadFrame, Decoder, Frame
from store.service.wire_fields import Buffer

T = TypeVar("T")
_PATIENCE_SECONDS = 10.0
_CONNECT_SECONDS = 5.0
_RECEIVE = 256 << 10


class _Waiting:
    """Somebody who waits for the answer to a request."""

    def __init__(self) -> None:
        self.payloads: list[Buffer] = []
        self.error: ConvfsError | None = None
        self.done = trio.Event()


class _Wire:
    """One connection: sends, and hands what comes to those who wait for it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.gone = False
        self._sending = trio.Lock()
        self._waiting: dict[int, _Waiting] = {}

    async def exchange(self, request: Frame) -> list[Buffer]:
        """Send a request and return the payloads that answer it."""
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
        return waiting.payloads

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
        """Tell everyone who waits that no answer will come."""
        self.gone = True
        for waiting in self._waiting.values():
            if not waiting.done.is_set():
                waiting.error = ServiceGone("the process that holds the store ended before it had answered")
                waiting.done.set()

    def _take(self, frame: Frame) -> None:
        waiting = self._waiting.get(frame.req_id)
        if waiting is None:
            return
        if frame.msg_type == frames.ERROR:
            waiting.error = frames.error_of(frame)
            waiting.done.set()
            return
        waiting.payloads.append(frame.payload)
        if not frame.flags & frames.MORE:
            waiting.done.set()


class AsyncClient(AsyncFacade):
    """A connection to the process that holds a store. Made by :func:`open_client`."""

    def __init__(self, place: Place, nursery: trio.Nursery, patience: float) -> None:
        self._place = place
        self._nursery = nursery
        self._patience = patience
        self._connecting = trio.Lock()
        self._wire: _Wire | None = None
        self._next_id = 1

    async def ask(self, ask: Ask[T]) -> T:
        """Have something done, and return what came of it; raises as ``Client.ask``."""
        pauses = backoff.pauses(self._patience)
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

    async def connected(self) -> _Wire:
        """Return the connection, made anew if it broke off."""
        async with self._connecting:
            if self._wire is None or self._wire.gone:
                if self._wire is not None:
                    await trio.aclose_forcefully(self._wire.stream)
                self._wire = _Wire(await self._connect())
                self._nursery.start_soon(self._wire.receive)
                if self._place.tcp is not None:
                    await self._wire.exchange(self._place.hello())
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
        """Yield what is changed of contexts (none named: of all), as it is; over a connection of its own.

        Begins with a change of context 0, when it listens; ``texts``: also how open turns grow. Raises ServiceGone
        where the service ends.
        """
        decoder, stream = Decoder(), await self._connect()
        async with stream:
            params = json.encode(watch_message.WatchParams(tuple(contexts), texts))
            first = frames.encode(self._place.hello()) if self._place.tcp is not None else b""
            await stream.send_all(first + frames.encode(Frame(watch_message.WATCH, 1, params)))
            try:
                while data := await stream.receive_some(_RECEIVE):
                    for frame in decoder.feed(data):
                        if frame.msg_type == frames.ERROR:
                            raise frames.error_of(frame)
                        if frame.req_id == 1:
                            for change in json.decode(frame.payload, type=list[Change]):
                                yield change
            except trio.BrokenResourceError as error:
                raise ServiceGone("the connection to the service broke off") from error
        raise ServiceGone("the process that holds the store ended")

    async def aclose(self) -> None:
        """Close the connection."""
        if self._wire is not None:
            self._wire.lose()
            await trio.aclose_forcefully(self._wire.stream)


@asynccontextmanager
async def open_client(
    path: Path | None = None,
    *,
    tcp: tuple[str, int] | None = None,
    token: str = "",
    patience: float = _PATIENCE_SECONDS,
) -> AsyncIterator[AsyncClient]:
    """Connect to the socket at ``path``, or to a port, while the block runs; see ``store.service.client.Client``."""
    try:
        async with trio.open_nursery() as nursery:
            client = AsyncClient(Place(path, tcp, token), nursery, patience)
            try:
                await client.connected()
                yield client
            finally:
                with trio.CancelScope(shield=True):
                    await client.aclose()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # the tasks of the nursery raise nothing: it is what the block raised
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise

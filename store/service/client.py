"""A client of the service, for callers that block. The calls are those of the store's facade.

It connects when it is first needed, and again, after a pause that grows, where the connection breaks off. What may be
repeated is then asked for once more; an append may, since it always has an idempotency key.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from msgspec import json

from store.errors import ConvfsError
from store.events.change import Change
from store.service import address, backoff, frames, watch_message
from store.service.asks import Ask
from store.service.channel import Channel, Place, ServiceGone
from store.service.facade import Facade
from store.service.frames import Frame
from store.service.operation import Item, Operation, Params, Result
from store.service.wire_fields import Buffer

if TYPE_CHECKING:
    from store.service.async_client import AsyncClient, open_client

T = TypeVar("T")
_PATIENCE_SECONDS = 10.0

__all__ = ["AsyncClient", "Client", "ServiceGone", "open_client"]


def __getattr__(name: str) -> object:
    """Give the client of trio from here, too, without having commands wait until trio is imported."""
    if name in ("AsyncClient", "open_client"):
        return getattr(importlib.import_module("store.service.async_client"), name)
    raise AttributeError(name)


class Client(Facade):
    """A connection to the process that holds a store. Safe to share between threads, which then take turns."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        tcp: tuple[str, int] | None = None,
        token: str = "",
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        """Connect to the socket at ``path``, or to a port.

        ``patience`` is for how many seconds a service that has gone is tried to be reached again. Raises ServiceGone
        where nobody listens, ConvfsError where the listener is another user or wants another token.
        """
        self.path = path
        self._place = Place(path, tcp, token)
        self._patience = patience
        self._lock = threading.Lock()
        self._next_id = 1
        self._channel: Channel | None = Channel(self._place)
        self.pid = self._channel.pid

    @classmethod
    def of(cls, root: Path) -> Self:
        """Connect to whoever holds the store at ``root``. Raises ServiceGone if nobody does who answers."""
        path = address.noted_socket(root)
        if path is None:
            raise ServiceGone(f"nobody serves the store at {root}: `convfs serve` or `convfs mount` does")
        return cls(path)

    def close(self) -> None:
        """Close the connection; what is still running for it ends."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ask(self, ask: Ask[T]) -> T:
        """Have something done, and return what came of it.

        Raises what the store raises. ServiceGone where the service cannot be reached any more, or where it went away
        before it had answered what must not be asked for twice.
        """
        with self._lock:
            pauses = backoff.pauses(self._patience)
            while True:
                asked = False
                try:
                    channel = self._connected()
                    asked = True
                    return ask.read(self._exchange(channel, ask))
                except ServiceGone:
                    self.close()
                    pause = next(pauses, None)
                    if pause is None or (asked and not ask.repeats):
                        raise
                    time.sleep(pause)
                except ConvfsError:
                    raise
                except BaseException:
                    # half a frame may be out: nothing can follow it
                    self.close()
                    raise

    def call(
        self,
        operation: Operation[Params, Item, Result],
        params: Params,
        on_item: Callable[[Item], None] | None = None,
        *,
        seconds: float | None = None,
    ) -> Result:
        """Have an operation done, once; hand each item to ``on_item``, return the result.

        Raises what the operation raised (as the class of store.errors that its code stands for), or ServiceGone
        where the connection broke off or ``seconds`` went by in silence.
        """
        channel = self._connected()
        decode_item = json.Decoder(operation.item).decode
        request = Frame(operation.number, self._request_id(), json.encode(params))
        for frame in channel.answers(request, seconds):
            if frame.msg_type == frames.ERROR:
                raise frames.error_of(frame)
            if not frame.flags & frames.MORE:
                return json.decode(frame.payload, type=operation.result)
            if on_item:
                on_item(decode_item(frame.payload))
        raise ServiceGone(f"the process {self.pid} that holds the store ended before it had answered")

    def watch(self, contexts: Sequence[int] = (), *, texts: bool = False) -> Iterator[Change]:
        """Yield what is changed of contexts (none named: of all), as it is; over a connection of its own.

        Begins with a change of context 0, when it listens; ``texts``: also how open turns grow. Raises ServiceGone
        where the service ends.
        """
        channel = Channel(self._place)
        try:
            request = Frame(watch_message.WATCH, 1, json.encode(watch_message.WatchParams(tuple(contexts), texts)))
            for frame in channel.answers(request):
                if frame.msg_type == frames.ERROR:
                    raise frames.error_of(frame)
                yield from json.decode(frame.payload, type=list[Change])
            raise ServiceGone("the process that holds the store ended")
        finally:
            channel.close()

    def _connected(self) -> Channel:
        if self._channel is None:
            self._channel = Channel(self._place)
            self.pid = self._channel.pid
        return self._channel

    def _request_id(self) -> int:
        req_id, self._next_id = self._next_id, self._next_id + 1
        return req_id

    def _exchange(self, channel: Channel, ask: Ask[T]) -> list[Buffer]:
        request = Frame(ask.number, self._request_id(), ask.payload, ask.flags)
        channel.send(request)
        payloads: list[Buffer] = []
        while (frame := channel.receive(request.req_id)) is not None:
            if frame.msg_type == frames.ERROR:
                raise frames.error_of(frame)
            payloads.append(frame.payload)
            if not frame.flags & frames.MORE:
                return payloads
        raise ServiceGone("the process that holds the store ended before it had answered")

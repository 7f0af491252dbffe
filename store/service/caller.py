"""A connection for callers that block, on which the calls of any table are made.

It connects when it is first needed, and again, after a growing pause, where the connection breaks off. Repeatable calls
are then made once more; an append is one, since it always has an idempotency key.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from store.errors import ConvfsError
from store.service import channel, frames
from store.service.call import Ask, Emit, Invocation, Item, T
from store.service.channel import Channel, Endpoint, nobody_serves, places
from store.service.channel import ServiceGone as ServiceGone
from store.service.frames import Frame
from store.service.wire import Buffer

_PATIENCE_SECONDS = 10.0


class Caller:
    """A connection to the process that holds a store. Safe to share between threads, which then take turns."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        tcp: tuple[str, int] | None = None,
        token: str = "",
        directory: str = "",
        patience: float = _PATIENCE_SECONDS,
        command: tuple[str, ...] = (),
    ) -> None:
        """Connect to the socket at ``path``, or to a port, or start a ``command`` and speak with that.

        ``directory`` is the key of the wanted store's directory (``store.disk.identity.directory_key``; "": any store),
        ``patience`` the seconds for which it tries to reach a lost service again. Raises ServiceGone where no holder of
        that store answers, ConvfsError where the listener is another user or wants another token.
        """
        self.path = path
        self.place = Endpoint(path, tcp, token, directory, command)
        """The address that it connects to."""
        self._patience = patience
        self._lock = threading.Lock()
        self._next_id = 1
        self._channel: Channel | None = Channel(self.place)
        self.pid = self._channel.pid

    @classmethod
    def of(cls, root: Path) -> Self:
        """Connect to the process that holds the store in the directory ``root``, and never to another store's.

        Raises ServiceGone if no holder answers.
        """
        why: ServiceGone | None = None
        for place in places(root):
            try:
                return cls(place.path, directory=place.directory)
            except ServiceGone as error:
                why = why or error
        raise nobody_serves(root, why)

    def close(self) -> None:
        """Close the connection, and end the calls still running for it."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ask(self, ask: Ask[T]) -> T:
        """Make a call and return its result.

        Raises what the store raises. ServiceGone where the service cannot be reached any more, or where it went away
        before it had answered a call that must not be repeated.
        """
        with self._lock:
            pauses = channel.pauses(self._patience)
            while True:
                asked = False
                try:
                    connection = self._connected()
                    asked = True
                    return ask.read(self._exchange(connection, ask))
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
        self, invocation: Invocation[Item, T], on_item: Emit[Item] | None = None, *, seconds: float | None = None
    ) -> T:
        """Make a call once; hand each item to ``on_item``, return the result.

        Raises what the call raised (as the class of store.errors that its code stands for), or ServiceGone where the
        connection broke off or ``seconds`` went by in silence.
        """
        decode = invocation.call.item.decode
        take = None if on_item is None else lambda payload: on_item(decode(payload))
        return invocation.read(self._exchange(self._connected(), invocation, take, seconds))

    def _connected(self) -> Channel:
        if self._channel is None:
            self._channel = Channel(self.place)
            self.pid = self._channel.pid
        return self._channel

    def _exchange(
        self, channel: Channel, ask: Ask[T], take: Emit[Buffer] | None = None, seconds: float | None = None
    ) -> list[Buffer]:
        """Return the payloads that answer a request; all but the last go to ``take`` if there is one."""
        request = Frame(ask.number, self._next_id, ask.payload, ask.flags)
        self._next_id += 1
        channel.send(request, seconds)
        payloads: list[Buffer] = []
        while (frame := channel.receive(request.req_id)) is not None:
            payload = payload_of(frame)
            if not frame.flags & frames.MORE:
                return [*payloads, payload]
            (take or payloads.append)(payload)
        process = f"process {self.pid}" if self.pid else "process"
        raise ServiceGone(f"the {process} that holds the store ended before it had answered")


def payload_of(answer: Frame) -> Buffer:
    """Return the payload of an answer; raises the error that it carries."""
    if answer.msg_type == frames.ERROR:
        raise frames.error_of(answer)
    return answer.payload

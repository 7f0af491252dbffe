"""A client of the control socket: plain blocking calls, for commands."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import json

from store.errors import ConvfsError
from store.service import address, frames
from store.service.operation import Item, Operation, Params, Result

_RECEIVE = 256 << 10
_CONNECT_SECONDS = 5.0


class ServiceGone(ConvfsError):
    """Nobody answers at the socket, or the connection broke off."""


class Client:
    """One connection to the process that holds a store. Not for use by several threads."""

    def __init__(self, path: Path) -> None:
        """Connect. Raises ServiceGone where nobody listens, ConvfsError where the listener is another user."""
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._decoder = frames.Decoder()
        self._next_id = 1
        try:
            self._socket.settimeout(_CONNECT_SECONDS)
            self._socket.connect(os.fspath(path))
            self._socket.settimeout(None)
        except OSError as error:
            self._socket.close()
            raise ServiceGone(f"nobody answers at {path} ({error.strerror or error})") from error
        self.pid, uid = address.peer(self._socket)
        if uid != os.geteuid():
            self.close()
            raise ConvfsError(f"the process {self.pid} that listens at {path} is another user's (uid {uid})")

    def close(self) -> None:
        """Close the connection; what is still running for it ends."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def call(
        self,
        operation: Operation[Params, Item, Result],
        params: Params,
        on_item: Callable[[Item], None] | None = None,
        *,
        seconds: float | None = None,
    ) -> Result:
        """Have an operation done; hand each item to ``on_item``, return the result.

        Raises what the operation raised (as the class of store.errors that its code stands for), or ServiceGone
        where the connection broke off or ``seconds`` went by in silence.
        """
        req_id, self._next_id = self._next_id, self._next_id + 1
        decode_item = json.Decoder(operation.item).decode
        request = frames.Frame(operation.number, req_id, json.encode(params))
        for frame in self._answers(request, seconds):
            if frame.msg_type == frames.ERROR:
                raise frames.error_of(frame)
            if not frame.flags & frames.MORE:
                return json.decode(frame.payload, type=operation.result)
            if on_item:
                on_item(decode_item(frame.payload))
        raise ServiceGone(f"the process {self.pid} that holds the store ended before it had answered")

    def _answers(self, request: frames.Frame, seconds: float | None) -> Iterator[frames.Frame]:
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(frames.encode(request))
        except OSError as error:
            raise self._broken(error) from error
        while True:
            try:
                data = self._socket.recv(_RECEIVE)
            except OSError as error:
                raise self._broken(error) from error
            if not data:
                return
            # Answers to an earlier call that was broken off may still come.
            yield from (frame for frame in self._decoder.feed(data) if frame.req_id == request.req_id)

    def _broken(self, error: OSError) -> ServiceGone:
        if isinstance(error, TimeoutError):
            return ServiceGone(f"the process {self.pid} that holds the store does not answer")
        return ServiceGone(f"the connection to process {self.pid} broke off ({error.strerror or error})")

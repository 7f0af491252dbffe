"""One connection to a service, for callers that block: frames there and back, no more."""

import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, json

from store.errors import ConvfsError
from store.service import address, frames
from store.service.frames import BadFrame, Frame
from store.service.wire import Hello, HelloAnswer

_RECEIVE = 256 << 10
_CONNECT_SECONDS = 5.0
_HELLO_ID = 0


class ServiceGone(ConvfsError):
    """Nobody answers at the socket, or the connection broke off."""


class Place(Struct, frozen=True):
    """Where a service is: the path of its socket, or a host and port, and the token that is wanted there."""

    path: Path | None = None
    tcp: tuple[str, int] | None = None
    token: str = ""

    def __str__(self) -> str:
        return str(self.path) if self.tcp is None else f"{self.tcp[0]}:{self.tcp[1]}"

    def hello(self) -> Frame:
        """Return what a connection begins with."""
        meta = json.encode({"token": self.token}) if self.token else b""
        return Frame(Hello.number, _HELLO_ID, Hello(tag=f"convfs {os.getpid()}", meta=meta).encode())


class Channel:
    """A connection. Raises ServiceGone where it cannot be made or breaks off."""

    def __init__(self, place: Place) -> None:
        """Connect. Raises ConvfsError also where another user listens, or the token is not the right one."""
        self._place = place
        self._decoder = frames.Decoder()
        self._buffer = memoryview(bytearray(_RECEIVE))
        self.pid = 0
        """The process at the other end, 0 where that is not known."""
        family = socket.AF_UNIX if place.tcp is None else socket.AF_INET6 if ":" in place.tcp[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._seconds: float | None = None
        self._readable = select.poll()
        self._readable.register(self._socket, select.POLLIN)
        try:
            self._connect(place)
        except BaseException:
            self._socket.close()
            raise

    def _connect(self, place: Place) -> None:
        try:
            self._socket.settimeout(_CONNECT_SECONDS)
            if place.tcp is None:
                self._socket.connect(os.fspath(place.path or ""))
            else:
                self._socket.connect(place.tcp)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(None)
        except OSError as error:
            raise ServiceGone(f"nobody answers at {place} ({error.strerror or error})") from error
        if place.tcp is None:
            self.pid, uid = address.peer(self._socket)
            if uid != os.geteuid():
                raise ConvfsError(f"the process {self.pid} that listens at {place} is another user's (uid {uid})")
            return
        answer = next(self.answers(place.hello(), _CONNECT_SECONDS), None)
        if answer is None:
            raise ServiceGone(f"the connection to {place} broke off")
        if answer.msg_type == frames.ERROR:
            raise frames.error_of(answer)
        HelloAnswer.decode(answer.payload)

    def close(self) -> None:
        """Close the connection; what is still running for it ends."""
        self._socket.close()

    def answers(self, request: Frame, seconds: float | None = None) -> Iterator[Frame]:
        """Send a request and yield what answers it, in order; ServiceGone after ``seconds`` of silence."""
        self.send(request, seconds)
        while (frame := self.receive(request.req_id)) is not None:
            yield frame

    def send(self, request: Frame, seconds: float | None = None) -> None:
        """Send a request; it, and each of its answers, may take ``seconds``."""
        try:
            if seconds != self._seconds:
                self._socket.settimeout(seconds)
                self._seconds = seconds
            self._socket.sendall(frames.encode(request))
        except OSError as error:
            raise self._gone(error) from error

    def receive(self, req_id: int) -> Frame | None:
        """Return the next frame that answers a request, None where the connection has ended."""
        decoder = self._decoder
        try:
            while True:
                while (frame := decoder.next()) is not None:
                    # Answers to an earlier call that was broken off may still come.
                    if frame.req_id == req_id:
                        return frame
                if self._seconds is None:
                    # who waits in recv is woken for nothing when the peer takes what was sent
                    self._readable.poll()
                size = self._socket.recv_into(self._buffer)
                if not size:
                    return None
                decoder.add(self._buffer[:size])
        except OSError as error:
            raise self._gone(error) from error
        except BadFrame as error:
            raise ServiceGone(f"{self._who()} sent what cannot be understood ({error})") from error

    def _gone(self, error: OSError) -> ServiceGone:
        if isinstance(error, TimeoutError):
            return ServiceGone(f"{self._who()} does not answer")
        return ServiceGone(f"the connection to {self._who()} broke off ({error.strerror or error})")

    def _who(self) -> str:
        return f"process {self.pid}, which holds the store," if self.pid else str(self._place)

"""One connection to a service, for callers that block: frames there and back, no more."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, json

from store.disk.identity import directory_key
from store.errors import Conflict, ConvfsError
from store.service import address, frames
from store.service.frames import BadFrame, Frame
from store.service.wire import SAME_STORE, Hello, HelloAnswer

if TYPE_CHECKING:
    import subprocess

_FIRST_SECONDS = 0.02
_LONGEST_SECONDS = 1.0


def pauses(patience: float) -> Iterator[float]:
    """Yield seconds to wait, each time longer, until they add up to ``patience``."""
    # here, as few wait
    import random

    pause, waited = _FIRST_SECONDS, 0.0
    while waited < patience:
        # clients that lost the same service must not all come back at once
        this = min(pause * random.uniform(0.5, 1.5), patience - waited)  # noqa: S311  (no secret)
        yield this
        waited += this
        pause = min(pause * 2, _LONGEST_SECONDS)


_RECEIVE = 256 << 10
_CONNECT_SECONDS = 5.0
_END_SECONDS = 20.0
HELLO_SECONDS = 10.0
"""A service that is at heavy work answers later than its socket does."""
_HELLO_ID = 0


class ServiceGone(ConvfsError):
    """Nobody answers at the socket, or the connection broke off."""


class Endpoint(Struct, frozen=True):
    """The address of a service: the path of its socket, or a host and port, and the token that it wants.

    ``directory`` is the key of the wanted store's directory (``store.disk.identity``); "": any store. ``command`` is a
    program that is to be started and speaks on its standard streams, instead of an address.
    """

    path: Path | None = None
    tcp: tuple[str, int] | None = None
    token: str = ""
    directory: str = ""
    command: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.command:
            return f"the other end of {self.command[0]}"
        return str(self.path) if self.tcp is None else f"{self.tcp[0]}:{self.tcp[1]}"

    @property
    def greets(self) -> bool:
        """Return whether a connection begins with a HELLO."""
        return self.tcp is not None or bool(self.directory)

    def hello(self) -> Frame:
        """Return the greeting of a connection."""
        said = {"token": self.token, "directory": self.directory}
        meta = {key: value for key, value in said.items() if value}
        payload = Hello(tag=f"convfs {os.getpid()}", meta=json.encode(meta) if meta else b"").encode()
        return Frame(Hello.number, _HELLO_ID, payload)

    def check(self, answer: Frame) -> None:
        """Check the answer to :meth:`hello`. ServiceGone where it is not the wanted store, or does not say so;
        otherwise the error that an ERROR carries.
        """
        if answer.msg_type == frames.ERROR:
            error = frames.error_of(answer)
            if isinstance(error, Conflict):
                raise ServiceGone(f"nobody answers for the store at {self} any more: {error}")
            raise error
        HelloAnswer.decode(answer.payload)
        if self.directory and not answer.flags & SAME_STORE:
            raise ServiceGone(f"the convfs that answers at {self} is too old to say which store it holds: end it first")


def places(root: Path) -> Iterator[Endpoint]:
    """Yield the possible addresses of a service of the store at ``root``; each must confirm that it is."""
    with contextlib.suppress(OSError):
        key = directory_key(root)
        yield from (Endpoint(path, directory=key) for path in address.sockets(root))


def nobody_serves(root: Path, why: ServiceGone | None) -> ServiceGone:
    """Return the error to raise where no holder of the store at ``root`` answers; ``why`` is the reason."""
    reason = f" ({why})" if why else ""
    return ServiceGone(f"nobody serves the store at {root}{reason}: `convfs serve` or `convfs mount` does")


class Channel:
    """A connection. Raises ServiceGone where it cannot be made or breaks off."""

    def __init__(self, place: Endpoint) -> None:
        """Connect. Raises ConvfsError also where another user listens, or the token is not the right one."""
        self._place = place
        self._decoder = frames.Decoder()
        # used again and again: so much memory comes from the system each time, which takes longer than an append
        self._received = memoryview(bytearray(_RECEIVE))
        self.pid = 0
        """The process at the other end, 0 where that is not known."""
        self._program: subprocess.Popen[bytes] | None = None
        if place.command:
            self._start(place.command)
            return
        family = socket.AF_UNIX if place.tcp is None else socket.AF_INET6 if ":" in place.tcp[0] else socket.AF_INET
        self._take(socket.socket(family, socket.SOCK_STREAM))
        try:
            self._connect(place)
        except BaseException:
            self._socket.close()
            raise

    def _take(self, connection: socket.socket) -> None:
        self._socket = connection
        self._seconds: float | None = None
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)

    def _start(self, command: Sequence[str]) -> None:
        """Start a program whose standard streams are the connection."""
        import subprocess

        own, its = socket.socketpair()
        with its:
            try:
                self._program = subprocess.Popen(command, stdin=its.fileno(), stdout=its.fileno())
            except OSError as error:
                own.close()
                raise ServiceGone(f"{command[0]} cannot be run: {error.strerror}") from error
        self._take(own)

    def _connect(self, place: Endpoint) -> None:
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
        if place.greets:
            self.send(place.hello(), HELLO_SECONDS)
            answer = self.receive(_HELLO_ID)
            if answer is None:
                raise ServiceGone(f"the connection to {place} broke off")
            place.check(answer)

    def close(self) -> None:
        """Close the connection, and end the calls still running for it."""
        self._socket.close()
        if self._program is not None:
            import subprocess

            try:
                # it ends where its input does
                self._program.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._program.kill()
                self._program.wait()

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
                    # a thread that waits in recv is woken for nothing when the peer takes sent bytes
                    self._readable.poll()
                size = self._socket.recv_into(self._received)
                if not size:
                    return None
                decoder.add(self._received[:size])
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

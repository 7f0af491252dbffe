"""One connected socket: its bytes to and from the protocol, and what waits in it for its turn."""

from __future__ import annotations

import select
import socket
import time
from collections import deque

import trio

from store.service.protocol import MOST_WAITING_BYTES, Connection, Request, State


class Link:
    """A socket that never blocks, registered with ``epoll`` for just what it waits for."""

    def __init__(self, sock: socket.socket, connection: Connection, epoll: select.epoll, buffer: memoryview) -> None:
        """``buffer`` is what is received into, and may be shared: it holds nothing beyond a call of :meth:`read`."""
        self.connection = connection
        self.fd = sock.fileno()
        self.moved = time.monotonic()
        """When bytes last went over it."""
        self.appends: deque[Request] = deque()
        """Appends that come after one which is being done: those of one connection are done in order."""
        self.appending = False
        """Whether one is done by itself, or is going to be when those before it are committed."""
        self.committing = 0
        """How many are being committed together with those of others."""
        self.reads: deque[Request] = deque()
        """Requests that come after one which is being done: the answer to each may be large."""
        self.reading = False
        self.scopes: set[trio.CancelScope] = set()
        """Those of the tasks that work for it."""
        self.paused = False
        """Whether it may not be read now, whatever the protocol says."""
        self._socket = sock
        self._buffer = buffer
        self._epoll = epoll
        self._interest = select.EPOLLIN
        self._room: trio.Event | None = None
        epoll.register(self.fd, self._interest)

    def read(self) -> None:
        """Take what has come."""
        try:
            size = self._socket.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.connection.lost()
            return
        self.moved = time.monotonic()
        self.connection.receive(self._buffer[:size])

    def write(self) -> None:
        """Send what can be sent at once."""
        connection = self.connection
        while connection.waiting:
            buffers = connection.to_send()
            try:
                sent = self._socket.send(buffers[0]) if len(buffers) == 1 else self._socket.sendmsg(buffers)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                # nobody takes answers any more; what was asked for before the peer left is done all the same
                connection.sent(connection.waiting)
                break
            self.moved = time.monotonic()
            connection.sent(sent)
        if self._room is not None and connection.waiting < MOST_WAITING_BYTES:
            self._room.set()
            self._room = None

    @property
    def settled(self) -> bool:
        """Whether there is nothing to be sent, and it is waited for what :meth:`settle` says."""
        connection = self.connection
        return not connection.waiting and self._interest == select.EPOLLIN and connection.reads and not self.paused

    def settle(self) -> None:
        """Wait for what the protocol waits for from now on."""
        interest = 0
        if self.connection.reads and not self.paused:
            interest |= select.EPOLLIN
        if self.connection.waiting:
            interest |= select.EPOLLOUT
        if interest != self._interest:
            self._interest = interest
            self._epoll.modify(self.fd, interest)

    @property
    def has_room(self) -> bool:
        """Whether the peer takes what it is sent."""
        return self.connection.waiting < MOST_WAITING_BYTES and self.connection.state is not State.CLOSED

    async def room(self) -> None:
        """Return when the peer has taken enough of what was sent. Raises ClosedResourceError if it is gone."""
        while self.connection.waiting >= MOST_WAITING_BYTES:
            if self._room is None:
                self._room = trio.Event()
            await self._room.wait()
        if self.connection.state is State.CLOSED:
            raise trio.ClosedResourceError

    def close(self) -> None:
        """Close the socket, and end what works for it."""
        self.connection.lost()
        self._epoll.unregister(self.fd)
        self._socket.close()
        if self._room is not None:
            self._room.set()
        for scope in self.scopes:
            scope.cancel()

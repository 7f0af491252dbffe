"""The loop of the service: all sockets, watched by one task.

The sockets are in an epoll of their own, and the task waits in trio until that one is readable: one wake-up serves
every socket that has something, where a task for each connection would cost a switch each. All appends that are there
when the loop wakes are committed together; their answers go out together.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Container
from functools import partial

import trio

from store.commit.request import Request as Commit
from store.errors import ConvfsError
from store.service import frames
from store.service.link import Link
from store.service.plane import Plane
from store.service.protocol import MOST_WAITING_BYTES, Connection, Payload, Request, State, size_of
from store.service.slots import Slots
from store.service.wire import AppendTurn
from store.service.workers import Committer, Pool, Returns

_LOG = logging.getLogger(__name__)

MOST_CONNECTIONS = 400
_RECEIVE_BYTES = 256 << 10
_LARGE_BYTES = 1 << 20
_MOST_LARGE = 4
"""Of requests that are larger than that, and of answers, so many are in memory at a time."""
_STALLED_SECONDS = 30.0
"""Who holds up others for so long, by neither reading nor writing, is let go."""
_TICK_SECONDS = 5.0

Operate = Callable[[Link, Request], None]


class Hub:
    """Answers on the listeners that it is given, with what ``plane`` and ``operate`` do."""

    def __init__(self, plane: Plane, ours: Container[int]) -> None:
        self.operate: Operate = lambda _link, _request: None
        """Called with each request that is one of ours."""
        self._plane = plane
        self._ours = ours
        self._epoll = select.epoll()
        self.returns = self._returns = Returns()
        """Calls that other threads leave for the loop."""
        self._committer = Committer(plane.submit_all, plane.commits_at_once, self._returns)
        self._pool = Pool(self._returns)
        self._listeners: dict[int, tuple[socket.socket, Callable[[socket.socket], bool], str]] = {}
        self._links: dict[int, Link] = {}
        self._batch: list[tuple[Link, Request, AppendTurn, Commit]] = []
        self._touched: dict[Link, None] = {}
        self._incoming: Slots[Link] = Slots(_MOST_LARGE)
        self._outgoing: Slots[Link] = Slots(_MOST_LARGE)
        self._sessions = 0
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._epoll.register(self._returns.fd, select.EPOLLIN)

    def listen(self, listener: socket.socket, welcome: Callable[[socket.socket], bool], token: str = "") -> None:
        """Answer those who connect to ``listener`` and are welcome; with a token, those who have it."""
        listener.setblocking(False)
        self._listeners[listener.fileno()] = (listener, welcome, token)
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    async def run(self) -> None:
        """Answer until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tick)
                while True:
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                    self._turn()
        finally:
            for link in list(self._links.values()):
                self._close(link)

    def close(self) -> None:
        """Wait for what is being done, and end the threads. After :meth:`run`."""
        self._committer.close()
        self._pool.close()
        self._returns.close()
        self._epoll.close()

    # -- the loop --------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        for fd, events in self._epoll.poll(0):
            link = self._links.get(fd)
            if link is not None:
                self._serve(link, events)
            elif fd == self._returns.fd:
                self._returns.make()
            elif fd in self._listeners:
                self._accept(*self._listeners[fd])
        self.finish()

    def finish(self) -> None:
        """Send what was answered, and have committed what was to be appended."""
        while self._batch or self._touched:
            # first: whose answer is there does not wait for what others append
            touched, self._touched = self._touched, {}
            for link in touched:
                self._send(link)
            if self._batch:
                batch, self._batch = self._batch, []
                self._committer.submit([commit for *_, commit in batch], partial(self._committed, batch))

    def _accept(self, listener: socket.socket, welcome: Callable[[socket.socket], bool], token: str) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _LOG.warning("a connection could not be accepted: %s", error)
                return
            if len(self._links) >= MOST_CONNECTIONS or not welcome(sock):
                sock.close()
                continue
            sock.setblocking(False)
            # as much as the system allows: a large answer goes out in fewer parts
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGE_BYTES)
            self._sessions += 1
            link = Link(sock, Connection(self._sessions, self._ours, token), self._epoll, self._buffer)
            self._links[link.fd] = link

    def _serve(self, link: Link, events: int) -> None:
        connection = link.connection
        over = bool(events & (select.EPOLLHUP | select.EPOLLERR))
        try:
            if (over or events & select.EPOLLIN) and connection.reads and not link.paused:
                link.read()
                self._go_on(link)
        except Exception:
            # one connection's trouble is its own
            _LOG.exception("a connection ended in an unexpected error")
            connection.lost()
        if over and (link.paused or not connection.reads):
            # nobody is left to be answered
            connection.lost()
        if not link.settled:
            self._touched[link] = None

    def _go_on(self, link: Link) -> None:
        connection = link.connection
        if connection.unread:
            for request in connection.requests():
                self._begin(link, request)
            if connection.wanted > _LARGE_BYTES:
                link.paused = not self._incoming.take(link)
                return
        if not connection.in_flight:
            self._touched.update(dict.fromkeys(self._incoming.free(link)))

    def _send(self, link: Link) -> None:
        if self._links.get(link.fd) is not link:
            return
        connection = link.connection
        try:
            link.write()
            self._go_on(link)
            if connection.waiting < MOST_WAITING_BYTES:
                for other in (link, *self._outgoing.free(link)):
                    self._read_next(other)
        except Exception:
            _LOG.exception("a connection ended in an unexpected error")
            connection.lost()
        if connection.state is State.CLOSED:
            self._close(link)
        else:
            link.settle()

    def _close(self, link: Link) -> None:
        del self._links[link.fd]
        link.close()
        self._touched.update(dict.fromkeys(self._incoming.free(link)))
        for other in self._outgoing.free(link):
            self._read_next(other)

    async def _tick(self) -> None:
        """Let go of those who neither take nor bring what others wait for."""
        while True:
            await trio.sleep(_TICK_SECONDS)
            before = time.monotonic() - _STALLED_SECONDS
            for link in (*self._incoming.holders, *self._outgoing.holders):
                if link.moved < before and self._links.get(link.fd) is link:
                    _LOG.warning("a connection that neither read nor wrote for a while has been closed")
                    self._close(link)
            self.finish()

    # -- requests --------------------------------------------------------------------------------------------------

    def _begin(self, link: Link, request: Request) -> None:
        message = request.message
        if message is None:
            self.operate(link, request)
        elif isinstance(message, AppendTurn):
            if link.appending:
                link.appends.append(request)
            else:
                self._append(link, request, message)
        else:
            link.reads.append(request)
            if not link.reading:
                self._read_next(link)

    def _append(self, link: Link, request: Request, message: AppendTurn) -> None:
        try:
            commit = self._plane.appending(message)
        except Exception as error:
            self.fail(link, request, error)
            return
        if commit is not None:
            link.committing += 1
            self._batch.append((link, request, message, commit))
            return
        link.appending = True
        if link.committing:
            # it must not overtake them
            link.appends.appendleft(request)
            return
        self._pool.do(partial(self._plane.perform, message), partial(self._appended, link, request))

    def _appended(self, link: Link, request: Request, result: Payload | Exception) -> None:
        """Take what came of an append that was done by itself."""
        self._finish(link, request, result)
        self._append_next(link)

    def _append_next(self, link: Link) -> None:
        """Begin the appends that waited."""
        link.appending = False
        waiting, link.appends = link.appends, deque()
        for request in waiting:
            self._begin(link, request)

    def _committed(self, batch: list[tuple[Link, Request, AppendTurn, Commit]]) -> None:
        for link, request, message, commit in batch:
            try:
                if commit.error is not None:
                    raise commit.error
                answer = self._plane.appended(message, commit.written[0])
            except Exception as error:
                self.fail(link, request, error)
            else:
                self.answer(link, request, answer)
            link.committing -= 1
            if link.appending and not link.committing:
                self._append_next(link)

    def _read_next(self, link: Link) -> None:
        if link.reading or not link.reads or link.connection.waiting >= MOST_WAITING_BYTES:
            return
        message = link.reads[0].message
        assert message is not None
        link.reading = True
        self._pool.do(partial(self._plane.perform, message), partial(self._was_read, link))

    def _was_read(self, link: Link, result: Payload | Exception) -> None:
        link.reading = False
        if self._links.get(link.fd) is not link:
            return
        if not isinstance(result, Exception) and size_of(result) > _LARGE_BYTES and not self._outgoing.take(link):
            # read once more when there is a place for it
            return
        self._finish(link, link.reads.popleft(), result)
        self._read_next(link)

    def _finish(self, link: Link, request: Request, result: Payload | Exception) -> None:
        if isinstance(result, Exception):
            self.fail(link, request, result)
        else:
            self.answer(link, request, result)

    # -- answers ---------------------------------------------------------------------------------------------------

    def answer(self, link: Link, request: Request, payload: Payload) -> None:
        """Answer a request."""
        link.connection.answer(request.req_id, request.number, payload)
        self._touched[link] = None

    def item(self, link: Link, request: Request, payload: bytes) -> None:
        """Send an item of an answer."""
        link.connection.item(request.req_id, request.number, payload)
        self._touched[link] = None

    def fail(self, link: Link, request: Request, error: BaseException) -> None:
        """Answer a request by what is wrong with it."""
        code, text = frames.error_code(error), str(error)
        if isinstance(error, OSError):
            text = f"{error.filename or 'the store'}: {error.strerror}"
        elif not isinstance(error, ConvfsError):
            _LOG.error("message %d failed", request.number, exc_info=error)
            text = f"convfs failed at this ({type(error).__name__}: {error}); its log has the details"
        link.connection.fail(request.req_id, code, text)
        self._touched[link] = None

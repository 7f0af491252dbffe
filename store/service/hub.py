"""The loop of the service: all sockets, watched by one task.

The sockets are in an epoll of their own, and the task waits in trio until that one is readable: one wake-up serves
every socket that has something, where a task for each connection would cost a switch each. All appends, and pieces of
open turns, that are there when the loop wakes are committed together; their answers go out together.

Threads wait for the disk, so that the loop hardly ever does. Their results come back to it as calls, which it makes
when it is woken; one wake-up brings all that are ready.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Hashable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import trio
from msgspec import Struct

from store.commit.request import Request as Commit
from store.commit.writer import Writer
from store.disk import files
from store.errors import ConvfsError
from store.service import frames
from store.service.plane import Plane
from store.service.protocol import MOST_WAITING_BYTES, Connection, Payload, Request, State, size_of
from store.service.wire import AppendTurn


class _Append(Struct, frozen=True, eq=False):
    """An append, the ``number``-th request of its connection."""

    link: Link
    number: int
    request: Request
    message: AppendTurn


class Joined(NamedTuple):
    """A commit that is all of a request of ours, and the payload of its answer.

    ``release`` is called when it was submitted, or will never be.
    """

    commit: Commit
    answer: bytes
    release: Callable[[], None]


class Operator(Protocol):
    """Does requests that are ours."""

    def joining(self, request: Request) -> Joined | None:
        """Return the commit that is all of a request, so that it is made with the appends; None for any other."""

    async def perform(self, hub: Hub, link: Link, request: Request) -> None:
        """Carry out a request, and answer it."""


_RECEIVE_BYTES = 256 << 10
_READ, _OVER = select.EPOLLIN, select.EPOLLHUP | select.EPOLLERR
_OPEN = State.OPEN


class Link:
    """A socket that never blocks, registered with ``epoll`` for just the events that it waits for."""

    def __init__(self, sock: socket.socket, connection: Connection, epoll: select.epoll) -> None:
        self.connection = connection
        self.fd = sock.fileno()
        self.moves = 0
        """The number of times that bytes went over it."""
        self.still = (0, 0.0)
        """The value of it, and since when it has been that."""
        self.appends: deque[_Append] = deque()
        """Appends that come after one which is being done: those of one connection are done in order."""
        self.appending = False
        """True if an append is done by itself, or will be when those before it are committed."""
        self.held = False
        """True if that append waits for reads that came before it, one of which may bring what it names."""
        self.unfinished: dict[int, None] = {}
        """The appends that are not done, by their number in this connection, in order."""
        self.asked = 0
        """The number of requests that came."""
        self.committing = 0
        """The number of appends being committed together with those of others."""
        self.reads: deque[tuple[int, Request]] = deque()
        """Other requests, by number. They are done one by one, since answers may be large, and after the appends before
        them: a connection sees what it has written."""
        self.reading = False
        self.scopes: set[trio.CancelScope] = set()
        """Those of the tasks that work for it."""
        self.paused = False
        """True if it may not be read now, whatever the protocol says."""
        self._socket = sock
        self._receive, self._send = sock.recv, sock.send
        self._epoll = epoll
        self._interest = _READ
        self._room: trio.Event | None = None
        epoll.register(self.fd, self._interest)

    def read(self) -> None:
        """Receive the bytes that have come."""
        try:
            data = self._receive(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.connection.lost()
            return
        self.moves += 1
        self.connection.receive(data)

    def write(self) -> None:
        """Send as much as can be sent at once."""
        connection = self.connection
        while connection.waiting:
            buffers = connection.to_send()
            try:
                sent = self._send(buffers[0]) if len(buffers) == 1 else self._socket.sendmsg(buffers)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                # nobody takes answers any more; requests made before the peer left are done all the same
                connection.sent(connection.waiting)
                break
            self.moves += 1
            connection.sent(sent)
        if self._room is not None and connection.waiting < MOST_WAITING_BYTES:
            self._room.set()
            self._room = None

    @property
    def settled(self) -> bool:
        """Return whether all that came was looked at, all answers are sent, and the link waits for what comes next."""
        connection = self.connection
        left = connection.waiting or connection.unread
        return not left and self._interest == _READ and connection.state is _OPEN

    def settle(self) -> None:
        """Wait from now on for the events that the protocol waits for."""
        interest = 0
        if self.connection.reads and not self.paused:
            interest |= _READ
        if self.connection.waiting:
            interest |= select.EPOLLOUT
        if interest != self._interest:
            self._interest = interest
            self._epoll.modify(self.fd, interest)

    def stalled(self, now: float, seconds: float) -> bool:
        """Return whether no bytes went over it since a call at least ``seconds`` ago."""
        if self.still[0] != self.moves or not self.still[1]:
            self.still = (self.moves, now)
        return now - self.still[1] >= seconds

    @property
    def has_room(self) -> bool:
        """Return whether the peer takes what it is sent."""
        return self.connection.waiting < MOST_WAITING_BYTES and self.connection.state is not State.CLOSED

    async def room(self) -> None:
        """Wait until the peer has taken enough of what was sent. Raises ClosedResourceError if it is gone."""
        while self.connection.waiting >= MOST_WAITING_BYTES:
            if self._room is None:
                self._room = trio.Event()
            await self._room.wait()
        if self.connection.state is State.CLOSED:
            raise trio.ClosedResourceError

    def close(self) -> None:
        """Close the socket, and end the work for it."""
        self.connection.lost()
        self._epoll.unregister(self.fd)
        self._socket.close()
        if self._room is not None:
            self._room.set()
        for scope in self.scopes:
            scope.cancel()


Holder = TypeVar("Holder", bound=Hashable)


class Slots(Generic[Holder]):
    """``count`` places. Who finds none waits its turn."""

    def __init__(self, count: int) -> None:
        self.taken = False
        """True if anybody holds a place."""
        self._count = count
        self._holders: dict[Holder, None] = {}
        self._waiting: dict[Holder, None] = {}

    def take(self, holder: Holder) -> bool:
        """Take a place, or queue for one and return False; a holder keeps its place."""
        if holder in self._holders:
            return True
        if len(self._holders) >= self._count:
            self._waiting[holder] = None
            return False
        self._waiting.pop(holder, None)
        self._holders[holder] = None
        self.taken = True
        return True

    def free(self, holder: Holder) -> list[Holder]:
        """Give a place back, or stop waiting; return the holders that may now try again."""
        if not self._holders:
            # then nobody waits
            return []
        self._waiting.pop(holder, None)
        if holder not in self._holders:
            return []
        del self._holders[holder]
        self.taken = bool(self._holders)
        return list(self._waiting)[: self._count - len(self._holders)]

    @property
    def holders(self) -> list[Holder]:
        """The holders of places, if anybody waits for one."""
        return list(self._holders) if self._waiting else []


_THREADS = 3
_QUICK_SECONDS = 0.005
"""A commit that takes longer than that holds up readers."""

Call = Callable[[], None]
T = TypeVar("T")
Done: TypeAlias = Callable[[T | Exception], None]


class _Batch(NamedTuple):
    """The requests that :meth:`Committer.submit` was given."""

    commits: list[Commit]
    done: Call
    releases: Sequence[Call]

    def release(self) -> None:
        for release in self.releases:
            release()




class Returns:
    """Calls that threads leave for the loop. ``fd`` is readable while there are some."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._calls: deque[Call] = deque()
        self._told = False
        self._closed = False
        self._lock = threading.Lock()

    def put(self, call: Call) -> None:
        """Leave a call. Any thread."""
        with self._lock:
            if self._closed:
                return
            self._calls.append(call)
            if not self._told:
                self._told = True
                os.eventfd_write(self.fd, 1)

    def make(self) -> None:
        """Make the calls that are there. The loop."""
        with self._lock:
            if self._told:
                self._told = False
                os.eventfd_read(self.fd)
        calls = self._calls
        for _ in range(len(calls)):
            try:
                calls.popleft()()
            except Exception:
                # it was about one connection, and the loop is everyone's
                _LOG.exception("what a thread had done could not be told")

    def close(self) -> None:
        """Stop taking work."""
        with self._lock:
            self._closed = True
            os.close(self.fd)


class Pool(Generic[T]):
    """Threads, one for each name, for work that may wait."""

    def __init__(self, returns: Returns, *names: str) -> None:
        self._returns = returns
        self._waiting: SimpleQueue[tuple[Callable[[], T], Done[T]] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    def do(self, work: Callable[[], T], done: Done[T]) -> None:
        """Run ``work`` in a thread; ``done`` is called in the loop with its result or exception."""
        self._waiting.put((work, done))

    def close(self) -> None:
        """End when all is done."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (task := self._waiting.get()) is not None:
            work, done = task
            result: T | Exception
            try:
                result = work()
            except Exception as error:
                result = error
            self._returns.put(partial(done, result))
            del task, work, done, result


class Committer:
    """Submits all waiting requests in one go: at once, as long as that takes next to no time, else in a thread.

    A sync of a good disk takes no longer than having another thread woken up, and being woken by it. While commits take
    their time, though, the loop goes on serving readers.
    """

    def __init__(self, writer: Writer, returns: Returns) -> None:
        self._writer = writer
        self._quick = True
        self._busy = False
        """True while the thread commits; requests that come meanwhile wait."""
        self._waiting: list[_Batch] = []
        self._thread: Pool[None] = Pool(returns, "convfs-appends")

    def submit(self, commits: list[Commit], done: Call, releases: Sequence[Call] = ()) -> None:
        """Queue requests for a commit; ``done`` is called when each is filled in or has its error. For the loop.

        ``releases`` are called by the thread that commits, or when the requests will never be submitted.
        """
        self._waiting.append(_Batch(commits, done, releases))
        if not self._busy:
            self._begin()

    def close(self) -> None:
        """Wait for the current commit, and end."""
        self._thread.close()
        for batch in self._waiting:
            batch.release()

    def _begin(self) -> None:
        batches, self._waiting = self._waiting, []
        if self._quick and self._writer.at_once:
            self._commit(batches)
            for batch in batches:
                batch.done()
        else:
            self._busy = True
            self._thread.do(partial(self._commit, batches), partial(self._handed_back, batches))

    def _handed_back(self, batches: list[_Batch], _result: Exception | None) -> None:
        self._busy = False
        for batch in batches:
            batch.done()
        if self._waiting:
            self._begin()

    def _commit(self, batches: list[_Batch]) -> None:
        commits = [commit for batch in batches for commit in batch.commits]
        began = time.monotonic()
        try:
            self._writer.submit_all(commits)
        except Exception as error:
            for commit in commits:
                commit.error = commit.error or error
        for batch in batches:
            batch.release()
        self._quick = time.monotonic() - began < _QUICK_SECONDS


_LOG = logging.getLogger(__name__)

MOST_CONNECTIONS = 400
_LARGE_BYTES = 1 << 20
_MOST_LARGE = 4
"""The most requests larger than that, and the most such answers, in memory at a time."""
_STALLED_SECONDS = 30.0
"""A connection that holds up others for so long, by neither reading nor writing, is closed."""
_TICK_SECONDS = 5.0
_ROUNDS = 8
"""How often the loop looks for more appends before it has those that came committed."""
_STAY_SECONDS = 0.001
"""The time for which the loop looks after its sockets before it lets other tasks of trio's go on."""


class Hub:
    """Answers on its listeners: ``plane`` does the messages of the wire protocol, ``operator`` those that are ``ours``,
    in tasks of ``nursery``; ``writer`` commits. ``ours`` and ``directory`` are those of :class:`Connection`.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        plane: Plane,
        writer: Writer,
        returns: Returns,
        ours: Container[int],
        operator: Operator,
        directory: str,
    ) -> None:
        self._nursery = nursery
        self._plane = plane
        self._returns = returns
        self._ours = ours
        self._operator = operator
        self._directory = directory
        self._epoll = select.epoll()
        self._committer = Committer(writer, returns)
        self._pool: Pool[Payload] = Pool(returns, *(f"convfs-service-{number}" for number in range(_THREADS)))
        self._listeners: dict[int, tuple[socket.socket, Callable[[socket.socket], bool], str]] = {}
        self._links: dict[int, Link] = {}
        self._batch: list[tuple[_Append, Commit]] = []
        self._joined: list[tuple[Link, Request, Joined]] = []
        self._touched: dict[Link, None] = {}
        self._incoming: Slots[Link] = Slots(_MOST_LARGE)
        self._outgoing: Slots[Link] = Slots(_MOST_LARGE)
        self._sessions = 0
        self._operating = 0
        """The number of tasks that work for connections: they need trio."""
        self._spare = os.dup(returns.fd)
        """A descriptor that is there when there is no other."""
        self._epoll.register(returns.fd, select.EPOLLIN)

    def listen(self, listener: socket.socket, welcome: Callable[[socket.socket], bool], token: str = "") -> None:
        """Answer permitted clients that connect to ``listener``; with a token, those that have it."""
        listener.setblocking(False)
        self._listeners[listener.fileno()] = (listener, welcome, token)
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    async def run(self) -> None:
        """Answer until cancelled."""
        self._nursery.start_soon(self._tick)
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                self._turn(0)
                # a client that was answered goes on soon, and a wake-up by trio takes as long as an append
                until = time.monotonic() + _STAY_SECONDS
                while not self._operating and (left := until - time.monotonic()) > 0 and self._turn(left):
                    pass
        finally:
            for link in list(self._links.values()):
                self._close(link)

    def close(self) -> None:
        """Wait for work in progress, and end the threads. Called when all tasks have ended."""
        self._committer.close()
        for _link, _request, joined in self._joined:
            joined.release()
        self._pool.close()
        self._epoll.close()
        with suppress(OSError):
            os.close(self._spare)

    # -- the loop --------------------------------------------------------------------------------------------------

    def _turn(self, seconds: float) -> bool:
        """Serve what comes within ``seconds``; return whether there was anything."""
        ready = self._epoll.poll(seconds)
        if not ready:
            self.finish()
            return False
        for _round in range(_ROUNDS):
            gathered = len(self._batch)
            for fd, events in ready:
                link = self._links.get(fd)
                if link is not None:
                    self._serve(link, events)
                elif fd == self._returns.fd:
                    self._returns.make()
                elif fd in self._listeners:
                    self._accept(*self._listeners[fd])
            # clients that were answered together send their next appends one after the other: one sync does for them
            if len(self._batch) == gathered or not (ready := self._epoll.poll(0)):
                break
        self.finish()
        return True

    def finish(self) -> None:
        """Send the answers, and have the appends committed."""
        while self._batch or self._joined or self._touched:
            # first: ready answers do not wait for the appends of others
            touched, self._touched = self._touched, {}
            for link in touched:
                self._send(link)
            if self._batch or self._joined:
                batch, self._batch = self._batch, []
                others, self._joined = self._joined, []
                commits = [commit for _append, commit in batch]
                commits += [joined.commit for _link, _request, joined in others]
                releases = [joined.release for _link, _request, joined in others]
                self._committer.submit(commits, partial(self._committed, batch, others), releases)

    def _accept(self, listener: socket.socket, welcome: Callable[[socket.socket], bool], token: str) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _LOG.warning("a connection could not be accepted: %s", error)
                self._turn_away(listener)
                return
            if len(self._links) >= MOST_CONNECTIONS or not welcome(sock):
                sock.close()
                continue
            try:
                files.check()
            except OSError as error:
                _LOG.warning("a connection was not taken: %s", error)
                sock.close()
                continue
            sock.setblocking(False)
            # as much as the system allows: a large answer goes out in fewer parts
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGE_BYTES)
            self._sessions += 1
            link = Link(sock, Connection(self._sessions, self._ours, token, self._directory), self._epoll)
            self._links[link.fd] = link

    def _turn_away(self, listener: socket.socket) -> None:
        """Close a connection that there is no descriptor for: one that waits would be told of for ever."""
        with suppress(OSError):
            os.close(self._spare)
        # another may get that number now
        self._spare = -1
        with suppress(OSError):
            listener.accept()[0].close()
        with suppress(OSError):
            self._spare = os.dup(self._returns.fd)

    def _serve(self, link: Link, events: int) -> None:
        connection = link.connection
        reads = connection.reads and not link.paused
        try:
            if reads and events & (_READ | _OVER):
                link.read()
                for request in connection.requests():
                    self._begin(link, request)
                if connection.unread or self._incoming.taken:
                    self._go_on(link)
        except Exception:
            # one connection's trouble is its own
            _LOG.exception("a connection ended in an unexpected error")
            connection.lost()
        if events & _OVER and (link.paused or not connection.reads):
            # nobody is left to be answered
            connection.lost()
        if not (reads and link.settled):
            self._touched[link] = None

    def _go_on(self, link: Link) -> None:
        connection = link.connection
        if connection.unread:
            for request in connection.requests():
                self._begin(link, request)
            if connection.unread and connection.wanted > _LARGE_BYTES:
                link.paused = not self._incoming.take(link)
                return
        if self._incoming.taken and not connection.in_flight:
            self._touched.update(dict.fromkeys(self._incoming.free(link)))

    def _send(self, link: Link) -> None:
        if self._links.get(link.fd) is not link:
            return
        connection = link.connection
        try:
            link.write()
            if connection.unread or self._incoming.taken:
                self._go_on(link)
            if (link.reads or self._outgoing.taken) and connection.waiting < MOST_WAITING_BYTES:
                for other in (link, *self._outgoing.free(link)):
                    self._read_next(other)
        except Exception:
            _LOG.exception("a connection ended in an unexpected error")
            connection.lost()
        if link.settled:
            return
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
        """Drop peers that neither take nor send bytes while others wait for them."""
        while True:
            await trio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            for link in (*self._incoming.holders, *self._outgoing.holders):
                if link.stalled(now, _STALLED_SECONDS) and self._links.get(link.fd) is link:
                    _LOG.warning("a connection that neither read nor wrote for a while has been closed")
                    self._close(link)
            self.finish()

    # -- requests --------------------------------------------------------------------------------------------------

    def _begin(self, link: Link, request: Request) -> None:
        message = request.message
        if message is None:
            try:
                joined = self._operator.joining(request)
            except Exception as error:
                self.fail(link, request, error)
                return
            if joined is not None:
                self._joined.append((link, request, joined))
                return
            self._operating += 1
            self._nursery.start_soon(self._perform, link, request)
            return
        link.asked += 1
        if isinstance(message, AppendTurn):
            link.unfinished[link.asked] = None
            self._append(_Append(link, link.asked, request, message))
        else:
            link.reads.append((link.asked, request))
            self._read_next(link)

    async def _perform(self, link: Link, request: Request) -> None:
        with trio.CancelScope() as scope:
            link.scopes.add(scope)
            try:
                await self._operator.perform(self, link, request)
            finally:
                link.scopes.discard(scope)
                self._operating -= 1

    def _append(self, append: _Append) -> None:
        link = append.link
        if link.appending:
            link.appends.append(append)
            return
        if append.message.fs_root is not None and link.reads and link.reads[0][0] < append.number:
            link.appending = link.held = True
            link.appends.appendleft(append)
            return
        try:
            commit = self._plane.appending(append.message)
        except Exception as error:
            self._appended(append, error)
            return
        if commit is not None:
            link.committing += 1
            self._batch.append((append, commit))
            return
        link.appending = True
        if link.committing:
            # it must not overtake them
            link.appends.appendleft(append)
            return
        self._pool.do(partial(self._plane.perform, append.message), partial(self._appended_alone, append))

    def _appended_alone(self, append: _Append, result: Payload | Exception) -> None:
        self._appended(append, result)
        self._append_next(append.link)

    def _append_next(self, link: Link) -> None:
        link.appending = link.held = False
        waiting, link.appends = link.appends, deque()
        for append in waiting:
            self._append(append)

    def _committed(self, batch: list[tuple[_Append, Commit]], others: list[tuple[Link, Request, Joined]]) -> None:
        for link, request, joined in others:
            self.answer(link, request, joined.commit.error or joined.answer)
        for append, commit in batch:
            result: Payload | Exception
            try:
                result = commit.error or self._plane.appended(append.message, commit.written[0])
            except Exception as error:
                result = error
            self._appended(append, result)
            link = append.link
            link.committing -= 1
            if link.appending and not link.committing:
                self._append_next(link)

    def _appended(self, append: _Append, result: Payload | Exception) -> None:
        link = append.link
        self.answer(link, append.request, result)
        del link.unfinished[append.number]
        if link.reads and self._links.get(link.fd) is link:
            self._read_next(link)

    def _read_next(self, link: Link) -> None:
        if link.reading or not link.reads or link.connection.waiting >= MOST_WAITING_BYTES:
            return
        number, request = link.reads[0]
        if link.unfinished and next(iter(link.unfinished)) < number:
            return
        assert request.message is not None
        link.reading = True
        self._pool.do(partial(self._plane.perform, request.message), partial(self._was_read, link))

    def _was_read(self, link: Link, result: Payload | Exception) -> None:
        link.reading = False
        if self._links.get(link.fd) is not link:
            return
        if not isinstance(result, Exception) and size_of(result) > _LARGE_BYTES and not self._outgoing.take(link):
            # read once more when there is a place for it
            return
        self.answer(link, link.reads.popleft()[1], result)
        if link.held:
            self._append_next(link)
        self._read_next(link)

    # -- answers ---------------------------------------------------------------------------------------------------

    def answer(self, link: Link, request: Request, result: Payload | Exception) -> None:
        """Answer a request."""
        if isinstance(result, Exception):
            self.fail(link, request, result)
            return
        link.connection.answer(request.req_id, request.number, result)
        self._touched[link] = None

    def item(self, link: Link, request: Request, payload: bytes) -> None:
        """Send an item of an answer."""
        link.connection.item(request.req_id, request.number, payload)
        self._touched[link] = None

    def fail(self, link: Link, request: Request, error: BaseException) -> None:
        """Answer a request with an error."""
        code, text = frames.error_code(error), str(error)
        if isinstance(error, OSError):
            text = f"{error.filename or 'the store'}: {error.strerror}"
        elif not isinstance(error, ConvfsError):
            _LOG.error("message %d failed", request.number, exc_info=error)
            text = f"convfs failed at this ({type(error).__name__}: {error}); its log has the details"
        link.connection.fail(request.req_id, code, text)
        self._touched[link] = None

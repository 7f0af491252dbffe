"""A line between a client and a server that does what lines do: it is slow, stops, breaks, and loses answers."""

import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import trio

PATIENCE = 30.0
_CHUNK = 64 << 10


class Proxy:
    """Listens on a port of this machine, and passes on what comes to another; in a thread of its own."""

    def __init__(self, target: int) -> None:
        self.target = target
        """The port of the server."""
        self.port = 0
        self.delay = 0.0
        """The seconds that each piece takes."""
        self._down = False
        self._stalled = False
        self._held = threading.Event()
        self._losing = 0
        self._lost = threading.Event()
        self._scopes: set[trio.CancelScope] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    # -- faults ----------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Break all connections, and refuse others until :meth:`heal`."""
        self._down = True
        trio.from_thread.run_sync(self._break, trio_token=self._token)

    def drop(self) -> None:
        """Break all connections that there are."""
        trio.from_thread.run_sync(self._break, trio_token=self._token)

    def stall(self) -> threading.Event:
        """Pass nothing on until :meth:`heal`, and break nothing: a line whose other end is gone.

        Returns what says that something waits to be passed on.
        """
        self._held.clear()
        self._stalled = True
        return self._held

    def lose_answers(self, count: int = 1) -> threading.Event:
        """Pass requests on, and break the connection in the place of the next answers; return what says it was done."""
        self._lost.clear()
        self._losing = count
        return self._lost

    def heal(self) -> None:
        self._down = self._stalled = False
        self._losing = 0
        self.delay = 0.0

    # -- passing on ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as self._scope:
            async with trio.open_nursery() as nursery:
                listeners = await nursery.start(lambda task_status: self._listen(task_status))
                self.port = listeners[0].socket.getsockname()[1]
                self._started.set()

    async def _listen(self, task_status: "trio.TaskStatus[list[trio.SocketListener]]") -> None:
        await trio.serve_tcp(self._connection, 0, host="127.0.0.1", task_status=task_status)

    async def _connection(self, client: trio.SocketStream) -> None:
        if self._down:
            return
        with trio.CancelScope() as scope, suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            self._scopes.add(scope)
            try:
                server = await trio.open_tcp_stream("127.0.0.1", self.target)
                async with server, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass, client, server, False, scope)
                    nursery.start_soon(self._pass, server, client, True, scope)
            except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            finally:
                self._scopes.discard(scope)

    async def _pass(
        self, source: trio.SocketStream, sink: trio.SocketStream, answers: bool, scope: trio.CancelScope
    ) -> None:
        while data := await source.receive_some(_CHUNK):
            while self._stalled:
                self._held.set()
                await trio.sleep(0.01)
            if self.delay:
                await trio.sleep(self.delay)
            if answers and self._losing:
                self._losing -= 1
                if not self._losing:
                    self._lost.set()
                break
            await sink.send_all(data)
        scope.cancel()

    def _break(self) -> None:
        for scope in list(self._scopes):
            scope.cancel()

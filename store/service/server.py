"""The control socket: answers operations to processes of the same user, in the trio loop of whoever holds the store.

Operations run in worker threads, so that a long one stalls nothing else in the loop. A client that goes away, and the
end of the server, cancel what was asked for at its next item.
"""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trio
from msgspec import DecodeError, json

from store.errors import ConvfsError
from store.service import address, frames
from store.service.frames import Frame
from store.service.operation import Holder, Operation
from store.service.operations import STOP
from store.store import Store

_LOG = logging.getLogger(__name__)

_MAX_CONNECTIONS = 64
_MAX_IN_FLIGHT = 8
_MAX_THREADS = 4
_RECEIVE = 64 << 10
_PROGRESS_SECONDS = 0.1

# The types of an operation concern only the operation itself; the server passes its values through.
AnyOperation = Operation[Any, Any, Any]


async def serve(
    store: Store,
    operations: Iterable[AnyOperation],
    *,
    mountpoint: str = "",
    stop: Callable[[], None] | None = None,
    task_status: trio.TaskStatus[Path] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer on the store's socket (mode 0600, its path noted for clients) until cancelled.

    ``mountpoint`` and ``stop`` are those of :class:`Holder`. Reports the socket's path when it listens.
    """
    path = address.new_socket_path(store.store_id)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
        # Whatever stands there is left over from a process that died: this one holds the store's lock.
        path.unlink(missing_ok=True)
        raw.bind(os.fspath(path))
        path.chmod(0o600)
        raw.listen(_MAX_CONNECTIONS)
        address.note(store.root, path)
        try:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(raw))
            task_status.started(path)
            await Server(Holder(store, mountpoint, str(path), stop), operations).run(listener)
        finally:
            address.note(store.root)
            path.unlink(missing_ok=True)


class Server:
    """Serves the operations that it is given, on one store."""

    def __init__(self, holder: Holder, operations: Iterable[AnyOperation]) -> None:
        self.holder = holder
        self.operations: Mapping[int, AnyOperation] = {operation.number: operation for operation in operations}
        self.threads = trio.CapacityLimiter(_MAX_THREADS)
        self._connections = 0

    async def run(self, listener: trio.SocketListener) -> None:
        """Answer connections until cancelled."""
        await trio.serve_listeners(self._serve, [listener])

    async def _serve(self, stream: trio.SocketStream) -> None:
        _, uid = address.peer(stream)
        if uid != os.geteuid() or self._connections >= _MAX_CONNECTIONS:
            await stream.aclose()
            return
        self._connections += 1
        try:
            await _Connection(self, stream).run()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* Exception:
            # One connection's trouble is its own: raised on, it would end all others, and the mount with them.
            _LOG.exception("a connection to the control socket ended in an unexpected error")
        finally:
            self._connections -= 1


class _Connection:
    """One client. Its requests run side by side, a bounded number of them; its answers are sent one at a time."""

    def __init__(self, server: Server, stream: trio.SocketStream) -> None:
        self._server = server
        self._stream = stream
        self._sending = trio.Lock()
        self._in_flight = trio.Semaphore(_MAX_IN_FLIGHT)

    async def run(self) -> None:
        """Answer until the client goes away or sends what is not a frame."""
        decoder = frames.Decoder()
        async with self._stream, trio.open_nursery() as nursery:
            try:
                while data := await self._stream.receive_some(_RECEIVE):
                    for frame in decoder.feed(data):
                        # Waiting here is what stops reading: a client cannot pile up more than this.
                        await self._in_flight.acquire()
                        nursery.start_soon(self._answer, frame)
            except frames.BadFrame as error:
                await self._send(frames.error_frame(error.req_id, frames.TOO_LARGE, str(error)))
            nursery.cancel_scope.cancel()

    async def _answer(self, frame: Frame) -> None:
        try:
            answer = await self._perform(frame)
            await self._send(answer)
            if answer.msg_type == STOP.number and self._server.holder.stop:
                # Not before: it may end this server at once.
                self._server.holder.stop()
        finally:
            self._in_flight.release()

    async def _perform(self, frame: Frame) -> Frame:
        operation = self._server.operations.get(frame.msg_type)
        if operation is None:
            message = f"this convfs knows no message {frame.msg_type}"
            return frames.error_frame(frame.req_id, frames.NOT_FOUND, message)
        try:
            params = json.decode(frame.payload or b"{}", type=operation.params)
        except (DecodeError, RecursionError) as error:
            return frames.error_frame(frame.req_id, frames.INVALID, f"the parameters do not fit: {error}")
        try:
            result = await self._run(operation, params, frame)
            return Frame(frame.msg_type, frame.req_id, json.encode(result))
        except ConvfsError as error:
            return frames.error_frame(frame.req_id, frames.error_code(error), str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except OSError as error:
            return frames.error_frame(frame.req_id, frames.FAILED, f"{error.filename or 'the store'}: {error.strerror}")
        except Exception as error:
            _LOG.exception("message %d failed", frame.msg_type)
            message = f"convfs failed at this ({type(error).__name__}: {error}); its log has the details"
            return frames.error_frame(frame.req_id, frames.FAILED, message)

    async def _run(self, operation: AnyOperation, params: object, frame: Frame) -> object:
        def item_frame(item: object) -> Frame:
            return Frame(frame.msg_type, frame.req_id, json.encode(item), frames.MORE)

        work: Callable[[Callable[[object], None]], object] = partial(operation.run, self._server.holder, params)
        if not operation.progress:
            # The thread waits until an item is sent, so a slow reader holds up no more than its own request.
            def emit(item: object) -> None:
                trio.from_thread.run(self._send, item_frame(item))

            return await trio.to_thread.run_sync(work, emit, limiter=self._server.threads)

        # Progress must never hold up the work (a client may be stopped): what cannot be sent at once is dropped.
        sender, receiver = trio.open_memory_channel[Frame](1)
        last = 0.0

        def report(item: object) -> None:
            nonlocal last
            trio.from_thread.check_cancelled()
            if (now := time.monotonic()) - last >= _PROGRESS_SECONDS:
                last = now
                with contextlib.suppress(trio.WouldBlock):
                    trio.from_thread.run_sync(sender.send_nowait, item_frame(item))

        failure: Exception | None = None
        result: object = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._forward, receiver)
            async with sender:
                try:
                    result = await trio.to_thread.run_sync(work, report, limiter=self._server.threads)
                except Exception as error:
                    # Raised below: out of the nursery it would come wrapped in a group.
                    failure = error
        if failure:
            raise failure
        return result

    async def _forward(self, receiver: trio.MemoryReceiveChannel[Frame]) -> None:
        async for frame in receiver:
            await self._send(frame)

    async def _send(self, frame: Frame) -> None:
        async with self._sending:
            await self._stream.send_all(frames.encode(frame))

"""Our own messages: each is an operation that runs in a worker thread, and may hand out items on the way.

A client that goes away, and the end of the service, cancel what was asked for at its next item.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import trio
from msgspec import json

from store.service.hub import Hub
from store.service.link import Link
from store.service.operation import Holder, Operation
from store.service.operations import STOP
from store.service.protocol import Request
from store.service.watching import Watchers
from store.service.wire_fields import parameters

_MAX_THREADS = 4
_MAX_BRIEF_THREADS = 16
"""What these write is made durable together."""
_PROGRESS_SECONDS = 0.1

# The types of an operation concern only the operation itself; the service passes its values through.
AnyOperation = Operation[Any, Any, Any]


class Operating:
    """Runs operations for the connections of a hub, in the tasks of a nursery."""

    def __init__(
        self,
        holder: Holder,
        operations: Iterable[AnyOperation],
        hub: Hub,
        watchers: Watchers,
        nursery: trio.Nursery,
    ) -> None:
        self._holder = holder
        self._operations: Mapping[int, AnyOperation] = {operation.number: operation for operation in operations}
        self._hub = hub
        self._nursery = nursery
        self._watchers = watchers
        self._threads = trio.CapacityLimiter(_MAX_THREADS)
        self._brief_threads = trio.CapacityLimiter(_MAX_BRIEF_THREADS)

    def begin(self, link: Link, request: Request) -> None:
        """Begin to do what a request asks for."""
        self._nursery.start_soon(self._perform, link, request)

    async def _perform(self, link: Link, request: Request) -> None:
        scope = trio.CancelScope()
        link.scopes.add(scope)
        try:
            with scope:
                await self._answer(link, request)
        finally:
            link.scopes.discard(scope)

    async def _answer(self, link: Link, request: Request) -> None:
        hub, operation = self._hub, self._operations.get(request.number)
        try:
            if operation is None:
                await self._watchers.watch(link, request)
                return
            params = parameters(request.body, operation.params)
            result = await self._run(operation, params, link, request)
            hub.answer(link, request, json.encode(result))
        except trio.ClosedResourceError:
            return
        except Exception as error:
            hub.fail(link, request, error)
        hub.finish()
        if request.number == STOP.number and self._holder.stop:
            # Not before: it may end this service at once.
            self._holder.stop()

    async def _run(self, operation: AnyOperation, params: object, link: Link, request: Request) -> object:
        hub = self._hub
        work: Callable[[Callable[[object], None]], object] = partial(operation.run, self._holder, params)
        if not operation.progress:
            # The thread waits until an item is taken, so a slow reader holds up no more than its own request.
            async def send(item: bytes) -> None:
                hub.item(link, request, item)
                hub.finish()
                await link.room()

            def emit(item: object) -> None:
                trio.from_thread.run(send, json.encode(item))

            limiter = self._brief_threads if operation.brief else self._threads
            return await trio.to_thread.run_sync(work, emit, limiter=limiter)

        # Progress must never hold up the work (a client may be stopped): what cannot be sent at once is dropped.
        last = 0.0

        def show(item: bytes) -> None:
            if link.has_room:
                hub.item(link, request, item)
                hub.finish()

        def report(item: object) -> None:
            nonlocal last
            trio.from_thread.check_cancelled()
            if (now := time.monotonic()) - last >= _PROGRESS_SECONDS:
                last = now
                with contextlib.suppress(trio.RunFinishedError):
                    trio.from_thread.run_sync(show, json.encode(item))

        return await trio.to_thread.run_sync(work, report, limiter=self._threads)

"""Waiting for the kernel's requests by looking for a while before sleeping.

The next request of a busy program comes within microseconds, and waking up from epoll costs more than answering it.
pyfuse3 takes everything that it needs of trio from its module attribute ``trio`` (which is also how
``pyfuse3.asyncio`` replaces it), so a stand-in there changes how it waits and nothing else.
"""

import select
import time
from types import SimpleNamespace

import pyfuse3
import trio

from fusefs.opens import BUSY, REQUEST, Answered

_PATIENCE_IN_C = 4
"""The extension looks this many times as long: it keeps no other thread from running meanwhile."""
_REQUESTS_PER_CHECKPOINT = 16
"""The number of requests in a row after which other tasks get their turn."""


class Polling:
    """A ``wait_readable`` that looks for the next request for some microseconds before it registers with epoll.

    ``opens`` answers what it can meanwhile.
    """

    def __init__(self, microseconds: int, opens: Answered | None = None) -> None:
        self._patience_in_c = microseconds * _PATIENCE_IN_C
        self._opens = opens
        self._patience = microseconds / 1e6
        self._pollers: dict[int, select.poll] = {}
        self._served = 0
        self._closing = False

    async def wait_readable(self, fd: int) -> None:
        """Return when ``fd`` is readable. Raises ClosedResourceError once it is about to be closed."""
        self._served += 1
        if self._served >= _REQUESTS_PER_CHECKPOINT:
            self._served = 0
            await trio.lowlevel.checkpoint()
        opens = self._opens
        if opens is None or not opens.is_between:
            if not self._look(fd):
                await self._sleep(fd)
            return
        while (found := opens.turn(fd, self._patience_in_c)) != REQUEST:
            if found == BUSY:
                await trio.lowlevel.checkpoint()
            else:
                await self._sleep(fd)

    def _look(self, fd: int) -> bool:
        """Look whether ``fd`` is readable, until it is or there is no patience left."""
        poller = self._pollers.get(fd)
        if poller is None:
            poller = self._pollers[fd] = select.poll()
            poller.register(fd, select.POLLIN)
        if poller.poll(0):
            return True
        until = time.perf_counter() + self._patience
        while time.perf_counter() < until:
            if poller.poll(0):
                return True
        return False

    async def _sleep(self, fd: int) -> None:
        self._served = 0
        if self._closing:
            # it was told while nobody waited, and so would not be told again
            raise trio.ClosedResourceError
        await trio.lowlevel.wait_readable(fd)

    def notify_closing(self, fd: int) -> None:
        """End the waiting for ``fd``, now and from now on."""
        self._closing = True
        trio.lowlevel.notify_closing(fd)


class Lock:
    """A lock between tasks that costs nothing while nobody waits; taking trio's is a checkpoint each time."""

    def __init__(self) -> None:
        self._held = False
        self._waiting = trio.lowlevel.ParkingLot()

    async def __aenter__(self) -> None:
        while self._held:
            await self._waiting.park()
        self._held = True

    async def __aexit__(self, *_exc: object) -> None:
        self._held = False
        self._waiting.unpark()


def install(microseconds: int, opens: Answered | None = None) -> None:
    """Make pyfuse3 wait by polling for so long first, while ``opens`` answers what it can; 0: by trio alone.

    Called before ``pyfuse3.init``.
    """
    if not microseconds:
        pyfuse3.trio = trio  # type: ignore[attr-defined]
        return
    polling = Polling(microseconds, opens)
    lowlevel = SimpleNamespace(
        current_trio_token=trio.lowlevel.current_trio_token,
        current_task=trio.lowlevel.current_task,
        notify_closing=polling.notify_closing,
        wait_readable=polling.wait_readable,
    )
    pyfuse3.trio = SimpleNamespace(  # type: ignore[attr-defined]
        Lock=Lock, lowlevel=lowlevel, open_nursery=trio.open_nursery, ClosedResourceError=trio.ClosedResourceError
    )

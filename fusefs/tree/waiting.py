"""Work of threads: requests wait for it, and the mount goes on meanwhile.

Nodes answer at once. One that needs what is not there yet has a thread get it and raises :class:`Later`; the handler
that asked waits for the work and asks the node again. Nobody waits longer than some seconds: a process that waits for a
file system cannot be interrupted.
"""

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import trio

from store.errors import Away, StoreBusy

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
_THREADS = 4
_END_SECONDS = 1.0
_OLD_SECONDS = 0.25
_TIMES = 4
"""Nothing is done anew until this many times its duration has passed."""
_FAILED_SECONDS = 1.0
_KEPT_SECONDS = 2 * PATIENCE_SECONDS


class Work(Generic[T]):
    """Something that a thread does, once. Made by :meth:`Workers.begin`, which is asked in the mount's loop."""

    def __init__(self, do: Callable[[], T], patience: float = PATIENCE_SECONDS) -> None:
        self._do = do
        self._lock = threading.Lock()
        self._waiting: list[tuple[trio.Event, trio.lowlevel.TrioToken]] = []
        self._until = time.monotonic() + patience
        self._given_up = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self.is_done = False
        self._done_at = self._took = 0.0

    def await_done(self) -> bool:
        """Return whether it is done; raise Later while it is not, and there is patience left."""
        if self.is_done or self._given_up or time.monotonic() > self._until:
            return self.is_done
        raise Later(self)

    @property
    def is_old(self) -> bool:
        """Return whether it was done some time ago: its waiters have asked again since, and it is not all we do."""
        return self.is_done and time.monotonic() > self._done_at + max(_OLD_SECONDS, _TIMES * self._took)

    def result(self) -> T:
        """Return the result, or raise the error. Raises StoreBusy if it takes too long; Later before that."""
        if not self.await_done():
            raise StoreBusy("this takes long: try again in a while")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is one now

    async def wait(self) -> None:
        """Wait until it is done, or there is no patience left."""
        event = trio.Event()
        with self._lock:
            if self.is_done or self._given_up:
                return
            self._waiting.append((event, trio.lowlevel.current_trio_token()))
        with trio.move_on_after(max(0.0, self._until - time.monotonic())):
            await event.wait()

    def run(self) -> None:
        """Do it; called by a thread."""
        began = time.monotonic()
        try:
            self._value = self._do()
        except BaseException as error:
            self._error = error
        self._done_at = time.monotonic()
        self._took = self._done_at - began
        self.is_done = True
        self._wake()

    def give_up(self) -> None:
        self._given_up = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for event, token in waiting:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(event.set)


class Later(Exception):
    """Raised instead of an answer that depends on work that is not done."""

    def __init__(self, work: Work[Any]) -> None:
        super().__init__()
        self.work = work


class Fetches:
    """The parts of packs that a mount's threads fetch for requests; see :class:`store.disk.pack.RemotePacks`."""

    def __init__(self, workers: "Workers") -> None:
        self._workers = workers
        self._works: dict[Hashable, tuple[Work[bytes], float]] = {}
        """By part, and for one that failed until when it is not tried again: who asks may try another way at once."""

    def through(self, part: Hashable, fetch: Callable[[], bytes]) -> bytes:
        """Return what ``fetch`` does. In the mount's loop, raise Later while a thread fetches; Away if it takes long.

        A request that is not asked again waits for it.
        """
        if not self._workers.can_wait or threading.get_ident() != self._workers.loop:
            return fetch()
        work, over = self._works.get(part, (None, 0.0))
        if work is None or (over and time.monotonic() > over):
            work, over = self._workers.begin(fetch), 0.0
            self._works[part] = work, over
        work.await_done()
        try:
            data = work.result()
        except StoreBusy:
            self._works[part] = work, over or time.monotonic() + _FAILED_SECONDS
            raise Away("it takes long to fetch this from the space: try again in a while") from None
        except BaseException:
            self._works[part] = work, over or time.monotonic() + _FAILED_SECONDS
            raise
        del self._works[part]
        return data


class Workers:
    """The threads of one mount. They end with the process, whatever they are at."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Work[Any] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._begun: list[Work[Any]] = []
        self._ended = False
        self.can_wait = False
        """True while a request is answered that may be asked once more: what takes long is then left to a thread."""
        self.loop = 0
        """The thread of the mount's loop, once it has answered such a request."""

    def begin(self, do: Callable[[], T], patience: float = PATIENCE_SECONDS) -> Work[T]:
        """Start some work in a thread and return it; nobody waits for it longer than ``patience``."""
        work = Work(do, patience)
        if self._ended:
            work.give_up()
            return work
        self._begun = [one for one in self._begun if not one.is_done] + [work]
        if len(self._threads) < min(_THREADS, len(self._begun)):
            thread = threading.Thread(target=self._work, name="worker", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put(work)
        return work

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            work.run()

    @property
    def is_ended(self) -> bool:
        """Return whether all waiting has ended: running work is to end soon."""
        return self._ended

    def give_up(self) -> None:
        """End all waiting; those who wait are told that it takes too long."""
        self._ended = True
        for work in self._begun:
            work.give_up()
        for _thread in self._threads:
            self._queue.put(None)

    def end(self) -> None:
        """Wait a little for the threads to end."""
        self.give_up()
        for thread in self._threads:
            thread.join(_END_SECONDS)


class Asked:
    """Something that was asked of the whole store, and what came of it. ``changes`` is what the tree counts."""

    is_whole = True
    """False if something could not be looked at: it is looked for again, whether or not anything has changed.

    The work says so, which may be done before this is made.
    """

    def __init__(self, work: Work[Any], changes: int) -> None:
        self.work = work
        self.changes = changes
        self.asked = 0.0
        """When somebody asked for it last, by the monotonic clock."""


A = TypeVar("A", bound=Asked)


class Lately(Generic[A]):
    """The latest questions. ``kept`` are remembered, and more while somebody may be about to ask again."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._asked: OrderedDict[str, A] = OrderedDict()

    def of(self, key: str, begin: Callable[[], A], *, changes: int | None) -> A:
        """Return the answer for a key; begin it if there is none, or if its count is not ``changes`` (None: any).

        One that is not whole is begun anew, too, unless any will do. But nothing is begun anew at once: those who
        waited for it are to have it.
        """
        now = time.monotonic()
        asked = self._asked.get(key)
        is_current = changes is None or asked is None or (asked.changes == changes and asked.is_whole)
        if asked is None or (not is_current and asked.work.is_old):
            asked = self._asked[key] = begin()
        asked.asked = now
        self._asked.move_to_end(key)
        while len(self._asked) > self._kept and next(iter(self._asked.values())).asked < now - _KEPT_SECONDS:
            self._asked.popitem(last=False)
        return asked

    def forget(self) -> None:
        self._asked.clear()

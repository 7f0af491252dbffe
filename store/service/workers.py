"""The threads that wait for the disk, so that the service's loop hardly ever does.

What they have done comes back to the loop as calls, which it makes when it is woken; one wake-up brings all that is
there. Appends that are waiting are committed together; reads and all else have a few threads of their own.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

from store.commit.request import Request as Commit
from store.service.protocol import Payload

_LOG = logging.getLogger(__name__)

_THREADS = 3
_QUICK_SECONDS = 0.005
"""A commit that takes longer than that holds up those who read."""

Call = Callable[[], None]
Done = Callable[[Payload | Exception], None]
_Batch = tuple[list[Commit], Call]


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
        """Take no more."""
        with self._lock:
            self._closed = True
            os.close(self.fd)


class Committer:
    """Submits whatever waits, all in one go: at once, as long as that takes next to nothing, else by a thread.

    A sync of a good disk takes no longer than having another thread woken up, and being woken by it. While commits take
    their time, though, the loop goes on serving those who read.
    """

    def __init__(
        self, submit_all: Callable[[Sequence[Commit]], None], at_once: Callable[[], bool], returns: Returns
    ) -> None:
        """``at_once`` says whether a commit has to wait for nothing but its own sync."""
        self._submit_all = submit_all
        self._at_once = at_once
        self._returns = returns
        self._quick = True
        self._busy = False
        """Whether the thread is at it; what comes meanwhile waits."""
        self._waiting: list[_Batch] = []
        self._handed: SimpleQueue[list[_Batch] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="convfs-appends", daemon=True)
        self._thread.start()

    def submit(self, commits: list[Commit], done: Call) -> None:
        """Have requests committed; ``done`` is called when each is filled in, or has its error. The loop."""
        self._waiting.append((commits, done))
        if not self._busy:
            self._begin()

    def close(self) -> None:
        """Wait for what is being committed, and end."""
        self._handed.put(None)
        self._thread.join()

    def _begin(self) -> None:
        batches, self._waiting = self._waiting, []
        if self._quick and self._at_once():
            self._commit(batches)
            for _commits, done in batches:
                done()
        else:
            self._busy = True
            self._handed.put(batches)

    def _run(self) -> None:
        while (batches := self._handed.get()) is not None:
            self._commit(batches)
            self._returns.put(partial(self._handed_back, batches))

    def _handed_back(self, batches: list[_Batch]) -> None:
        self._busy = False
        for _commits, done in batches:
            done()
        if self._waiting:
            self._begin()

    def _commit(self, batches: list[_Batch]) -> None:
        commits = [commit for commits, _done in batches for commit in commits]
        began = time.monotonic()
        try:
            self._submit_all(commits)
        except Exception as error:
            for commit in commits:
                commit.error = commit.error or error
        self._quick = time.monotonic() - began < _QUICK_SECONDS


class Pool:
    """A few threads for work that may wait."""

    def __init__(self, returns: Returns) -> None:
        self._returns = returns
        self._waiting: SimpleQueue[tuple[Callable[[], Payload], Done] | None]
        self._waiting = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"convfs-service-{number}", daemon=True)
            for number in range(_THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def do(self, work: Callable[[], Payload], done: Done) -> None:
        """Have ``work`` done; ``done`` is called in the loop with what it returned or raised."""
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
            result: Payload | Exception
            try:
                result = work()
            except Exception as error:
                result = error
            self._returns.put(_Result(done, result))
            del task, work, done, result


class _Result:
    """A call with what came of it."""

    __slots__ = ("_done", "_result")

    def __init__(self, done: Done, result: Payload | Exception) -> None:
        self._done = done
        self._result = result

    def __call__(self) -> None:
        self._done(self._result)

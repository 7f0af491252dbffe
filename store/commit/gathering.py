"""Gathering: those who come at the same time are committed together, by one of themselves.

The first to come leads: it takes all that waits, has it committed and wakes the others; meanwhile more gather behind
the next leader. There is no thread of its own to hand work to, so who comes alone pays for the commit and hardly more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from store.commit.request import Request


class Gathering:
    """Has requests committed in groups, one group at a time. Safe to call from any thread.

    ``commit`` makes a group durable, and fills in each request or its error; ``committed`` is called after that, when
    those who wait have been answered. A group is as many requests as ``most_bytes`` hold, and at least one.
    """

    def __init__(
        self, commit: Callable[[list[Request]], None], committed: Callable[[list[Request]], None], most_bytes: int
    ) -> None:
        self.waiting: list[Request] = []
        """Those that no group has yet."""
        self._commit = commit
        self._committed = committed
        self._most_bytes = most_bytes
        self._mutex = threading.Lock()
        self._led = False

    def submit(self, requests: Sequence[Request]) -> None:
        """Have requests committed, which are measured; return when each is filled in, or has its error."""
        waiting = deque(requests)
        if not waiting:
            return
        with self._mutex:
            self.waiting += waiting
            leads = not self._led
            self._led = True
        try:
            while waiting:
                request = waiting[0]
                if not leads:
                    request.gate.acquire()
                    leads = request.leads
                if leads:
                    self._lead(request)
                leads = False
                waiting.popleft()
        except BaseException:
            for request in waiting:
                self._withdraw(request)
            raise

    def _lead(self, own: Request) -> None:
        group: list[Request] = []
        with self._mutex:
            size = 0
            for request in self.waiting:
                size += request.size
                if group and size > self._most_bytes:
                    break
                group.append(request)
            del self.waiting[: len(group)]
        try:
            self._commit(group)
        finally:
            self._hand_over()
            for request in group:
                if request is not own:
                    request.leads = False
                    request.gate.release()
        self._committed(group)

    def _hand_over(self) -> None:
        with self._mutex:
            if self.waiting:
                self.waiting[0].leads = True
                self.waiting[0].gate.release()
            else:
                self._led = False

    def _withdraw(self, request: Request) -> None:
        """Give up waiting (Ctrl-C): if nothing has been done yet, nothing will be."""
        with self._mutex:
            waiting = request in self.waiting
            if waiting:
                self.waiting.remove(request)
        if waiting and request.leads:
            self._hand_over()

"""Gathering: requests that arrive at the same time are committed together, by one of their threads.

The first to arrive leads: it takes all waiting requests, commits them and wakes the others. Meanwhile more gather
behind the next leader. There is no separate thread to hand work to, so a single caller pays for the commit and little
more.

They are woken while the next group is synced, if there is one: until then its leader would wait for the interpreter
again and again, and the disk for it. They are woken one by the other, two at a time. Woken all at once, they would all
ask for the interpreter, and all but one go to sleep again until they get it.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate

from store.commit.request import Request

_AT_ONCE = 2
"""How many are woken first; each wakes one more. So one that is long in coming holds up no more than half of them."""


class Gathering:
    """Has requests committed in groups, one group at a time. Safe to call from any thread.

    ``commit`` makes a group durable, and fills in each request or its error; it calls :meth:`wake` before it waits for
    anything. ``committed`` is called after that. A group is as many requests as fit into ``most_bytes``, and at least
    one.
    """

    def __init__(
        self, commit: Callable[[list[Request]], None], committed: Callable[[list[Request]], None], most_bytes: int
    ) -> None:
        self.waiting: list[Request] = []
        """The requests that are in no group yet."""
        self._commit = commit
        self._committed = committed
        self._most_bytes = most_bytes
        self._mutex = threading.Lock()
        self._led = False
        self._done: list[Request] = []
        """The first of the group that was committed last: they are to be woken."""

    def submit(self, requests: Sequence[Request]) -> None:
        """Commit requests that have been measured; return when each has its result or its error."""
        if not requests:
            return
        with self._mutex:
            leads = not self._led
            self._led = True
            if not leads:
                # who leads does those that fit with the first one itself, and leads the others, too
                for request in requests:
                    request.shut()
                    request.follows = request is not requests[0]
            self.waiting += requests
        done = 0
        try:
            while done < len(requests):
                request = requests[done]
                if not leads:
                    if request.gate is not None:
                        request.gate.acquire()
                        request.pass_on()
                    leads = request.leads
                led = self._lead(requests[done:]) if leads else 1
                # who led from the first one on has all that fitted with this one done
                done += led if request.gate is None else 1
                leads = False
        except BaseException:
            for request in requests[done:]:
                self._withdraw(request)
            raise

    def _lead(self, own: Sequence[Request]) -> int:
        """Commit the first group of those that wait, and return how many are in it."""
        with self._mutex:
            ends = list(accumulate([request.size for request in self.waiting]))
            count = max(bisect_right(ends, self._most_bytes), 1)
            group = self.waiting[:count]
            del self.waiting[:count]
        try:
            self._commit(group)
        finally:
            try:
                self.wake()
                if len(group) > 1:
                    self._answer(group, own)
            finally:
                self._hand_over()
        self._committed(group)
        return count

    def _answer(self, group: list[Request], own: Sequence[Request]) -> None:
        """Note who of a group is to be woken."""
        with self._mutex:
            group[0].leads = False
            # who led from the first of its requests on shut none
            shut = [request for request in group if request.gate is not None]
            if not shut:
                return
            mine = set(own)
            others = [request for request in shut if request not in mine]
            for request in mine.intersection(shut):
                # nobody waits for what this thread does next
                request.open()
            for request, following in zip(others, others[_AT_ONCE:], strict=False):
                request.following = following
            self._done += others[:_AT_ONCE]

    def wake(self) -> None:
        """Wake the callers whose requests were committed before."""
        if self._done:
            with self._mutex:
                done, self._done = self._done, []
            for request in done:
                request.open()

    def _hand_over(self) -> None:
        with self._mutex:
            leader = self.waiting[0] if self.waiting else None
            self._led = leader is not None
            if leader is not None:
                leader.leads = True
                leader.open()
        if leader is None or leader.follows:
            # nobody else commits, or who is to may be among them
            self.wake()

    def _withdraw(self, request: Request) -> None:
        """Give up waiting (Ctrl-C): if nothing has been done yet, nothing will be."""
        with self._mutex:
            waiting = request in self.waiting
            if waiting:
                self.waiting.remove(request)
            request.gate = None
        if waiting and request.leads:
            self._hand_over()
        # it may have been interrupted after it had woken the next
        with suppress(RuntimeError):
            request.pass_on()

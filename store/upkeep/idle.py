"""Idle work: jobs that run while the store is not in use, a slice at a time.

The jobs run in one thread, one after the other, in slices of some hundredths of a second. Between two slices the
thread sleeps at least as long as the last one took: so jobs never take more than half of one processor, and
requests meanwhile are noticed (``activity``). Then it waits until nothing has been asked for a while, but not for ever:
on a store that is always busy, a slice is done now and then all the same.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from store.content.sparing import sparing
from store.errors import StoreFull, Unreachable

SLICE_SECONDS = 0.05
"""The longest that a slice should take."""

_QUIET_SECONDS = 0.5
_HELD_BACK_SECONDS = 30.0
_LEAST_BREATH_SECONDS = 0.01
_NEVER = float("inf")


class Job(Protocol):
    """Something to be done in the background."""

    def step(self) -> bool:
        """Do a slice of the work, some :data:`SLICE_SECONDS` long, and return whether there is more.

        It keeps its own state until the next slice. Anything that it raises is logged, and ends this round.
        """


class Reading(Job, Protocol):
    """A job that goes through the contents of all turns, about in the order of the log."""

    reached: int
    """The turn up to which it has read them."""


T = TypeVar("T", bound=Job)


class _Round(Struct, Generic[T]):
    """A job, how long it rests after it had nothing to do, and when it is to be asked again."""

    job: T
    every: float
    due: float


class Abreast:
    """A job made of several that read the same contents: whichever is furthest behind does the next slice.

    So what one of them has read, or a replica has fetched, is still at hand for the others.
    """

    def __init__(self) -> None:
        self._rounds: list[_Round[Reading]] = []

    def add(self, job: Reading, every: float) -> None:
        """Have ``job`` take part; it rests for ``every`` seconds after it had nothing to do."""
        self._rounds.append(_Round(job, every, 0.0))

    def step(self) -> bool:
        """Do a slice of one of them; see :class:`Job`."""
        now = time.monotonic()
        due = [one for one in self._rounds if one.due <= now]
        if not due:
            return False
        last = min(due, key=lambda one: one.job.reached)
        # also if it fails: the others go on
        last.due = now + last.every
        if last.job.step():
            last.due = now
        return True


class Idle:
    """Runs jobs. ``activity`` returns another value whenever something was asked of the store. Safe to share."""

    def __init__(self, activity: Callable[[], object]) -> None:
        self._activity = activity
        self._changed = threading.Condition()
        self._rounds: list[_Round[Job]] = []
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="convfs-idle", daemon=True)

    def add(self, job: Job, every: float, *, at_once: bool = False) -> None:
        """Run ``job`` whenever ``every`` seconds have passed since it had nothing to do; ``at_once`` the first time."""
        with self._changed:
            due = time.monotonic() + (0 if at_once else every)
            self._rounds.append(_Round(job, every, due))
            self._changed.notify_all()

    def wake(self, job: Job) -> None:
        """Schedule a job to run at the next opportunity, because there is work for it."""
        with self._changed:
            for one in self._rounds:
                if one.job is job:
                    one.due = 0.0
            self._changed.notify_all()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End, after the slice that is being done."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        with sparing():
            self._run_jobs()

    def _run_jobs(self) -> None:
        # here, as commands that only look have no thread for it, and should start fast
        import logging

        log = logging.getLogger(__name__)
        while (one := self._next()) is not None:
            if not self._quiet():
                return
            began = time.monotonic()
            one.due = _NEVER
            try:
                more = one.job.step()
            except (StoreFull, Unreachable) as error:
                log.warning("work in the background waits: %s", error)
                more = False
            except Exception:
                log.exception("work in the background failed; it is tried again in %d s", one.every)
                more = False
            ended = time.monotonic()
            with self._changed:
                # behind those that wait as well; a job that was woken meanwhile must not rest
                one.due = min(one.due, ended if more else ended + one.every)
            if not self._rest(max(ended - began, _LEAST_BREATH_SECONDS)):
                return

    def _next(self) -> _Round[Job] | None:
        """Wait for a job that is due; None to end."""
        with self._changed:
            while not self._closing:
                first = min(self._rounds, key=lambda one: one.due, default=None)
                wait = first.due - time.monotonic() if first is not None else _NEVER
                if first is not None and wait <= 0:
                    return first
                self._changed.wait(min(wait, threading.TIMEOUT_MAX))
        return None

    def _quiet(self) -> bool:
        """Wait until nothing is asked of the store; False to end."""
        began = since = time.monotonic()
        seen = self._activity()
        while since - began < _HELD_BACK_SECONDS:
            if not self._rest(_LEAST_BREATH_SECONDS if since == began else _QUIET_SECONDS):
                return False
            before, seen = seen, self._activity()
            if seen == before:
                return True
            since = time.monotonic()
        return True

    def _rest(self, seconds: float) -> bool:
        """Sleep; False to end."""
        until = time.monotonic() + seconds
        with self._changed:
            while not self._closing and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return not self._closing

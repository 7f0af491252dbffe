"""Patience: how long a thread waits for the space of its store, and who goes on meanwhile.

A command waits until the space has answered or is given up. A thread that changes a file system for others must not:
who saves would wait as long. It is told soon that the space is away, keeps what it was to commit as a draft, and leaves
it to others to find the way back. While it waits, it steps aside for those that are not to wait with it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Protocol

from store.errors import Unreachable

Aside = Callable[[Sequence[int]], AbstractContextManager[object]]
"""Gives a block in which a thread waits for what it does to some contexts, and others go on."""


class _Thread(threading.local):
    seconds: float | None = None
    aside: Aside = nullcontext
    ends: Callable[[], None] | None = None


class _Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...


_thread = _Thread()


@contextmanager
def at_most(seconds: float, aside: Aside = nullcontext) -> Iterator[None]:
    """Have this thread wait for a space so long at most, each time that it asks, within the block; and ``aside``."""
    before = _thread.seconds, _thread.aside
    _thread.seconds, _thread.aside = seconds, aside
    try:
        yield
    finally:
        _thread.seconds, _thread.aside = before


@contextmanager
def waiting(contexts: Sequence[int] = ()) -> Iterator[None]:
    """Wait for a space in the block, aside: ``contexts`` are what changes.

    Whoever goes on meanwhile must need no lock that this thread holds.
    """
    aside = _thread.aside
    if aside is nullcontext:
        yield
        return
    # it is aside from now on
    _thread.aside = nullcontext
    try:
        with ExitStack() as stack:
            stack.enter_context(aside(contexts))
            _thread.ends = stack.close
            yield
    finally:
        _thread.aside, _thread.ends = aside, None


def over() -> None:
    """End the wait that this thread is in, if any: what follows is for all to see at once."""
    if _thread.ends is not None:
        _thread.ends()


def limit() -> float | None:
    """Return how many seconds this thread waits; None: as long as it takes."""
    return _thread.seconds


@contextmanager
def held(lock: _Lock, away: str) -> Iterator[None]:
    """Hold a lock that others hold while they wait for a space. Raises Unreachable where that takes too long.

    At once where the space is ``away``, as is known already ("" if not): others find out when it is back.
    """
    seconds = _thread.seconds
    if away and seconds is not None:
        raise Unreachable(away)
    if not lock.acquire(timeout=-1 if seconds is None else seconds):
        raise Unreachable("the space does not answer: others have been waiting for it")
    try:
        yield
    finally:
        lock.release()

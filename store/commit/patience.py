"""Patience: how long a thread waits for the space of its store.

A command waits until the space has answered or is given up. The thread that answers a file system must not: all who
use the mount would wait with it. It is told soon that the space is away, keeps what it was to commit as a draft, and
leaves it to others to find the way back.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from store.errors import Unreachable


class _Thread(threading.local):
    seconds: float | None = None


class _Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...


_thread = _Thread()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Have this thread wait for a space so long at most, each time that it asks, within the block."""
    before, _thread.seconds = _thread.seconds, seconds
    try:
        yield
    finally:
        _thread.seconds = before


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

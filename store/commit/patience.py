"""Patience: how long a thread waits for the space of its store, and who goes on meanwhile.

A command waits until the space has answered or is given up. A thread that changes a file system for others must not:
who saves would wait as long. It is told soon that the space is away, keeps what it was to commit as a draft, and leaves
it to others to find the way back. While it waits, it steps aside for those that are not to wait with it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import TracebackType
from typing import Protocol

from store.errors import Unreachable

Aside = Callable[[Sequence[int]], AbstractContextManager[object]]
"""Gives a block in which a thread waits for what it does to some contexts, and others go on."""


class _Thread(threading.local):
    seconds: float | None = None
    aside: Aside = nullcontext
    ends: Callable[[], None] | None = None


class Lock(Protocol):
    """As much of a lock as is used here."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


_thread = _Thread()
_ALONE = nullcontext()


@contextmanager
def at_most(seconds: float, aside: Aside = nullcontext) -> Iterator[None]:
    """Have this thread wait for a space so long at most, each time that it asks, within the block; and ``aside``."""
    before = _thread.seconds, _thread.aside
    _thread.seconds, _thread.aside = seconds, aside
    try:
        yield
    finally:
        _thread.seconds, _thread.aside = before


def steps_aside() -> bool:
    """Return whether others go on while this thread is :func:`waiting`."""
    return _thread.aside is not nullcontext


def waiting(contexts: Sequence[int] = ()) -> AbstractContextManager[object]:
    """Wait for a space in the block, aside: ``contexts`` are what changes.

    Whoever goes on meanwhile must need no lock that this thread holds.
    """
    return _waiting(_thread.aside, contexts) if steps_aside() else _ALONE


@contextmanager
def _waiting(aside: Aside, contexts: Sequence[int]) -> Iterator[None]:
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


def held(lock: Lock, away: str) -> AbstractContextManager[object]:
    """Hold a lock that others hold while they wait for a space. Raises Unreachable where that takes too long.

    At once where the space is ``away``, as is known already ("" if not): others find out when it is back.
    """
    seconds = _thread.seconds
    return lock if seconds is None else _held(lock, away, seconds)


@contextmanager
def _held(lock: Lock, away: str, seconds: float) -> Iterator[None]:
    if away:
        raise Unreachable(away)
    if not lock.acquire(timeout=seconds):
        raise Unreachable("the space does not answer: others have been waiting for it")
    try:
        yield
    finally:
        lock.release()

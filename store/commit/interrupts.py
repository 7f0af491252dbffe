"""Interrupts (Ctrl-C) that wait for the end of a write.

A write that is interrupted leaves it open how much of it is on the disk, so the store takes no more, and the next to
open it recovers what there is. A process that :func:`waits` is interrupted after the write instead.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Writing(threading.local):
    """The writes that a thread is in, one in the other."""

    depth = 0
    interrupted = False


_writing = _Writing()


class _Whole:
    """A write that no interrupt may break."""

    def __enter__(self) -> None:
        _writing.depth += 1

    def __exit__(self, *_error: object) -> None:
        _writing.depth -= 1
        if _writing.interrupted and not _writing.depth:
            _writing.interrupted = False
            raise KeyboardInterrupt


WHOLE = _Whole()


@contextmanager
def waits() -> Iterator[None]:
    """Have Ctrl-C interrupt the block between its writes only; for the main thread."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # a signal is handled by the main thread
        if not _writing.depth:
            raise KeyboardInterrupt
        _writing.interrupted = True

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

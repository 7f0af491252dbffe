"""Threads that read through everything once: what they have read is not kept in the place of what others ask for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Thread(threading.local):
    sparing = False


_thread = _Thread()


@contextmanager
def sparing() -> Iterator[None]:
    """Have little remembered of what this thread reads within the block."""
    before, _thread.sparing = _thread.sparing, True
    try:
        yield
    finally:
        _thread.sparing = before


def is_sparing() -> bool:
    """Return whether this thread is in such a block."""
    return _thread.sparing

"""Waits for what other threads and processes do."""

import time
from collections.abc import Callable

PATIENCE = 60.0
"""For a machine with much else to do."""
_LONGEST_PAUSE_SECONDS = 0.02


def until(condition: Callable[[], object], seconds: float = PATIENCE, what: str = "it did not come about") -> None:
    """Wait until ``condition`` returns something true; fail, and say ``what``, if it does not within ``seconds``."""
    end = time.monotonic() + seconds
    pause = _LONGEST_PAUSE_SECONDS / 16
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

"""Pace: whether commits come so fast that other work of the same process waits.

The processor and the interpreter are the writers' then: every commit would wait for them again and again.
"""

import time

from store.commit.writer import Writer

_MANY_A_SECOND = 4000
"""Frames of the head log, of which an append takes one, with a key two."""


class Pace:
    """The pace of the commits of one store, for one thread that looks at it now and then."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._seen = time.monotonic(), writer.seq

    def calm(self) -> bool:
        """Return whether there have been few commits since the last call."""
        before, seq = self._seen
        self._seen = now, reached = time.monotonic(), self._writer.seq
        return reached - seq <= _MANY_A_SECOND * (now - before)

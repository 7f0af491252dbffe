"""Files that are drawn by a thread, piece by piece, as far as they are read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

from fusefs.tree.waiting import Work, Workers
from store.errors import StoreBusy

_REMEMBERED_BYTES = 1 << 20

_Span = tuple[int, int]
"""Where a read begins, and how many bytes it asks for."""


class Drawn:
    """The content of an open file that ``draw`` yields the pieces of, always the same.

    What was drawn last is remembered; who reads before that has it drawn again.
    """

    def __init__(self, workers: Workers, draw: Callable[[], Iterator[bytes]]) -> None:
        self._workers = workers
        self._draw = draw
        self._asked: dict[_Span, Work[bytes]] = {}
        self._lock = threading.Lock()
        self._pieces: Iterator[bytes] | None = None
        self._start = 0
        self._recent = bytearray()

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file. Raises Later while it is being drawn, and StoreBusy where that takes too long."""
        span = offset, size
        work = self._asked.get(span)
        if work is None:
            work = self._asked[span] = self._workers.begin(partial(self._drawn, *span))
        if work.await_done():
            del self._asked[span]
        return work.result()

    def _drawn(self, offset: int, size: int) -> bytes:
        """Return a part of the file; called by a thread."""
        with self._lock:
            try:
                return self._read(offset, size)
            except BaseException:
                # what yields the pieces has ended, and must not be taken for having come to the end
                self._pieces = None
                raise

    def _read(self, offset: int, size: int) -> bytes:
        if self._pieces is None or offset < self._start:
            self._pieces, self._start = self._draw(), 0
            self._recent.clear()
        while self._start + len(self._recent) < offset + size:
            if self._workers.is_ended:
                raise StoreBusy("the mount is about to end")
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._recent += piece
            # no reader goes far back
            if (past := min(offset - self._start, len(self._recent)) - _REMEMBERED_BYTES) > 0:
                del self._recent[:past]
                self._start += past
        return bytes(self._recent[offset - self._start :][:size])

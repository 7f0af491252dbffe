"""Bringing the index up to what has been committed: not on the way of a commit, but before the index is asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from store.disk.file_header import Damage
from store.disk.head_format import Frame
from store.disk.head_log import HeadLog
from store.errors import DamageError
from store.index.index import Index

_LOG = logging.getLogger(__name__)


class Applying:
    """Frames of the head log that the index has not been told of yet; ``applied`` is called with those that it was."""

    def __init__(self, index: Index, head_log: HeadLog, applied: Callable[[Sequence[Frame]], None]) -> None:
        self._index = index
        self._head_log = head_log
        self._applied = applied
        self._waiting: list[Frame] = []
        self._lock = threading.Lock()

    def add(self, frames: Sequence[Frame]) -> int:
        """Take frames that have been committed; return how many wait. One thread at a time may add."""
        self._waiting += frames
        return len(self._waiting)

    def settle(self) -> None:
        """Tell the index of all that wait. DamageError where it is damaged, and the log cannot fill it anew."""
        if self._waiting:
            with self._lock:
                frames = self._waiting[:]
                if frames:
                    self._file(frames)
                    del self._waiting[: len(frames)]
                    self._applied(frames)

    def _file(self, frames: list[Frame]) -> None:
        """Have the index say what ``frames`` say. Where it turns out to be damaged, it is filled anew from the log."""
        try:
            self._index.apply(frames)
        except DamageError as damage:
            _LOG.warning("%s; it is being filled anew from the head log", damage)
            self._index.renew(self._logged(frames[-1].seq, damage))

    def _logged(self, last: int, damage: DamageError) -> Iterator[Frame]:
        """Yield what the head log has up to seq ``last``; ``damage`` is raised if something of that is lost."""
        for frame in self._head_log.frames():
            if isinstance(frame, Damage):
                # the index may know more than is left in the log
                raise damage
            if frame.seq > last:
                return
            yield frame

"""Files that are being written to, and when it is time to look at them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

QUIET_SECONDS = 0.1
"""A file that nobody has written to for so long is looked at,"""
LONGEST_SECONDS = 0.4
"""and one that is written to all the time, so often;"""
RESTS = 4
"""but it is left alone for so many times as long as looking at it took."""


class _Waiting(Struct):
    first: float
    last: float


class Settling:
    """The files that have changed since they were looked at; times are seconds of one clock that the caller reads."""

    def __init__(self) -> None:
        self._waiting: dict[Path, _Waiting] = {}
        self._not_before: dict[Path, float] = {}

    def changed(self, path: Path, now: float) -> None:
        """Take note that a file was written to."""
        waiting = self._waiting.setdefault(path, _Waiting(now, now))
        waiting.last = now

    def due(self, now: float) -> list[Path]:
        """Return the files that are to be looked at, those that have waited longest first; they wait no more."""
        due = sorted((waiting.first, path) for path, waiting in self._waiting.items() if self._at(path) <= now)
        for _first, path in due:
            del self._waiting[path]
        self._not_before = {path: at for path, at in self._not_before.items() if at > now or path in self._waiting}
        return [path for _first, path in due]

    def next(self) -> float | None:
        """Return when the next file is to be looked at, None if none has changed."""
        return min(map(self._at, self._waiting), default=None)

    def looked_at(self, path: Path, now: float, seconds: float, *, rest: float = 0.0) -> None:
        """Take note that looking at a file took so long: it is left alone for a while, ``rest`` seconds at least."""
        self._not_before[path] = now + max(RESTS * seconds, rest)

    def _at(self, path: Path) -> float:
        waiting = self._waiting[path]
        settled = min(waiting.last + QUIET_SECONDS, waiting.first + LONGEST_SECONDS)
        return max(settled, self._not_before.get(path, 0.0))

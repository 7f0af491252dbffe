"""Idempotency keys: which turn a client has appended under a key of its own."""

from __future__ import annotations

from collections.abc import Sequence

from store.disk.head_format import Appended, Frame
from store.ids import now_ms
from store.index.notes import KEPT_MS, Notes


class Keys:
    """Answers from the index, and from memory what that does not have yet."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._fresh: dict[tuple[int, bytes], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._fresh)

    def get(self, context: int, key: bytes) -> int:
        """Return which turn was appended to a context under a key, as last committed; 0 if none was, within a day."""
        # in this order: what leaves the one is in the other by then
        found = self._fresh.get((context, key)) or self._notes.key(context, key)
        return found[0] if found and abs(now_ms() - found[1]) < KEPT_MS else 0

    def note(self, context: int, appended: Appended) -> None:
        """Remember a key that has been committed, until it is filed."""
        self._fresh[context, appended.key] = (appended.turn, appended.time_ms)

    def filed(self, frames: Sequence[Frame]) -> None:
        """Forget the keys of frames that the index has now."""
        for frame in frames:
            body = frame.body
            if isinstance(body, Appended):
                place = (frame.context, body.key)
                if self._fresh.get(place) == (body.turn, body.time_ms):
                    self._fresh.pop(place, None)

"""Idempotency keys: which turn a client has appended under a key of its own."""

from __future__ import annotations

from collections.abc import Sequence

from store.disk.head_format import Appended, Frame
from store.errors import DamageError
from store.ids import now_ms
from store.index.notes import KEPT_MS, KeyPlace, Notes


class Keys:
    """Answers from the index, and from memory what that does not have yet."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._fresh: dict[KeyPlace, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._fresh)

    def get(self, context: int, key: bytes) -> int:
        """Return which turn was appended to a context under a key, as last committed; 0 if none was, within a day."""
        found = self.look_up([(context, key)]).get((context, key), 0)
        if isinstance(found, DamageError):
            raise found
        return found

    def look_up(self, places: Sequence[KeyPlace]) -> dict[KeyPlace, int | DamageError]:
        """As :meth:`get`, of many at once: those that are known, or what is wrong with what is known of them."""
        # in this order: what leaves the one is in the other by then
        fresh = {place: appended for place in places if (appended := self._fresh.get(place))}
        filed = self._notes.keys([place for place in places if place not in fresh])
        since = now_ms() - KEPT_MS
        found: dict[KeyPlace, int | DamageError] = {}
        for place, entry in {**filed, **fresh}.items():
            if isinstance(entry, DamageError):
                found[place] = entry
            elif since < entry[1] < since + 2 * KEPT_MS:
                found[place] = entry[0]
        return found

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

"""The calls of clients on a store itself: which of its parts does each."""

from collections.abc import Callable
from operator import attrgetter

from store.store import Store

PARTS = ("contexts", "contents", "library", "catalogue", "turns", "open_turns")
RENAMED = {
    "add_text": "open_turns.add",
    "blob": "blobs.blob",
    "blob_size": "blobs.size",
    "create_context": "contexts.create",
    "head": "writer.head",
    "open_turn": "open_turns.open",
    "open_turns": "writer.texts.of",
    "put_blob": "intake.put",
    "resume_turn": "open_turns.resume",
    "stats": "stats",
    "turn": "turns.get",
}
"""Methods that clients call otherwise than the part, and those that two parts have."""


class Calls:
    """A store whose calls have the names that they have for clients."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., object]:
        parts = [getattr(self._store, part) for part in PARTS]
        found = [attrgetter(RENAMED[name])(self._store)] if name in RENAMED else []
        call: Callable[..., object] = next(iter(found + [getattr(part, name) for part in parts if hasattr(part, name)]))
        return call

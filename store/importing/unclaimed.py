"""Sessions that nobody has claimed: two machines of a space may import the same one at the same moment.

What an import has looked for, and not found, another machine may have brought in before the commit. Then the commit is
refused, and the import looks once more.
"""

from collections.abc import Callable, Mapping
from typing import Self

from msgspec import Struct

from store.errors import Conflict
from store.index.origins import origin
from store.store import Store


class Overtaken(Conflict):
    """Another machine has brought in the session, or deleted what was found of it: look again, and import it again."""


class Unclaimed(Struct, frozen=True):
    """The state of a space in which a session was looked for: the last commit and the newest context then.

    0 outside of a space.
    """

    store: Store
    seq: int
    newest: int
    source: str
    known: int
    """The conversation that this machine had imported from the path ``source`` then; 0: none."""

    @classmethod
    def now(cls, store: Store, source: str = "") -> Self:
        if not store.catalogue.machine:
            return cls(store, 0, 0, source, 0)
        seq, newest = store.writer.seq, store.catalogue.newest()
        known = store.catalogue.by_source(source) if source else None
        return cls(store, seq, newest, source, known.id if known else 0)

    def still(self, metadata: Mapping[str, object]) -> Callable[[], bool] | None:
        """Return what says, at the commit, that no machine has made, or moved, one since that may be the same session.

        ``metadata`` is that of the one to be made. None outside of a space: there nobody else can.
        """
        catalogue, newest = self.store.catalogue, self.newest
        if not catalogue.machine:
            return None
        tool = str(metadata.get("format", ""))
        # those in one file may be of one session
        kind = "part" if "part" in metadata else "session"
        marks = [origin(kind, tool, str(metadata[kind]))] if metadata.get(kind) else []
        if path := metadata.get("layout_of"):
            marks.append(origin("layout", str(path)))
        source = "" if kind == "part" else str(metadata.get("source", ""))
        return lambda: not (catalogue.is_claimed(newest, self.seq, marks) or self._has_come(source))

    def _has_come(self, source: str) -> bool:
        """Return whether a conversation has come from a path meanwhile: a new one, or that of another machine."""
        entry = self.store.catalogue.by_source(source) if source else None
        if entry is None:
            return False
        return entry.id > self.newest or (source == self.source and entry.id != self.known)

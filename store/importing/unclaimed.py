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
    """Another machine has brought in the same session meanwhile: look at what is there, and import it again."""


class Unclaimed(Struct, frozen=True):
    """The state of a space in which a session was looked for: the newest context then. 0 outside of a space."""

    store: Store
    newest: int

    @classmethod
    def now(cls, store: Store) -> Self:
        return cls(store, store.catalogue.newest() if store.catalogue.machine else 0)

    def still(self, metadata: Mapping[str, object]) -> Callable[[], bool] | None:
        """Return what says, at the commit, that no machine has made a conversation since that may be the same session.

        ``metadata`` is that of the one to be made. None outside of a space: there nobody else can.
        """
        catalogue, newest = self.store.catalogue, self.newest
        if not catalogue.machine:
            return None
        tool, source = str(metadata.get("format", "")), str(metadata.get("source", ""))
        # those in one file may be of one session
        kind = "part" if "part" in metadata else "session"
        marks = [origin(kind, tool, str(metadata[kind]))] if metadata.get(kind) else []
        if path := metadata.get("layout_of"):
            marks.append(origin("layout", str(path)))
        return lambda: not catalogue.is_claimed(newest, "" if kind == "part" else source, marks)

"""What the views of the several record types of a format return to its lens."""

from collections.abc import Callable

from msgspec import Struct

from store.events.event import Block, Compaction, Event, Kind, Resource
from store.formats.json_view import JsonObject
from store.formats.lens import Before

Header = dict[str, str | int | float | bool]

Blocks = tuple[tuple[Block, ...], tuple[Resource, ...]]
"""What a part of a record shows: its blocks, and the resources that it holds."""


class Shown(Struct, frozen=True, gc=False):
    """The part of an event that depends on the type of the record; fields as in :class:`store.events.event.Event`."""

    kind: Kind
    blocks: tuple[Block, ...] = ()
    tool: str = ""
    header: Header = {}
    defines: tuple[tuple[str, str], ...] = ()
    resources: tuple[Resource, ...] = ()
    compaction: Compaction | None = None

    def event(
        self,
        native: JsonObject,
        time_ms: int,
        *,
        lossy: bool,
        parent: int = 0,
        header: Header | None = None,
        defines: tuple[tuple[str, str], ...] | None = None,
    ) -> Event:
        """Return the event of a record that says ``native``; ``header`` and ``defines`` replace what is here."""
        return Event(
            self.kind,
            self.tool,
            self.header if header is None else header,
            self.blocks,
            time_ms,
            parent,
            self.defines if defines is None else defines,
            self.resources,
            native,
            lossy,
            self.compaction,
        )


View = Callable[[JsonObject, Before], Shown]

BOOKKEEPING = Shown(Kind.RECORD)

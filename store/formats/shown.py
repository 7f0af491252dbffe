"""What the views of the several record types of a format return to its lens."""

from collections.abc import Callable

from msgspec import Struct

from store.events.event import Block, Kind, Resource
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


View = Callable[[JsonObject, Before], Shown]

BOOKKEEPING = Shown(Kind.RECORD)

"""What the views of the several line types return to the lens."""

from collections.abc import Callable

from msgspec import Struct

from store.events.event import Block, Kind, Resource
from store.formats.json_view import JsonObject
from store.formats.lens import Before

Header = dict[str, str | int | float | bool]


class Shown(Struct, frozen=True, gc=False):
    """The part of an event that depends on the type of the line; fields as in :class:`store.events.event.Event`."""

    kind: Kind
    blocks: tuple[Block, ...] = ()
    tool: str = ""
    header: Header = {}
    defines: tuple[tuple[str, str], ...] = ()
    resources: tuple[Resource, ...] = ()


View = Callable[[JsonObject, Before], Shown]

BOOKKEEPING = Shown(Kind.RECORD)

ENVELOPE = frozenset(
    [
        "agentId",
        "cwd",
        "entrypoint",
        "gitBranch",
        "isMeta",
        "isSidechain",
        "level",
        "logicalParentUuid",
        "message",
        "parentToolUseID",
        "parentUuid",
        "promptId",
        "requestId",
        "sessionId",
        "session_id",
        "slug",
        "subtype",
        "timestamp",
        "toolUseID",
        "type",
        "userType",
        "uuid",
        "version",
    ]
)
"""Fields that any line may carry and that say nothing a reader of the conversation asks for."""


def beside_envelope(line: JsonObject) -> JsonObject:
    """Return the fields of a line that are its own."""
    return {key: value for key, value in line.items() if key not in ENVELOPE}

"""The answers of the calls that show conversations: what differs, who holds something, what was found."""

from typing import Literal

from msgspec import Struct

from store.relation import Relation
from store.search.line import Line

Change = Literal["changed", "added", "removed"]


class State(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation by its id, as it is, or as its ``version`` of that number was."""

    id: int
    version: int = 0


class DiffSide(Struct, frozen=True):
    """An event of one state, and the path of its file, from the root of a mount on."""

    event: int
    kind: str
    tool: str
    path: str


class Difference(Struct, frozen=True):
    """An event that differs, or that only one state has: the differing lines of its file, and their number.

    ``diff`` is a unified diff; "" where ``note`` says why there is none, or none was asked for.
    """

    change: Change
    a: DiffSide | None
    b: DiffSide | None
    added: int
    removed: int
    diff: str = ""
    note: str = ""


class DiffSums(Struct, frozen=True):
    """The totals of a diff: how many events differ, and by how many lines."""

    changed: int
    added: int
    removed: int
    added_lines: int
    removed_lines: int


class HoldingLine(Struct, frozen=True):
    """One place that holds something: ``event`` is a number, or None where ``name`` says what else holds it.

    ``path`` is relative to the root of a mount, "" where the context ``id`` has no name. ``version`` is 0 for a
    conversation as it is now.
    """

    path: str
    id: int
    version: int
    event: int | None
    kind: str
    tool: str
    held_as: Relation
    name: str
    uris: tuple[str, ...]


class Known(Struct, frozen=True):
    """``stored``: whether the store has a content of this hash, held by somebody or not."""

    stored: bool


class BlameLine(Struct, frozen=True):
    """A line of a file, and what it is due to: the event of a conversation, ``PROJECT/NAME``, and the request for that.

    ``conversation`` is "" if none is known to have written it; ``request`` is 0 if none came before. ``time`` is ISO
    8601 in UTC, "" if it is unknown.
    """

    text: str
    conversation: str = ""
    id: int = 0
    request: int = 0
    event: int = 0
    time: str = ""


class HitLine(Struct, frozen=True):
    """An event that was found, as a program reads it; ``path`` is relative to the root of a mount.

    ``time`` is ISO 8601 in UTC. One that has very many lines comes several times, with some of them each. ``event`` is
    0, and ``kind`` "", where a title or a label was found.
    """

    path: str
    id: int
    project: str
    name: str
    title: str
    event: int
    kind: str
    tool: str
    time: str
    lines: tuple[Line, ...]


class Unfiled(Struct, frozen=True):
    """The number of turns that the index does not have."""

    turns: int

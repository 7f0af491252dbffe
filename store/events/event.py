"""Events: the contents of one turn's payload, independent of the tool that wrote it.

These are values that a lens makes from a payload (``store.formats.core.editing``). They are msgspec structs, not
dataclasses, because one is built for every file that a ``grep -r`` reads: a frozen dataclass costs ten times as
much to construct.
"""

import re
from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final, Literal

from msgspec import Struct


class Deletion(Enum):
    """The type of :data:`DELETED`."""

    DELETED = "deleted"


DELETED: Final = Deletion.DELETED
"""The replacement of a payload by nothing: the record keeps its number and is no longer shown."""

Replacement = bytes | Literal[Deletion.DELETED]


def named(changes: Mapping[int, Replacement]) -> str:
    """Return the name of a version that gives records, by number, other contents."""
    numbers = sorted(changes)
    if not numbers:
        return "edit"
    what = "delete" if all(content is DELETED for content in changes.values()) else "edit"
    return f"{what} {numbers[0]:05}" if len(numbers) == 1 else f"{what} {numbers[0]:05}-{numbers[-1]:05}"


_NAMED = re.compile(r"(edit|add) ([0-9]+)(?:-([0-9]+))?")


def together(earlier: str, later: str) -> str:
    """Return the name of a version that is two saves in one, by the names that each would have."""
    one, other = _NAMED.fullmatch(earlier), _NAMED.fullmatch(later)
    if one is None or other is None:
        return later if later == earlier else "rewrite"
    first, last = min(one[2], other[2], key=int), max(one[3] or one[2], other[3] or other[2], key=int)
    # what was added and then changed was added
    what = one[1] if one[2] == first else "edit"
    return f"{what} {first}" if first == last else f"{what} {first}-{last}"


class Kind(IntEnum):
    """The kind of an event. RECORD is bookkeeping: it keeps its number but has no file in ``events/``."""

    RECORD = 0
    SYSTEM = 1
    USER = 2
    ASSISTANT = 3
    REASONING = 4
    TOOL_CALL = 5
    TOOL_RESULT = 6
    QUESTION = 7
    ANSWER = 8
    CONFIG = 9
    SUMMARY = 10
    NOTE = 11

    @property
    def word(self) -> str:
        """The word for it in names and headings (``call`` for a tool call)."""
        return self.name.lower().removeprefix("tool_")


BlockType = Literal["text", "resource", "image", "json", "artifact"]

ValuePath = tuple[str | int, ...]
"""The place of a value in a parsed payload: keys and list positions from the outermost in."""


_SURROGATE = re.compile("[\ud800-\udfff]")


def utf8(text: str) -> bytes:
    """Return ``text`` in UTF-8, each half of a surrogate pair as U+FFFD (which has the same size)."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()


class Block(Struct, frozen=True, gc=False):
    """One piece of an event's content.

    ``text`` is shown (for ``json``: a pretty-printed document); ``data`` is content that is not text (an image);
    exactly one of the two is set. ``name`` distinguishes the blocks of one event (``arguments.command``, ``thinking``;
    empty for the plain text of a message). ``path`` is its place in the payload; empty if the block is joined from
    several places. ``encoding`` is the spelling of the content at that place: as a JSON string (``json``) or as a JSON
    string of base64 (``base64``).
    """

    type: BlockType
    text: str | None = None
    data: bytes | None = None
    name: str = ""
    uri: str = ""
    mime: str = ""
    path: ValuePath = ()
    encoding: Literal["json", "base64"] = "json"


class Resource(Struct, frozen=True, gc=False):
    """Content with a URI: an attachment, an image, or a file that a tool returned (for ``resources/``).

    ``path`` and ``encoding`` are the place and the spelling of the content in the payload, as in :class:`Block`.
    ``lines`` is how many lines the file has of which this is a part, 0 if that is unknown.
    """

    uri: str
    mime: str
    content: str | bytes
    path: ValuePath = ()
    encoding: Literal["json", "base64"] = "json"
    lines: int = 0

    @property
    def data(self) -> bytes:
        """The content's bytes: text in UTF-8, each half of a surrogate pair as U+FFFD."""
        return utf8(self.content) if isinstance(self.content, str) else self.content


class Compaction(Struct, frozen=True, gc=False):
    """A replacement of earlier events in the messages that a model is sent; the records stay as they are.

    ``summary`` is the replacement (None: the events are dropped). It covers everything before the event except from the
    record that defines the key ``kept_from``; or only the ``exchanges``, the first and the last of them, counted from
    0; or only the records that define the keys ``forgotten``. Without a summary, parts of these exchanges may be left
    out: thoughts (``reasoning``), the arguments of calls (``requests``), their results (``responses``), or whole calls
    (``calls``).
    """

    summary: tuple[Block, ...] | None = None
    kept_from: str = ""
    forgotten: tuple[str, ...] = ()
    exchanges: tuple[int, int] | None = None
    reasoning: bool = False
    requests: bool = False
    responses: bool = False
    calls: bool = False


class Event(Struct, frozen=True, gc=False):
    """One event, fully resolved.

    ``tool`` names the tool of a call or a result ("" else). ``header`` holds further fields for the head of the
    event's file, in order (id, is_error, model, …); values are str, int, float or bool. ``time_ms`` is the
    event's own time in Unix milliseconds, 0 if it has none. ``parent`` is 0 if the event follows the record
    before it, the number of the event that it follows if that is another one, -1 if that one is not in the
    conversation. ``defines`` has the keys that later records may refer to: (key, tool name or "") pairs, such as a
    message's uuid or a tool call's id. ``native`` is the parsed payload in JSON's terms (None
    where it has none). ``lossy`` means that some text is invalid Unicode and is shown with U+FFFD.
    ``compaction`` drops earlier events from the messages for a model. ``fault`` says why the payload is shown as it is
    although it could be read: the code that sees it failed.
    """

    kind: Kind
    tool: str = ""
    header: dict[str, str | int | float | bool] = {}
    blocks: tuple[Block, ...] = ()
    time_ms: int = 0
    parent: int = 0
    defines: tuple[tuple[str, str], ...] = ()
    resources: tuple[Resource, ...] = ()
    native: object = None
    lossy: bool = False
    compaction: Compaction | None = None
    fault: str = ""


def too_large(size: int) -> Event:
    """Return the event that stands for a payload of ``size`` bytes that is too large to be parsed."""
    return Event(Kind.NOTE, header={"note": f"a record of {size} bytes, too large to show: see .records/"})


class BlockEdit(Struct, frozen=True):
    """New content for the block that came from ``path`` of the payload.

    ``text`` is the block's new text; for a ``json`` block the whole document, with its ``$block`` placeholders.
    ``name`` and ``encoding`` are the block's own, as the lens gave them.
    """

    path: ValuePath
    text: str
    name: str = ""
    type: Literal["text", "resource", "json"] = "text"
    encoding: Literal["json", "base64"] = "json"


class NewBlock(Struct, frozen=True):
    """A block that an event is to have more, as its file shows it.

    ``text`` is None for content that is not text: the block is then a copy of the one at position ``like``.
    """

    type: BlockType
    text: str | None
    name: str = ""
    like: int = -1


class FieldEdit(Struct, frozen=True):
    """A new value for a field of the event's head (``is_error``, ``tool``, …)."""

    key: str
    value: str | int | float | bool


class EventEdit(Struct, frozen=True):
    """All changes to one event; empty if there are none.

    ``order`` has the blocks that the event is to have: old ones by their positions, and new ones. None: the same ones.
    """

    blocks: tuple[BlockEdit, ...] = ()
    fields: tuple[FieldEdit, ...] = ()
    order: tuple[int | NewBlock, ...] | None = None

"""A lens's answers on one record, and its questions about the records before it."""

import struct
from collections.abc import Callable, Set
from typing import Literal, NamedTuple, Protocol

from msgspec import MsgspecError, Struct, structs

from store.errors import told
from store.events.event import Block, BlockType, Compaction, Event, Kind, Resource, ValuePath, too_large
from store.formats.core.blocks import argument_blocks, numbered
from store.formats.core.json_view import MOST_TEXT, JsonObject, as_text, scalar


class Before(Protocol):
    """Answers for a lens about the records before the one that it looks at, and about content kept elsewhere.

    Answers about earlier records are kept: a lens asks :meth:`tool` and :meth:`parent` at most once each for a record,
    for its event's ``tool`` and ``parent`` and nothing else, and later views of the record get the answers as kept.
    """

    def tool(self, call_id: str) -> str:
        """Return the name of the tool that the call ``call_id`` was for, "" if no earlier record made it."""
        return ""

    def parent(self, key: str | None) -> int:
        """Return the record of ``key`` (None: none at all) in the form of :attr:`store.events.event.Event.parent`.

        Returns 0 if it is the last record that defined a key (or, for None, if there was none), its number if it is
        an earlier one, -1 if no earlier record defined it (or, for None, if there were such records).
        """
        return 0

    def blob(self, algorithm: str, digest: bytes) -> bytes | None:
        """Return content that a payload names by a foreign digest (``sha256``), None if the store does not have it."""
        return None


class Nothing(Before):
    """A conversation without earlier records, and without content elsewhere."""


Value = str | int | float | bool

Header = dict[str, Value]

Blocks = tuple[tuple[Block, ...], tuple[Resource, ...]]
"""The blocks that a part of a record shows, and the resources that it holds."""


class FieldPlace(Struct, frozen=True, gc=False):
    """The place of a field of an event's head in a payload; ``may_add``: the field may be missing there."""

    path: ValuePath
    may_add: bool = False
    write: Callable[[Value], Value] = lambda value: value


Places = dict[str, ValuePath | FieldPlace | str]
"""The places of the head's fields, by name; a text instead says why one cannot be changed, after its name."""


class Shown(Struct, frozen=True, gc=False):
    """The part of an event that depends on the type of the record; fields as in :class:`store.events.event.Event`.

    ``places`` says where the record holds the fields of ``header``, and the ``tool``, as far as they can be changed.
    """

    kind: Kind
    blocks: tuple[Block, ...] = ()
    tool: str = ""
    header: Header = {}
    defines: tuple[tuple[str, str], ...] = ()
    resources: tuple[Resource, ...] = ()
    compaction: Compaction | None = None
    places: Places = {}
    parent: int = 0


class CallLink(NamedTuple):
    """A call or a result in a record: the element ``at`` of the list at ``path``, or all of it where ``path`` is empty.

    ``call`` is the call's id; ``is_call`` says that it is the call itself.
    """

    path: ValuePath
    at: int
    call: str
    is_call: bool


View = Callable[[JsonObject, Before], Shown]

BOOKKEEPING = Shown(Kind.RECORD)


def bookkeeping(record: JsonObject, before: Before) -> Shown:
    """View a record that no reader asks for."""
    return BOOKKEEPING


def nth(name: str, number: int) -> str:
    """Return the name of a field of the head for a record's call or result of this number: as it is for the first."""
    return name if number <= 1 else f"{name}_{number}"


class Gathered(Struct, gc=False):
    """The collected contents of a record, filled part by part.

    ``asked`` is the id of the call that the record answers first. ``said`` counts blocks that are neither thoughts nor
    belong to a call or a result. With ``strict``, calls are known by their ids alone, and an id is shown though empty.
    """

    blocks: list[Block] = []
    resources: list[Resource] = []
    header: Header = {}
    places: Places = {}
    defines: list[tuple[str, str]] = []
    tool: str = ""
    asked: str = ""
    calls: int = 0
    results: int = 0
    said: int = 0
    strict: bool = False

    def field(self, name: str, value: object, *path: str | int) -> None:
        """Add a field of the head, which stands at ``path``; a value that does not fit there is left out."""
        self.places[name] = path
        if (fitting := scalar(value)) is not None:
            self.header[name] = fitting

    def call(self, holder: JsonObject, path: ValuePath, name: str, identifier: str) -> str:
        """Add a call whose tool and id stand under these keys of ``holder``; return the name for its arguments."""
        self.calls += 1
        tool, call = as_text(holder.get(name)), as_text(holder.get(identifier))
        tool_key, id_key = nth("tool", self.calls), nth("id", self.calls)
        if self.calls == 1:
            self.tool = tool
        else:
            self.header[tool_key] = tool
        self.places[tool_key] = (*path, name)
        if call or (self.strict and self.calls > 1):
            self.header[id_key] = call
        if call or self.strict:
            self.places[id_key] = (*path, identifier)
        if key := call or ("" if self.strict else tool):
            self.defines.append((key, tool))
        return "arguments" if self.calls == 1 else f"call{self.calls}.arguments"

    def result(self, holder: JsonObject, path: ValuePath, identifier: str) -> str:
        """Add a result whose call's id stands under ``identifier``; return the name for its content."""
        self.results += 1
        id_key = nth("id", self.results)
        if (call := as_text(holder.get(identifier))) or self.strict:
            self.header[id_key] = call
            self.places[id_key] = (*path, identifier)
            self.asked = self.asked or call
        self.places.setdefault("tool", "is that of its call: change 'tool' in the call's file")
        return "" if self.results == 1 else f"result{self.results}"

    def failed(self, holder: JsonObject, path: ValuePath, key: str) -> None:
        """Record whether the last result is that of a call that failed."""
        name = nth("is_error", self.results)
        self.header[name] = holder.get(key) is True
        self.places[name] = (*path, key)

    def tell_model(self, answer: JsonObject, path: ValuePath, stop: str, usual_stops: Set[str]) -> None:
        """Add the model of an answer, and why it stopped, which stands under ``stop``, unless that is usual."""
        self.places["model"], self.places["stop_reason"] = (*path, "model"), (*path, stop)
        if model := as_text(answer.get("model")):
            self.header["model"] = model
        if (reason := as_text(answer.get(stop))) and reason not in usual_stops:
            self.header["stop_reason"] = reason

    def add(self, content: object, path: ValuePath, name: str = "") -> None:
        """Add the content at ``path``, a text, a part or a list of parts; ``name`` names its blocks."""
        if isinstance(content, str):
            self.blocks.append(Block("text", content, name=name, path=path))
        elif isinstance(content, list):
            for at, part in enumerate(content):
                self.add_part(part, (*path, at), name)
        elif content is not None:
            self.add_part(content, path, name)

    def add_part(self, part: object, path: ValuePath, name: str = "") -> None:
        """Add one part of a content; a format adds those that it knows in its own way."""
        self.add_json(part, path, name)

    def add_json(self, part: object, path: ValuePath, name: str = "") -> None:
        """Add a part as JSON but for its type, or as a text."""
        if isinstance(part, str):
            self.blocks.append(Block("text", part, name=name, path=path))
            return
        if isinstance(part, dict):
            name = name or as_text(part.get("type"))
            part = {key: item for key, item in part.items() if key != "type"}
        self.blocks += argument_blocks(part, path, numbered(name or "content", path))

    def text(self, text: str, path: ValuePath, name: str = "") -> None:
        """Add a text; an empty one is ignored."""
        if text:
            self.said += name != "thinking"
            self.blocks.append(Block("text", text, name=name, path=path))

    def attach(
        self,
        content: str | bytes,
        uri: str,
        mime: str,
        path: ValuePath = (),
        *,
        shape: BlockType | None = None,
        name: str = "",
        encoding: Literal["json", "base64"] = "json",
    ) -> None:
        """Add an attachment: a block, and the resource that it shows; without a ``shape``, an image by its type."""
        text, data = (content, None) if isinstance(content, str) else (None, content)
        shape = shape or ("image" if data is not None and mime.startswith("image/") else "resource")
        self.said += 1
        self.blocks.append(Block(shape, text, data, name, uri, mime, path, encoding))
        self.resources.append(Resource(uri, mime, content, path, encoding))

    def shown(self, kind: Kind, compaction: Compaction | None = None) -> Shown:
        """Return the collected contents, as those of an event of this kind."""
        defines = tuple(self.defines) if self.defines else ()
        resources = tuple(self.resources) if self.resources else ()
        return Shown(kind, tuple(self.blocks), self.tool, self.header, defines, resources, compaction, self.places)

    def shown_if_any(self, kind: Kind) -> Shown:
        """Return the same; bookkeeping where there is no block."""
        return self.shown(kind) if self.blocks else BOOKKEEPING


def unknown_record(record: JsonObject, envelope: Set[str], path: ValuePath = ()) -> Shown:
    """View a record of a type that a newer program writes, which stands at ``path``: a note that holds it as JSON.

    The members that every record has, its ``envelope``, are left out.
    """
    what = scalar(record.get("type"))
    own = {key: value for key, value in record.items() if key not in envelope}
    header: Header = {"record": what} if what is not None else {}
    return Shown(Kind.NOTE, argument_blocks(own, path, "record"), header=header)


_MOST_WIDE = MOST_TEXT // 4
"""The most bytes of a text that may take four bytes of memory a character."""


def as_it_is(payload: bytes, kind: Kind = Kind.NOTE) -> Event:
    """Return a text as it is, a damaged line for instance, as a note or another ``kind``; a blank one is a record.

    One that would take too much memory is :func:`too_large`.
    """
    if len(payload) > _MOST_WIDE and not payload.isascii():
        return too_large(len(payload))
    text = payload.decode("utf-8", "replace")
    if not text.strip():
        return Event(Kind.RECORD)
    return Event(kind, blocks=(Block("text", text),), lossy="\ufffd" in text and not is_utf8(payload))


CODE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MsgspecError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""Errors that wrong code raises by itself: that something cannot be read is none of them."""


def at_fault(payload: bytes, error: Exception) -> Event:
    """Return a text as it is, as the lens for it has failed."""
    fault = str(told(error))
    return structs.replace(as_it_is(payload), header={"note": fault}, fault=fault)


def is_utf8(payload: bytes) -> bool:
    """Return whether bytes are text in UTF-8."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True

"""One node of a conversation's tree as an event: what is said in it, by whom, to whom."""

from collections.abc import Iterator

from store.errors import UsageError
from store.events.event import Block, Event, Kind, Path
from store.formats.blocks import argument_blocks, numbered
from store.formats.chatgpt import compose, twins
from store.formats.chatgpt.assets import attachments, drawings
from store.formats.chatgpt.content import CONTENT, citations, citations_alone, content_blocks, search_results
from store.formats.edit_checks import Value
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.lens import Before
from store.formats.nested import document_blocks, document_in
from store.formats.shown import BOOKKEEPING, Header, Shown
from store.formats.times import milliseconds, of_seconds
from store.formats.unknown import as_it_is

_SPEAKERS = {"assistant": Kind.ASSISTANT, "system": Kind.SYSTEM, "tool": Kind.TOOL_RESULT, "user": Kind.USER}
_KINDS = {
    "model_editable_context": Kind.SYSTEM,
    "reasoning_recap": Kind.NOTE,
    "thoughts": Kind.REASONING,
    "user_editable_context": Kind.SYSTEM,
}
"""What contents are, whoever says them."""
_EVERYBODY = frozenset(("", "all"))
_NODE = frozenset(("children", "id", "message", "parent"))
_BESIDE = (
    ("attachments", attachments),
    ("aggregate_result", drawings),
    ("content_references", citations),
    ("citations", citations_alone),
    ("search_result_groups", search_results),
)
"""What shows what a member of a message's metadata names."""
_PLACES: dict[str, Path] = {
    "error": (*CONTENT, "name"),
    "language": (*CONTENT, "language"),
    "model": ("message", "metadata", "model_slug"),
}


class ChatGptLens(EditableLens):
    """Sees nodes of a conversation's ``mapping``."""

    type_name = "chatgpt.node.v1"

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a node tells of; a node that is no JSON object is a note with its text."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        node = decoded.value
        message = node.get("message")
        if isinstance(message, dict):
            shown = _said(node, message, before)
            time = of_seconds(message.get("create_time"))
        else:
            own = {key: value for key, value in node.items() if key not in _NODE or key == "message"}
            blocks = argument_blocks(own, (), "node") if any(own.values()) else ()
            shown, time = (Shown(Kind.NOTE, blocks) if blocks else BOOKKEEPING), 0
        defines: tuple[tuple[str, str], ...] = ()
        parent = 0
        if isinstance(identifier := node.get("id"), str):
            defines = ((identifier, shown.tool if shown.kind is Kind.TOOL_CALL else ""),)
            named = node.get("parent")
            parent = before.parent(named if isinstance(named, str) else None)
        return shown.event(node, time, lossy=decoded.lossy, parent=parent, defines=defines)

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a node holds field ``key``."""
        message = as_object(record.get("message"))
        if key == "timestamp":
            return Place(("message", "create_time"), write=_seconds)
        if key == "tool":
            if as_object(message.get("author")).get("role") != "tool":
                return Place(("message", "recipient"))
            if not as_text(as_object(message.get("author")).get("name")):
                raise UsageError("the tool of a result is that of its call: change 'tool' in the call's file")
            return Place(("message", "author", "name"))
        if key in ("id", "hidden"):
            raise UsageError(f"{key!r} belongs to the tree of messages: it cannot be changed")
        return Place(_PLACES[key]) if key in _PLACES else None

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterator[tuple[Path, str]]:
        """Yield what else a node says of the same."""
        return twins.twins(record, path, old, new)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a node that follows ``previous``."""
        return compose.compose(kind, text, previous, now_ms)


def _said(node: JsonObject, message: JsonObject, before: Before) -> Shown:
    content, author = as_object(message.get("content")), as_object(message.get("author"))
    metadata = as_object(message.get("metadata"))
    what = content.get("content_type")
    blocks, resources = content_blocks(message, before)
    for key, beside in _BESIDE:
        if metadata.get(key):
            more, held = beside(message, before)
            blocks, resources = blocks + more, resources + held
    if not blocks:
        return BOOKKEEPING
    header: Header = {}
    tool = ""
    role, recipient = author.get("role"), message.get("recipient")
    kind = _SPEAKERS.get(role, Kind.NOTE) if isinstance(role, str) else Kind.NOTE
    if isinstance(what, str) and what in _KINDS:
        kind = _KINDS[what]
    elif kind is Kind.ASSISTANT and isinstance(recipient, str) and recipient not in _EVERYBODY:
        kind, tool = Kind.TOOL_CALL, recipient
        header["id"] = as_text(node.get("id"))
        blocks = tuple(piece for block in blocks for piece in _arguments(block))
    elif kind is Kind.TOOL_RESULT:
        call = as_text(node.get("parent"))
        tool = as_text(author.get("name")) or before.tool(call)
        run = as_object(metadata.get("aggregate_result"))
        header = {"id": call, "is_error": what == "system_error" or "exception" in as_text(run.get("status"))}
    for value, name in (
        (metadata.get("model_slug"), "model"),
        (content.get("language"), "language"),
        (content.get("name"), "error"),
    ):
        if value and isinstance(value, str) and value != "unknown":
            header[name] = value
    if metadata.get("is_visually_hidden_from_conversation") is True:
        header["hidden"] = True
    return Shown(kind, blocks, tool, header, (), resources)


def _arguments(block: Block) -> tuple[Block, ...]:
    """Return what a call says as arguments, where that is a JSON document; code stays as it is."""
    if block.type != "text" or block.text is None or block.name or not block.path:
        return (block,)
    if not document_in(block.text):
        return (block,)
    return document_blocks(block.text, block.path, numbered("arguments", block.path))


def _seconds(value: Value) -> Value:
    """Return a time as the tool writes it: in seconds."""
    return milliseconds(value) / 1000

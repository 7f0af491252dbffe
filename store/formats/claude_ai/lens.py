"""One message of claude.ai as an event."""

from collections.abc import Iterator

from store.errors import UsageError
from store.events.event import Block, Event, Kind, Path
from store.formats.blocks import argument_blocks
from store.formats.claude_ai import compose
from store.formats.claude_ai.content import Said, said_in
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode
from store.formats.lens import Before
from store.formats.shown import BOOKKEEPING, Header, Shown
from store.formats.times import milliseconds
from store.formats.twins import texts_in
from store.formats.unknown import as_it_is

ROOT = "00000000-0000-4000-8000-000000000000"
"""What the first message of a conversation follows."""

_PLACES: dict[str, Path] = {"model": ("model",), "stop_reason": ("stop_reason",), "timestamp": ("created_at",)}
_USUAL_STOPS = frozenset(("end_turn", "stop_sequence"))
_LONG = 20


class ClaudeAiLens(EditableLens):
    """Sees messages of a conversation."""

    type_name = "claude-ai.message.v1"

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a message tells of; one that is no JSON object is a note with its text."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        message = decoded.value
        shown = _shown(message)
        defines = shown.defines
        parent = 0
        if isinstance(identifier := message.get("uuid"), str):
            defines = ((identifier, ""), *defines)
            if "parent_message_uuid" in message:
                named = message["parent_message_uuid"]
                parent = before.parent(named if isinstance(named, str) and named != ROOT else None)
        return shown.event(
            message, milliseconds(message.get("created_at")), lossy=decoded.lossy, parent=parent, defines=defines
        )

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a message holds field ``key``."""
        if key in ("id", "is_error", "tool", "tools"):
            raise UsageError(f"{key!r} is that of a part of the message: change it in events.json")
        return Place(_PLACES[key]) if key in _PLACES else None

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterator[tuple[Path, str]]:
        """Yield what else a message says of the same: its text in one piece, and how a tool's result was drawn."""
        if path[:1] != ("content",) or not old:
            return
        whole = record.get("text")
        if path[2:] == ("text",) and isinstance(whole, str) and whole.count(old) == 1:
            yield ("text",), whole.replace(old, new)
        at = path[1] if len(path) > 1 else None
        parts = as_list(record.get("content"))
        if isinstance(at, int) and at < len(parts) and len(old) >= _LONG:
            drawn = as_object(parts[at]).get("display_content")
            for place, text in texts_in(drawn, ("content", at, "display_content")):
                if text == old:
                    yield place, new

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a message that follows ``previous``."""
        return compose.compose(kind, text, previous, now_ms)


def _shown(message: JsonObject) -> Shown:
    if not message.keys() & {"content", "sender", "text", "attachments", "files"}:
        blocks = argument_blocks(message, (), "message") if message else ()
        return Shown(Kind.NOTE, blocks) if blocks else BOOKKEEPING
    said = said_in(message)
    if not said.blocks:
        return BOOKKEEPING
    header: Header = {}
    kind, tool = _kind(message, said)
    blocks = tuple(said.blocks)
    called = said.calls[0][1] if kind is Kind.TOOL_CALL else said.results[0][1] if kind is Kind.TOOL_RESULT else ""
    if called:
        header["id"] = called
    if kind is Kind.TOOL_RESULT:
        header["is_error"] = said.results[0][2]
    elif kind is Kind.REASONING:
        blocks = tuple(_unnamed(block) for block in blocks)
    if said.calls and (len(said.calls) > 1 or kind is Kind.ASSISTANT):
        header["tools"] = ", ".join(dict.fromkeys(name for name, _call in said.calls))[:200]
    for key in ("model", "stop_reason"):
        value = as_text(message.get(key))
        if value and value not in _USUAL_STOPS:
            header[key] = value
    defines = tuple((call, name) for name, call in said.calls if call)
    return Shown(kind, blocks, tool, header, defines, tuple(said.resources))


def _kind(message: JsonObject, said: Said) -> tuple[Kind, str]:
    """Return what a message is, and its tool: an answer where it says anything, whatever it called on the way."""
    if message.get("sender") == "human":
        return Kind.USER, ""
    if message.get("sender") != "assistant":
        return Kind.NOTE, ""
    if said.texts:
        return Kind.ASSISTANT, ""
    if said.calls:
        return Kind.TOOL_CALL, said.calls[0][0]
    if said.results:
        return Kind.TOOL_RESULT, said.results[0][0]
    return (Kind.REASONING if said.thoughts else Kind.ASSISTANT), ""


def _unnamed(block: Block) -> Block:
    return Block("text", block.text, path=block.path) if block.name == "thinking" else block

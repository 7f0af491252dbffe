"""claude.ai's exports: files of conversations, each with its messages in one list, which may be a tree.

An export is an archive, or its folder, with ``conversations.json``, a list of conversations, each with its messages in
``chat_messages``. The service's own answer for one conversation, which many tools save, is the same object alone; there
messages are a tree, and ``current_leaf_message_uuid`` says which of them was seen last.

A message is a whole answer: the thoughts, each call with its result, and the text between them.
"""

import re
import uuid
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct, field

from store.errors import UsageError
from store.events.event import Block, BlockType, Kind, ValuePath
from store.formats.core.blocks import argument_blocks, listed_links, numbered
from store.formats.core.chat_messages import CALLS
from store.formats.core.composing import Particulars, Template, recorded
from store.formats.core.editing import JsonLens, Twins
from store.formats.core.export_format import ExportFormat, Node
from store.formats.core.format import About, Titled, first_line
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, object_in, scalar, texts_in
from store.formats.core.lens import BOOKKEEPING, Before, Gathered, Places, Shown
from store.formats.core.media import from_base64, mime_of, suffix_of
from store.formats.core.times import in_iso, milliseconds

_FROM_MODELS = (Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL, Kind.TOOL_RESULT)
_SENDERS = {**dict.fromkeys(_FROM_MODELS, "assistant"), Kind.USER: "human"}
_encode = msgspec.json.Encoder().encode
_RESULTS = frozenset(("mcp_tool_result", "tool_result", "web_search_tool_result"))
_SILENT = frozenset(("redacted_thinking", "token_budget"))
_ENVELOPE = frozenset(("flags", "start_timestamp", "stop_timestamp", "type"))


class _Said(Gathered):
    """The collected contents of a message."""

    texts: int = 0
    """The number of parts that are text."""
    called: list[tuple[str, str]] = field(default_factory=list)
    """The calls: the tool, and the call's id where it has one."""
    returned: list[tuple[str, str, bool]] = field(default_factory=list)
    """The results: the tool, the id of the call, whether it failed."""
    cited: dict[str, str] = field(default_factory=dict)
    """The addresses that it cites, with their titles."""

    def spoken(self, text: str, path: ValuePath) -> None:
        self.text(text, path)
        self.texts += bool(text)


def _said_in(message: JsonObject) -> _Said:
    said = _Said()
    parts = message.get("content")
    for at, part in enumerate(as_list(parts)):
        _part(part, ("content", at), said)
    if not said.blocks:
        # as older exports have it, and files in which a message failed
        said.spoken(as_text(message.get("text")), ("text",))
    said.spoken(as_text(parts), ("content",))
    identifier = as_text(message.get("uuid")) or "message"
    for at, attached in enumerate(as_list(message.get("attachments"))):
        _attachment(as_object(attached), ("attachments", at), identifier, said)
    _files(message, said)
    if said.cited:
        said.blocks.append(Block("text", listed_links(said.cited), name="citations"))
    return said


def _part(part: object, path: ValuePath, said: _Said) -> None:
    if not isinstance(part, dict):
        if part is not None:
            said.blocks += argument_blocks(part, path, numbered("content", path))
        return
    what = as_text(part.get("type"))
    if what == "text" and isinstance(text := part.get("text"), str):
        said.spoken(text, (*path, "text"))
        _cite(part, said)
    elif what == "thinking" and isinstance(text := part.get("thinking"), str):
        said.text(text, (*path, "thinking"), "thinking")
    elif what in CALLS:
        tool = as_text(part.get("name"))
        said.called.append((tool, as_text(part.get("id"))))
        said.blocks += argument_blocks(part.get("input"), (*path, "input"), f"call{len(said.called)}.{tool}")
    elif what in _RESULTS:
        tool = as_text(part.get("name"))
        said.returned.append((tool, as_text(part.get("tool_use_id")), part.get("is_error") is True))
        _result(part.get("content"), (*path, "content"), f"result{len(said.returned)}.{tool}", said)
    elif what not in _SILENT:
        own = {key: value for key, value in part.items() if key not in _ENVELOPE and value not in (None, [], {})}
        said.blocks += argument_blocks(own, path, numbered(what or "content", path))


def _result(content: object, path: ValuePath, label: str, said: _Said) -> None:
    if not isinstance(content, list):
        said.blocks += argument_blocks(content, path, label)
        return
    for at, item in enumerate(content):
        place = (*path, at)
        text = as_object(item).get("text")
        address = as_text(as_object(item).get("url"))
        if not isinstance(item, dict):
            said.blocks += argument_blocks(item, place, numbered(label, place))
        elif isinstance(text, str) and address:
            # a page that a tool has read, as a resource under its address
            said.text(as_text(item.get("title")), (*place, "title"), "title")
            said.attach(text, address, "text/plain", (*place, "text"))
        elif isinstance(text, str) and item.get("type") in ("text", None):
            said.blocks.append(Block("text", text, name=numbered(label, (at,)), path=(*place, "text")))
        elif not _image(item, place, numbered(label, (at,)), said):
            own = {key: value for key, value in item.items() if key != "type" and value not in (None, [], {})}
            said.blocks += argument_blocks(own, place, numbered(label, (at,)))


def _image(item: JsonObject, path: ValuePath, label: str, said: _Said) -> bool:
    source = as_object(item.get("source"))
    encoded = source.get("data")
    data = from_base64(encoded) if isinstance(encoded, str) else None
    if data is None or item.get("type") not in ("document", "image"):
        return False
    shape: BlockType = "image" if item["type"] == "image" else "resource"
    mime = as_text(source.get("media_type")) or ("image/png" if shape == "image" else "application/octet-stream")
    uri = f"attachment:{label}/{shape}-{len(said.resources) + 1}.{suffix_of(mime)}"
    said.attach(data, uri, mime, (*path, "source", "data"), shape=shape, name=label, encoding="base64")
    return True


def _attachment(attached: JsonObject, path: ValuePath, message: str, said: _Said) -> None:
    """Show a file whose text the service took out and kept."""
    name = as_text(attached.get("file_name"))
    text = attached.get("extracted_content")
    if not isinstance(text, str) or not text:
        _told(attached, name, path, said)
        return
    at = path[-1]
    uri = f"attachment:{message}/{name.replace('/', '_') or f'attachment-{at}.txt'}"
    said.attach(text, uri, mime_of(name), (*path, "extracted_content"))


def _files(message: JsonObject, said: _Said) -> None:
    """Name the files of a message, which the export does not hold."""
    named = {as_text(as_object(attached).get("file_name")) for attached in as_list(message.get("attachments"))}
    for listed in ("files", "files_v2"):
        for at, file in enumerate(as_list(message.get(listed))):
            name = as_text(as_object(file).get("file_name")) or as_text(as_object(file).get("file_uuid"))
            if name and name not in named:
                named.add(name)
                _told(as_object(file), name, (listed, at), said)


def _told(file: JsonObject, name: str, path: ValuePath, said: _Said) -> None:
    size = scalar(file.get("file_size"))
    told = f", {size} bytes" if isinstance(size, int) and size else ""
    if name or told:
        said.blocks.append(Block("text", f"[file {name}{told}: not in the export]", path=path))


def _cite(part: JsonObject, said: _Said) -> None:
    for told in map(as_object, as_list(part.get("citations"))):
        address = as_text(told.get("url")) or as_text(as_object(told.get("details")).get("url"))
        if address and not said.cited.get(address):
            said.cited[address] = as_text(told.get("title"))


ROOT = "00000000-0000-4000-8000-000000000000"
"""The parent of the first message of a conversation."""

_USUAL_STOPS = frozenset(("end_turn", "stop_sequence"))
_LONG = 20


class ClaudeAiLens(JsonLens):
    """Sees messages of a conversation."""

    type_name = "claude-ai.message.v1"
    writes = tuple(_SENDERS)
    time_key = "created_at"
    key, follows, root = "uuid", "parent_message_uuid", ROOT
    places: ClassVar[Places] = {
        **dict.fromkeys(
            ("id", "is_error", "tool", "tools"), "is that of a part of the message: change it in events.json"
        ),
    }

    def shown(self, record: JsonObject, before: Before) -> Shown:
        if not record.keys() & {"content", "sender", "text", "attachments", "files"}:
            blocks = argument_blocks(record, (), "message") if record else ()
            return Shown(Kind.NOTE, blocks) if blocks else BOOKKEEPING
        said = _said_in(record)
        if not said.blocks:
            return BOOKKEEPING
        header = said.header
        kind, said.tool, called = _kind(record, said)
        if called:
            header["id"] = called
        if kind is Kind.TOOL_RESULT:
            header["is_error"] = said.returned[0][2]
        elif kind is Kind.REASONING:
            said.blocks = [
                Block("text", block.text, path=block.path) if block.name == "thinking" else block
                for block in said.blocks
            ]
        if said.called and (len(said.called) > 1 or kind is Kind.ASSISTANT):
            header["tools"] = ", ".join(dict.fromkeys(name for name, _call in said.called))[:200]
        said.tell_model(record, (), "stop_reason", _USUAL_STOPS)
        said.defines = [(call, name) for name, call in said.called if call]
        return said.shown(kind)

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        """Yield the other copies of a text: the message's text in one piece, and a tool's result as displayed."""
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

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        if path == ("content",) and name == "thinking":
            raise UsageError("a thought is signed by the model that had it: none can be written by hand")
        if path == ("content",) and isinstance(record.get("content"), list):
            time = record.get("created_at")
            return {"start_timestamp": time, "stop_timestamp": time, "type": "text", "text": text, "citations": []}
        return {"type": "text", "text": text} if path[:1] == ("content",) and path[2:] == ("content",) else None

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        before = object_in(previous)
        time = in_iso(now_ms)
        part: JsonObject = {
            "start_timestamp": time,
            "stop_timestamp": time,
            "flags": None,
            **recorded(_NEW.get(kind, _NEW_TEXT), kind, text, now_ms, more, "toolu_"),
        }
        message: JsonObject = {
            "uuid": str(uuid.uuid4()),
            "text": text if part["type"] == "text" else "",
            "content": [part],
            "sender": _SENDERS[kind],
            "created_at": time,
            "updated_at": time,
            "attachments": [],
            "files": [],
        }
        if isinstance(index := before.get("index"), int):
            message["index"] = index + 1
        if "parent_message_uuid" in before and isinstance(parent := before.get("uuid"), str):
            message["parent_message_uuid"] = parent
        return _encode(message)


_NEW: dict[Kind, Template] = {
    Kind.REASONING: {"type": "thinking", "thinking": "$text", "summaries": [], "cut_off": False},
    Kind.TOOL_CALL: {"type": "tool_use", "id": "$id", "name": "$tool", "input": "$arguments"},
    Kind.TOOL_RESULT: {
        "type": "tool_result", "tool_use_id": "$id", "name": "$tool",
        "content": [{"type": "text", "text": "$text"}], "is_error": "$failed",
    },
}
_NEW_TEXT: Template = {"type": "text", "text": "$text", "citations": []}


def _kind(message: JsonObject, said: _Said) -> tuple[Kind, str, str]:
    """Return the kind of a message, its tool and call: an answer if it has any text, whatever it called on the way."""
    if message.get("sender") != "assistant":
        return Kind.USER if message.get("sender") == "human" else Kind.NOTE, "", ""
    if said.texts:
        return Kind.ASSISTANT, "", ""
    if said.called:
        return Kind.TOOL_CALL, *said.called[0]
    if said.returned:
        return Kind.TOOL_RESULT, *said.returned[0][:2]
    thinks = any(block.name == "thinking" and block.type == "text" for block in said.blocks)
    return Kind.REASONING if thinks else Kind.ASSISTANT, "", ""


_ASKED_AMONG = 4
_messages = re.compile(rb'(?<!\\)"chat_messages"\s*+:\s*+\[\s*+(?:\]|\{)')
_usual_start = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?\{\s*+"uuid"\s*+:\s*+"[0-9a-f-]++"\s*+,\s*+"name"\s*+:\s*+"(?:[^"\\]|\\.)*+"\s*+,'
    rb'\s*+(?:"summary"|"model"|"created_at")\s*+:',
    re.DOTALL,
)
_FILES = frozenset(("memories.json", "projects.json", "users.json"))
_is_project = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json").fullmatch


class _Message(Struct):
    uuid: object = None
    parent_message_uuid: object = None
    created_at: object = None


_message = msgspec.json.Decoder(_Message).decode


class ClaudeAi(ExportFormat):
    """Anthropic's claude.ai."""

    name = "claude-ai"
    lenses = (ClaudeAiLens(),)
    main_type = ClaudeAiLens.type_name
    holder, holds, usual_start = "chat_messages", _messages, _usual_start
    leaf = ("current_leaf_message_uuid", "uuid")
    read = frozenset(("created_at", "current_leaf_message_uuid", "model", "name", "project", "uuid"))

    def belongs(self, name: str, is_folder: bool) -> bool:
        return name == "projects" if is_folder else name in _FILES or _is_project(name) is not None

    def told(self, members: JsonObject, records: Sequence[bytes]) -> About:
        session, model = as_text(members.get("uuid")), as_text(members.get("model"))
        name = first_line(as_text(members.get("name")))
        title, titled = name or _first_question(records), Titled.BY_TOOL if name else Titled.BY_REQUEST
        project = as_text(as_object(members.get("project")).get("name")) or self.name
        started = milliseconds(members.get("created_at"))
        return About(title, project, started, session, {"model": model} if model else {}, titled=titled)

    def node(self, record: bytes) -> Node:
        message = _message(record)
        parent = as_text(message.parent_message_uuid)
        return Node(as_text(message.uuid), parent, milliseconds(message.created_at))


def _first_question(records: Sequence[bytes]) -> str:
    for record in records[:_ASKED_AMONG]:
        message = object_in(record)
        for block in _said_in(message).blocks if message.get("sender") == "human" else ():
            if block.text and block.path:
                return first_line(block.text)
    return ""

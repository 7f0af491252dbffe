"""One line of a session as an event, and the usage of the message on it; pi records the cost of each.

oh-my-pi tells of answers that are no part of the conversation, such as a title's, on lines of their own:
``model_usage``.
"""

import re
import uuid
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import msgspec
from msgspec import structs

from store.errors import UsageError
from store.events.event import Block, Compaction, EventEdit, Kind, ValuePath
from store.events.usage import Tokens, Usage
from store.formats.core.composing import Particulars, Template, recorded
from store.formats.core.editing import Twins
from store.formats.core.json_view import (
    Decoded,
    JsonObject,
    as_list,
    as_object,
    as_text,
    decode,
    object_in,
    scalar,
    value_at,
)
from store.formats.core.lens import Before, Places, Shown
from store.formats.core.media import file_uri, from_base64, mime_of, suffix_of
from store.formats.core.times import in_iso
from store.formats.core.token_counts import count, dollars
from store.formats.core.twins import copies
from store.formats.declared.description import Fits, read_views
from store.formats.declared.lens import DeclaredLens, with_files
from store.formats.pi.images import ALGORITHM, digest_of, is_reference
from store.formats.pi.slot import padded

CUT = "[Session persistence truncated large content]"
"""The end of a text that the program cut when it wrote it."""

_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
_NO_TOKENS = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": _NO_COST}
NO_MODEL = {"api": "openai-completions", "provider": "openai", "model": "unknown"}
"""The model of an answer written by hand that follows no other answer; the program then asks for one."""
_encode = msgspec.json.Encoder().encode


def answer(parts: list[JsonObject], model: Mapping[str, str], stop: str) -> JsonObject:
    """Return a message of the model, without its time."""
    return {"role": "assistant", "content": parts, **model, "usage": _NO_TOKENS, "stopReason": stop}


def _is_tree(before: JsonObject) -> bool:
    """Return whether a session whose last line is ``before``, which has no id, is of a version with ids."""
    return not before or before.get("type") == "title" or isinstance(before.get("version"), int)


def _message(**said: object) -> Template:
    return {"type": "message", "message": {**said, "timestamp": "$ms"}}


def _answer(part: JsonObject, stop: str = "stop") -> Template:
    return _message(**answer([part], {key: f"$model.{key}" for key in NO_MODEL}, stop))


_TEXT: JsonObject = {"type": "text", "text": "$text"}
_RESULT = {"role": "toolResult", "toolCallId": "$id", "toolName": "$tool", "content": [_TEXT], "isError": "$failed"}
_NEW: dict[Kind, Template] = {
    Kind.USER: _message(role="user", content=[_TEXT]),
    Kind.SYSTEM: {"type": "custom_message", "customType": "note", "content": "$text", "display": True},
    Kind.ASSISTANT: _answer(_TEXT),
    Kind.REASONING: _answer({"type": "thinking", "thinking": "$text"}),
    Kind.TOOL_CALL: _answer({"type": "toolCall", "id": "$id", "name": "$tool", "arguments": "$arguments"}, "toolUse"),
    Kind.TOOL_RESULT: _message(**_RESULT),
    Kind.SUMMARY: {"type": "branch_summary", "fromId": "$from", "summary": "$text"},
    Kind.NOTE: {"type": "label", "targetId": "$from", "label": "$text"},
}
_CONTENT: ValuePath = ("message", "content")
_DETAILS: ValuePath = ("message", "details")

_TRANSIENT = ("partialJson", "jsonlEvents")
"""Members that only mean something while a message is being made; versions that wrote them say all of it elsewhere."""
_may_be_transient = re.compile(b'"(?:%b)"' % "|".join(_TRANSIENT).encode()).search


def is_type(what: str) -> bool:
    """Return whether lines of this type are known."""
    return any(what in words for view in read_views("pi").records for _path, words in Fits(view.when).words)


_USUAL_STOPS = frozenset(("stop", "toolUse"))
_UNSAID = frozenset(("error", "thinking"))
"""The names of blocks that are nothing that a model said."""


_FILES = frozenset(("file", "image"))
"""The names of blocks that stand for files."""


def _file_of(record: JsonObject, before: Before, block: Block, number: int) -> Block | None:
    """Return the image or the file, the ``number``-th of a line, that a text in it is; None where it is a text."""
    if block.name not in _FILES:
        return None
    holder, owner = as_object(value_at(record, block.path[:-1])), as_text(record.get("id")) or "line"
    text = block.text or ""
    if block.name == "file" and (path := as_text(holder.get("path"))):
        return Block("resource", text, uri=file_uri(path), mime=mime_of(path), path=block.path)
    name, mime = as_text(holder.get("fileName")), as_text(holder.get("mimeType"))
    if is_reference(text):
        digest = digest_of(text)
        data = before.blob(ALGORITHM, digest) if digest else None
    else:
        data = from_base64(text) if not text.endswith(CUT) else None
    if data is None:
        return None
    mime = mime or (mime_of(name) if name else "image/png")
    uri = f"attachment:{owner}/{name or f'image-{number}.{suffix_of(mime)}'}"
    is_image = block.name == "image" or mime.startswith("image/")
    return Block("image" if is_image else "resource", None, data, "", uri, mime, block.path, "base64")


class PiLens(DeclaredLens):
    """Sees lines of a session. The order of lines is the conversation; a parent is named where it is another line."""

    time_key = "timestamp"
    links, keyless = ("fromId",), "session"
    writes = tuple(_NEW)
    lacks: ClassVar[Mapping[Kind, str]] = {Kind.CONFIG: "pi notes how it is set in lines that nobody is shown"}
    places: ClassVar[Places] = {
        **dict.fromkeys(("missing", "record", "role", "truncated"), "says what the record is: it cannot be changed"),
        "artifact": "says where the whole output is: it cannot be changed",
        "stop_reason": ("message", "stopReason"),
    }

    def __init__(self) -> None:
        super().__init__(read_views("pi"), "pi.entry.v1")
        self.telling = (b'"usage"',)

    @staticmethod
    def parsed(payload: bytes) -> Decoded | None:
        """Return the contents of a line, without members that only matter while a message is being written."""
        decoded = decode(payload)
        # one search of the whole line for both: it costs as much as parsing a third of it
        if decoded is not None and _may_be_transient(payload):
            return Decoded(_without_transient(decoded.value), decoded.lossy)
        return decoded

    def shown(self, record: JsonObject, before: Before) -> Shown:
        shown = with_files(super().shown(record, before), partial(_file_of, record, before))
        if shown.kind is Kind.RECORD:
            return shown
        message, header = as_object(record.get("message")), shown.header
        for block in shown.blocks:
            if block.text and block.text.endswith(CUT):
                header["truncated"] = True
            elif block.name in _FILES and block.text and is_reference(block.text):
                header["missing"] = True
        kind, compaction = shown.kind, None
        if (stop := message.get("stopReason")) and stop not in _USUAL_STOPS:
            header["stop_reason"] = as_text(stop)
        if kind in (Kind.TOOL_RESULT, Kind.NOTE):
            whole = as_object(message.get("details")) if "details" in message else message
            if (artifact := scalar(value_at(whole, ("meta", "truncation", "artifactId")))) is not None:
                header["artifact"] = f"artifact://{artifact}"
        elif kind is Kind.ASSISTANT and "errorMessage" in message and {block.name for block in shown.blocks} <= _UNSAID:
            kind = Kind.REASONING if len(shown.blocks) > 1 else Kind.NOTE
        elif kind is Kind.SUMMARY and record.get("type") == "compaction":
            compaction = Compaction(shown.blocks[:1], as_text(record.get("firstKeptEntryId")))
        if kind is shown.kind and compaction is None:
            return shown
        return structs.replace(shown, kind=kind, compaction=compaction)

    def used(self, record: JsonObject) -> Usage | None:
        """Return the usage on a record. An entry's id is short and copied with it: the time helps to name one."""
        message = record if record.get("type") == "model_usage" else as_object(record.get("message"))
        told = as_object(message.get("usage"))
        sent, output, read, write = (count(told, key) for key in ("input", "output", "cacheRead", "cacheWrite"))
        reasoning = min(output, count(told, "reasoning", "reasoningTokens"))
        tokens = Tokens(sent, output, read, write, reasoning=reasoning)
        cost = dollars(as_object(told.get("cost")).get("total"))
        if not tokens.total and not cost:
            return None
        name = f"{as_text(record.get('id'))}@{message.get('timestamp') or record.get('timestamp')}"
        # a model that is paid for by subscription costs nothing that anyone could tell
        return Usage(name, as_text(message.get("model")), tokens, cost or None)

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        return padded(super().edit(payload, edit, before))

    def revise(self, payload: bytes, old: object, new: object, before: Before) -> bytes:
        """Return ``payload`` so that it says ``new``; a title keeps the size of its place."""
        edited = super().revise(payload, old, new, before)
        return edited if edited == payload else padded(edited)

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        """Yield the other copies that a line holds of a tool's result."""
        message = as_object(record.get("message"))
        if message.get("role") != "toolResult" or path[:2] != ("message", "content"):
            return
        said = [as_object(part).get("text") for part in as_list(message.get("content"))]
        # of several, which one a copy belongs to cannot be told
        yield from copies(message.get("details"), _DETAILS, old, new) if said.count(old) <= 1 else ()

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        """Return a new part of a line's content, or a further system prompt."""
        if path == ("systemPrompt",):
            return text if isinstance(record.get("systemPrompt"), list) else None
        return super().part(record, path, name, text)

    def room(self, record: JsonObject) -> ValuePath | None:
        message = as_object(record.get("message"))
        if message.get("role") == "toolResult":
            return _CONTENT
        parts = enumerate(as_list(message.get("content")))
        called = next((at for at, part in parts if as_object(part).get("type") == "toolCall"), None)
        return None if called is None else (*_CONTENT, called, "arguments")

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        before = object_in(previous)
        parent = "" if before.get("type") == "session" else as_text(before.get("id"))
        if kind is Kind.NOTE and not parent:
            raise UsageError("no note can be written in pi here: it labels an entry by its id; write user or system")
        earlier = as_object(before.get("message"))
        model = {key: as_text(earlier.get(key)) or usual for key, usual in NO_MODEL.items()}
        said = recorded(_NEW[kind], kind, text, now_ms, more, model=model, **{"from": parent or "root"})
        line: JsonObject = {"type": said.pop("type")}
        # sessions of version 1 are no trees: their lines have no ids
        if parent or _is_tree(before):
            line |= {"id": uuid.uuid4().hex[:8], "parentId": parent or None}
        line |= {"timestamp": in_iso(now_ms), **said}
        return _encode(line) + (b"\r" if previous and previous.endswith(b"\r") else b"")


def _without_transient(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_transient(item) for key, item in value.items() if key not in _TRANSIENT}
    if isinstance(value, list):
        return [_without_transient(item) for item in value]
    return value

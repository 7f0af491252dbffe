"""New lines for the end of a session, shaped as the program's own."""

import uuid

import msgspec

from store.errors import UsageError
from store.events.event import Kind
from store.formats.composing import check_text, object_before
from store.formats.json_view import JsonObject, as_object, as_text
from store.formats.times import in_iso

_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
NO_TOKENS = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": _NO_COST}
NO_MODEL = {"api": "openai-completions", "provider": "openai", "model": "unknown"}
"""Who an answer written by hand is from where the message before is no answer; the program then asks for a model."""
_encode = msgspec.json.Encoder().encode


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return a line that follows ``previous``. See :meth:`store.formats.lens.Lens.compose`."""
    check_text(text)
    before = object_before(previous)
    parent = "" if before.get("type") == "session" else as_text(before.get("id"))
    said = _said(kind, text, before, parent, now_ms)
    line: JsonObject = {"type": said.pop("type")}
    # sessions of version 1 are no trees: their lines have no ids
    if parent or _is_tree(before):
        line |= {"id": uuid.uuid4().hex[:8], "parentId": parent or None}
    line |= {"timestamp": in_iso(now_ms), **said}
    return _encode(line) + (b"\r" if previous and previous.endswith(b"\r") else b"")


def _is_tree(before: JsonObject) -> bool:
    """Say whether a session whose last line is ``before``, which has no id of its own, is of a version with ids."""
    return not before or before.get("type") == "title" or isinstance(before.get("version"), int)


def _said(kind: Kind, text: str, before: JsonObject, parent: str, now_ms: int) -> JsonObject:
    parts = [{"type": "text", "text": text}]
    match kind:
        case Kind.USER:
            return {"type": "message", "message": {"role": "user", "content": parts, "timestamp": now_ms}}
        case Kind.ASSISTANT:
            earlier = as_object(before.get("message"))
            model = {key: as_text(earlier.get(key)) or usual for key, usual in NO_MODEL.items()}
            message = {
                "role": "assistant",
                "content": parts,
                **model,
                "usage": NO_TOKENS,
                "stopReason": "stop",
                "timestamp": now_ms,
            }
            return {"type": "message", "message": message}
        case Kind.SYSTEM:
            return {"type": "custom_message", "customType": "note", "content": text, "display": True}
        case Kind.SUMMARY:
            return {"type": "branch_summary", "fromId": parent or "root", "summary": text}
        case Kind.NOTE if parent:
            return {"type": "label", "targetId": parent, "label": text}
        case Kind.NOTE:
            raise UsageError("a note is a label of the entry before it, and here is none: write user or assistant")
        case _:
            called = kind.name.lower()
            raise UsageError(f"a {called} cannot be written by hand: write user, assistant, system, summary or note")

"""New messages for a conversation, shaped as the service's own."""

import uuid

import msgspec

from store.events.event import Kind
from store.formats.composing import check_said, object_before
from store.formats.json_view import JsonObject
from store.formats.times import in_iso

_SENDERS = {Kind.ASSISTANT: "assistant", Kind.USER: "human"}
_encode = msgspec.json.Encoder().encode


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return a message that follows ``previous``. See :meth:`store.formats.lens.Lens.compose`."""
    check_said(text, kind, _SENDERS)
    sender = _SENDERS[kind]
    before = object_before(previous)
    time = in_iso(now_ms)
    part: JsonObject = {
        "start_timestamp": time,
        "stop_timestamp": time,
        "flags": None,
        "type": "text",
        "text": text,
        "citations": [],
    }
    message: JsonObject = {
        "uuid": str(uuid.uuid4()),
        "text": text,
        "content": [part],
        "sender": sender,
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

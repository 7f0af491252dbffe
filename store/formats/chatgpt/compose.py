"""New nodes for a conversation's tree, shaped as the service's own."""

import uuid

import msgspec

from store.events.event import Kind
from store.formats.composing import check_said
from store.formats.json_view import JsonObject, as_object, as_text, decode

_ROLES = {Kind.ASSISTANT: "assistant", Kind.SYSTEM: "system", Kind.USER: "user"}
_encode = msgspec.json.Encoder().encode


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return a node that follows ``previous``. See :meth:`store.formats.lens.Lens.compose`."""
    check_said(text, kind, _ROLES)
    role = _ROLES[kind]
    decoded = decode(previous) if previous else None
    parent = as_text((as_object(decoded.value) if decoded else {}).get("id"))
    identifier = str(uuid.uuid4())
    message: JsonObject = {
        "id": identifier,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": now_ms / 1000,
        "update_time": None,
        "content": {"content_type": "text", "parts": [text]},
        "status": "finished_successfully",
        "end_turn": True if kind is Kind.ASSISTANT else None,
        "weight": 1.0,
        "metadata": {},
        "recipient": "all",
        "channel": None,
    }
    return _encode({"id": identifier, "message": message, "parent": parent or None, "children": []})

"""New messages for the end of a session, shaped as the program's own."""

import uuid

from store.events.event import Kind
from store.formats.composing import check_said
from store.formats.json_view import JsonObject
from store.formats.new_records import new_record
from store.formats.times import in_iso

_TYPES = {Kind.ASSISTANT: "gemini", Kind.NOTE: "info", Kind.USER: "user"}


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return a message that follows ``previous``. See :meth:`store.formats.lens.Lens.compose`."""
    check_said(text, kind, _TYPES)
    content: object = [{"text": text}] if kind is Kind.USER else text
    message: JsonObject = {
        "id": str(uuid.uuid4()),
        "timestamp": in_iso(now_ms),
        "type": _TYPES[kind],
        "content": content,
    }
    return new_record(message, previous)

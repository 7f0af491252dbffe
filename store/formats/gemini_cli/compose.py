"""New messages for the end of a session, shaped as the program's own."""

import uuid

from store.errors import UsageError
from store.events.event import Kind
from store.formats.json_view import JsonObject
from store.formats.new_literals import encoded
from store.formats.new_records import new_record
from store.formats.times import in_iso

_TYPES = {Kind.ASSISTANT: "gemini", Kind.NOTE: "info", Kind.USER: "user"}


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return a message that follows ``previous``. See :meth:`store.formats.lens.Lens.compose`."""
    encoded(text)
    if not text:
        raise UsageError("an empty message says nothing: write its text, then save again")
    if kind not in _TYPES:
        raise UsageError(f"a {kind.name.lower()} cannot be written by hand: write user, assistant or note")
    content: object = [{"text": text}] if kind is Kind.USER else text
    message: JsonObject = {
        "id": str(uuid.uuid4()),
        "timestamp": in_iso(now_ms),
        "type": _TYPES[kind],
        "content": content,
    }
    return new_record(message, previous)

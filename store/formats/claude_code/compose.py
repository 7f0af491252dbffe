"""New lines for the end of a session, shaped as the program's own."""

import uuid

import msgspec

from store.errors import UsageError
from store.events.event import Kind
from store.formats.composing import check_text, object_before
from store.formats.json_view import JsonObject, as_text
from store.formats.times import in_iso

_COPIED = ("userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "agentId", "slug")
NO_TOKENS = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}
SYNTHETIC = "<synthetic>"
"""The program's own mark, in the place of a model, for answers that came from none."""
_encode = msgspec.json.Encoder().encode


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return a line that follows ``previous``. See :meth:`store.formats.lens.Lens.compose`."""
    check_text(text)
    before = object_before(previous)
    parent = as_text(before.get("uuid")) or as_text(before.get("leafUuid")) or None
    line: JsonObject
    if kind is Kind.SUMMARY:
        line = {"type": "summary", "summary": text, "leafUuid": parent or str(uuid.uuid4())}
    else:
        line = {
            "parentUuid": parent,
            "isSidechain": before.get("isSidechain") is True,
            "userType": "external",
            "sessionId": str(uuid.uuid4()),
            **{key: before[key] for key in _COPIED if isinstance(before.get(key), str)},
            **_said(kind, text),
            "uuid": str(uuid.uuid4()),
            "timestamp": in_iso(now_ms),
        }
    return _encode(line) + (b"\r" if previous and previous.endswith(b"\r") else b"")


def _said(kind: Kind, text: str) -> JsonObject:
    match kind:
        case Kind.USER:
            return {"type": "user", "message": {"role": "user", "content": text}}
        case Kind.SYSTEM:
            return {"type": "user", "message": {"role": "user", "content": text}, "isMeta": True}
        case Kind.ASSISTANT:
            message: JsonObject = {
                "id": str(uuid.uuid4()),
                "type": "message",
                "role": "assistant",
                "model": SYNTHETIC,
                "content": [{"type": "text", "text": text}],
                "stop_reason": "stop_sequence",
                "stop_sequence": "",
                "usage": NO_TOKENS,
            }
            return {"type": "assistant", "message": message}
        case Kind.NOTE:
            return {"type": "system", "subtype": "informational", "content": text, "isMeta": False, "level": "info"}
        case _:
            called = kind.name.lower()
            raise UsageError(f"a {called} cannot be written by hand: write user, assistant, system, summary or note")

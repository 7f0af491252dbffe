"""Edits of JP's events, and new ones: where they hold what is shown, and how they write it."""

import json
import re

from store.errors import UsageError
from store.events.event import Kind, Path
from store.formats.composing import check_said, object_before
from store.formats.edit_checks import Value
from store.formats.editing import Place
from store.formats.json_spans import locate
from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.new_literals import spell
from store.formats.splices import with_members
from store.formats.times import in_iso

_REFERENCE = frozenset(("$blob", "size"))
_PLACES: dict[str, dict[str, Path]] = {
    "compaction": {"from_turn": ("from_turn",), "to_turn": ("to_turn",)},
    "inquiry_request": {
        "answer_type": ("question", "answer_type", "type"),
        "default": ("question", "default"),
        "from": ("source", "source"),
        "tool": ("source", "name"),
    },
    "tool_call_request": {"tool": ("name",)},
}
_NAMED_BY_OTHERS = {"tool_call_response": "call", "inquiry_response": "question"}
_SAID = {Kind.ASSISTANT: ("chat_response", "message"), Kind.USER: ("chat_request", "content")}
_indented = re.compile(rb"\n([ \t]*)\}\s*$").search
_iso = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)Z").fullmatch


def place(stored: JsonObject, key: str) -> Place | None:
    """Return where field ``key`` stands, None where nowhere. Raises UsageError for the tool of a result or answer."""
    what = as_text(stored.get("type"))
    if key == "timestamp":
        return Place(("timestamp",), write=lambda value: _stamp(value, as_text(stored.get("timestamp"))))
    if key == "is_error" and what == "tool_call_response":
        return Place(("isError" if "isError" in stored and "is_error" not in stored else "is_error",), may_add=True)
    if key == "tool" and (other := _NAMED_BY_OTHERS.get(what)):
        raise UsageError(f"the tool is that of the {other} which this belongs to: change 'tool' in that file")
    path = _PLACES.get(what, {}).get(key) or (("id",) if key == "id" else None)
    return Place(path) if path else None


def is_read_through_base64(stored: JsonObject, path: Path) -> bool:
    """Say whether the lens takes base64 at ``path`` for the text that it encodes."""
    what = stored.get("type")
    return (what == "tool_call_request" and path[:1] == ("arguments",)) or (
        what == "tool_call_response" and path == ("content",)
    )


def written(payload: bytes, path: Path, text: str) -> bytes:
    """Return ``payload`` with ``text`` in the place of a reference to a blob, as ``{"text": "…"}``."""
    start, end = locate(payload, path)
    reference = as_object(decoded.value) if (decoded := decode(payload[start:end])) else {}
    if "$blob" not in reference:
        raise UsageError("this content is no text in the record: it cannot be changed here")
    return with_members(payload, path, _REFERENCE, {"text": spell(text, payload)})


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return a request or an answer in the layout of ``previous``. See :meth:`store.formats.lens.Lens.compose`."""
    check_said(text, kind, _SAID)
    before = object_before(previous)
    what, key = _SAID[kind]
    time = _stamp(in_iso(now_ms), as_text(before.get("timestamp")) or " ")
    layout = _indented(previous or b"\n  }")
    if layout is None:
        return json.dumps({"timestamp": time, "type": what, key: text}, ensure_ascii=False).encode()
    event = json.dumps({"timestamp": time, "type": what, key: text}, ensure_ascii=False, indent=2).encode()
    return event.replace(b"\n", b"\n" + layout[1])


def stamp(time: str) -> str:
    """Spell a time in ISO 8601, in UTC, as JP does: ``2026-03-05 23:12:34.3``."""
    if iso := _iso(time):
        seconds, _, fraction = iso[2].partition(".")
        return f"{iso[1]} {seconds}.{fraction.rstrip('0') or '0'}"
    return time


def _stamp(value: Value, like: str) -> Value:
    """Spell a time as JP does where ``like`` is spelled so."""
    return stamp(value) if isinstance(value, str) and " " in like else value

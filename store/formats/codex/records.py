"""The three shapes of a line, and what they have in common.

Since September 2025 a line is ``{"timestamp", "type", "payload"}``. Before, the first one was ``{"id", "timestamp",
"instructions"}`` and the others the items themselves, or ``{"record_type": "state"}``.
"""

from typing import NamedTuple

from store.events.event import Path
from store.formats.json_view import JsonObject, as_object, as_text, decode

ENVELOPED = frozenset(
    [
        "compacted",
        "event_msg",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "response_item",
        "session_meta",
        "turn_context",
        "world_state",
    ]
)
"""The types of lines that have a payload."""

BARE_ITEMS = frozenset(
    [
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call",
        "function_call_output",
        "ghost_snapshot",
        "local_shell_call",
        "message",
        "reasoning",
        "web_search_call",
    ]
)
"""The types of items that stand on lines of their own in the oldest files."""

_PLAIN_MEMBERS = frozenset(
    ("arguments", "content", "function", "model", "name", "result", "role", "text", "timestamp", "type")
)
_PLAIN_TYPES = frozenset(("error", "tool_call", "tool_result"))
_FIRST_LINE = frozenset(("instructions", "git"))


class Said(NamedTuple):
    """What a line says: of which type it is, the value that says it, and where in the line that stands."""

    what: str
    item: JsonObject
    base: Path


def said(line: JsonObject) -> Said:
    """Return what a line says; of a line without envelope the type is that of a line with one."""
    what, payload = line.get("type"), line.get("payload")
    if isinstance(payload, dict):
        return Said(as_text(what), payload, ("payload",))
    if "record_type" in line:
        return Said("state", line, ())
    if what is None and "id" in line and "role" not in line:
        return Said("session_meta", line, ())
    return Said("response_item", line, ())


def is_line(line: JsonObject) -> bool:
    """Say whether a parsed JSON object is a line of a rollout that only Codex writes."""
    what = line.get("type")
    if isinstance(line.get("payload"), dict):
        return isinstance(what, str) and what in ENVELOPED and "timestamp" in line
    if not isinstance(what, str):
        return _begins_bare(line) or line.get("record_type") == "state" or ("role" in line and _is_plain(line))
    if what in _PLAIN_TYPES:
        return _is_plain(line)
    return what in BARE_ITEMS and ("role" in line or "call_id" in line or what not in ("message", "reasoning"))


def object_of(record: bytes) -> JsonObject:
    """Return a line as an object, an empty one for a damaged line."""
    decoded = decode(record)
    return as_object(decoded.value) if decoded else {}


def _begins_bare(line: JsonObject) -> bool:
    return "id" in line and "timestamp" in line and not _FIRST_LINE.isdisjoint(line)


def _is_plain(line: JsonObject) -> bool:
    """Say whether a line is a message, call or result as viewers of rollouts have them in samples, with a time."""
    return line.keys() <= _PLAIN_MEMBERS and "timestamp" in line

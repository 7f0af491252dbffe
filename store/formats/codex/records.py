"""The three shapes of a line, and their common parts.

Since September 2025 a line is ``{"timestamp", "type", "payload"}``. Before, the first one was ``{"id", "timestamp",
"instructions"}`` and the others the items themselves, or ``{"record_type": "state"}``.
"""

from typing import NamedTuple

from store.events.event import ValuePath
from store.formats.core.json_view import JsonObject, as_text

QUIET = frozenset(("inter_agent_communication_metadata", "state", "turn_context", "world_state"))
"""The types of lines that no reader asks for."""

_SPEAKING = ("compacted", "event_msg", "inter_agent_communication", "response_item", "session_meta")
ENVELOPED = QUIET.union(_SPEAKING) - {"state"}
"""The types of lines that have a payload."""

_BARE_CALLS = ("custom_tool_call", "function_call", "local_shell_call", "web_search_call")
BARE_ITEMS = frozenset(
    (*_BARE_CALLS, "custom_tool_call_output", "function_call_output", "ghost_snapshot", "message", "reasoning")
)
"""The types of items that stand on lines of their own in the oldest files."""

_PLAIN_MEMBERS = frozenset(
    ("arguments", "content", "function", "model", "name", "result", "role", "text", "timestamp", "type")
)
_PLAIN_TYPES = frozenset(("error", "tool_call", "tool_result"))
_FIRST_LINE = frozenset(("instructions", "git"))


class Said(NamedTuple):
    """The content of a line: its type, the value that holds it, and where in the line that stands."""

    what: str
    item: JsonObject
    base: ValuePath


def said(line: JsonObject) -> Said:
    """Return the contents of a line; one without envelope gets the type of a line with one."""
    what, payload = line.get("type"), line.get("payload")
    if isinstance(payload, dict):
        return Said(as_text(what), payload, ("payload",))
    if "record_type" in line:
        return Said("state", line, ())
    if what is None and "id" in line and "role" not in line:
        return Said("session_meta", line, ())
    return Said("response_item", line, ())


def is_line(line: JsonObject) -> bool:
    """Return whether a parsed JSON object is a line of a rollout that only Codex writes."""
    what = line.get("type")
    if isinstance(line.get("payload"), dict):
        return isinstance(what, str) and what in ENVELOPED and "timestamp" in line
    if not isinstance(what, str):
        return _begins_bare(line) or line.get("record_type") == "state" or ("role" in line and _is_plain(line))
    if what in _PLAIN_TYPES:
        return _is_plain(line)
    return what in BARE_ITEMS and ("role" in line or "call_id" in line or what not in ("message", "reasoning"))


def is_own(line: JsonObject) -> bool:
    """Return whether a line is more than a message with a time, which any program may write."""
    return is_line(line) and not (line.get("type") is None and _is_plain(line))


def _begins_bare(line: JsonObject) -> bool:
    return "id" in line and "timestamp" in line and not _FIRST_LINE.isdisjoint(line)


def _is_plain(line: JsonObject) -> bool:
    """Return whether a line is a message, call or result with a time, as viewers of rollouts have them in samples."""
    return line.keys() <= _PLAIN_MEMBERS and "timestamp" in line

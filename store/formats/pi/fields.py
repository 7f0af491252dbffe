"""Where a line holds what its event's head shows."""

from store.errors import UsageError
from store.events.event import Path
from store.formats.edit_checks import Value
from store.formats.editing import Place
from store.formats.json_view import JsonObject, as_list, as_object, as_text
from store.formats.times import milliseconds

_BY_TYPE: dict[str, dict[str, Path]] = {
    "branch_summary": {"from": ("fromId",)},
    "compaction": {"tokens_before": ("tokensBefore",)},
    "custom_message": {"custom_type": ("customType",)},
    "label": {"target": ("targetId",)},
}
_EXECUTION: dict[str, Path] = {
    "cancelled": ("message", "cancelled"),
    "exit_code": ("message", "exitCode"),
    "full_output": ("message", "fullOutputPath"),
    "hidden": ("message", "excludeFromContext"),
}
_BY_ROLE: dict[str, dict[str, Path]] = {
    "assistant": {"model": ("message", "model"), "stop_reason": ("message", "stopReason")},
    "bashExecution": _EXECUTION,
    "custom": {"custom_type": ("message", "customType")},
    "hookMessage": {"custom_type": ("message", "customType")},
    "pythonExecution": _EXECUTION,
    "toolResult": {
        "full_output": ("message", "details", "fullOutputPath"),
        "id": ("message", "toolCallId"),
    },
}
_WHAT_IT_IS = frozenset(("missing", "record", "role", "truncated"))
_OF_CALL = {"id": "id", "tool": "name"}


def place(line: JsonObject, key: str) -> Place | None:
    """Return where field ``key`` stands, None where nowhere. Raises UsageError for what cannot be changed."""
    if key in _WHAT_IT_IS:
        raise UsageError(f"{key!r} says what the record is: it cannot be changed")
    if key == "artifact":
        raise UsageError("'artifact' says where the whole output is: it cannot be changed")
    said = as_object(line.get("message"))
    if key == "timestamp":
        if "timestamp" in line or "timestamp" not in said:
            return Place(("timestamp",))
        return Place(("message", "timestamp"), write=_in_milliseconds)
    what, role = as_text(line.get("type")), as_text(said.get("role"))
    places = _BY_ROLE.get(role, {}) if what == "message" else _BY_TYPE.get(what, {})
    if key in places:
        return Place(places[key])
    if role == "toolResult" and key == "is_error":
        return Place(("message", "isError"), may_add=True)
    if role == "toolResult" and key == "tool":
        raise UsageError("the tool of a result is that of its call: change 'tool' in the call's file")
    # the second call of a message is tool_2, id_2
    name, _, number = key.rpartition("_")
    name, which = (name, int(number) - 1) if number.isdecimal() else (key, 0)
    if role == "assistant" and name in _OF_CALL:
        parts = as_list(said.get("content"))
        calls = [at for at, part in enumerate(parts) if as_object(part).get("type") == "toolCall"]
        return Place(("message", "content", calls[which], _OF_CALL[name])) if 0 <= which < len(calls) else None
    return None


def _in_milliseconds(value: Value) -> Value:
    return milliseconds(value) or value

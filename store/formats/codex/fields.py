"""Where a line holds what its event's head shows."""

from store.errors import UsageError
from store.formats.codex import notes
from store.formats.codex.records import said
from store.formats.editing import Place
from store.formats.json_view import JsonObject, as_object, as_text

_WHAT_IT_IS = frozenset(("encrypted", "item", "kept", "record"))
_AS_CALLED = frozenset(("author", "model", "namespace", "phase", "recipient", "role", "status"))
_OUTPUTS = ("_output", "_result")


def place(line: JsonObject, key: str) -> Place | None:
    """Return where field ``key`` stands, None where nowhere. Raises UsageError for what cannot be changed."""
    what, value, base = said(line)
    kind = as_text(value.get("type"))
    if key == "timestamp":
        return Place(("timestamp",))
    if key in _WHAT_IT_IS:
        raise UsageError(f"{key!r} says what the record is: it cannot be changed")
    if key == "is_error":
        raise UsageError("'is_error' is what the record says by its 'exit_code' or 'success': change that")
    if what == "session_meta":
        return Place((*base, notes.HEADER[key])) if key in notes.HEADER else None
    if key == "tool":
        if what == "event_msg":
            raise UsageError("'tool' says what the record is: it cannot be changed")
        if kind.endswith(_OUTPUTS):
            raise UsageError("the tool of a result is that of its call: change 'tool' in the call's file")
        if "name" in as_object(value.get("function")):
            return Place((*base, "function", "name"))
        return Place((*base, "name")) if "name" in value else None
    if key == "id":
        return Place((*base, next((name for name in ("call_id", "callId") if name in value), "id")))
    if key == "success" and isinstance(as_object(value.get("output")).get("success"), bool):
        return Place((*base, "output", "success"))
    if key == "exit_code" and isinstance(value.get("output"), str):
        return Place((*base, "output", "metadata", "exit_code"))
    if key in ("exit_code", "success"):
        return Place((*base, key)) if key in value else None
    return Place((*base, key)) if key in _AS_CALLED else None

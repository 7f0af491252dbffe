"""Where a line holds what its event's head shows."""

from store.errors import UsageError
from store.events.event import Path
from store.formats.claude_code.messages import CALLS
from store.formats.editing import Place
from store.formats.json_view import JsonObject, as_list, as_object, as_text

_COMMON: dict[str, Path] = {
    "agent": ("agentId",),
    "sidechain": ("isSidechain",),
    "timestamp": ("timestamp",),
}
_BY_TYPE: dict[str, dict[str, Path]] = {
    "assistant": {
        "api_error": ("isApiErrorMessage",),
        "model": ("message", "model"),
        "stop_reason": ("message", "stop_reason"),
    },
    "attachment": {"hook": ("attachment", "hookName")},
    "summary": {"leaf": ("leafUuid",)},
    "system": {
        "level": ("level",),
        "pre_tokens": ("compactMetadata", "preTokens"),
        "trigger": ("compactMetadata", "trigger"),
    },
    "user": {
        "full_output": ("toolUseResult", "persistedOutputPath"),
        "subagent": ("toolUseResult", "agentId"),
    },
}
_WHAT_IT_IS = frozenset(("attachment", "record", "subtype"))
_OF_CALL = {"id": "id", "tool": "name"}
_OF_RESULT = {"id": "tool_use_id", "is_error": "is_error"}


def place(line: JsonObject, key: str) -> Place | None:
    """Return where field ``key`` stands, None where nowhere. Raises UsageError for what cannot be changed."""
    what = line.get("type")
    if key in _WHAT_IT_IS:
        raise UsageError(f"{key!r} says what the record is: it cannot be changed")
    paths = _BY_TYPE.get(what, {}) if isinstance(what, str) else {}
    if (path := paths.get(key) or _COMMON.get(key)) is not None:
        return Place(path)
    # the second call or result on a line is tool_2, id_2, is_error_2
    name, _, number = key.rpartition("_")
    name, which = (name, int(number) - 1) if number.isdecimal() else (key, 0)
    parts = as_list(as_object(line.get("message")).get("content"))
    if what == "assistant" and name in _OF_CALL:
        calls = [at for at, part in enumerate(parts) if as_text(as_object(part).get("type")) in CALLS]
        return Place(("message", "content", calls[which], _OF_CALL[name])) if 0 <= which < len(calls) else None
    if what == "user" and name == "tool":
        raise UsageError("the tool of a result is that of its call: change 'tool' in the call's file")
    if what == "user" and name in _OF_RESULT:
        results = [at for at, part in enumerate(parts) if as_object(part).get("type") == "tool_result"]
        if 0 <= which < len(results):
            return Place(("message", "content", results[which], _OF_RESULT[name]), may_add=name == "is_error")
    return None

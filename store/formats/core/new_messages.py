"""New messages in the terms of the APIs that the ones before are in."""

from collections.abc import Sequence

from store.errors import UsageError
from store.events.event import Kind
from store.formats.core import templates
from store.formats.core.chat_messages import ITEMS
from store.formats.core.composing import Particulars
from store.formats.core.json_view import JsonObject, as_list, as_object
from store.formats.core.templates import Template

WRITES = (Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.REASONING, Kind.TOOL_CALL, Kind.TOOL_RESULT)
_FUNCTION = {"name": "$tool", "arguments": "$arguments_json"}
_CHAT: dict[Kind, Template] = {
    Kind.REASONING: {"role": "assistant", "content": None, "reasoning_content": "$text"},
    Kind.TOOL_CALL: {
        "role": "assistant", "content": None,
        "tool_calls": [{"id": "$id", "type": "function", "function": _FUNCTION}],
    },
    Kind.TOOL_RESULT: {"role": "tool", "tool_call_id": "$id", "content": "$text"},
}
_RESPONSES: dict[Kind, Template] = {
    Kind.REASONING: {"type": "reasoning", "summary": [{"type": "summary_text", "text": "$text"}]},
    Kind.TOOL_CALL: {"type": "function_call", "call_id": "$id", **_FUNCTION},
    Kind.TOOL_RESULT: {"type": "function_call_output", "call_id": "$id", "output": "$text"},
}
_ANTHROPIC: dict[Kind, Template] = {
    Kind.REASONING: {"type": "thinking", "thinking": "$text", "signature": ""},
    Kind.TOOL_CALL: {"type": "tool_use", "id": "$id", "name": "$tool", "input": "$arguments"},
    Kind.TOOL_RESULT: {"type": "tool_result", "tool_use_id": "$id", "content": "$text", "is_error": "$failed"},
}
_GEMINI: dict[Kind, Template] = {
    Kind.REASONING: {"text": "$text", "thought": True},
    Kind.TOOL_CALL: {"functionCall": {"id?": "$given", "name": "$tool", "args": "$arguments"}},
    Kind.TOOL_RESULT: {"functionResponse": {"id?": "$given", "name": "$tool", "response": "$response"}},
}
_OF_ANTHROPIC = ("tool_use", "tool_result", "thinking", "text", "image", "document")


def new_message(kind: Kind, text: str, near: Sequence[JsonObject], more: Particulars) -> JsonObject:
    """Return a message or an item. Messages ``near`` it say which API is meant, the most telling first."""
    if any("parts" in message for message in near):
        if kind is Kind.SYSTEM:
            raise UsageError("a request to Gemini has one system prompt, beside its messages: edit that")
        said, response = _GEMINI.get(kind, {"text": "$text"}), {"error" if more.failed else "output": text}
        part = templates.record(said, kind, text, 0, more, given=more.id, response=response)
        return {"role": "user" if kind in (Kind.USER, Kind.TOOL_RESULT) else "model", "parts": [part]}
    role = kind.word if kind in (Kind.USER, Kind.SYSTEM) else "assistant"
    plain: Template = {"role": role, "content": "$text"}
    if any("role" not in message and message.get("type") in ITEMS for message in near):
        return templates.record(_RESPONSES.get(kind, plain), kind, text, 0, more)
    is_chat = any("tool_calls" in one or one.get("role") in ("developer", "system", "tool") for one in near)
    parts = (as_object(part).get("type") for one in near for part in as_list(one.get("content")))
    if is_chat or not any(part in _OF_ANTHROPIC for part in parts):
        return templates.record(_CHAT.get(kind, plain), kind, text, 0, more)
    said = _ANTHROPIC.get(kind, {"type": "text", "text": "$text"})
    part = templates.record(said, kind, text, 0, more, "toolu_")
    return {"role": "user" if kind is Kind.TOOL_RESULT else role, "content": [part]}

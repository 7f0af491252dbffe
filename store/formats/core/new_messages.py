"""New messages in the terms of the APIs that the ones before are in."""

import json
from collections.abc import Sequence

from store.errors import UsageError
from store.events.event import Kind
from store.formats.core.chat_messages import ITEMS
from store.formats.core.composing import Particulars
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text

_ROLES = {
    Kind.USER: "user",
    Kind.ASSISTANT: "assistant",
    Kind.SYSTEM: "system",
    Kind.REASONING: "assistant",
    Kind.TOOL_CALL: "assistant",
    Kind.TOOL_RESULT: "tool",
}
WRITES = tuple(_ROLES)


def new_message(kind: Kind, text: str, near: Sequence[JsonObject], more: Particulars) -> JsonObject:
    """Return a message or an item. Messages ``near`` it say which API is meant, the most telling first."""
    if any("parts" in message for message in near):
        return _for_gemini(kind, text, more)
    if any("role" not in message and message.get("type") in ITEMS for message in near):
        return _for_responses(kind, text, more)
    if any("tool_calls" in message or message.get("role") in ("developer", "system", "tool") for message in near):
        return _for_chat(kind, text, more)
    if any(as_object(part).get("type") in _OF_ANTHROPIC for one in near for part in as_list(one.get("content"))):
        return _for_anthropic(kind, text, more)
    return _for_chat(kind, text, more)


_OF_ANTHROPIC = ("tool_use", "tool_result", "thinking", "text", "image", "document")


def _for_anthropic(kind: Kind, text: str, more: Particulars) -> JsonObject:
    part: JsonObject
    match kind:
        case Kind.REASONING:
            part = {"type": "thinking", "thinking": text, "signature": ""}
        case Kind.TOOL_CALL:
            part = {"type": "tool_use", "id": more.new_id("toolu_"), "name": more.tool, "input": more.arguments(text)}
        case Kind.TOOL_RESULT:
            part = {"type": "tool_result", "tool_use_id": more.id, "content": text, "is_error": more.failed}
            return {"role": "user", "content": [part]}
        case _:
            part = {"type": "text", "text": text}
    return {"role": _ROLES[kind], "content": [part]}


def _for_chat(kind: Kind, text: str, more: Particulars) -> JsonObject:
    match kind:
        case Kind.REASONING:
            return {"role": "assistant", "content": None, "reasoning_content": text}
        case Kind.TOOL_CALL:
            function = {"name": more.tool, "arguments": json.dumps(more.arguments(text))}
            call = {"id": more.new_id("call_"), "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        case Kind.TOOL_RESULT:
            return {"role": "tool", "tool_call_id": more.id, "content": text}
    return {"role": _ROLES[kind], "content": text}


def _for_responses(kind: Kind, text: str, more: Particulars) -> JsonObject:
    match kind:
        case Kind.REASONING:
            return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
        case Kind.TOOL_CALL:
            arguments = json.dumps(more.arguments(text))
            return {"type": "function_call", "call_id": more.new_id("call_"), "name": more.tool, "arguments": arguments}
        case Kind.TOOL_RESULT:
            return {"type": "function_call_output", "call_id": more.id, "output": text}
    return {"role": _ROLES[kind], "content": text}


def _for_gemini(kind: Kind, text: str, more: Particulars) -> JsonObject:
    part: JsonObject = {"text": text}
    match kind:
        case Kind.SYSTEM:
            raise UsageError("a request to Gemini has one system prompt, beside its messages: edit that")
        case Kind.REASONING:
            part = {"text": text, "thought": True}
        case Kind.TOOL_CALL:
            given: JsonObject = {"id": more.id} if more.id else {}
            part = {"functionCall": {**given, "name": more.tool, "args": more.arguments(text)}}
        case Kind.TOOL_RESULT:
            told: JsonObject = {"id": more.id} if more.id else {}
            response = {"error" if more.failed else "output": text}
            part = {"functionResponse": {**told, "name": as_text(more.tool), "response": response}}
    return {"role": "user" if kind in (Kind.USER, Kind.TOOL_RESULT) else "model", "parts": [part]}

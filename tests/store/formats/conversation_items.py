"""Conversation items as CXDB's clients append them, in the types' own names and in numbers."""

from typing import Any

from msgpack import packb

from store.formats.core.msgpack_view import Schema
from store.formats.cxdb import CONVERSATION_ITEM

TYPE = "cxdb.ConversationItem"
NOON = 1_772_712_000_000


def item(kind: str, second: int = 0, **said: object) -> dict[str, Any]:
    """Return an item that is complete, said so many seconds after noon on 2026-03-05."""
    return {"item_type": kind, "status": "complete", "timestamp": NOON + 1000 * second, **said}


def user(text: str, second: int = 0, **more: object) -> dict[str, Any]:
    """Return what a user says."""
    return item("user_input", second, user_input={"text": text}, **more)


def turn(text: str, second: int = 0, **more: object) -> dict[str, Any]:
    """Return a turn of the assistant."""
    return item("assistant_turn", second, turn={"text": text, **more})


CALL = {
    "id": "call_1",
    "name": "bash",
    "args": '{"command":"ls\\n-l","timeout":50}',
    "status": "complete",
    "result": {"content": "a.txt\nb.txt", "success": True, "exit_code": 0},
    "duration_ms": 12,
}
FAILED = {
    "id": "call_2",
    "name": "read",
    "args": "not json",
    "status": "error",
    "description": "Read the file",
    "streaming_output": "reading",
    "error": {"code": "ENOENT", "message": "no such file", "exit_code": 2},
}
TALK = [
    user(
        "Hello there",
        1,
        id="item-1",
        context_metadata={"client_tag": "cxtx", "title": "A talk", "labels": ["a", "b"], "custom": {"k": "v"}},
    ),
    turn(
        "I look.\nNow.",
        2,
        reasoning="What is there?",
        tool_calls=[CALL, FAILED],
        metrics={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "model": "model-1"},
        agent="main",
        finish_reason="length",
    ),
    item("system", 3, system={"kind": "warning", "title": "rewind", "content": "History was rewritten"}),
    item("handoff", 4, handoff={"from_agent": "a", "to_agent": "b", "tool_name": "go", "input": "do it"}),
    item("tool_call", 5, tool_call={"call_id": "call_3", "name": "grep", "args": '{"q":"x"}'}),
    item("tool_result", 6, tool_result={"call_id": "call_3", "content": "found", "is_error": False, "exit_code": 1}),
    item("assistant", 7, assistant={"text": "Done", "reasoning": "All is well", "model": "model-2"}),
]


def numbered(value: object, schema: Schema = CONVERSATION_ITEM) -> object:
    """Return an item with integers for the names of its fields, as clients in Python write it."""
    if isinstance(value, list):
        return [numbered(element, schema) for element in value]
    if not isinstance(value, dict) or not schema:
        return value
    numbers = {field.name: (number, field.fields) for number, field in schema.items()}
    return {numbers[name][0]: numbered(inner, numbers[name][1]) for name, inner in value.items()}


def filled(value: object, schema: Schema = CONVERSATION_ITEM) -> object:
    """Return an item with digits for the names of its fields, and null for what it lacks: as Go and Rust write it."""
    if isinstance(value, list):
        return [filled(element, schema) for element in value]
    if not isinstance(value, dict) or not schema:
        return value
    return {
        str(number): filled(value[field.name], field.fields) if field.name in value else None
        for number, field in sorted(schema.items())
    }


def in_integers(said: object) -> bytes:
    """Return the payload of an item whose fields are numbered by integers."""
    found: bytes = packb(numbered(said))
    return found


def in_texts(said: object) -> bytes:
    """Return the payload of an item whose fields are numbered by texts, all of them there."""
    found: bytes = packb(filled(said))
    return found

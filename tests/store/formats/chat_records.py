"""Messages as the vendors' APIs have them, and what is to be seen of each."""

import base64
import json

from store.events.event import Kind

PNG = b"\x89PNG\r\n\x1a\n\0\xff"
IMAGE = base64.b64encode(PNG).decode()
Shown = tuple[dict[str, object], Kind, str, list[str | bytes | None]]


def chat(content: str, **more: object) -> dict[str, object]:
    """Return a chat completion."""
    message = {"role": "assistant", "content": content, **more}
    return {"id": "c1", "model": "gpt-9", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def encoded(value: object) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


MESSAGES: list[Shown] = [
    ({"role": "system", "content": "Be brief."}, Kind.SYSTEM, "", ["Be brief."]),
    ({"role": "developer", "content": "Be brief."}, Kind.SYSTEM, "", ["Be brief."]),
    ({"role": "user", "content": "Why?\nSay."}, Kind.USER, "", ["Why?\nSay."]),
    ({"role": "assistant", "content": "So."}, Kind.ASSISTANT, "", ["So."]),
    ({"role": "assistant", "content": None}, Kind.RECORD, "", []),
    (
        {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "input_text", "text": "here"}]},
        Kind.USER,
        "",
        ["Look", "here"],
    ),
    (
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
                {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a page"}},
                {"type": "input_audio", "input_audio": {"data": IMAGE, "format": "wav"}},
            ],
        },
        Kind.USER,
        "",
        [PNG, PNG, PNG, "a page", PNG],
    ),
    (
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.py", "code": "x = 1\ny = 2"}},
            ],
        },
        Kind.TOOL_CALL,
        "Read",
        ["Hm.", "I look.", '{\n  "path": "a.py"\n}', "x = 1\ny = 2"],
    ),
    (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]},
        Kind.REASONING,
        "",
        ["Hm."],
    ),
    (
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "No such file"},
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "fine"}]},
            ],
        },
        Kind.TOOL_RESULT,
        "Read",
        ["No such file", "fine"],
    ),
    (
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "Read", "arguments": '{"path": "a\\nb"}'}},
                {"id": "t2", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}},
            ],
        },
        Kind.TOOL_CALL,
        "Read",
        ["Hm.", "a\nb", "ls -l"],
    ),
    ({"role": "tool", "tool_call_id": "t1", "content": "x = 1"}, Kind.TOOL_RESULT, "Read", ["x = 1"]),
    (
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "no json"}},
        Kind.TOOL_CALL,
        "f",
        ["no json"],
    ),
    ({"role": "assistant", "content": None, "refusal": "I will not."}, Kind.ASSISTANT, "", ["I will not."]),
    ({"role": "user", "parts": [{"text": "Why?"}]}, Kind.USER, "", ["Why?"]),
    ({"parts": [{"text": "Why?"}]}, Kind.USER, "", ["Why?"]),
    (
        {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "So."}]},
        Kind.ASSISTANT,
        "",
        ["Hm.", "So."],
    ),
    (
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"path": "."}}}]},
        Kind.TOOL_CALL,
        "ls",
        ['{\n  "path": "."\n}'],
    ),
    (
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "a\nb"}}}]},
        Kind.TOOL_RESULT,
        "",
        ["a\nb"],
    ),
    (
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": IMAGE}}, {"text": "This."}]},
        Kind.USER,
        "",
        [PNG, "This."],
    ),
    (
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "So.", "annotations": []}],
        },
        Kind.ASSISTANT,
        "",
        ["So."],
    ),
    (
        {
            "type": "reasoning",
            "id": "r",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "x",
        },
        Kind.REASONING,
        "",
        ["Hm."],
    ),
    ({"type": "reasoning", "id": "r", "summary": []}, Kind.RECORD, "", []),
    (
        {"type": "function_call", "call_id": "t1", "name": "Read", "arguments": '{"path":"a.py"}'},
        Kind.TOOL_CALL,
        "Read",
        ['{\n  "path": "a.py"\n}'],
    ),
    ({"type": "function_call_output", "call_id": "t1", "output": "x = 1"}, Kind.TOOL_RESULT, "Read", ["x = 1"]),
    (
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}},
        Kind.TOOL_CALL,
        "web_search",
        ['{\n  "type": "search",\n  "query": "q"\n}'],
    ),
]
"""Records, the kind of event that each is, its tool, and what its blocks hold. Calls have the ids ``t1`` and ``t2``."""

ANSWERS: list[Shown] = [
    (chat("So."), Kind.ASSISTANT, "", ["So."]),
    ({"data": encoded(chat("So.")), "encoding": "base64", "size": 9}, Kind.ASSISTANT, "", ["So."]),
    ({"string": json.dumps(chat("So."))}, Kind.ASSISTANT, "", ["So."]),
    ({"string": 'data: {"choices": []}\n\n'}, Kind.ASSISTANT, "", ['data: {"choices": []}\n\n']),
    (
        {
            "role": "assistant",
            "type": "message",
            "model": "m",
            "content": [{"type": "text", "text": "So."}],
            "usage": {},
        },
        Kind.ASSISTANT,
        "",
        ["So."],
    ),
    (
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "So."}]}, "finishReason": "STOP"}]},
        Kind.ASSISTANT,
        "",
        ["So."],
    ),
    (
        {
            "object": "response",
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {"type": "function_call", "call_id": "t1", "name": "Read", "arguments": "{}"},
            ],
        },
        Kind.TOOL_CALL,
        "Read",
        ["Hm."],
    ),
    ({"error": {"message": "Too many requests", "type": "rate_limit"}}, Kind.ASSISTANT, "", ["Too many requests"]),
    ({"temperature": 1.0, "tools": []}, Kind.RECORD, "", []),
]
"""As :data:`MESSAGES`, of what stands in recordings of HTTP."""

"""Short sessions of many formats, with events of many kinds and shapes, for tests of what can be done to them."""

import json

from store.conversations.contexts import Append
from store.store import Store


def _lines(*records: object) -> list[bytes]:
    return [json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() for record in records]


def _time(second: int) -> str:
    return f"2026-03-05T12:00:{second:02}.000Z"


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _claude(role: str, content: object, second: int, **more: object) -> dict[str, object]:
    message: dict[str, object] = {"role": role, "content": content}
    if role == "assistant":
        message |= {"id": f"msg_{second}", "type": "message", "model": "claude-9", "stop_reason": "tool_use"}
    link = {"uuid": f"u{second}", "parentUuid": f"u{second - 1}" if second > 1 else None}
    return {**link, "sessionId": "s1", "type": role, "message": message, "timestamp": _time(second), **more}


def _use(call: str, **given: object) -> dict[str, object]:
    return {"type": "tool_use", "id": call, "name": "Bash", "input": given}


def _used(call: str, content: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": False}


_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PNG}}

CLAUDE_CODE = _lines(
    {"type": "summary", "summary": "A talk", "leafUuid": "u9"},
    _claude("user", "What is in the file?", 1),
    _claude("user", [_text("Look at this:"), _IMAGE, _text("and say what it is.")], 2),
    _claude("assistant", [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}], 3),
    _claude("assistant", [_text("I will look."), _use("toolu_1", command="cat file", timeout=5)], 4),
    _claude("user", [_used("toolu_1", "one\ntwo")], 5, toolUseResult={"stdout": "one\ntwo", "stderr": ""}),
    _claude("assistant", [_use("toolu_2", command="ls\npwd", description="Look")], 6),
    _claude("user", [_used("toolu_2", [_text("a file"), _text("a folder")])], 7),
    _claude("assistant", [_use("toolu_3")], 8),
    _claude("user", [_used("toolu_3", [])], 9),
    _claude("assistant", [_text("It says one and two.")], 10),
    {"type": "system", "subtype": "informational", "content": "Done", "level": "warning", "timestamp": _time(11)},
)


def _item(what: str, second: int, **members: object) -> dict[str, object]:
    return {"timestamp": _time(second), "type": "response_item", "payload": {"type": what, **members}}


CODEX = _lines(
    {"timestamp": _time(0), "type": "session_meta", "payload": {"id": "s1", "cwd": "/home/ada", "instructions": None}},
    _item("message", 1, role="user", content=[{"type": "input_text", "text": "Hello"}]),
    _item("reasoning", 2, summary=[{"type": "summary_text", "text": "One"}, {"type": "summary_text", "text": "Two"}]),
    _item("function_call", 3, name="shell", arguments='{"command":["ls"],"note":"a\\nb"}', call_id="call_1"),
    _item("function_call_output", 4, call_id="call_1", output='{"output":"a file","metadata":{"exit_code":0}}'),
    _item("function_call", 5, name="shell", arguments="{}", call_id="call_2"),
    _item("function_call_output", 6, call_id="call_2", output="nothing"),
    _item("message", 7, role="assistant", content=[{"type": "output_text", "text": "There is a file."}]),
    {"timestamp": _time(8), "type": "compacted", "payload": {"message": "We looked."}},
)

GEMINI_CLI = _lines(
    {"id": "m1", "timestamp": _time(1), "type": "user", "content": "Hello"},
    {
        "id": "m2",
        "timestamp": _time(2),
        "type": "gemini",
        "content": "I will look.",
        "thoughts": [{"subject": "Looking", "description": "at it", "timestamp": _time(2)}],
        "toolCalls": [
            {
                "id": "ls-1",
                "name": "ls",
                "args": {"path": ".", "note": "a\nb"},
                "status": "success",
                "result": [{"functionResponse": {"id": "ls-1", "name": "ls", "response": {"output": "a file"}}}],
            }
        ],
        "model": "gemini-9",
    },
    {"id": "m3", "timestamp": _time(3), "type": "gemini", "content": [{"text": "One."}, {"text": "Two."}]},
    {"id": "m4", "timestamp": _time(4), "type": "info", "content": "Done"},
)


def _pi(second: int, **message: object) -> dict[str, object]:
    said = {"id": f"e{second}", "parentId": f"e{second - 1}" if second > 1 else None, "timestamp": _time(second)}
    return {"type": "message", **said, "message": message}


def _pi_call(call: str, **given: object) -> dict[str, object]:
    return {"type": "toolCall", "id": call, "name": "bash", "arguments": given}


PI = _lines(
    _pi(1, role="user", content=[_text("Hello")]),
    _pi(
        2,
        role="assistant",
        content=[
            {"type": "thinking", "thinking": "Hm."},
            _text("I will look."),
            _pi_call("c1", command="ls\npwd", n=1),
        ],
        model="gpt-9",
        stopReason="toolUse",
    ),
    _pi(3, role="toolResult", toolCallId="c1", toolName="bash", content=[_text("a file")], isError=False),
    _pi(4, role="assistant", content=[_pi_call("c2", n=1), _pi_call("c3", n=2)], model="gpt-9", stopReason="toolUse"),
    _pi(5, role="toolResult", toolCallId="c2", toolName="bash", content=[], isError=False),
    _pi(6, role="toolResult", toolCallId="c3", toolName="bash", content=[_text("b")], isError=True),
    _pi(7, role="bashExecution", command="ls", output="a file", exitCode=0),
    {"type": "compaction", "id": "e8", "parentId": "e7", "timestamp": _time(8), "summary": "We looked."},
)


def _jp(what: str, second: int, **members: object) -> dict[str, object]:
    return {"timestamp": f"2026-03-05 12:00:{second:02}.0", "type": what, **members}


JP = _lines(
    _jp("chat_request", 1, content="Hello"),
    _jp("chat_response", 2, reasoning="Hm."),
    _jp("tool_call_request", 3, id="t1", name="ls", arguments={"path": ".", "note": "YQpi"}),
    _jp("tool_call_response", 4, id="t1", content="a file", is_error=False),
    _jp("tool_call_request", 5, id="t2", name="ls", arguments={}),
    _jp("tool_call_response", 6, id="t2", content="nothing", is_error=True),
    _jp("chat_response", 7, message="There is a file."),
)

API_MESSAGES = _lines(
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [_text("Hello"), _text("there")]},
    {
        "role": "assistant",
        "content": "I will look.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path":"."}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a file"},
    {"choices": [{"message": {"role": "assistant", "content": "There is a file."}}], "model": "gpt-9"},
)

CLAUDE_AI = _lines(
    {"uuid": "m1", "sender": "human", "created_at": _time(1), "text": "Hello", "content": [_text("Hello")]},
    {
        "uuid": "m2",
        "sender": "assistant",
        "created_at": _time(2),
        "text": "One. Two.",
        "content": [_text("One."), {"type": "tool_use", "name": "search", "input": {"q": "x"}}, _text("Two.")],
    },
)


def _node(name: str, parent: str | None, role: str, second: int, content: dict[str, object]) -> dict[str, object]:
    message = {"author": {"role": role}, "create_time": 1772712000.0 + second, "content": content, "recipient": "all"}
    return {"id": name, "parent": parent, "children": [], "message": {"id": name, "metadata": {}, **message}}


CHATGPT = _lines(
    _node("n1", None, "user", 1, {"content_type": "text", "parts": ["Hello"]}),
    _node("n2", "n1", "assistant", 2, {"content_type": "text", "parts": ["One", "Two"]}),
    _node("n3", "n2", "assistant", 3, {"content_type": "code", "language": "python", "text": "1 + 1"}),
)

OPENCODE = _lines(
    {"id": "prt_1", "type": "text", "text": "I will look.", "time": {"start": 1772712001000, "end": 1772712001000}},
    {
        "id": "prt_2",
        "type": "tool",
        "callID": "c1",
        "tool": "ls",
        "state": {"status": "completed", "input": {"path": "."}, "output": "a file", "time": {"start": 1772712002000}},
    },
)

AIDER = [b"> Aider v1  \n> Model: gpt-9  ", b"#### Hello  ", b"Hello to you.\n\nIn two paragraphs."]

SPECSTORY = [
    b"_**User (2026-03-05 12:00:01Z)**_\n\nHello",
    b"_**Agent (claude-9 2026-03-05 12:00:02Z)**_\n\nHello to you.",
    b'_**Agent (claude-9 2026-03-05 12:00:03Z)**_\n\n<tool-use data-tool-name="Bash">ls</tool-use>',
]

SESSIONS: dict[str, tuple[str, list[bytes]]] = {
    "aider": ("aider.passage.v1", AIDER),
    "api-messages": ("api.message.v1", API_MESSAGES),
    "chatgpt": ("chatgpt.node.v1", CHATGPT),
    "claude-ai": ("claude-ai.message.v1", CLAUDE_AI),
    "claude-code": ("claude-code.line.v1", CLAUDE_CODE),
    "codex": ("codex.line.v1", CODEX),
    "gemini-cli": ("gemini-cli.record.v1", GEMINI_CLI),
    "jp": ("jp.event.v1", JP),
    "opencode": ("opencode.assistant-part.v1", OPENCODE),
    "pi": ("pi.entry.v1", PI),
    "specstory": ("specstory.passage.v1", SPECSTORY),
}
"""The records of a session, and their type, by format."""


def session(store: Store, format_: str) -> int:
    """Make a conversation of a session and return its context."""
    type_name, records = SESSIONS[format_]
    metadata: dict[str, object] = {"project": "p", "name": f"talk-{format_}", "format": format_}
    context = store.contexts.create(metadata=metadata).context
    store.contexts.append_many(context, [Append(record, type_name) for record in records])
    return context

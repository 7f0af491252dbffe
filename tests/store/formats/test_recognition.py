"""Files are those of their own tool, and nobody's where that is not read, whatever they share with another's."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from store.formats.core.format import Source
from store.formats.registry import FORMATS
from store.importing.walk import claim, walk

SAMPLES = Path(os.environ.get("CONVFS_SAMPLES") or Path(__file__).parents[4] / "shared" / "samples")
OTHERS = SAMPLES.parent / "samples-2"
NO_OTHERS = f"no sessions of other tools at {OTHERS} (CONVFS_SAMPLES)"

TIME = "2026-08-07T18:33:54.616Z"
ID = "0f469ab8-bece-40b3-b3b8-c37e9ea7bc4b"


def qwen(what: str, number: int, **fields: object) -> dict[str, object]:
    return {
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": ID,
        "timestamp": TIME,
        "type": what,
        "cwd": "/home/ada/shop",
        "version": "0.21.7",
        "gitBranch": "main",
        **fields,
    }


def part(role: str, text: str) -> dict[str, object]:
    return {"message": {"role": role, "parts": [{"text": text}]}}


def droid(number: int, role: str, content: object) -> dict[str, object]:
    message = {"role": role, "content": content}
    return {"type": "message", "id": f"m{number}", "parentId": f"m{number - 1}", "timestamp": TIME, "message": message}


LINES: dict[str, tuple[str, list[dict[str, object]]]] = {
    "Qwen Code": (
        f".qwen/projects/-home-ada-shop/chats/{ID}.jsonl",
        [
            qwen("system", 0, subtype="ui_telemetry", systemPayload={"uiEvent": {}}),
            qwen("user", 1, provenance="real_user", **part("user", "Fix the login")),
            qwen("assistant", 2, model="qwen3", **part("model", "It returns nothing.")),
            qwen("tool_result", 3, toolCallResult={"callId": "c", "status": "success"}, **part("user", "x")),
        ],
    ),
    "Hermes' gateway": (
        ".hermes/sessions/20260305_193154_abcd1234.jsonl",
        [
            {"role": "session_meta", "tools": [], "model": "m", "platform": "telegram", "timestamp": TIME},
            {"role": "user", "content": "Fix the login", "timestamp": TIME},
            {
                "role": "assistant",
                "content": "",
                "reasoning": "I look.",
                "timestamp": TIME,
                "tool_calls": [{"id": "c", "function": {"name": "read", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "x", "timestamp": TIME},
        ],
    ),
    "Qwen Code that only counts": (
        f".qwen/projects/-home-ada-shop/chats/{ID}.jsonl",
        [qwen("system", 0, subtype="ui_telemetry", systemPayload={"uiEvent": {}})],
    ),
    "Droid": (
        f".factory/sessions/-home-ada-shop/{ID}.jsonl",
        [
            {"type": "session_start", "id": ID, "title": "Login", "owner": "ada", "version": 2, "cwd": "/home/ada"},
            droid(1, "user", [{"type": "text", "text": "Fix the login"}]),
            droid(2, "assistant", [{"type": "tool_use", "id": "t", "name": "Execute", "input": {"command": "ls"}}]),
            droid(3, "user", [{"type": "tool_result", "tool_use_id": "t", "content": "a"}]),
        ],
    ),
    "Claude Cowork's audit": (
        "audit.jsonl",
        [{"type": "user", "sessionId": ID, "timestamp": TIME, "message": {"role": "user", "content": "Fix it"}}],
    ),
    "Kimi Code": (
        "agents/main/wire.jsonl",
        [
            {"type": "metadata", "protocol_version": "1.4", "created_at": 1},
            {"type": "context.append_message", "time": 2, "message": {"role": "user", "content": [{"type": "text"}]}},
            {"type": "context.append_loop_event", "time": 3, "event": {"type": "content.part"}},
        ],
    ),
    "kimi-cli": (
        "context.jsonl",
        [
            {"role": "_system_prompt", "content": "Be brief."},
            {"role": "user", "content": "Fix the login"},
            {"role": "_checkpoint", "id": 0},
        ],
    ),
    "Cursor": (
        "agent-transcripts/x/x.jsonl",
        [
            {"role": "user", "message": {"content": [{"type": "text", "text": "Fix the login"}]}},
            {"role": "assistant", "message": {"content": [{"type": "text", "text": "It returns nothing."}]}},
            {"type": "turn_ended", "status": "ok"},
        ],
    ),
    "Copilot CLI": (
        "session-state/x/events.jsonl",
        [
            {"type": "session.start", "data": {"sessionId": ID}, "id": "1", "timestamp": TIME, "parentId": None},
            {"type": "user.message", "data": {"content": "Fix it"}, "id": "2", "timestamp": TIME, "parentId": "1"},
        ],
    ),
    "messages with a time": (
        "log.jsonl",
        [
            {"role": "user", "content": "Fix the login", "timestamp": TIME, "session": "x"},
            {"role": "assistant", "content": "It returns nothing.", "timestamp": TIME, "session": "x"},
        ],
    ),
    "messages with an id and a time": (
        "log.jsonl",
        [
            {"id": "1", "timestamp": TIME, "type": "user", "content": "Fix the login"},
            {"id": "2", "timestamp": TIME, "type": "info", "content": "It returns nothing."},
        ],
    ),
    "Codex on stdout": (
        "exec.jsonl",
        [
            {"type": "thread.started", "thread_id": ID},
            {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "It returns nothing."}},
        ],
    ),
}

SAID = [{"role": "user", "content": "Fix the login"}, {"role": "assistant", "content": "It returns nothing."}]

LINES |= {
    "Claude Code on stdout": (
        "claude.jsonl",
        [
            {"type": "system", "subtype": "init", "cwd": "/home/ada", "session_id": ID, "tools": ["Bash"]},
            {"type": "assistant", "message": SAID[1], "parent_tool_use_id": None, "session_id": ID, "uuid": "u1"},
            {"type": "result", "subtype": "success", "is_error": False, "result": "Yes.", "session_id": ID},
        ],
    ),
    "Cursor on stdout": (
        "cursor.jsonl",
        [
            {"type": "system", "subtype": "init", "cwd": "/home/ada", "session_id": ID, "permissionMode": "default"},
            {"type": "user", "message": SAID[0], "session_id": ID},
            {
                "type": "tool_call",
                "subtype": "completed",
                "call_id": "t1",
                "tool_call": {"readToolCall": {"args": {"path": "a.py"}, "result": {"success": {"content": "x\ny"}}}},
                "session_id": ID,
            },
        ],
    ),
}
DOCUMENTS: dict[str, object] = {
    "Copilot CLI once": {"sessionId": ID, "startTime": "2025-10-01T10:00:00Z", "chatMessages": SAID, "timeline": []},
    "Amp": {"v": 1, "id": "T-1", "created": 1, "title": "Login", "env": {}, "messages": SAID},
    "Hermes": {"session_id": "x", "model": "m", "platform": "cli", "message_count": 2, "messages": SAID},
    "Hermes that was told to save": {"model": "m", "session_start": "2026-03-05T19:31:54", "messages": SAID},
    "Hermes that was told to save later": {
        "id": "x",
        "source": "cli",
        "model": "m",
        "system_prompt": "Be brief.",
        "started_at": 1_772_739_114.5,
        "input_tokens": 12,
        "output_tokens": 4,
        "title": "Login",
        "messages": [{"role": "user", "content": "Never mind", "active": 0, "compacted": 0}, *SAID],
    },
    "Continue": {"sessionId": ID, "title": "Login", "workspaceDirectory": "/", "history": [{"message": SAID[0]}]},
    "LM Studio": {"name": "Login", "pinned": False, "createdAt": 1, "messages": [{"versions": SAID}]},
    "Roo": [SAID[0] | {"ts": 1}, SAID[1] | {"ts": 2, "isSummary": True}],
    "VS Code": {"version": 3, "requesterUsername": "ada", "requests": [{"message": {"text": "Fix it"}}]},
    "Open WebUI": {"id": ID, "user_id": "u", "chat": {"title": "Login", "messages": SAID}},
}

TABLES = {
    "a diary": (
        "CREATE TABLE project (id); CREATE TABLE session (id, project); CREATE TABLE message (id, sender, body);"
        "CREATE TABLE part (id, label)"
    ),
    "a survey": "CREATE TABLE conversations (id); CREATE TABLE responses (id, question, answer)",
    "a forum": (
        "CREATE TABLE messages (id, body); CREATE TABLE parts (id); CREATE TABLE threads (id); CREATE TABLE turns (id)"
    ),
    "Crush": (
        "CREATE TABLE sessions (id, title); CREATE TABLE messages (id, session_id, role, parts);CREATE TABLE files (id)"
    ),
    "Goose": "CREATE TABLE sessions (id); CREATE TABLE messages (id, session_id, role, content_json)",
}


KNOWN = {
    "Amp": "amp",
    "Claude Code on stdout": "agent-stream",
    "Codex on stdout": "codex-exec",
    "Continue": "continue",
    "Copilot CLI": "copilot-cli",
    "Copilot CLI once": "copilot-history",
    "Cursor": "cursor",
    "Cursor on stdout": "agent-stream",
    "Droid": "droid",
    "Goose": "goose",
    "Hermes": "hermes",
    "Hermes that was told to save": "hermes",
    "Hermes that was told to save later": "hermes-export",
    "Hermes' gateway": "hermes-lines",
    "Kimi Code": "kimi-code",
    "LM Studio": "lm-studio",
    "Open WebUI": "open-webui",
    "Qwen Code": "qwen-code",
    "Qwen Code that only counts": "qwen-code",
    "VS Code": "vscode-chat",
    "kimi-cli": "kimi-cli",
}
"""The formats of those tools that are read."""


def claimed(path: Path) -> str | None:
    source = claim(path, FORMATS)
    return source.format if source is not None else None


@pytest.mark.parametrize("tool", LINES)
def test_lines_are_those_of_their_tool(tmp_path: Path, tool: str) -> None:
    name, records = LINES[tool]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert claimed(path) == KNOWN.get(tool)


@pytest.mark.parametrize("tool", DOCUMENTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_documents_are_those_of_their_tool(tmp_path: Path, tool: str, indent: int | None) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(DOCUMENTS[tool], indent=indent))
    assert claimed(path) == KNOWN.get(tool)


@pytest.mark.parametrize("what", TABLES)
def test_databases_are_those_of_their_tool(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES[what])
    assert claimed(path) == KNOWN.get(what)


OF_FOLDER = {
    "claude-cowork": {"claude-code"},
    "cline": {"cline", "cline-tasks"},
    "cursor": {"cursor", "cursor-ide", "cursor-store"},
    "roo-kilo": {"cline-tasks", "kilo"},
    "goose": {"goose", "goose-lines"},
    "grok-build": {"grok-build", "grok-updates"},
    "kimi": {"kimi-cli", "kimi-code"},
    "kiro-amazon-q": {"kiro", "kiro-db", "kiro-messages"},
    "hermes": {"hermes", "hermes-db"},
    "openclaw": {"openclaw", "pi"},
    "droid": {"droid", "droid-stream"},
    "opencode": {"opencode", "opencode-export", "opencode-v2"},
    "codex-exec-json": {"codex-exec"},
    "continue-cn": {"continue"},
    "lmstudio": {"lm-studio"},
    "gemini-stream-json": {"gemini-stream"},
    "openhands-cli": {"openhands"},
    "vscode-copilot-chat": {"copilot-cli", "vscode-chat"},
}
"""The formats in the folders of tools that are not called as their format is; OpenClaw writes lines as pi does."""


@pytest.mark.skipif(not OTHERS.is_dir(), reason=NO_OTHERS)
def test_real_sessions_are_those_of_their_tool() -> None:
    found = [one for one in walk(OTHERS) if isinstance(one, Source)]
    taken = []
    for one in found:
        place = one.path.relative_to(OTHERS)
        folder = place.parts[1] if place.parts[0] == "written-by-the-tools" else place.parts[0]
        if one.format not in OF_FOLDER.get(folder, {folder}):
            taken.append((one.format, str(place)))
    assert taken == []
    assert len(found) > 60

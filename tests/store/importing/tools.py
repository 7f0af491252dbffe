"""A session of each tool as it lies below a home: a question, a file that is read, an answer, and what some add."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from pathlib import Path

from store.events.usage import Tokens
from tests.store.formats.databases import OPENCODE
from tests.store.formats.test_declared_databases import KIRO, STORE, ZED
from tests.store.importing.test_database_changes import CRUSH, CURSOR, GOOSE, HERMES, OPENCLAW, WEBUI
from tests.store.importing.test_database_changes import OPENCODE as OPENCODE_V2

ASKED, ANSWERED, MORE = "Why does the login fail?", "It returns nothing at all.", "Then mend it, please."
FILE, CODE = "/shop/login.py", "def login():\n    pass\n"
AGENT = "I looked for the callers."
ID, CHILD = "0199a213-81c0-4800-8aa1-bbab2a035a53", "0199a213-81c0-4800-8aa1-bbab2a035a54"
TIME, SECONDS = "2026-03-05T19:31:54.000Z", 1_772_739_114
MS = SECONDS * 1000
GIVEN = {"path": FILE}
SPENT, LATER_SPENT = Tokens(9, 3), Tokens(12, 5)
LATER = "2026-03-05T19:31:59.000Z"

Rows = Sequence[tuple[str, Sequence[object]]]


@dataclass(frozen=True)
class Tool:
    """A tool's session.

    ``files`` are contents by path below the home: a list of lines, a document, a text, or rows of a database.
    ``grown`` are those of the files that change when somebody says ``MORE``. ``beside`` are the names that an export
    has of other files. ``child`` is the path, or the id, of what a subagent did. ``none`` says of each property that
    the tool has not why that is.
    """

    format: str
    files: Mapping[str, object]
    grown: Mapping[str, object] = field(default_factory=dict)
    spent: Tokens | None = SPENT
    cost: float | None = None
    none: Mapping[str, str] = field(default_factory=dict)

    @property
    def main(self) -> str:
        return next(iter(self.files))


@dataclass(frozen=True)
class Database:
    """The rows of a database; those of one that is there already are added."""

    rows: Rows
    schema: str = ""

    def write(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as database:
            database.executescript(self.schema)
            for table, row in self.rows:
                database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
            database.commit()


def write(home: Path, files: Mapping[str, object]) -> None:
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match content:
            case Database():
                content.write(path)
            case list():
                path.write_text("".join(f"{dump(record)}\n" for record in content))
            case str():
                path.write_text(content)
            case _:
                path.write_text(json.dumps(content, indent=2).replace("$HOME", str(home)))


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text(said: str) -> dict[str, object]:
    return {"type": "text", "text": said}


def anthropic(**usual: object) -> list[dict[str, object]]:
    """Return a talk in the terms of Anthropic's API, with further members for each message."""
    use = {"type": "tool_use", "id": "c1", "name": "read_file", "input": GIVEN}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": CODE}
    said = [("user", [text(ASKED)]), ("assistant", [use]), ("user", [result]), ("assistant", [text(ANSWERED)])]
    return [{"role": role, "content": content, **usual} for role, content in said]


def chat(**usual: object) -> list[dict[str, object]]:
    """Return a talk in the terms of OpenAI's chat API."""
    call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": dump(GIVEN)}}
    said: list[dict[str, object]] = [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "read_file", "content": CODE},
        {"role": "assistant", "content": ANSWERED},
    ]
    return [{**one, **usual} for one in said]


NO_USAGE = "its sessions count no tokens"
NO_AGENTS = "it keeps no sessions of subagents"
NO_RESULTS = "it keeps no results of calls"
STREAM = "it is output of one run, which nobody reads back"
ELSEWHERE = "it has been given up: nothing reads it back"
NO_FOLDER = "it works in no directory"
IN_WINDOW = "it goes on in its own window: no command does"


def _claude(line: int, record: Mapping[str, object], session: str = ID, **more: object) -> dict[str, object]:
    return {
        "parentUuid": f"u{line - 1}" if line else None, "sessionId": session, "cwd": "/shop", "uuid": f"u{line}",
        "timestamp": TIME, "type": record["role"], "message": {**record, "id": f"m{line}"}, **more,
    }  # fmt: skip


def _cowork() -> Tool:
    tasks = ".config/Claude/local-agent-mode-sessions/account/workspace"
    folder = f"{tasks}/local_{ID}/.claude/projects/-sessions-demo"
    talk = anthropic()
    talk[3] |= {"model": "claude-opus-4-5", "usage": {"input_tokens": 9, "output_tokens": 3}}
    lines = [_claude(at, one) for at, one in enumerate(talk)]
    agent = _claude(0, {"role": "user", "content": AGENT}, agentId="a1", isSidechain=True)
    files = {
        f"{folder}/{ID}.jsonl": lines,
        f"{folder}/{ID}/subagents/agent-a1.jsonl": [agent],
        f"{tasks}/local_{ID}.json": {"sessionId": f"local_{ID}", "cliSessionId": ID, "title": "Login"},
    }
    return Tool("claude-code", files, {f"{folder}/{ID}.jsonl": [*lines, _claude(4, {"role": "user", "content": MORE})]})


def _cursor() -> Tool:
    folder = f".cursor/projects/shop/agent-transcripts/{ID}"

    def line(role: str, *content: object) -> dict[str, object]:
        return {"role": role, "message": {"content": content}}

    lines = [
        line("user", text(f"<user_query>\n{ASKED}\n</user_query>")),
        line("assistant", text("Let me see."), {"type": "tool_use", "name": "Read", "input": GIVEN}),
        line("assistant", text(ANSWERED)),
        {"type": "turn_ended", "status": "success"},
    ]
    files = {
        f"{folder}/{ID}.jsonl": lines,
        f"{folder}/subagents/{CHILD}.jsonl": [line("user", text(AGENT))],
        f".cursor/chats/0f/{ID}/meta.json": {"cwd": "/shop"},
    }
    grown = {f"{folder}/{ID}.jsonl": [*lines, line("user", text(MORE))]}
    none = {"usage": NO_USAGE, "files": NO_RESULTS, "resume": "it is a copy: the tool reads store.db"}
    return Tool("cursor", files, grown, None, none=none)


def _blobs(*messages: object) -> Rows:
    blobs = [dump(one).encode() for one in messages]
    root = b"".join(b"\x0a\x20" + sha256(one).digest() for one in blobs)
    meta = {"agentId": ID, "name": "Login", "createdAt": MS, "latestRootBlobId": sha256(root).hexdigest()}
    return [
        ("meta", ("0", dump(meta).encode().hex())),
        *(("blobs", (sha256(one).hexdigest(), one)) for one in (*blobs, root)),
    ]


def _cursor_store() -> Tool:
    path = f".cursor/chats/0f/{ID}/store.db"
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "Read", "args": GIVEN}
    result = {
        "type": "tool-result",
        "toolCallId": "c1",
        "toolName": "Read",
        "result": "     1\tdef login():\n     2\t    pass\n",
    }
    talk: list[object] = [
        {"role": "user", "content": [text(ASKED)]},
        {"role": "assistant", "content": [call]},
        {"role": "tool", "content": [result]},
        {"role": "assistant", "content": [text(ANSWERED)]},
    ]
    files = {path: Database(_blobs(*talk), STORE), f".cursor/chats/0f/{ID}/meta.json": {"cwd": "/shop"}}
    grown = {path: Database(_blobs(*talk, {"role": "user", "content": [text(MORE)]}))}
    return Tool("cursor-store", files, grown, None, none={"usage": NO_USAGE, "agents": NO_AGENTS})


def _cursor_ide() -> Tool:
    path = ".config/Cursor/User/globalStorage/state.vscdb"
    bubbles: list[dict[str, object]] = [
        {"bubbleId": "b1", "type": 1, "text": ASKED, "createdAt": TIME},
        {"bubbleId": "b2", "type": 2, "createdAt": TIME, "toolFormerData": {
            "name": "read_file_v2", "toolCallId": "c1", "params": dump(GIVEN), "result": dump({"contents": CODE}),
        }},
        {"bubbleId": "b3", "type": 2, "text": ANSWERED, "createdAt": TIME,
         "tokenCount": {"inputTokens": 9, "outputTokens": 3}},
    ]  # fmt: skip

    def rows(chat: str, said: Sequence[dict[str, object]], **more: object) -> Rows:
        heads = [{"bubbleId": one["bubbleId"], "type": one["type"]} for one in said]
        about = {"name": "Login", "createdAt": MS, "fullConversationHeadersOnly": heads, **more}
        keys = [(f"bubbleId:{chat}:{one['bubbleId']}", dump(one)) for one in said]
        return [("cursorDiskKV", row) for row in (*keys, (f"composerData:{chat}", dump(about)))]

    where = {"workspaceIdentifier": {"uri": {"fsPath": "/shop"}}}
    agent: dict[str, object] = {"bubbleId": "b1", "type": 1, "text": AGENT}
    child = rows(CHILD, [agent], subagentInfo={"parentComposerId": ID})
    grown = rows(ID, [*bubbles, {"bubbleId": "b4", "type": 1, "text": MORE}], **where)
    files = {path: Database([*rows(ID, bubbles, **where), *child], CURSOR)}
    return Tool("cursor-ide", files, {path: Database(grown)}, none={"resume": IN_WINDOW})


def _copilot() -> Tool:
    path = f".copilot/session-state/{ID}/events.jsonl"

    def event(kind: str, number: int, agent: str = "", **data: object) -> dict[str, object]:
        own = {"agentId": agent} if agent else {}
        return {"type": kind, "data": data, "id": f"e{number}", "timestamp": TIME, "parentId": f"e{number - 1}", **own}

    call = {"toolCallId": "c1", "name": "view", "arguments": GIVEN, "type": "function"}
    lines = [
        event("session.start", 0, sessionId=ID, copilotVersion="1.0.74", context={"cwd": "/shop"}),
        event("user.message", 1, content=ASKED, transformedContent=f"<now>\n{ASKED}"),
        event("assistant.message", 2, messageId="m1", content="", toolRequests=[call]),
        event("tool.execution_complete", 3, toolCallId="c1", success=True, result={"content": CODE}),
        event("assistant.message", 4, "a1", messageId="m2", content=AGENT),
        event("assistant.message", 5, messageId="m3", content=ANSWERED, model="m", outputTokens=3),
    ]
    files = {path: lines, f".copilot/session-state/{ID}/workspace.yaml": f"id: {ID}\nname: 'Login'\ncwd: /shop\n"}
    return Tool("copilot-cli", files, {path: [*lines, event("user.message", 6, content=MORE)]}, Tokens(0, 3))


def _request(asked: str, *response: object) -> dict[str, object]:
    return {
        "requestId": "r",
        "message": {"text": asked, "parts": [{"text": asked, "kind": "text"}]},
        "response": response,
    }


_VS_CODE_NONE = {
    "agents": NO_AGENTS,
    "files": "what a response shows of a call is not what it returned",
    "resume": IN_WINDOW,
}


def _vs_code() -> tuple[dict[str, object], dict[str, object]]:
    read = {"kind": "toolInvocationSerialized", "toolCallId": "c1", "toolId": "copilot_readFile", "isComplete": True}
    document = {"version": 3, "sessionId": ID, "creationDate": MS, "customTitle": "Login", "responderUsername": "C"}
    usage = {"promptTokens": 9, "completionTokens": 3}
    return {**document, "requests": [_request(ASKED, read, {"value": ANSWERED}) | usage]}, _request(MORE)


def _vs_code_document() -> Tool:
    folder = ".config/Code/User/workspaceStorage/h"
    document, more = _vs_code()
    requests = document["requests"]
    assert isinstance(requests, list)
    path = f"{folder}/chatSessions/{ID}.json"
    files = {path: document, f"{folder}/workspace.json": {"folder": "file:///shop"}}
    return Tool("vscode-chat", files, {path: {**document, "requests": [*requests, more]}}, none=_VS_CODE_NONE)


def _vs_code_deltas() -> Tool:
    folder = ".config/Code/User/workspaceStorage/h"
    document, more = _vs_code()
    path = f"{folder}/chatSessions/{ID}.jsonl"
    lines = [{"kind": 0, "v": {**document, "requests": []}}, {"kind": 2, "k": ["requests"], "v": document["requests"]}]
    files = {path: lines, f"{folder}/workspace.json": {"folder": "file:///shop"}}
    return Tool(
        "vscode-chat", files, {path: [*lines, {"kind": 2, "k": ["requests"], "v": [more]}]}, none=_VS_CODE_NONE
    )


def _cline_tasks(extension: str) -> Tool:
    storage = f".config/Code/User/globalStorage/{extension}"
    talk = anthropic(ts=MS)
    talk[0]["content"] = [text(f"<task>\n{ASKED}\n</task>")]
    talk[3] |= {"modelInfo": {"modelId": "m"}, "metrics": {"tokens": {"prompt": 9, "completion": 3}}}
    path = f"{storage}/tasks/{MS}/api_conversation_history.json"
    files: dict[str, object] = {path: tuple(talk)}
    none = {"resume": IN_WINDOW}
    if extension.startswith("saoud"):
        files[f"{storage}/state/taskHistory.json"] = (
            {"id": str(MS), "ts": MS, "task": "Login", "cwdOnTaskInitialization": "/shop"},
        )
        none["agents"] = NO_AGENTS
    else:
        child = f"{storage}/tasks/{MS + 1}"
        about = {"ts": MS, "workspace": "/shop"}
        files |= {
            f"{storage}/tasks/{MS}/history_item.json": {**about, "id": str(MS), "task": "Login"},
            f"{child}/api_conversation_history.json": ({"role": "user", "content": AGENT},),
            f"{child}/history_item.json": {**about, "id": str(MS + 1), "task": "Callers", "parentTaskId": str(MS)},
        }
    return Tool("cline-tasks", files, {path: (*talk, {"role": "user", "content": MORE})}, none=none)


def _cline() -> Tool:
    path = f".cline/data/sessions/{ID}/{ID}.messages.json"
    talk = anthropic(ts=MS)
    talk[3] |= {"id": "m3", "modelInfo": {"id": "m"}, "metrics": {"inputTokens": 9, "outputTokens": 3}}
    document = {"version": 1, "agent": "lead", "sessionId": ID, "system_prompt": "Be brief.", "messages": talk}
    manifest = {"session_id": ID, "started_at": TIME, "cwd": "/shop", "metadata": {"title": "Login"}}
    files = {
        path: document,
        f".cline/data/sessions/{ID}/{ID}.json": manifest,
        f".cline/data/sessions/{ID}/{ID}.compaction.json": {**document, "messages": talk[:1]},
        f".cline/data/sessions/{ID}/reviewer__task1.messages.json": {
            "version": 1,
            "agent": "teammate",
            "sessionId": f"{ID}__teamtask__reviewer__task1",
            "messages": [{"role": "user", "content": [text(AGENT)]}],
        },
    }
    grown = {**document, "messages": [*talk, {"role": "user", "content": [text(MORE)]}]}
    return Tool("cline", files, {path: grown})


def _kilo() -> Tool:
    path = ".local/share/kilo/kilo.db"

    def message(key: str, session: str, role: str, at: int, *parts: object, **more: object) -> Rows:
        data = {"role": role, "time": {"created": MS + at}, **more}
        rows: list[tuple[str, Sequence[object]]] = [("message", (key, session, MS + at, MS + at, dump(data)))]
        for number, part in enumerate(parts):
            rows.append(("part", (f"p{key}{number}", key, session, MS + at, MS + at, dump(part))))
        return rows

    def session(key: str, parent: str | None) -> Rows:
        return [("session", (key, "p", parent, "s", "/shop", "Login", "1", None, MS, MS))]

    state = {"status": "completed", "input": {"filePath": FILE}, "output": CODE}
    tokens = {"input": 9, "output": 3, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    rows = [
        *session("s1", None),
        *message("m1", "s1", "user", 1, text(ASKED)),
        *message("m2", "s1", "assistant", 2, {"type": "tool", "callID": "c1", "tool": "read", "state": state}),
        *message("m3", "s1", "assistant", 3, text(ANSWERED), tokens=tokens, modelID="m"),
        *session("s2", "s1"),
        *message("m4", "s2", "user", 4, text(AGENT)),
    ]
    return Tool("kilo", {path: Database(rows, OPENCODE)}, {path: Database(message("m5", "s1", "user", 5, text(MORE)))})


def _goose_contents() -> list[tuple[str, object]]:
    call = {"status": "success", "value": {"name": "developer__read_file", "arguments": GIVEN}}
    result = {"status": "success", "value": [text(CODE)]}
    return [
        ("user", [text(ASKED)]),
        ("assistant", [{"type": "toolRequest", "id": "c1", "toolCall": call}]),
        ("user", [{"type": "toolResponse", "id": "c1", "toolResult": result}]),
        ("assistant", [text(ANSWERED)]),
    ]


def _goose() -> Tool:
    path = ".local/share/goose/sessions/sessions.db"
    schema = GOOSE.replace(
        "updated_at TEXT);",
        "updated_at TEXT, accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER, "
        "accumulated_cost REAL, parent_session_id TEXT);",
    )
    session = ("sessions", ("20260305_1", "Login", "/shop", TIME, TIME, 9, 3, 0.5, None))
    talk = _goose_contents()
    rows = [
        ("messages", (at, session[1][0], role, dump(said), SECONDS + at)) for at, (role, said) in enumerate(talk, 1)
    ]
    more = ("messages", (9, session[1][0], "user", dump([text(MORE)]), SECONDS + 9))
    now = ("sessions", (*session[1][:4], LATER, 12, 5, 0.75, None))
    child = "20260305_2"
    agent = [
        ("sessions", (child, "Callers", "/shop", TIME, TIME, 0, 0, 0.0, session[1][0])),
        ("messages", (8, child, "user", dump([text(AGENT)]), SECONDS)),
    ]
    files = {path: Database([session, *rows, *agent], schema)}
    return Tool("goose", files, {path: Database([now, more])}, LATER_SPENT, 0.75)


def _goose_lines() -> Tool:
    path = ".local/share/goose/sessions/20250305_1.jsonl"
    lines: list[dict[str, object]] = [{"working_dir": "/shop", "description": "Login", "message_count": 4}]
    lines[0] |= {"accumulated_input_tokens": 9, "accumulated_output_tokens": 3}
    lines += [{"role": role, "created": SECONDS, "content": said} for role, said in _goose_contents()]
    grown = [*lines, {"role": "user", "created": SECONDS, "content": [text(MORE)]}]
    return Tool("goose-lines", {path: lines}, {path: grown}, none={"agents": NO_AGENTS, "resume": ELSEWHERE})


def _opencode_export() -> Tool:
    state = {"status": "completed", "input": {"filePath": FILE}, "output": CODE}
    tokens = {"input": 9, "output": 3, "reasoning": 0, "cache": {"read": 0, "write": 0}}

    def message(key: str, role: str, *parts: object, **more: object) -> dict[str, object]:
        return {"info": {"id": key, "role": role, "time": {"created": MS}, **more}, "parts": parts}

    def session(key: str, *messages: object, **more: object) -> dict[str, object]:
        about = {"id": key, "title": "Login", "directory": "/shop", "time": {"created": MS, "updated": MS}, **more}
        return {"info": about, "messages": messages}

    talk = [
        message("m1", "user", text(ASKED)),
        message("m2", "assistant", {"type": "tool", "callID": "c1", "tool": "read", "state": state}),
        message("m3", "assistant", text(ANSWERED), tokens=tokens, modelID="m"),
    ]
    path, child = "exported/ses_1.json", session("ses_2", message("m1", "user", text(AGENT)), parentID="ses_1")
    files = {path: session("ses_1", *talk), "exported/ses_2.json": child}
    grown = {path: session("ses_1", *talk, message("m4", "user", text(MORE)))}
    return Tool(
        "opencode-export", files, grown, none={"home": "somebody exports it", "resume": "`opencode import` takes it"}
    )


def _opencode_v2() -> Tool:
    path = ".local/share/opencode/opencode.db"
    schema = OPENCODE_V2.replace(
        "time_updated INTEGER);", "time_updated INTEGER, cost REAL, tokens_input INTEGER, tokens_output INTEGER);", 1
    )
    state = {"status": "completed", "input": {"filePath": FILE}, "output": CODE}
    tool = {"type": "tool", "id": "c1", "name": "read", "state": state}
    talk: list[tuple[str, str, object]] = [
        ("s1", "user", {"text": ASKED}),
        ("s1", "assistant", {"content": [tool]}),
        ("s1", "assistant", {"content": [text(ANSWERED)]}),
        ("s2", "user", {"text": AGENT}),
    ]
    rows: Rows = [
        ("session_v2", ("s1", "Login", "/shop", None, MS, MS, 0.5, 9, 3)),
        ("session_v2", ("s2", "Callers", "/shop", "s1", MS, MS, 0, 0, 0)),
        *(("session_message", (f"m{at}", of, kind, at, dump(data))) for at, (of, kind, data) in enumerate(talk)),
    ]
    more: Rows = [
        ("session_v2", ("s1", "Login", "/shop", None, MS, MS + 1, 0.75, 12, 5)),
        ("session_message", ("m9", "s1", "user", 9, dump({"text": MORE}))),
    ]
    none = {"resume": "its program is asked for by the format opencode"}
    return Tool("opencode-v2", {path: Database(rows, schema)}, {path: Database(more)}, LATER_SPENT, 0.75, none)


def _openhands() -> Tool:
    folder = f".openhands/conversations/{ID.replace('-', '')}/events"

    def event(number: int, kind: str, **more: object) -> tuple[str, object]:
        name = f"{folder}/event-{number:05}-{number}.json"
        return name, {"id": f"{number}", "timestamp": TIME[:-1], "kind": kind, **more}

    def said(number: int, source: str, role: str, words: str) -> tuple[str, object]:
        return event(number, "MessageEvent", source=source, llm_message={"role": role, "content": [text(words)]})

    call = {"id": "c1", "name": "file_editor", "arguments": dump({"command": "view", "path": FILE})}
    action = {"kind": "FileEditorAction", "command": "view", "path": FILE}
    seen = f"Here's the result of running `cat -n` on {FILE}:\n     1\tdef login():\n     2\t    pass\n     3\t\n"
    shown = {"kind": "FileEditorObservation", "content": [text(seen)], "is_error": False}
    files = dict([
        said(0, "user", "user", ASKED),
        event(1, "ActionEvent", source="agent", thought=[], action=action, tool_name="str_replace_editor",
              tool_call_id="c1", tool_call=call),
        event(2, "ObservationEvent", source="environment", tool_name="str_replace_editor", tool_call_id="c1",
              observation=shown, action_id="1"),
        said(3, "agent", "assistant", ANSWERED),
    ])  # fmt: skip
    usage = {"accumulated_cost": 0.5, "accumulated_token_usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    files[f"{Path(folder).parent}/base_state.json"] = {
        "workspace": {"kind": "LocalWorkspace", "working_dir": "/shop"},
        "stats": {"usage_to_metrics": {"agent": usage}},
    }
    delegate = f"{Path(folder).parent}/subagents/{'1' * 32}"
    files[f"{delegate}/events/event-00000-0.json"] = said(0, "user", "user", AGENT)[1]
    # what its delegates took is among that of the parent
    files[f"{delegate}/base_state.json"] = files[f"{Path(folder).parent}/base_state.json"]
    return Tool("openhands", files, dict([said(4, "user", "user", MORE)]), SPENT, 0.5)


def _antigravity() -> Tool:
    home = ".gemini/antigravity-cli"
    logs = f"{home}/brain/{ID}/.system_generated/logs"

    def step(number: int, source: str, kind: str, **more: object) -> dict[str, object]:
        about = {"step_index": number, "source": source, "type": kind, "status": "DONE"}
        return {**about, "created_at": TIME, **more}

    asked = f"<USER_REQUEST>\n{ASKED}\n</USER_REQUEST>\n<USER_SETTINGS_CHANGE>\nNone\n</USER_SETTINGS_CHANGE>"
    seen = f"File Path: `file://{FILE}`\nTotal Lines: 2\n1: def login():\n2:     pass\n"
    lines = [
        step(0, "USER_EXPLICIT", "USER_INPUT", content=asked),
        step(1, "MODEL", "PLANNER_RESPONSE", tool_calls=[{"name": "view_file", "args": {"AbsolutePath": dump(FILE)}}]),
        step(2, "MODEL", "VIEW_FILE", content=seen),
        step(3, "MODEL", "PLANNER_RESPONSE", content=ANSWERED),
    ]
    cut = [*lines[:3], {**lines[3], "content": ANSWERED[:9], "truncated_fields": ["content"]}]
    about = {"summary": {"ID": ID, "Title": "Login", "WorkspaceURIs": None}}
    files = {
        f"{logs}/transcript_full.jsonl": lines,
        f"{logs}/transcript.jsonl": cut,
        f"{home}/conversations/{ID}.db": Database([("steps", (0, 14))], "CREATE TABLE steps (idx, step_type)"),
        f"{home}/cache/conversation_metadata.json": {"conversations": {ID: about}},
        f"{home}/cache/last_conversations.json": {"/elsewhere": CHILD, "/shop": ID},
    }
    more = step(4, "USER_EXPLICIT", "USER_INPUT", content=MORE)
    grown = {f"{logs}/transcript_full.jsonl": [*lines, more], f"{logs}/transcript.jsonl": [*cut, more]}
    return Tool("antigravity", files, grown, None, none={"usage": NO_USAGE, "agents": NO_AGENTS})


def _grok() -> Tool:
    folder = f".grok/sessions/%2Fshop/{ID}"
    child = f".grok/sessions/%2Fshop/{CHILD}"

    def about(key: str, **more: object) -> dict[str, object]:
        return {"info": {"id": key, "cwd": "/shop"}, "generated_title": "Login", "created_at": TIME, **more}

    lines: list[dict[str, object]] = [
        {"type": "user", "content": [text(f"<user_query>\n{ASKED}\n</user_query>")], "prompt_index": 0},
        {"type": "assistant", "content": "",
         "tool_calls": [{"id": "c1", "name": "read_file", "arguments": dump({"target_file": FILE})}]},
        {"type": "tool_result", "tool_call_id": "c1", "content": CODE},
        {"type": "assistant", "content": ANSWERED, "model_id": "grok-4.5"},
    ]  # fmt: skip
    files = {
        f"{folder}/chat_history.jsonl": lines,
        f"{folder}/summary.json": about(ID),
        f"{child}/chat_history.jsonl": [{"type": "user", "content": [text(AGENT)]}],
        f"{child}/summary.json": about(CHILD, parent_session_id=ID, session_kind="subagent"),
    }
    grown = {f"{folder}/chat_history.jsonl": [*lines, {"type": "user", "content": [text(MORE)]}]}
    return Tool("grok-build", files, grown, None, none={"usage": NO_USAGE})


def _grok_updates() -> Tool:
    folder = f".grok/sessions/%2Fshop/{ID}"

    def update(kind: str, **more: object) -> dict[str, object]:
        told = {"sessionUpdate": kind, **more}
        return {"timestamp": SECONDS, "method": "session/update", "params": {"sessionId": ID, "update": told}}

    result = [{"type": "content", "content": text(CODE)}]
    lines = [
        update("user_message_chunk", content=text(ASKED)),
        update("tool_call", toolCallId="c1", title="read_file", rawInput=GIVEN),
        update("tool_call_update", toolCallId="c1", status="completed", content=result),
        update("agent_message_chunk", content=text(ANSWERED)),
    ]
    files = {
        f"{folder}/updates.jsonl": lines,
        f"{folder}/summary.json": {"info": {"id": ID, "cwd": "/shop"}, "session_summary": "Login"},
    }
    none = {"usage": NO_USAGE, "agents": NO_AGENTS, "resume": "it is what was drawn: the tool reads chat_history.jsonl"}
    grown = {f"{folder}/updates.jsonl": [*lines, update("user_message_chunk", content=text(MORE))]}
    return Tool("grok-updates", files, grown, None, none=none)


def _qwen() -> Tool:
    project = ".qwen/projects/-shop"

    def line(number: int, kind: str, part: object, session: str = ID, **more: object) -> dict[str, object]:
        message = {"role": "model" if kind == "assistant" else "user", "parts": [part]}
        own = {"uuid": f"{session}{number}", "parentUuid": f"{session}{number - 1}" if number else None}
        return {
            **own,
            "sessionId": session,
            "timestamp": TIME,
            "type": kind,
            "cwd": "/shop",
            "message": message,
            **more,
        }

    answer = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": CODE}}}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    lines = [
        line(0, "user", {"text": ASKED}),
        line(1, "assistant", {"functionCall": {"id": "c1", "name": "read_file", "args": {"absolute_path": FILE}}}),
        line(2, "tool_result", answer),
        line(3, "assistant", {"text": ANSWERED}, model="qwen3", usageMetadata=usage),
    ]
    path = f"{project}/chats/{ID}.jsonl"
    files = {path: lines, f"{project}/subagents/{ID}/agent-a1.jsonl": [line(0, "user", {"text": AGENT})]}
    return Tool("qwen-code", files, {path: [*lines, line(4, "user", {"text": MORE})]})


def _kimi_code() -> Tool:
    folder = f".kimi-code/sessions/wd_shop_0123456789ab/session_{ID}"

    def said(words: str) -> dict[str, object]:
        return {"type": "context.append_message", "message": {"role": "user", "content": [text(words)]}, "time": MS}

    def looped(kind: str, **more: object) -> dict[str, object]:
        return {"type": "context.append_loop_event", "event": {"type": kind, **more}, "time": MS}

    begun = {"type": "metadata", "protocol_version": "1.4", "created_at": MS}
    lines = [
        begun,
        said(ASKED),
        looped("tool.call", toolCallId="Read_0", name="ReadFile", args=GIVEN),
        looped("tool.result", toolCallId="Read_0", result={"output": CODE, "isError": False}),
        looped("content.part", part=text(ANSWERED)),
        looped("step.end", messageId="m1", usage={"inputOther": 9, "output": 3}),
        {"type": "usage.record", "usage": {"inputOther": 9, "output": 3}, "time": MS},
    ]
    files = {
        f"{folder}/agents/main/wire.jsonl": lines,
        f"{folder}/agents/agent-0/wire.jsonl": [begun, said(AGENT)],
        f"{folder}/state.json": {"title": "Login", "workDir": "/shop", "createdAt": TIME},
    }
    return Tool("kimi-code", files, {f"{folder}/agents/main/wire.jsonl": [*lines, said(MORE)]})


def _kimi_cli() -> Tool:
    folder = f".kimi/sessions/0123456789abcdef/{ID}"
    call = {"id": "c1", "type": "function", "function": {"name": "ReadFile", "arguments": dump(GIVEN)}}
    prompt: dict[str, object] = {"role": "_system_prompt", "content": "Be brief."}
    lines: list[dict[str, object]] = [
        prompt,
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": [{"type": "think", "think": "Which file?"}], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": CODE},
        {"role": "assistant", "content": [text(ANSWERED)]},
        {"role": "_usage", "token_count": 12},
    ]
    child = f"{folder}/subagents/a1"
    files: dict[str, object] = {
        f"{folder}/context.jsonl": lines,
        f"{folder}/state.json": {"custom_title": "Login"},
        ".kimi/kimi.json": {"work_dirs": [{"path": "/shop", "kaos": "local", "last_session_id": ID}]},
        f"{child}/context.jsonl": [prompt, {"role": "user", "content": AGENT}],
        f"{child}/meta.json": {"description": "Callers", "launch_spec": {"work_dir": "/shop"}},
    }
    usage = {"input_other": 9, "output": 3, "input_cache_read": 0, "input_cache_creation": 0}
    files[f"{folder}/wire.jsonl"] = [{"message": {"type": "StatusUpdate", "payload": {"token_usage": usage}}}]
    grown = {f"{folder}/context.jsonl": [*lines, {"role": "user", "content": MORE}]}
    return Tool("kimi-cli", files, grown)


def _kiro() -> Tool:
    def line(kind: str, *content: tuple[str, object], **more: object) -> dict[str, object]:
        parts = [{"kind": what, "data": held} for what, held in content]
        return {"version": "v1", "kind": kind, "data": {"message_id": "m", "content": parts, **more}}

    result = {"toolUseId": "c1", "status": "success", "content": [{"kind": "text", "data": CODE}]}
    lines = [
        line("Prompt", ("text", ASKED), meta={"timestamp": SECONDS}),
        line("AssistantMessage", ("toolUse", {"toolUseId": "c1", "name": "read", "input": GIVEN})),
        line("ToolResults", ("toolResult", result)),
        line("AssistantMessage", ("text", ANSWERED)),
    ]
    folder = ".kiro/sessions/cli"
    turns = [{"input_token_count": sent, "output_token_count": said} for sent, said in ((5, 1), (4, 2))]
    about = {"session_id": ID, "cwd": "/shop", "title": "Login", "created_at": TIME}
    files = {
        f"{folder}/{ID}.jsonl": lines,
        f"{folder}/{ID}.json": {**about, "session_state": {"conversation_metadata": {"user_turn_metadatas": turns}}},
        f"{folder}/{CHILD}.jsonl": [line("Prompt", ("text", AGENT))],
        f"{folder}/{CHILD}.json": {**about, "session_id": CHILD, "parent_session_id": ID},
    }
    grown = {f"{folder}/{ID}.jsonl": [*lines, line("Prompt", ("text", MORE))]}
    return Tool("kiro", files, grown)


def _kiro_messages() -> Tool:
    folder = f".kiro/sessions/shop/sess_{ID}"

    def line(kind: str, **more: object) -> dict[str, object]:
        return {"id": kind, "timestamp": TIME, "payload": {"type": kind, **more}}

    lines = [
        line("user", content=ASKED),
        line("tool_call", toolCallId="c1", toolName="readFile", args=GIVEN),
        line("tool_result", toolCallId="c1", content=CODE, success=True),
        line("assistant", operationType="Say", content=ANSWERED),
    ]
    about = {"id": f"sess_{ID}", "title": "Login", "workspacePaths": ["/shop"], "createdAt": TIME}
    files = {f"{folder}/messages.jsonl": lines, f"{folder}/session.json": about}
    none = {"usage": "it counts credits, not tokens", "agents": NO_AGENTS, "resume": IN_WINDOW}
    return Tool(
        "kiro-messages", files, {f"{folder}/messages.jsonl": [*lines, line("user", content=MORE)]}, None, none=none
    )


def _kiro_db(program: str) -> Tool:
    path = f".local/share/{program}/data.sqlite3"

    def user(**content: object) -> dict[str, object]:
        where = {"env_state": {"current_working_directory": "/shop"}}
        return {"additional_context": "", "env_context": where, "content": content, "timestamp": TIME}

    result = {"tool_use_id": "c1", "content": [{"Text": CODE}], "status": "Success"}
    call = {"id": "c1", "name": "fs_read_file", "args": GIVEN}
    history: list[object] = [
        {"user": user(Prompt={"prompt": ASKED}),
         "assistant": {"ToolUse": {"message_id": "m1", "content": "", "tool_uses": [call]}}},
        {"user": user(ToolUseResults={"tool_use_results": [result]}),
         "assistant": {"Response": {"message_id": "m2", "content": ANSWERED}}},
    ]  # fmt: skip

    def row(*more: object) -> Rows:
        value = dump({"conversation_id": ID, "history": [*history, *more]})
        if program == "amazon-q":
            return [("conversations", ("/shop", value))]
        return [("conversations_v2", ("/shop", ID, value, MS, MS + len(more)))]

    schema = "CREATE TABLE conversations (key TEXT PRIMARY KEY, value TEXT)" if program == "amazon-q" else KIRO
    grown = row({"user": user(Prompt={"prompt": MORE})})
    none = {"usage": NO_USAGE, "agents": NO_AGENTS, "resume": "it goes on with the last of a directory alone"}
    return Tool("kiro-db", {path: Database(row(), schema)}, {path: Database(grown)}, None, none=none)


def _hermes_db() -> Tool:
    path = ".hermes/state.db"

    def message(number: int, session: str, role: str, said: str | None, *more: object) -> tuple[str, Sequence[object]]:
        given, calls, name = (*more, None, None, None)[:3]
        return "messages", (number, session, role, said, given, calls, name, SECONDS + number)

    call = dump([{"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": dump(GIVEN)}}])
    rows: Rows = [
        ("sessions", ("s1", "m", None, SECONDS, "/shop", "Login", 9, 3, 0.5)),
        ("sessions", ("s2", "m", "s1", SECONDS, "/shop", "Callers", 0, 0, None)),
        message(1, "s1", "user", ASKED),
        message(2, "s1", "assistant", None, None, call),
        message(3, "s1", "tool", CODE, "c1", None, "read_file"),
        message(4, "s1", "assistant", ANSWERED),
        message(5, "s2", "user", AGENT),
    ]
    now: Rows = [
        ("sessions", ("s1", "m", None, SECONDS, "/shop", "Login", 12, 5, 0.75)),
        message(6, "s1", "user", MORE),
    ]
    return Tool("hermes-db", {path: Database(rows, HERMES)}, {path: Database(now)}, LATER_SPENT, 0.75)


def _hermes() -> Tool:
    path = f".hermes/sessions/session_{ID}.json"
    talk = chat(timestamp=TIME)
    document = {"session_id": ID, "platform": "cli", "session_start": TIME, "cwd": "/shop", "title": "Login"}
    grown = {**document, "messages": [*talk, {"role": "user", "content": MORE}]}
    none = {"usage": NO_USAGE, "agents": NO_AGENTS, "resume": ELSEWHERE}
    return Tool("hermes", {path: {**document, "messages": talk}}, {path: grown}, None, none=none)


def _pi_lines() -> list[dict[str, object]]:
    def message(number: int, role: str, *content: object, **more: object) -> dict[str, object]:
        link = {"id": f"e{number}", "parentId": f"e{number - 1}" if number > 1 else None, "timestamp": TIME}
        return {"type": "message", **link, "message": {"role": role, "content": content, **more}}

    usage = {"input": 9, "output": 3, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 12}
    return [
        {"type": "session", "version": 3, "id": ID, "timestamp": TIME, "cwd": "/shop"},
        message(1, "user", text(ASKED)),
        message(2, "assistant", {"type": "toolCall", "id": "c1", "name": "read", "arguments": GIVEN}),
        message(3, "toolResult", text(CODE), toolCallId="c1", toolName="read", isError=False),
        message(4, "assistant", text(ANSWERED), model="m", usage=usage),
        message(5, "user", text(MORE)),
    ]


def _openclaw() -> Tool:
    path = ".openclaw/agents/main/agent/openclaw-agent.sqlite"
    *rows, more = [("transcript_events", (ID, at, dump(one), MS)) for at, one in enumerate(_pi_lines())]
    window = ("session_windows", (ID, "agent:main:main", "Login", MS))
    none = {"agents": NO_AGENTS, "resume": "it is addressed by a key that goes on over several sessions"}
    none["directory"] = "it stands in an event alone"
    return Tool("openclaw", {path: Database([window, *rows], OPENCLAW)}, {path: Database([more])}, none=none)


def _openclaw_lines() -> Tool:
    path, lines = f".openclaw/agents/main/sessions/{ID}.jsonl", _pi_lines()
    return Tool("pi", {path: lines[:-1]}, {path: lines}, none={"agents": NO_AGENTS})


def _droid() -> Tool:
    path = f".factory/sessions/-shop/{ID}.jsonl"
    lines: list[dict[str, object]] = [
        {"type": "session_start", "id": ID, "title": "Login", "cwd": "/shop", "version": 2}
    ]
    lines += [
        {"type": "message", "id": f"m{at}", "parentId": f"m{at - 1}" if at else ID, "timestamp": TIME, "message": one}
        for at, one in enumerate([*anthropic(), {"role": "user", "content": [text(MORE)]}])
    ]
    usage = {"inputTokens": 9, "outputTokens": 3}
    agent = {**lines[0], "id": CHILD, "callingSessionId": ID, "callingToolUseId": "c9"}
    asked = {"type": "message", "id": "m0", "timestamp": TIME, "message": {"role": "user", "content": [text(AGENT)]}}
    files = {
        path: lines[:-1],
        f".factory/sessions/-shop/{ID}.settings.json": {"model": "m", "tokenUsage": usage},
        f".factory/sessions/-shop/{CHILD}.jsonl": [agent, asked],
    }
    return Tool("droid", files, {path: lines})


def _droid_stream() -> Tool:
    def line(kind: str, **more: object) -> dict[str, object]:
        return {"type": kind, "session_id": ID, "timestamp": MS, **more}

    lines = [
        line("system", subtype="init", tools=["Read"], reasoning_effort="off", cwd="/shop"),
        line("message", role="user", text=ASKED),
        line("tool_call", id="c1", toolName="read_file", parameters=GIVEN),
        line("tool_result", id="c1", value=CODE, isError=False),
        line("message", role="assistant", text=ANSWERED),
        line("completion", finalText=ANSWERED, usage={"input_tokens": 9, "output_tokens": 3}),
    ]
    path, none = ".factory/projects/-shop/run.jsonl", {"agents": NO_AGENTS, "resume": STREAM}
    return Tool("droid-stream", {path: lines}, {path: [*lines, line("message", role="user", text=MORE)]}, none=none)


def _zed() -> Tool:
    path = ".local/share/zed/threads/threads.db"

    def row(key: str, parent: str | None, *messages: object) -> tuple[str, Sequence[object]]:
        document: dict[str, object] = {"title": "Login", "messages": messages, "model": {"model": "m"}}
        if parent is None:
            document["cumulative_token_usage"] = {"input_tokens": 9, "output_tokens": 3}
        at = f"2026-03-05T19:31:{10 + len(messages)}Z"
        return "threads", (key, "Login", at, "json", dump(document).encode(), parent, "/shop", TIME)

    def user(number: int, words: str) -> dict[str, object]:
        return {"User": {"id": f"u{number}", "content": [{"Text": words}]}}

    given = {"path": FILE.removeprefix("/")}
    call = {"ToolUse": {"id": "c1", "name": "read_file", "raw_input": dump(given), "input": given}}
    result = {"tool_use_id": "c1", "tool_name": "read_file", "is_error": False, "content": {"Text": CODE}}
    talk = (
        user(1, ASKED),
        {"Agent": {"content": [call], "tool_results": {"c1": result}}},
        {"Agent": {"content": [{"Text": ANSWERED}], "tool_results": {}}},
    )
    files = {path: Database([row("a", None, *talk), row("b", "a", user(1, AGENT))], ZED)}
    return Tool("zed", files, {path: Database([row("a", None, *talk, user(2, MORE))])}, none={"resume": IN_WINDOW})


def _crush() -> Tool:
    path = "shop/.crush/crush.db"
    schema = CRUSH.replace("updated_at INTEGER);", "updated_at INTEGER, parent_session_id TEXT, cost REAL);", 1)

    def message(number: int, session: str, role: str, kind: str, **data: object) -> tuple[str, Sequence[object]]:
        parts = dump([{"type": kind, "data": data}])
        return "messages", (f"m{number}", session, role, parts, "m", SECONDS + number)

    child = f"{ID}$$c1"
    rows: Rows = [
        ("sessions", (ID, "Login", SECONDS, SECONDS, None, 0.5)),
        ("sessions", (child, "Callers", SECONDS, SECONDS, ID, 0.0)),
        message(1, ID, "user", "text", text=ASKED),
        message(2, ID, "assistant", "tool_call", id="c1", name="view", input=dump(GIVEN), finished=True),
        message(
            3,
            ID,
            "tool",
            "tool_result",
            tool_call_id="c1",
            content="<file>\n     1|def login():\n     2|    pass\n</file>\n",
        ),
        message(4, ID, "assistant", "text", text=ANSWERED),
        message(5, child, "user", "text", text=AGENT),
    ]
    now: Rows = [
        ("sessions", (ID, "Login", SECONDS, SECONDS + 1, None, 0.75)),
        message(6, ID, "user", "text", text=MORE),
    ]
    listed = {"projects": [{"path": "$HOME/shop", "data_dir": "$HOME/shop/.crush"}]}
    files = {path: Database(rows, schema), ".local/share/crush/projects.json": listed}
    return Tool("crush", files, {path: Database(now)}, Tokens(), 0.75)


def _vibe() -> Tool:
    folder = f".vibe/logs/session/session_20260305_193154_{ID[:8]}"
    talk = [{**one, "message_id": f"m{at}"} for at, one in enumerate(chat())]
    about = {"session_id": ID, "title": "Login", "start_time": TIME, "environment": {"working_directory": "/shop"}}
    stats = {"session_prompt_tokens": 9, "session_completion_tokens": 3, "session_cost": 0.5}
    files = {f"{folder}/messages.jsonl": talk, f"{folder}/meta.json": {**about, "stats": stats}}
    grown = {f"{folder}/messages.jsonl": [*talk, {"role": "user", "content": MORE, "message_id": "m9"}]}
    return Tool("mistral-vibe", files, grown, SPENT, 0.5, none={"agents": NO_AGENTS})


def _continue() -> Tool:
    path = f".continue/sessions/{ID}.json"
    call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": dump({"filepath": FILE})}}
    state = {"toolCallId": "c1", "status": "done", "toolCall": call, "output": [{"name": "login.py", "content": CODE}]}
    history: list[object] = [
        {"message": {"role": "user", "content": ASKED}, "contextItems": []},
        {"message": {"role": "assistant", "content": "", "toolCalls": [call]}, "contextItems": [],
         "toolCallStates": [state]},
        {"message": {"role": "assistant", "content": ANSWERED}, "contextItems": []},
    ]  # fmt: skip
    usage = {"promptTokens": 9, "completionTokens": 3, "totalCost": 0.5}
    document = {"sessionId": ID, "title": "Login", "workspaceDirectory": "/shop", "usage": usage}
    grown = [*history, {"message": {"role": "user", "content": MORE}, "contextItems": []}]
    return Tool(
        "continue",
        {path: {**document, "history": history}},
        {path: {**document, "history": grown}},
        SPENT,
        0.5,
        none={"agents": NO_AGENTS},
    )


def _open_webui() -> Tool:
    path = ".open-webui/webui.db"
    given, result = (escape(json.dumps(one)) for one in (json.dumps(GIVEN), CODE))
    details = (
        f'<details type="tool_calls" done="true" id="c1" name="read_file" arguments="{given}" result="{result}">'
        f"\n<summary>Done</summary>\n</details>\n{ANSWERED}"
    )

    def row(*said: tuple[str, str]) -> Rows:
        messages = {
            f"m{at}": {
                "id": f"m{at}", "parentId": f"m{at - 1}" if at else None, "role": role, "content": content,
                "childrenIds": [f"m{at + 1}"] if at + 1 < len(said) else [], "timestamp": SECONDS,
                **({"model": "m", "usage": {"prompt_tokens": 9, "completion_tokens": 3}} if at == 1 else {}),
            }
            for at, (role, content) in enumerate(said)
        }  # fmt: skip
        chat = {"title": "Login", "history": {"messages": messages, "currentId": f"m{len(said) - 1}"}}
        return [("chat", ("c1", "ada", "Login", dump(chat), SECONDS, SECONDS + len(said)))]

    talk = (("user", ASKED), ("assistant", details))
    files, grown = {path: Database(row(*talk), WEBUI)}, {path: Database(row(*talk, ("user", MORE)))}
    return Tool("open-webui", files, grown, none={"agents": NO_AGENTS, "resume": IN_WINDOW, "directory": NO_FOLDER})


def _codex_exec() -> Tool:
    def item(number: int, kind: str, **more: object) -> dict[str, object]:
        return {"type": "item.completed", "item": {"id": f"item_{number}", "type": kind, **more}}

    lines: list[dict[str, object]] = [
        {"type": "thread.started", "thread_id": ID},
        item(0, "reasoning", text=ASKED),
        item(1, "command_execution", command=f"cat {FILE}", aggregated_output=CODE, exit_code=0, status="completed"),
        item(2, "agent_message", text=ANSWERED),
        {"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 0, "output_tokens": 3}},
    ]
    none = {"home": "somebody keeps it", "agents": NO_AGENTS, "resume": STREAM, "request": "it has no prompt"}
    none["directory"] = "it says of none"
    return Tool(
        "codex-exec", {"runs/codex.jsonl": lines}, {"runs/codex.jsonl": [*lines, item(3, "agent_message", text=MORE)]},
        none=none,
    )  # fmt: skip


def _gemini_stream() -> Tool:
    def line(kind: str, **more: object) -> dict[str, object]:
        return {"type": kind, "timestamp": TIME, **more}

    lines = [
        line("init", session_id=ID, model="m"),
        line("message", role="user", content=ASKED),
        line("tool_use", tool_name="read_file", tool_id="c1", parameters={"absolute_path": FILE}),
        line("tool_result", tool_id="c1", status="success", output=CODE),
        line("message", role="assistant", content=ANSWERED, delta=True),
        line("result", status="success", stats={"total_tokens": 12, "input_tokens": 9, "output_tokens": 3}),
    ]
    path, none = (
        "runs/gemini.jsonl",
        {"home": "somebody keeps it", "agents": NO_AGENTS, "resume": STREAM, "directory": "it says of none"},
    )
    return Tool("gemini-stream", {path: lines}, {path: [*lines, line("message", role="user", content=MORE)]}, none=none)


def _lm_studio() -> Tool:
    path = f".lmstudio/conversations/{MS}.conversation.json"

    def message(role: str, words: str) -> dict[str, object]:
        if role == "user":
            return {
                "versions": [{"type": "singleStep", "role": role, "content": [text(words)]}],
                "currentlySelected": 0,
            }
        steps = [{"type": "contentBlock", "content": [text(words)]}]
        return {"versions": [{"type": "multiStep", "role": role, "steps": steps}], "currentlySelected": 0}

    talk = [message("user", ASKED), message("assistant", ANSWERED)]
    document = {"name": "Login", "createdAt": MS}
    none = {"usage": NO_USAGE, "agents": NO_AGENTS, "files": "its models read no files", "resume": IN_WINDOW}
    none["directory"] = NO_FOLDER
    grown = {**document, "messages": [*talk, message("user", MORE)]}
    return Tool("lm-studio", {path: {**document, "messages": talk}}, {path: grown}, None, none=none)


def _jan() -> Tool:
    folder = f".config/Jan/data/threads/{ID}"

    def line(role: str, *content: object) -> dict[str, object]:
        return {
            "id": role,
            "object": "thread.message",
            "thread_id": ID,
            "role": role,
            "content": content,
            "created": MS,
        }

    def said(words: str) -> dict[str, object]:
        return {"type": "text", "text": {"value": words, "annotations": []}}

    call = {"type": "tool_call", "tool_call_id": "c1", "tool_name": "read_file", "input": GIVEN, "output": CODE}
    lines = [line("user", said(ASKED)), line("assistant", call), line("assistant", said(ANSWERED))]
    about = {"id": ID, "title": "Login", "created": SECONDS}
    none = {"usage": NO_USAGE, "agents": NO_AGENTS, "resume": IN_WINDOW, "directory": NO_FOLDER}
    files = {f"{folder}/messages.jsonl": lines, f"{folder}/thread.json": about}
    return Tool("jan", files, {f"{folder}/messages.jsonl": [*lines, line("user", said(MORE))]}, None, none=none)


def _amp() -> Tool:
    path = f".local/share/amp/threads/T-{ID}.json"
    talk = anthropic()
    talk[2]["content"] = [{"type": "tool_result", "toolUseID": "c1", "run": {"status": "done", "result": CODE}}]
    talk[3] |= {"messageId": 3, "usage": {"model": "m", "inputTokens": 9, "outputTokens": 3}}
    document = {"v": 1, "id": f"T-{ID}", "created": MS, "title": "Login"}
    document["env"] = {"initial": {"trees": [{"uri": "file:///shop"}]}}
    grown = {**document, "messages": [*talk, {"role": "user", "content": [text(MORE)]}]}
    none = {"agents": NO_AGENTS, "resume": ELSEWHERE}
    return Tool("amp", {path: {**document, "messages": talk}}, {path: grown}, none=none)


VIBE_ACTIONS = [
    {"action_id": "a1", "kind": "completion", "state": "succeeded"},
    {"action_id": "a2", "kind": "process", "state": "succeeded"},
]


def vibe_store(
    session: str,
    entries: Sequence[Mapping[str, object]],
    messages: Sequence[Mapping[str, object]],
    journal: Sequence[object] = (),
    *,
    generation: int = 1,
    parent: str = "",
    per_chunk: int = 3,
    spent: Tokens = SPENT,
) -> dict[str, object]:
    """Return the files of a session of Mistral Vibe: what it shows, what its model is sent, and a turn's journal."""
    folder, name = f".vibe/logs/session/unified/{session}", f"{generation:016}"
    files: dict[str, object] = {}

    def put(path: str, value: object) -> str:
        body = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest = sha256(body.encode()).hexdigest()
        files[f"{folder}/{path.format(digest)}"] = f"{body}\n"
        return digest

    def chunks(items: Sequence[object]) -> list[str]:
        return [put("chunks/{}.json", items[at : at + per_chunk]) for at in range(0, len(items), per_chunk)]

    def document(of: str, value: object, items: Sequence[object] | None = None) -> dict[str, object]:
        digest = put(f"generations/{name}/{of}", value)
        return {"path": of, "sha256": digest, "chunks": None if items is None else chunks(items)}

    asked = next(one["content"][0]["text"] for one in entries if one.get("role") == "user")  # type: ignore[index]
    tokens = {"inputTokens": spent.input, "outputTokens": spent.output, "cachedInputTokens": 0}
    about = {"id": session, "parentSessionId": parent or None, "preview": asked, "title": None, "tokenUsage": tokens}
    identity = {"kind": "subagent" if parent else "root", "session_id": session, "parent_session_id": parent or None}
    metadata = {"active_model": "m", "cwd": "/shop"}
    outcome = {"type": "completed", "output": [text(ANSWERED)]}
    manifest = {
        "manifest_version": 1,
        "generation": name,
        "session_id": session,
        "checkpoint": document(
            "checkpoint.json", {"context": {"messages": []}, "turn": {"outcome": outcome}}, messages
        ),
        "runtime_state": document(
            "runtime-state.json", {"identity": identity, "session_metadata": metadata, "actions": VIBE_ACTIONS}
        ),
        "projection_state": document(
            "projection-state.json", {"snapshot": {"history": {"entries": []}, "session": about}}, entries
        ),
        "recovery_journal_segment": {"path": f"journal/{generation + 1:016}.jsonl", "first_sequence": generation + 1},
    }
    files[f"{folder}/journal/{generation + 1:016}.jsonl"] = "".join(f"{dump(one)}\n" for one in journal)
    digest = put(f"generations/{name}/manifest.json", manifest)
    current = {"generation": name, "manifest_sha256": digest, "session_id": session, "snapshot_sequence": generation}
    put("CURRENT", {**current, "store_format": "mistral.vibe.unified-session-store/v1", "store_format_minor": 9})
    if not parent:
        about = {"session_id": session, "title": None, "start_time": TIME}
        files[f"{folder}/meta.json"] = {**about, "environment": {"working_directory": "/shop"}}
    return dict(sorted(files.items()))


def vibe_entry(number: int, type_: str, **more: object) -> dict[str, object]:
    times = {"createdAt": MS + number, "updatedAt": MS + number}
    return {"id": f"{type_}-{number}", "type": type_, "generationStatus": "completed", "turnId": "t", **times, **more}


def vibe_said(number: int, role: str, words: str) -> dict[str, object]:
    return vibe_entry(number, "message", role=role, content=[text(words)])


def vibe_sent(role: str, *content: object, source: str = "history", **more: object) -> dict[str, object]:
    return {"message": {"role": role, "content": list(content), **more}, "source": source, "turn_index": 0}


SEEN = {"content": CODE, "path": FILE, "total_lines": 2}
THOUGHT = "The file will tell."
VIBE_ENTRIES = [
    vibe_said(0, "user", ASKED),
    vibe_entry(1, "reasoning", text=THOUGHT, summary=[]),
    vibe_entry(
        2,
        "effect",
        title="file_system.read_file",
        detail={"kind": "tool", "toolName": "file_system.read_file", "input": GIVEN, "display": {"verb": "Ran"}},
        state={
            "status": "completed",
            "output": {"type": "success", "content": [], "structured_content": SEEN},
            "outputText": "",
            "display": {"success": True, "message": "file_system.read_file"},
        },
    ),
    vibe_said(3, "assistant", ANSWERED),
]
VIBE_CALL = {
    "type": "tool_call",
    "id": "c1",
    "name": "read_file",
    "arguments": {"type": "json", "raw": dump(GIVEN), "value": GIVEN},
}
VIBE_MESSAGES = [
    vibe_sent("user", text(ASKED)),
    vibe_sent("assistant", {"type": "reasoning", "content": [text(THOUGHT)]}, VIBE_CALL),
    vibe_sent("tool", text(dump(SEEN)), name="read_file", outcome="success", tool_call_id="c1"),
    vibe_sent("assistant", text(ANSWERED)),
]


def _vibe_store() -> Tool:
    files = vibe_store(ID, VIBE_ENTRIES, VIBE_MESSAGES)
    child = [vibe_said(0, "user", "Look."), vibe_said(1, "assistant", AGENT)]
    files |= vibe_store(CHILD, child, [], parent=ID, spent=Tokens())
    more = [*VIBE_ENTRIES, vibe_said(4, "user", MORE)], [*VIBE_MESSAGES, vibe_sent("user", text(MORE))]
    return Tool("mistral-vibe-store", files, vibe_store(ID, *more, generation=9), SPENT)


TOOLS: dict[str, Tool] = {
    "Cursor, transcripts": _cursor(),
    "Cursor, store.db": _cursor_store(),
    "Cursor, editor": _cursor_ide(),
    "Copilot CLI": _copilot(),
    "VS Code, documents": _vs_code_document(),
    "VS Code, deltas": _vs_code_deltas(),
    "Cline, editor": _cline_tasks("saoudrizwan.claude-dev"),
    "Roo Code": _cline_tasks("rooveterinaryinc.roo-cline"),
    "Kilo Code, editor": _cline_tasks("kilocode.kilo-code"),
    "Cline, command line": _cline(),
    "Kilo Code, command line": _kilo(),
    "Goose": _goose(),
    "Goose, lines": _goose_lines(),
    "opencode, export": _opencode_export(),
    "opencode, newest tables": _opencode_v2(),
    "OpenHands CLI": _openhands(),
    "Antigravity": _antigravity(),
    "Grok Build": _grok(),
    "Grok Build, display log": _grok_updates(),
    "Qwen Code": _qwen(),
    "Kimi Code": _kimi_code(),
    "kimi-cli": _kimi_cli(),
    "Kiro, command line": _kiro(),
    "Kiro, messages": _kiro_messages(),
    "Kiro, database": _kiro_db("kiro-cli"),
    "Amazon Q": _kiro_db("amazon-q"),
    "Hermes": _hermes_db(),
    "Hermes, documents": _hermes(),
    "OpenClaw": _openclaw(),
    "OpenClaw, lines": _openclaw_lines(),
    "Claude Cowork": _cowork(),
    "Droid": _droid(),
    "Droid, stream": _droid_stream(),
    "Zed": _zed(),
    "Crush": _crush(),
    "Mistral Vibe": _vibe(),
    "Mistral Vibe, store": _vibe_store(),
    "Continue": _continue(),
    "Open WebUI": _open_webui(),
    "codex exec": _codex_exec(),
    "Gemini, stream": _gemini_stream(),
    "LM Studio": _lm_studio(),
    "Jan": _jan(),
    "Amp": _amp(),
}

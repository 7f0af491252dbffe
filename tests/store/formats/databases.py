"""Databases as llm and opencode make them, small, and what a test asks of one."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from store.events.event import Event
from store.formats.core.format import Format, Part, Source
from store.formats.core.look import Look
from tests.store.formats.earlier import Earlier
from tests.store.formats.places import check

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 5

LLM = """
CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT, options_json TEXT,
    response TEXT, response_json TEXT, conversation_id TEXT REFERENCES conversations(id), duration_ms INTEGER,
    datetime_utc TEXT, input_tokens INTEGER, reasoning TEXT);
CREATE VIRTUAL TABLE responses_fts USING FTS5 (prompt, response, content=responses);
CREATE TRIGGER responses_au AFTER UPDATE ON responses BEGIN
    INSERT INTO responses_fts (responses_fts, rowid, prompt, response)
        VALUES ('delete', old.rowid, old.prompt, old.response);
    INSERT INTO responses_fts (rowid, prompt, response) VALUES (new.rowid, new.prompt, new.response);
END;
CREATE TABLE attachments (id TEXT PRIMARY KEY, type TEXT, path TEXT, url TEXT, content BLOB);
CREATE TABLE prompt_attachments (response_id TEXT, attachment_id TEXT, "order" INTEGER,
    PRIMARY KEY (response_id, attachment_id));
CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT, datetime_utc TEXT, source TEXT);
CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER,
    PRIMARY KEY (response_id, fragment_id, "order"));
CREATE TABLE system_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER,
    PRIMARY KEY (response_id, fragment_id, "order"));
CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, arguments TEXT,
    tool_call_id TEXT);
CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, output TEXT,
    tool_call_id TEXT, instance_id INTEGER, exception TEXT);
CREATE TABLE tool_results_attachments (tool_result_id INTEGER, attachment_id TEXT, "order" INTEGER,
    PRIMARY KEY (tool_result_id, attachment_id));
"""
LLM_NEWER = """
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT,
    payload TEXT);
CREATE TABLE part_attachments (part_id INTEGER, attachment_id TEXT, "order" INTEGER);
CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT, datetime_utc TEXT);
CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT, model TEXT,
    datetime_utc TEXT);
"""
OPENCODE = """
CREATE TABLE `project` (`id` text PRIMARY KEY);
CREATE TABLE `session` (`id` text PRIMARY KEY, `project_id` text NOT NULL, `parent_id` text, `slug` text NOT NULL,
    `directory` text NOT NULL, `title` text NOT NULL, `version` text NOT NULL, `revert` text,
    `time_created` integer NOT NULL, `time_updated` integer NOT NULL);
CREATE TABLE `message` (`id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL,
    `time_updated` integer NOT NULL, `data` text NOT NULL);
CREATE TABLE `part` (`id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
    `time_created` integer NOT NULL, `time_updated` integer NOT NULL, `data` text NOT NULL);
"""
T = 1730000000000


def llm_database(path: Path) -> Path:
    """Write a ``logs.db`` with both generations of tables."""
    with closing(sqlite3.connect(path)) as found:
        found.executescript("PRAGMA synchronous = OFF;" + LLM + LLM_NEWER)
        found.execute("INSERT INTO conversations VALUES ('c1', 'Names for pets', 'gpt')")
        for number, (prompt, system, answer, reasoning) in enumerate(
            [
                ("Name a pelican", "Be brief", "Percy", None),
                ("Which files?", "Be brief", None, "I must look."),
                (None, "Be brief", "One file.", None),
            ]
        ):
            row = (f"r{number}", "gpt", prompt, system, "{}", "{}", answer, "{}", "c1", 5)
            moment = f"2025-02-16T22:34:3{number}.374882+00:00"
            found.execute(f"INSERT INTO responses VALUES ({'?, ' * 12}?)", (*row, moment, 1, reasoning))
        found.execute("INSERT INTO responses (id, model, prompt, response) VALUES ('lone', 'gpt', 'Hi', 'Hello')")
        found.execute("INSERT INTO responses_fts (responses_fts) VALUES ('rebuild')")
        found.execute("INSERT INTO attachments VALUES ('a1', 'image/png', NULL, NULL, ?)", (PNG,))
        found.execute("INSERT INTO attachments VALUES ('a2', 'image/png', NULL, 'https://x/y.png', NULL)")
        found.execute("INSERT INTO prompt_attachments VALUES ('r0', 'a1', 0), ('r0', 'a2', 1)")
        found.execute("INSERT INTO fragments VALUES (1, 'h', 'All about birds', '', '/home/ada/birds.md')")
        found.execute("INSERT INTO prompt_fragments VALUES ('r0', 1, 0)")
        found.execute("INSERT INTO tool_calls VALUES (1, 'r1', 1, 'ls', '{\"path\": \"a\\nb\"}', 'call1')")
        found.execute("INSERT INTO tool_results VALUES (1, 'r2', 1, 'ls', 'x.py', 'call1', NULL, NULL)")
        found.execute("INSERT INTO tool_results_attachments VALUES (1, 'a1', 0)")
        chain = [("m0", None, "system"), ("m1", "m0", "user"), ("m2", "m1", "assistant"), ("m3", "m2", "user")]
        chain += [("m4", "m3", "assistant"), ("f3", "m2", "user"), ("x1", None, "user"), ("x2", "x1", "assistant")]
        found.executemany("INSERT INTO messages VALUES (?, ?, ?, NULL)", chain)
        text_ref = json.dumps({"text_ref": [{"fragment": 1}, {"literal": "\nSum it up"}]})
        call = json.dumps({"arguments": {"command": "ls\n-l"}, "tool_call_id": "c9"})
        parts = [
            ("m0", 0, "text", None, "Be kind", None),
            ("m1", 0, "text", None, None, text_ref),
            ("m1", 1, "attachment", None, None, '{"attachment_id": "a1"}'),
            ("m2", 0, "reasoning", None, "Let me see.", None),
            ("m2", 1, "tool_call", "bash", None, call),
            ("m3", 0, "tool_result", "bash", None, '{"output": "total 0", "tool_call_id": "c9"}'),
            ("m4", 0, "text", None, "Nothing.", None),
            ("f3", 0, "text", None, "Never mind", None),
            ("x1", 0, "text", None, "Quick one", None),
            ("x2", 0, "text", None, "Done", None),
        ]
        found.executemany(
            "INSERT INTO parts (message_hash, position, type, tool_name, text, payload) VALUES (?, ?, ?, ?, ?, ?)",
            parts,
        )
        found.execute("INSERT INTO part_attachments VALUES (3, 'a1', 0)")
        found.execute("INSERT INTO threads VALUES ('t1', 'Birds', 'm4', NULL, '2026-08-01T00:00:00+00:00')")
        found.execute("INSERT INTO threads VALUES ('t2', 'Fork', 'f3', 't1', '2026-08-02T00:00:00+00:00')")
        turns = [("u1", "t1", "m1", "m2"), ("u2", "t1", "m3", "m4"), ("u3", None, "x1", "x2")]
        found.executemany("INSERT INTO turns VALUES (?, ?, ?, ?, 'gpt-5', '2026-08-01T00:00:01+00:00')", turns)
        found.commit()
    time.sleep(0.03)
    return path


def opencode_database(path: Path) -> Path:
    """Write an ``opencode.db`` with a session and that of a subagent."""
    with closing(sqlite3.connect(path)) as found:
        found.executescript("PRAGMA synchronous = OFF;" + OPENCODE)
        for number, (key, parent) in enumerate([("ses_1", None), ("ses_2", "ses_1")]):
            row = (key, "p", parent, "s", "/home/ada/shop", f"Session {number}", "1.2.0", None, T + number, T)
            found.execute(f"INSERT INTO session VALUES ({'?, ' * 9}?)", row)
        model = {"providerID": "anthropic", "modelID": "opus"}
        messages = [
            ("msg_1", "ses_1", {"role": "user", "time": {"created": T + 1}, "agent": "build", "model": model}),
            ("msg_2", "ses_1", {"role": "assistant", "time": {"created": T + 2}, "parentID": "msg_1", **model}),
            ("msg_3", "ses_2", {"role": "assistant", "time": {"created": T + 9}, "summary": True, **model}),
        ]
        for at, (key, session, data) in enumerate(messages):
            found.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (key, session, T + at, T, dump(data)))
        for at, (message, data) in enumerate(opencode_parts()):
            session = "ses_2" if message == "msg_3" else "ses_1"
            row = (f"prt_{at:02}", message, session, T + 10 + at, T, dump(data))
            found.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
        found.commit()
    time.sleep(0.03)
    return path


def opencode_parts() -> list[tuple[str, dict[str, object]]]:
    """Return parts of the messages of :func:`opencode_database`."""
    listed = "a.py\nb.py and some more\n"
    state = {"status": "completed", "input": {"command": "ls\n-l"}, "output": listed, "metadata": {"output": listed}}
    failed = {"status": "error", "input": {}, "error": "no such file"}
    return [
        ("msg_1", {"type": "text", "text": "List the\nfiles"}),
        ("msg_1", {"type": "text", "text": "Called the Read tool", "synthetic": True}),
        ("msg_1", {"type": "file", "mime": "text/plain", "url": "file:///home/ada/a.py"}),
        ("msg_2", {"type": "step-start"}),
        ("msg_2", {"type": "reasoning", "text": "I will look.", "time": {"start": T + 3}}),
        ("msg_2", {"type": "tool", "callID": "c1", "tool": "bash", "state": state}),
        ("msg_2", {"type": "tool", "callID": "c2", "tool": "read", "state": failed}),
        ("msg_2", {"type": "text", "text": "Two files é."}),
        ("msg_2", {"type": "step-finish", "reason": "stop", "cost": 0}),
        ("msg_3", {"type": "text", "text": "What was done"}),
        ("msg_3", {"type": "telepathy", "level": 3}),
    ]


def dump(value: object) -> str:
    """Return JSON as JavaScript writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Rendered:
    """A database seen as its format shows it."""

    def __init__(self, format_: Format, path: Path, scratch: Path) -> None:
        self.format = format_
        source = format_.claim(Look(path))
        assert source
        self.source: Source = source
        rendition = format_.rendition(source, scratch)
        assert rendition
        self.path: Path = rendition
        data = memoryview(rendition.read_bytes())
        spans = list(format_.spans(data, 0))
        self.records = [bytes(data[span.start : span.end]) for span in spans]
        parts = format_.parts(source, data, spans)
        assert parts is not None
        self.parts: dict[str, Part] = {part.key: part for part in parts}

    def events(self, key: str) -> list[Event]:
        """Return the events of a conversation that branches from no other."""
        earlier = Earlier()
        events: list[Event] = []
        for at in self.parts[key].records:
            events.append(earlier.add(self.format.lenses[0].view(self.records[at], earlier)))
            check(events[-1])
        return events


def dumped(path: Path) -> list[str]:
    """Return all that a database says, as SQL."""
    with closing(sqlite3.connect(path)) as found:
        return list(found.iterdump())

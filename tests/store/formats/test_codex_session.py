import json
import os
from pathlib import Path

import pytest

from store.formats.codex.session import Codex
from store.formats.core.format import About, Source
from store.formats.core.look import Look
from tests.store.formats.rollouts import SESSION, event, item, line, message, meta, written

CODEX = Codex()
OLDEST: list[dict[str, object]] = [
    {"id": SESSION, "timestamp": "2025-05-07T17:24:21.123Z", "instructions": None},
    {"record_type": "state"},
    {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "<environment_context>\n<cwd>/home/ada/shop</cwd>"}],
    },
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the login"}]},
]


def rollout(folder: Path, content: bytes, name: str = f"rollout-2026-04-13T08-18-20-{SESSION}.jsonl") -> Path:
    path = folder / "sessions" / "2026" / "04" / "13" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def about(path: Path) -> About:
    source = CODEX.claim(Look(path))
    assert source
    data = path.read_bytes()
    return CODEX.about(source, [data[span.start : span.end] for span in CODEX.spans(memoryview(data), 0)])


@pytest.mark.parametrize(
    "content",
    [
        written(meta()),
        written(*OLDEST),
        written(*OLDEST[1:]),
        written({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"}),
        written(b"\0" * 90, meta()),
        written(b'{"cut', meta()),
        b"\xef\xbb\xbf" + written(meta()).replace(b"\n", b"\r\n"),
        written(meta())[:80],
        written(meta(base_instructions={"text": "x" * 100_000})),
        written(line("world_state", {"full": True})),
    ],
)
def test_sessions_are_claimed_wherever_they_lie(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "backup.jsonl"
    path.write_bytes(content)
    assert CODEX.claim(Look(path)) == Source("codex", path, path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json\n",
        b'{"type":"user","message":{"role":"user","content":"x"},"sessionId":"s","uuid":"u","parentUuid":null}\n',
        b'{"type":"session","id":"1","timestamp":"2026-01-01","cwd":"/"}\n{"type":"message","id":"2","parentId":"1"}\n',
        b'{"role":"user","content":"x"}\n',
        b'{"type":"message","role":"user","content":"x"}\n'[:20],
        b'{"timestamp":1,"type":[],"payload":{}}\n',
        b'{"id":{},"timestamp":"x"}\n[]\n1\n',
    ],
)
def test_what_other_tools_write_is_not_claimed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(content)
    assert CODEX.claim(Look(path)) is None


def test_empty_and_damaged_files_are_claimed_where_the_program_keeps_them(tmp_path: Path) -> None:
    for content in (b"", b"\0" * 50):
        assert CODEX.claim(Look(rollout(tmp_path, content)))
    other = tmp_path / "rollout-2026-04-13T08-18-20-x.jsonl"
    other.write_bytes(b"")
    assert CODEX.claim(Look(other)) is None
    assert CODEX.claim(Look(tmp_path)) is None


def test_a_session_is_called_by_its_first_request(tmp_path: Path) -> None:
    git = {"branch": "main"}
    path = rollout(
        tmp_path,
        written(
            meta(git=git, cli_version="0.120.0"),
            message("user", "# AGENTS.md instructions for /home/ada/shop"),
            message("user", "Fix the login\nplease"),
            event("user_message", message="Fix the login\nplease"),
        ),
    )
    assert about(path) == About(
        title="Fix the login",
        project="shop",
        started_ms=1776068300339,
        session_id=SESSION,
        extra={"cwd": "/home/ada/shop", "branch": "main", "tool_version": "0.120.0"},
    )


def test_oldest_sessions_say_where_they_were_in_their_first_message(tmp_path: Path) -> None:
    said = about(rollout(tmp_path, written(*OLDEST)))
    assert (said.title, said.project, said.session_id) == ("Fix the login", "shop", SESSION)
    assert said.started_ms == 1746638661123


def test_what_has_no_beginning_was_begun_with_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    called = {"timestamp": "2025-09-10T12:00:01Z", "type": "tool_call", "name": "git", "arguments": {}}
    path.write_bytes(written({"timestamp": "2025-09-10T12:00:00Z", "role": "user", "content": "Which branch?"}, called))
    said = about(path)
    assert (said.title, said.started_ms, said.session_id) == ("Which branch?", 1757505600000, "part")


def test_a_name_that_was_given_is_the_title(tmp_path: Path) -> None:
    named = event("thread_name_updated", thread_id=SESSION, thread_name="Login")
    path = rollout(tmp_path, written(meta(), message("user", "Fix it"), named))
    assert about(path).title == "Login"
    assert CODEX.titles(written(named))
    assert not CODEX.titles(written(message("user", "Fix it")))
    index = tmp_path / "session_index.jsonl"
    entries = [{"id": SESSION, "thread_name": name, "updated_at": "x"} for name in ("Old", "Newest")]
    index.write_bytes(written(*entries, b"damaged"))
    assert about(path).title == "Newest"
    index.write_bytes(b"")
    os.utime(index, (1, 1))
    assert about(path).title == "Login"


def test_requests_of_editors_are_found_behind_what_these_add(tmp_path: Path) -> None:
    text = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix the login\n"
    assert about(rollout(tmp_path, written(meta(), message("user", text)))).title == "Fix the login"


def test_forks_and_subagents_say_whose_they_are(tmp_path: Path) -> None:
    parent = "019d7d08-46c9-7f73-affe-4e6ca9852d56"
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "agent_nickname": "Boole"}}}
    path = rollout(tmp_path, written(meta(forked_from_id=parent, source=spawned), meta(id=parent, cwd="/else")))
    said = about(path)
    assert said.forked_from == parent
    assert said.session_id == SESSION
    assert said.project == "shop"
    assert (said.extra["parent_session"], said.extra["agent"]) == (parent, "Boole")


def test_a_damaged_beginning_leaves_what_the_name_says(tmp_path: Path) -> None:
    said = about(rollout(tmp_path, written(meta())[:40]))
    assert (said.session_id, said.started_ms, said.title) == (SESSION, 1776068300000, "")


def test_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".codex/sessions", ".codex/archived_sessions", "moved/sessions"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    assert list(CODEX.homes(tmp_path, tmp_path)) == [
        tmp_path / ".codex" / "sessions",
        tmp_path / ".codex" / "archived_sessions",
    ]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "moved"))
    assert next(CODEX.homes(tmp_path, tmp_path)) == tmp_path / "moved" / "sessions"
    assert list(CODEX.homes(tmp_path / "other", tmp_path)) == []


def test_spans_are_the_lines(tmp_path: Path) -> None:
    data = written(meta(), b"", item("ghost_snapshot"))
    assert [json.loads(data[span.start : span.end])["type"] for span in CODEX.spans(memoryview(data), 0)] == [
        "session_meta",
        "response_item",
    ]

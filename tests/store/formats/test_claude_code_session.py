import json
import os
from pathlib import Path

import pytest

from store.formats.claude_code.session import ClaudeCode, project_of_folder
from store.formats.core.format import About, Source
from store.formats.core.look import HEAD_SIZE, Look

CLAUDE = ClaudeCode()
SESSION = "0f469ab8-bece-40b3-b3b8-c37e9ea7bc4b"


def write(path: Path, *records: dict[str, object] | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def said(text: object, **fields: object) -> dict[str, object]:
    return {
        "type": "user",
        "parentUuid": None,
        "uuid": "u1",
        "sessionId": SESSION,
        "cwd": "/home/me/my-shop",
        "timestamp": "2026-01-20T04:15:00.614Z",
        "message": {"role": "user", "content": text},
        **fields,
    }


def about(path: Path) -> About:
    source = CLAUDE.claim(Look(path))
    assert source
    data = path.read_bytes()
    return CLAUDE.about(source, [data[span.start : span.end] for span in CLAUDE.spans(memoryview(data), 0)])


@pytest.mark.parametrize(
    "first",
    [
        said("hi"),
        {"type": "summary", "summary": "x", "leafUuid": "y"},
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION},
        b'{"parentUuid":null,"isSidechain":false,"type":"user","mess',
        b"\xef\xbb\xbf" + json.dumps(said("hi")).encode() + b"\r",
        b"\0" * 90 + b"\n" + json.dumps(said("hi")).encode(),
        b'{"a": 1, "b\n' + json.dumps(said("hi")).encode(),
        json.dumps(said("x" * 100_000)).encode(),
    ],
)
def test_sessions_are_claimed_wherever_they_lie(tmp_path: Path, first: dict[str, object] | bytes) -> None:
    path = write(tmp_path / "backup.jsonl", first)
    assert CLAUDE.claim(Look(path)) == Source("claude-code", path, path, folder=path.with_suffix(""))


@pytest.mark.parametrize("content", [b"", b"\n", b"\0" * 40, b'{"cut": "o', b"not json\n"])
def test_empty_and_damaged_ones_are_claimed_by_name_and_place(tmp_path: Path, content: bytes) -> None:
    for name in (f"projects/-home-me/{SESSION}.jsonl", "-home-me/agent-3be551df.jsonl"):
        assert CLAUDE.claim(Look(write(tmp_path / name, content)))
    for name in (f"other/{SESSION}.jsonl", "projects/-home-me/notes.jsonl"):
        assert not CLAUDE.claim(Look(write(tmp_path / name, content)))


_QWEN = {"uuid": "u2", "parentUuid": "u1", "sessionId": SESSION, "provenance": "real_user", "version": "0.24.4"}


@pytest.mark.parametrize(
    "record",
    [
        {"timestamp": "2026-01-20T04:15:00Z", "type": "session_meta", "payload": {"id": SESSION}},
        {"type": "message", "id": "1", "parentId": None, "message": {}},
        {"display": "/clear", "sessionId": SESSION, "project": "/home/me"},
        [1],
        # Qwen Code
        _QWEN | {"type": "user", "message": {"role": "user", "parts": [{"text": "hi"}]}},
        _QWEN | {"type": "user", "message": {"role": "user", "parts": [{"text": "hi" * HEAD_SIZE}]}},
        _QWEN | {"type": "system", "subtype": "ui_telemetry", "systemPayload": {}},
    ],
)
def test_other_tools_are_left_alone(tmp_path: Path, record: dict[str, object]) -> None:
    assert not CLAUDE.claim(Look(write(tmp_path / f"projects/-home-me/{SESSION}.jsonl", record)))
    assert not CLAUDE.claim(Look(write(tmp_path / "claude.txt", said("hi"))))
    assert not CLAUDE.claim(Look(tmp_path))


def test_subagents_are_sessions_and_other_files_go_along(tmp_path: Path) -> None:
    main = write(tmp_path / f"{SESSION}.jsonl", said("hi"))
    agent = write(tmp_path / SESSION / "subagents" / "agent-a22.jsonl", said("look", agentId="a22", isSidechain=True))
    meta = write(tmp_path / SESSION / "subagents" / "agent-a22.meta.json", {"agentType": "Explore"})
    output = write(tmp_path / SESSION / "tool-results" / "b8.txt", b"long")
    source = CLAUDE.claim(Look(main))
    assert source
    assert sorted(source.sidecars) == [
        (f"{SESSION}/subagents/agent-a22.meta.json", meta),
        (f"{SESSION}/tool-results/b8.txt", output),
    ]
    described = about(agent)
    assert (described.title, described.session_id) == ("look", "agent-a22")
    assert described.extra == {"cwd": "/home/me/my-shop", "agent": "a22", "parent_session": SESSION}


def test_what_a_session_says_of_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", said("Fix the login\nplease", gitBranch="main", version="2.1"))
    assert about(path) == About(
        title="Fix the login",
        project="my-shop",
        started_ms=1768882500614,
        session_id=SESSION,
        extra={"cwd": "/home/me/my-shop", "branch": "main", "tool_version": "2.1"},
    )


@pytest.mark.parametrize(
    ("records", "title"),
    [
        (
            [
                said("request"),
                {"type": "summary", "summary": "made long ago", "leafUuid": "u1"},
                {"type": "ai-title", "aiTitle": "made", "sessionId": SESSION},
                {"type": "custom-title", "customTitle": "given", "sessionId": SESSION},
                {"type": "ai-title", "aiTitle": "made later", "sessionId": SESSION},
            ],
            "given",
        ),
        ([{"type": "ai-title", "aiTitle": "made", "sessionId": SESSION}, said("request")], "made"),
        (
            [
                {"type": "summary", "summary": "another session's", "leafUuid": "elsewhere"},
                {"type": "summary", "summary": "its own", "leafUuid": "u1"},
                said("request"),
            ],
            "its own",
        ),
        ([{"type": "summary", "summary": "another session's", "leafUuid": "elsewhere"}, said("request")], "request"),
        (
            [
                said("Caveat: The messages below were generated", isMeta=True),
                said("<command-name>/clear</command-name>"),
                said("<local-command-stdout></local-command-stdout>"),
                said("inner", isSidechain=True),
                said(
                    [{"type": "text", "text": "<ide_opened_file>x</ide_opened_file>"}, {"type": "text", "text": "go"}]
                ),
            ],
            "go",
        ),
        ([said("<command-name>/review</command-name> <command-args>PR 7</command-args>")], "/review PR 7"),
        ([said("inner", isSidechain=True)], "inner"),
        ([said(7), b"\xff"], ""),
    ],
)
def test_titles(tmp_path: Path, records: list[dict[str, object] | bytes], title: str) -> None:
    assert about(write(tmp_path / "a.jsonl", *records)).title == title


def test_the_file_names_the_session_if_it_can(tmp_path: Path) -> None:
    resumed = "11111111-2222-3333-4444-555555555555"
    assert about(write(tmp_path / f"{resumed}.jsonl", said("hi"))).session_id == resumed


def test_a_folder_names_the_project_where_no_line_does(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-home-me-my-shop"
    empty = write(folder / f"{SESSION}.jsonl")
    assert about(empty).project == "home-me-my-shop"
    write(folder / "agent-1.jsonl", said("x" * 500, cwd="/home/me/elsewhere"))
    write(folder / "agent-2.jsonl", said("hi"))
    os.utime(folder, ns=(1, 1))  # the clock of the file system may be too coarse to tell
    assert about(empty).project == "my-shop"
    assert project_of_folder(folder / SESSION / "subagents") == "my-shop"
    assert project_of_folder(folder / SESSION / "subagents" / "workflows" / "wf_1") == "my-shop"
    assert project_of_folder(tmp_path / "plain") == "plain"


def test_windows_paths_name_projects_too(tmp_path: Path) -> None:
    assert about(write(tmp_path / "a.jsonl", said("hi", cwd="e:\\work\\shop"))).project == "shop"


def test_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(CLAUDE.homes(tmp_path, tmp_path)) == []
    for place in (".claude", ".config/claude", "moved"):
        (tmp_path / place / "projects").mkdir(parents=True)
    usual = [tmp_path / ".claude" / "projects", tmp_path / ".config" / "claude" / "projects"]
    assert list(CLAUDE.homes(tmp_path, tmp_path)) == usual
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "moved"))
    assert list(CLAUDE.homes(tmp_path, tmp_path)) == [tmp_path / "moved" / "projects", *usual]
    assert list(CLAUDE.homes(tmp_path / "moved", tmp_path)) == []


def test_tasks_of_claude_cowork(tmp_path: Path) -> None:
    """The task's own title counts; one is asked for its current session only."""
    tasks = tmp_path / ".config/Claude/local-agent-mode-sessions/org/account"
    folder = tasks / "local_1/.claude/projects/-sessions-calm"
    folder.mkdir(parents=True)
    current, earlier = (f"{digit * 8}-2222-4333-8444-555555555555" for digit in "ab")
    (tasks / "local_1.json").write_text(json.dumps({"cliSessionId": current, "title": "Sort the receipts"}))
    titles = {}
    for session in (current, earlier):
        line = {"type": "ai-title", "sessionId": session, "aiTitle": "Receipts"}
        path = folder / f"{session}.jsonl"
        path.write_text(json.dumps(line) + "\n")
        source = Source("claude-code", path, path)
        titles[session] = ClaudeCode().about(source, path.read_bytes().splitlines()).title
    assert titles == {current: "Sort the receipts", earlier: "Receipts"}
    assert list(ClaudeCode().homes(tmp_path, tmp_path)) == [folder.parent]

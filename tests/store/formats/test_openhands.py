import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind
from store.formats.core.look import Look
from store.formats.openhands import OpenHands, OpenHandsLens
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of, made_or_refused
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

LENS, FORMAT = OpenHandsLens(), OpenHands()


def metadata(thought: str, name: str, arguments: dict[str, object]) -> dict[str, object]:
    call = {"id": "t1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": thought, "tool_calls": [call]}
    return {"function_name": name, "tool_call_id": "t1", "model_response": {"choices": [{"message": message}]}}


def record(number: int, source: str, **more: object) -> dict[str, object]:
    return {"id": number, "timestamp": f"2026-03-05T19:31:{number:02}.5", "source": source, **more}


CALLED = metadata("I look.", "execute_bash", {"command": "ls"})
EVENTS: list[tuple[dict[str, object], Kind, str, list[str]]] = [
    (record(0, "environment", observation="agent_state_changed", content="", extras={}), Kind.RECORD, "", []),
    (record(1, "agent", action="system", args={"content": "You are Hands."}), Kind.SYSTEM, "", ["You are Hands."]),
    (
        record(2, "user", message="List it", action="message", args={"content": "List it", "image_urls": []}),
        Kind.USER,
        "",
        ["List it"],
    ),
    (
        record(
            3,
            "agent",
            message="Running command: ls",
            action="run",
            tool_call_metadata=CALLED,
            args={"command": "ls", "thought": "I look.", "hidden": False, "confirmation_state": "confirmed"},
        ),
        Kind.TOOL_CALL,
        "execute_bash",
        ["I look.", '{\n  "command": "ls"\n}'],
    ),
    (
        record(
            4,
            "agent",
            cause=3,
            observation="run",
            tool_call_metadata=CALLED,
            content="a.py",
            extras={"command": "ls", "metadata": {"exit_code": 0}},
        ),
        Kind.TOOL_RESULT,
        "execute_bash",
        ["a.py"],
    ),
    (record(5, "agent", action="read", args={"path": "/w/a.py", "thought": ""}), Kind.TOOL_CALL, "read", []),
    (
        record(6, "agent", cause=5, observation="read", content="x = 1", extras={"path": "/w/a.py"}),
        Kind.TOOL_RESULT,
        "read",
        ["x = 1"],
    ),
    (record(7, "agent", action="think", args={"thought": "Hm."}), Kind.REASONING, "", ["Hm."]),
    (record(8, "agent", observation="error", content="It failed", extras={}), Kind.TOOL_RESULT, "error", ["It failed"]),
    (record(9, "agent", action="finish", args={"final_thought": "Done."}), Kind.ASSISTANT, "", ["Done."]),
    ({"instance_id": "a-1", "model_patch": "diff\n", "model_name_or_path": "m"}, Kind.SUMMARY, "", ["diff\n"]),
    ({"instance_id": "a-2", "model_patch": "", "model_name_or_path": "m"}, Kind.RECORD, "", []),
]
LATER: list[tuple[dict[str, object], Kind, str, list[str]]] = [
    (
        record(0, "agent", kind="SystemPromptEvent", system_prompt={"type": "text", "text": "You are."}, tools=[]),
        Kind.SYSTEM,
        "",
        ["You are."],
    ),
    (
        record(
            1, "user", kind="MessageEvent", llm_message={"role": "user", "content": [{"type": "text", "text": "Go"}]}
        ),
        Kind.USER,
        "",
        ["Go"],
    ),
    (
        record(
            2,
            "agent",
            kind="ActionEvent",
            thought=[{"type": "text", "text": "I look."}],
            action={"kind": "TerminalAction", "command": "ls\npwd"},
            tool_name="terminal",
            tool_call_id="t1",
        ),
        Kind.TOOL_CALL,
        "terminal",
        ["I look.", "ls\npwd"],
    ),
    (
        record(
            3,
            "environment",
            kind="ObservationEvent",
            tool_name="terminal",
            tool_call_id="t1",
            observation={"kind": "T", "content": [{"type": "text", "text": "a.py"}], "is_error": False},
        ),
        Kind.TOOL_RESULT,
        "terminal",
        ["a.py"],
    ),
    (record(4, "agent", kind="Condensation", summary="All of it."), Kind.SUMMARY, "", ["All of it."]),
    (record(5, "environment", kind="PauseEvent"), Kind.RECORD, "", []),
]


def view_all(records: list[dict[str, object]]) -> list[Event]:
    earlier = Earlier()
    return [earlier.add(LENS.view(json.dumps(one).encode(), earlier)) for one in records]


@pytest.mark.parametrize("events", [EVENTS, LATER])
def test_what_is_seen_of_events(events: list[tuple[dict[str, object], Kind, str, list[str]]]) -> None:
    seen = view_all([one for one, *_ in events])
    for event, (_, kind, tool, texts) in zip(seen, events, strict=True):
        check(event)
        assert (event.kind, event.tool) == (kind, tool)
        assert [block.text for block in event.blocks if block.text != '{\n  "path": "/w/a.py"\n}'] == texts
    assert seen[0].time_ms == (1772739060500 if events is EVENTS else seen[0].time_ms)


def test_exit_codes_and_files_that_were_read_are_told() -> None:
    seen = view_all([one for one, *_ in EVENTS])
    assert seen[4].header == {"id": "t1", "exit_code": 0}
    assert [(one.uri, one.content) for one in seen[6].resources] == [("file:///w/a.py", "x = 1")]


def test_what_an_event_says_again_is_edited_with_it() -> None:
    payload = json.dumps(EVENTS[3][0]).encode()
    thought, arguments = LENS.view(payload, Earlier()).blocks
    edited = json.loads(LENS.edit(payload, edit_of(thought, "I see."), Earlier()))
    message = edited["tool_call_metadata"]["model_response"]["choices"][0]["message"]
    assert (edited["args"]["thought"], message["content"]) == ("I see.", "I see.")
    payload = json.dumps(EVENTS[2][0]).encode()
    (text,) = LENS.view(payload, Earlier()).blocks
    edited = json.loads(LENS.edit(payload, edit_of(text, "Show it"), Earlier()))
    assert (edited["args"]["content"], edited["message"]) == ("Show it", "Show it")
    multiline = json.dumps(EVENTS[3][0]).replace('"ls"', '"ls\\npwd"').replace('\\"ls\\"', '\\"ls\\\\npwd\\"').encode()
    command = next(block for block in LENS.view(multiline, Earlier()).blocks if block.text == "ls\npwd")
    edited = json.loads(LENS.edit(multiline, edit_of(command, "pwd"), Earlier()))
    message = edited["tool_call_metadata"]["model_response"]["choices"][0]["message"]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"command": "pwd"}
    assert arguments.type == "json"


def test_fields_are_edited_where_they_stand() -> None:
    def put(one: object, key: str, value: str | int | bool) -> Event:
        payload = json.dumps(one).encode()
        return LENS.view(LENS.edit(payload, EventEdit(fields=(FieldEdit(key, value),)), Earlier()), Earlier())

    assert put(EVENTS[4][0], "exit_code", 1).header["exit_code"] == 1
    assert put(EVENTS[3][0], "tool", "sh").tool == "sh"
    assert put(EVENTS[10][0], "instance_id", "b").header["instance_id"] == "b"
    assert put(LATER[3][0], "is_error", True).header["is_error"] is True
    for one, key, value in ((EVENTS[8][0], "is_error", False), (EVENTS[6][0], "tool", "x")):
        with pytest.raises(UsageError):
            put(one, key, value)


def test_an_output_has_a_conversation_a_line(tmp_path: Path) -> None:
    lines = [
        {"instance_id": "a-1", "instruction": "Go", "history": [one for one, *_ in EVENTS[1:5]]},
        {"instance_id": "a-2", "history": [[EVENTS[2][0], EVENTS[0][0]], [EVENTS[3][0], EVENTS[4][0]]], "metrics": {}},
        {"instance_id": "a-1", "history": [one for one, *_ in EVENTS[2:5]], "test_result": {"git_patch": "diff"}},
    ]
    path = tmp_path / "output.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = FORMAT.claim(Look(path))
    assert source
    data = memoryview(path.read_bytes())
    parts = FORMAT.parts(source, data, list(FORMAT.spans(data, 0)))
    assert parts
    assert [list(part.records) for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [part.about.session_id for part in parts] == ["a-1", "a-2", "a-1"]
    assert {part.about.title for part in parts} == {"List it"}
    assert len({part.key for part in parts}) == 3


@pytest.mark.parametrize(
    ("value", "ours"),
    [
        ([one for one, *_ in EVENTS[:3]], True),
        ([one for one, *_ in LATER[:3]], True),
        ([[EVENTS[2][0], EVENTS[4][0]]], True),
        ([EVENTS[10][0]], True),
        ({"instance_id": "a", "history": [EVENTS[2][0]]}, True),
        ([{"action": "run"}], False),
        ([{"role": "user", "content": "x"}], False),
        ({"history": [EVENTS[2][0]]}, False),
        ([], False),
        ({}, False),
    ],
)
def test_only_what_begins_with_events_is_claimed(tmp_path: Path, value: object, ours: bool) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value))
    assert (FORMAT.claim(Look(path)) is not None) is ours


def events_folder(folder: Path, name: str, later: bool) -> Path:
    kept = folder / "sessions" / "s-1" / "events"
    kept.mkdir(parents=True)
    for number, (one, *_) in enumerate(LATER if later else EVENTS[:10]):
        (kept / name.format(number)).write_text(json.dumps(one, indent=2))
    return kept


@pytest.mark.parametrize(("name", "later"), [("{}.json", False), ("event-{:05}-ab12.json", True)])
def test_a_folder_of_events_is_a_session(tmp_path: Path, name: str, later: bool) -> None:
    kept = events_folder(tmp_path, name, later)
    (kept / "notes.txt").write_text("beside")
    source = FORMAT.claim(Look(kept))
    assert source
    files = [*map(Path, source.first), source.main]
    assert [json.loads(path.read_text())["id"] for path in files] == list(range(len(files)))
    data = source.main.read_bytes()
    (span,) = FORMAT.spans(memoryview(data), 0)
    assert data[span.start : span.end] == data.strip()
    assert FORMAT.about(source, [path.read_bytes() for path in files]).session_id == "s-1"
    assert list(FORMAT.homes(tmp_path, tmp_path)) == []
    (tmp_path / "sessions").rename(tmp_path / ".openhands")
    names = ("sessions", "agent-canvas/conversations", "agent-canvas/dev_conversations", "ada/v1_conversations")
    homes = [tmp_path / ".openhands" / name for name in names]
    for home in homes:
        home.mkdir(parents=True)
    assert list(FORMAT.homes(tmp_path, tmp_path)) == homes


def test_other_folders_and_copies_of_events_are_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    assert FORMAT.claim(Look(tmp_path / "events")) is None
    (tmp_path / "events" / "0.json").write_text("{}")
    assert FORMAT.claim(Look(tmp_path / "events")) is None
    copies = tmp_path / "event_cache"
    copies.mkdir()
    (copies / "0-25.json").write_text(json.dumps([EVENTS[2][0]]))
    assert FORMAT.claim(Look(copies / "0-25.json")) is None


@given(mutated([one for one, *_ in (*EVENTS, *LATER)]), st.text(max_size=8))
def test_no_record_makes_the_lens_fail(payload: bytes, text: str) -> None:
    event = LENS.view(payload, Earlier())
    check(event)
    for block in event.blocks:
        if block.text is not None:
            made_or_refused(lambda block=block: LENS.edit(payload, edit_of(block, text), Earlier()))  # type: ignore[misc]


def test_a_folder_begins_with_a_prompt_that_is_longer_than_what_is_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "c0ffee" / "events"
    folder.mkdir(parents=True)
    prompt = {"id": "1", "timestamp": "2026-01-27T03:56:17", "source": "agent", "system_prompt": {"text": "x" * 99_999}}
    said = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    message = {"id": "2", "timestamp": "2026-01-27T03:56:18", "source": "user", "llm_message": said}
    (folder / "event-00000-1.json").write_text(json.dumps(prompt | {"kind": "SystemPromptEvent"}))
    (folder / "event-00001-2.json").write_text(json.dumps(message | {"kind": "MessageEvent"}))
    source = FORMAT.claim(Look(folder))
    assert source is not None
    assert (source.main.name, len(source.first)) == ("event-00001-2.json", 1)

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind
from store.events.usage import Tokens, Usage
from store.formats.core.format import Source
from store.formats.core.json_view import as_object
from store.formats.core.look import Look
from store.formats.swe_agent import SweAgent, SweAgentLens
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of, made_or_refused
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

LENS, FORMAT = SweAgentLens(), SweAgent()
SAID = "I look at the file.\n```\nopen a.py\n```"
STEP: dict[str, object] = {
    "action": "open a.py\n",
    "observation": "x = 1",
    "response": SAID,
    "thought": "I look at the file.\n",
    "state": "{}",
}
CALL: dict[str, object] = {
    "role": "assistant",
    "content": "I look.",
    "thought": "I look.",
    "action": "open a.py",
    "agent": "main",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "open", "arguments": '{"path":"a.py"}'}}],
    "message_type": "action",
}
HISTORY: list[dict[str, object]] = [
    {"role": "system", "content": "SETTING: You are a programmer.", "agent": "primary"},
    {"role": "user", "content": "A demonstration", "is_demo": True, "agent": "primary"},
    {"role": "user", "content": "We solve this issue.\nISSUE:\nThe login fails\nIt does.", "agent": "primary"},
    {"role": "assistant", "content": SAID, "thought": "I look at the file.\n", "action": "open a.py\n", "agent": "p"},
    {"role": "user", "content": "x = 1\n(Open file: a.py)", "agent": "primary"},
    CALL,
    {"role": "tool", "content": "x = 1", "tool_call_ids": ["c1"], "agent": "main", "message_type": "observation"},
]
INFO: dict[str, object] = {"exit_status": "submitted", "submission": "diff --git a b\n+x", "model_stats": {"cost": 1}}
TRAJECTORY: dict[str, object] = {
    "environment": "swe_main",
    "trajectory": [STEP, STEP],
    "history": HISTORY,
    "info": INFO,
    "replay_config": {"agent": {"name": "a"}},
}


def written(folder: Path, value: object, name: str = "login__issue-1.traj") -> Path:
    path = folder / name
    path.write_text(json.dumps(value, indent=2))
    return path


def seen(source: Source) -> list[Event]:
    data = source.main.read_bytes()
    earlier = Earlier()
    spans = FORMAT.spans(memoryview(data), 0)
    return [earlier.add(LENS.view(data[span.start : span.end], earlier)) for span in spans]


def used(record: object) -> Usage | None:
    return LENS.used(as_object(record))


def claimed(path: Path) -> Source:
    source = FORMAT.claim(Look(path))
    assert source
    return source


def test_a_run_is_its_history_and_how_it_ended(tmp_path: Path) -> None:
    source = claimed(written(tmp_path, TRAJECTORY))
    assert [(event.kind, event.tool) for event in seen(source)] == [
        (Kind.RECORD, ""),
        (Kind.SYSTEM, ""),
        (Kind.USER, ""),
        (Kind.USER, ""),
        (Kind.TOOL_CALL, "open"),
        (Kind.TOOL_RESULT, "open"),
        (Kind.TOOL_CALL, "open"),
        (Kind.TOOL_RESULT, "open"),
        (Kind.SUMMARY, ""),
        (Kind.CONFIG, ""),
    ]
    about = FORMAT.about(source, [json.dumps(record).encode() for record in HISTORY[2:]])
    assert (about.title, about.session_id) == ("The login fails", "login__issue-1")


def test_without_a_history_the_steps_are_shown(tmp_path: Path) -> None:
    source = claimed(written(tmp_path, {"trajectory": [STEP], "info": INFO}))
    call, end = seen(source)
    assert (call.kind, call.tool) == (Kind.TOOL_CALL, "open")
    assert [block.text for block in call.blocks] == [SAID, "x = 1"]
    assert (end.kind, end.header) == (Kind.SUMMARY, {"exit_status": "submitted"})
    assert "diff --git a b\n+x" in [block.text for block in end.blocks]


def test_commands_of_the_mini_version_are_calls(tmp_path: Path) -> None:
    said = [
        {"role": "user", "content": "Fix it", "extra": {"timestamp": 1}},
        {"role": "assistant", "content": "```bash\nls\n```", "extra": {"response": {}}},
        {"role": "user", "content": "<returncode>0</returncode>"},
        {"role": "assistant", "content": "Look", "extra": {"actions": [{"command": "ls"}]}},
        {"role": "exit", "content": "Submitted", "extra": {}},
    ]
    path = written(tmp_path, {"messages": said, "info": {}, "trajectory_format": "mini-swe-agent-1.1"})
    assert [(event.kind, event.tool) for event in seen(claimed(path))] == [
        (Kind.USER, ""),
        (Kind.TOOL_CALL, "bash"),
        (Kind.TOOL_RESULT, "bash"),
        (Kind.TOOL_CALL, "bash"),
        (Kind.NOTE, ""),
        (Kind.CONFIG, ""),
    ]


ANSWER: dict[str, object] = {
    "id": "r1",
    "object": "response",
    "model": "gpt-5",
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
    ],
    "usage": {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}},
    "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}], "timestamp": 1780680349.5},
}
OUTPUT: dict[str, object] = {"type": "function_call_output", "call_id": "c1", "output": "a.py", "extra": {}}


def test_the_mini_version_has_answers_as_they_came(tmp_path: Path) -> None:
    run = {"info": {"model_stats": {"instance_cost": 0.5}}, "messages": [HISTORY[0], ANSWER, OUTPUT]}
    path = written(tmp_path, run | {"trajectory_format": "mini-swe-agent-1.1"})
    _end, _system, call, result = seen(claimed(path))[:4]
    assert (call.kind, call.tool, call.header["id"], call.time_ms) == (Kind.TOOL_CALL, "bash", "c1", 1780680349500)
    assert [(block.name, block.text) for block in call.blocks][:2] == [("thinking", "Hm."), ("", "I look.")]
    assert (result.kind, result.tool, [block.text for block in result.blocks]) == (Kind.TOOL_RESULT, "bash", ["a.py"])
    chat = {"role": "assistant", "content": "So.", "extra": {"response": {"usage": {"prompt_tokens": 7}}}}
    assert used(ANSWER) == Usage("r1", "gpt-5", Tokens(6, 5, 4))
    assert used(chat) == Usage("", "", Tokens(7))
    assert used(run["info"]) == Usage("", "", Tokens(), 0.5)


def test_a_call_in_an_answer_goes_with_its_result() -> None:
    (left,) = FORMAT.without([json.dumps(record).encode() for record in (ANSWER, OUTPUT)], {1})
    assert [item["type"] for item in json.loads(left)["output"]] == ["reasoning", "message"]


def test_the_mini_version_has_messages(tmp_path: Path) -> None:
    value = {"info": INFO, "messages": HISTORY[:1] + HISTORY[2:], "trajectory_format": "mini-swe-agent-1.1"}
    kinds = [event.kind for event in seen(claimed(written(tmp_path, value, "run.traj.json")))]
    assert kinds[:3] == [Kind.SUMMARY, Kind.SYSTEM, Kind.USER]


@pytest.mark.parametrize("value", [{"trajectory": "x"}, {"info": {}, "history": []}, [STEP], {"messages": HISTORY}, {}])
def test_other_files_are_not_claimed(tmp_path: Path, value: object) -> None:
    assert FORMAT.claim(Look(written(tmp_path, value))) is None


def test_what_the_tool_took_out_of_an_answer_is_edited_with_it() -> None:
    payload = json.dumps(HISTORY[3]).encode()
    (block,) = LENS.view(payload, Earlier()).blocks
    edited = json.loads(LENS.edit(payload, edit_of(block, SAID.replace("a.py", "b.py")), Earlier()))
    assert edited["content"] == SAID.replace("a.py", "b.py")
    assert edited["action"] == "open b.py\n"
    assert edited["thought"] == "I look at the file.\n"
    payload = json.dumps(CALL).encode()
    block = LENS.view(payload, Earlier()).blocks[0]
    edited = json.loads(LENS.edit(payload, edit_of(block, "I see."), Earlier()))
    assert (edited["content"], edited["thought"], edited["action"]) == ("I see.", "I see.", "open a.py")


def test_fields_are_edited_where_they_stand() -> None:
    def put(record: object, key: str, value: str) -> object:
        payload = json.dumps(record).encode()
        return json.loads(LENS.edit(payload, EventEdit(fields=(FieldEdit(key, value),)), Earlier()))

    assert put(INFO, "exit_status", "failed") == INFO | {"exit_status": "failed"}
    assert put(HISTORY[6], "id", "c2") == HISTORY[6] | {"tool_call_ids": ["c2"]}
    assert "close" in str(put(CALL, "tool", "close"))
    with pytest.raises(UsageError, match="first word"):
        put(HISTORY[3], "tool", "close")


def test_a_call_goes_with_its_result() -> None:
    records = [json.dumps(record).encode() for record in HISTORY]
    left = FORMAT.without(records, {6})
    assert [json.loads(record)["role"] for record in left] == [
        "system",
        "user",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert "tool_calls" not in json.loads(left[-1])


@given(mutated([*HISTORY, STEP, INFO, CALL, ANSWER, OUTPUT]), st.text(max_size=8))
def test_no_record_makes_the_lens_fail(payload: bytes, text: str) -> None:
    event = LENS.view(payload, Earlier())
    check(event)
    for block in event.blocks:
        if block.text is not None:
            made_or_refused(lambda block=block: LENS.edit(payload, edit_of(block, text), Earlier()))  # type: ignore[misc]


def test_where_runs_lie(tmp_path: Path) -> None:
    assert list(FORMAT.homes(tmp_path, tmp_path)) == []
    (tmp_path / "trajectories").mkdir()
    (tmp_path / ".config" / "mini-swe-agent").mkdir(parents=True)
    folders = [tmp_path / "trajectories", tmp_path / ".config" / "mini-swe-agent"]
    assert list(FORMAT.homes(tmp_path, tmp_path)) == folders

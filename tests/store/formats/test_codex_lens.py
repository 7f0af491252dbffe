import base64
import json

import pytest
from hypothesis import given

from store.events.event import Event, Kind
from store.formats.codex.lens import CodexLens
from tests.store.formats.earlier import Earlier
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check
from tests.store.formats.rollouts import SESSION, call, event, item, line, message, meta, output, spelled

PNG = b"\x89PNG\r\n\x1a\n1234"
URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


def see(record: dict[str, object] | bytes, earlier: Earlier | None = None) -> Event:
    earlier = earlier or Earlier()
    seen = CodexLens().view(spelled(record), earlier)
    check(seen)
    return earlier.add(seen)


def see_all(*records: dict[str, object]) -> list[Event]:
    earlier = Earlier()
    return [see(record, earlier) for record in records]


def texts(seen: Event) -> list[tuple[str, str | None]]:
    return [(block.name, block.text) for block in seen.blocks]


WRAPPED = json.dumps({"output": "a\n", "metadata": {"exit_code": 2}}, separators=(",", ":"))
REFUSED = item("message", role="assistant", content=[{"type": "refusal", "refusal": "No"}])
TWO = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
OLDEST = {"id": SESSION, "timestamp": "2025-05-07T17:24:21.123Z", "instructions": "Be"}

RECORDS: list[tuple[dict[str, object], Kind, list[tuple[str, str | None]]]] = [
    (message("user", "Fix it"), Kind.USER, [("", "Fix it")]),
    (message("assistant", "Done"), Kind.ASSISTANT, [("", "Done")]),
    (message("developer", "Be brief"), Kind.SYSTEM, [("", "Be brief")]),
    (
        message("user", "<environment_context>\n</environment_context>"),
        Kind.SYSTEM,
        [("", "<environment_context>\n</environment_context>")],
    ),
    (message("tool", "x"), Kind.NOTE, [("", "x")]),
    (message("user"), Kind.RECORD, []),
    (item("message", role="user", content="Fix it"), Kind.USER, [("", "Fix it")]),
    (
        item("message", role="assistant", content=[{"type": "refusal", "refusal": "No"}]),
        Kind.ASSISTANT,
        [("refusal", "No")],
    ),
    (item("reasoning", summary=[{"type": "summary_text", "text": "**Why**"}]), Kind.REASONING, [("", "**Why**")]),
    (
        item("reasoning", summary=[], content=[{"type": "reasoning_text", "text": "Because"}]),
        Kind.REASONING,
        [("", "Because")],
    ),
    (item("reasoning", summary=[], encrypted_content="gAAA"), Kind.REASONING, []),
    (item("reasoning", summary=[], content=None), Kind.RECORD, []),
    (
        call("exec_command", cmd="ls\npwd", workdir="/tmp"),
        Kind.TOOL_CALL,
        [("arguments", '{\n  "workdir": "/tmp"\n}'), ("arguments.cmd", "ls\npwd")],
    ),
    (item("function_call", name="x", call_id="c", arguments="not json"), Kind.TOOL_CALL, [("arguments", "not json")]),
    (item("function_call", name="x", call_id="c", arguments="{}"), Kind.TOOL_CALL, []),
    (
        item("custom_tool_call", name="apply_patch", call_id="c", input="*** Begin Patch"),
        Kind.TOOL_CALL,
        [("input", "*** Begin Patch")],
    ),
    (
        item("local_shell_call", call_id="c", action={"type": "exec", "command": ["ls"]}),
        Kind.TOOL_CALL,
        [("arguments", '{\n  "command": [\n    "ls"\n  ]\n}')],
    ),
    (
        item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "x"}),
        Kind.TOOL_CALL,
        [("arguments", '{\n  "type": "search",\n  "query": "x"\n}')],
    ),
    (item("ghost_snapshot", ghost_commit={"id": "1"}), Kind.RECORD, []),
    (item("compaction", encrypted_content="gAAA"), Kind.SUMMARY, []),
    (item("weather", wind="n"), Kind.NOTE, [("record", '{\n  "wind": "n"\n}')]),
    (output('[{"type":"text","text":"a\\nb"}]'), Kind.TOOL_RESULT, [("", "a\nb")]),
    (output("[{"), Kind.TOOL_RESULT, [("", "[{")]),
    (output("a.txt"), Kind.TOOL_RESULT, [("", "a.txt")]),
    (
        output([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]),
        Kind.TOOL_RESULT,
        [("", "a"), ("", "b")],
    ),
    (output({"content": "a", "success": False}), Kind.TOOL_RESULT, [("", "a")]),
    (
        output(WRAPPED),
        Kind.TOOL_RESULT,
        [("", "a\n")],
    ),
    (meta(base_instructions={"text": "You are"}), Kind.CONFIG, [("", "You are")]),
    (line("compacted", {"message": "So far", "replacement_history": []}), Kind.SUMMARY, [("", "So far")]),
    (line("turn_context", {"cwd": "/"}), Kind.RECORD, []),
    (line("from_tomorrow", {"text": "x"}), Kind.NOTE, [("record", '{\n  "text": "x"\n}')]),
    (
        line("inter_agent_communication", {"author": "/lead", "recipient": "/lead/a", "content": "Look at it."}),
        Kind.NOTE,
        [("", "Look at it.")],
    ),
    (line("realtime_item", {"type": "transcript_segment", "role": "user", "text": "Why?"}), Kind.USER, [("", "Why?")]),
    (
        line("realtime_item", {"type": "transcript_segment", "role": "assistant", "text": "So."}),
        Kind.ASSISTANT,
        [("", "So.")],
    ),
    (line("realtime_item", {"type": "realtime_session_closed", "outcome": "ended"}), Kind.RECORD, []),
    (line("token_usage_record", {"input_tokens": 3}), Kind.RECORD, []),
    (event("token_count", info=None), Kind.RECORD, []),
    (event("error", message="out of tokens"), Kind.NOTE, [("", "out of tokens")]),
    (event("turn_aborted", reason="interrupted"), Kind.NOTE, [("event", '{\n  "reason": "interrupted"\n}')]),
    (event("exec_command_output_delta", chunk="x"), Kind.RECORD, []),
    (event("entered_review_mode", user_facing_hint="changes"), Kind.NOTE, [("", "changes")]),
    (event("task_complete", last_agent_message="Done"), Kind.RECORD, []),
    (event("task_complete", error="full"), Kind.NOTE, [("event", '{\n  "error": "full"\n}')]),
    (
        {"id": SESSION, "timestamp": "2025-05-07T17:24:21.123Z", "instructions": "Be"},
        Kind.CONFIG,
        [("", "Be")],
    ),
    ({"record_type": "state"}, Kind.RECORD, []),
    ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix"}]}, Kind.USER, [("", "Fix")]),
    ({"timestamp": "2025-09-10T12:00:00Z", "role": "user", "content": "Fix"}, Kind.USER, [("", "Fix")]),
]


@pytest.mark.parametrize(("record", "kind", "shown"), RECORDS)
def test_what_a_line_is_seen_as(record: dict[str, object], kind: Kind, shown: list[tuple[str, str | None]]) -> None:
    seen = see(record)
    assert seen.kind is kind
    assert texts(seen) == shown
    assert seen.native == record


def test_an_output_names_the_tool_of_its_call() -> None:
    called, returned = see_all(call("exec_command", cmd="ls"), output("a.txt"))
    assert (called.tool, called.header) == ("exec_command", {"id": "c1"})
    assert (returned.tool, returned.header) == ("exec_command", {"id": "c1"})


def test_what_only_the_model_can_read_is_said_to_be_encrypted() -> None:
    assert see(item("reasoning", summary=[], encrypted_content="gAAA")).header == {"encrypted": True}
    history = [{"type": "compaction", "encrypted_content": "gAAA"}]
    seen = see(line("compacted", {"message": "", "replacement_history": history}))
    assert (seen.kind, seen.header) == (Kind.SUMMARY, {"encrypted": True, "kept": 1})


def test_exit_codes_are_in_the_head() -> None:
    assert see(output(WRAPPED)).header == {"id": "c1", "exit_code": 2, "is_error": True}


def test_images_are_resources() -> None:
    parts = [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": URL}]
    seen = see(item("message", role="user", content=parts))
    assert [(block.type, block.data, block.mime) for block in seen.blocks[1:]] == [("image", PNG, "image/png")]
    assert [resource.content for resource in seen.resources] == [PNG]
    made = see(item("image_generation_call", id="ig", revised_prompt="A cat", result=URL.partition(",")[2]))
    assert (made.tool, texts(made)[0]) == ("image_generation", ("prompt", "A cat"))
    assert [resource.content for resource in made.resources] == [PNG]


def test_an_image_that_only_an_event_has_is_shown() -> None:
    """Where a script of the model made it, no item follows; where the model did, one does, and says the same."""
    made = {"status": "completed", "revised_prompt": "A cat", "result": URL.partition(",")[2]}
    alone = see(event("image_generation_end", call_id="ig_1", **made))
    [*_first, by_script, by_model, shown] = see_all(
        meta(),
        message("user", "Draw a cat"),
        event("image_generation_end", call_id="exec-1", saved_path="/home/ada/cat.png", **made),
        event("image_generation_end", call_id="ig_1", **made),
        item("image_generation_call", id="ig_1", **made),
    )
    for seen in (alone, by_script):
        assert (seen.kind, texts(seen)[0]) == (Kind.NOTE, ("prompt", "A cat"))
        assert [(block.type, block.data) for block in seen.blocks[1:]] == [("image", PNG)]
        assert [resource.content for resource in seen.resources] == [PNG]
    assert (by_model.kind, shown.kind) == (Kind.RECORD, Kind.TOOL_CALL)
    failed = see(event("image_generation_end", call_id="exec-1", status="failed", result=""))
    assert (failed.kind, failed.resources) == (Kind.NOTE, ())


def test_what_an_item_and_an_event_say_is_shown_as_the_item() -> None:
    seen = see_all(
        meta(),
        message("user", "<environment_context></environment_context>"),
        message("user", "Fix it"),
        event("user_message", message="Fix it", images=[]),
        line("turn_context", {"cwd": "/home/ada/app", "model": "gpt-5"}),
        event("agent_reasoning", text="**Why**"),
        item("reasoning", summary=[{"type": "summary_text", "text": "**Why**"}]),
        event("agent_message", message="Done"),
        message("assistant", "Done"),
        call("shell", command=["ls"]),
        event("exec_command_end", call_id="c1", stdout="a", aggregated_output="a"),
        output("a"),
        event("web_search_end", call_id="ws_1", query="x"),
        item("web_search_call", status="completed"),
        event("item_completed", item={"type": "Plan", "text": "Plan"}),
        event("exited_review_mode", review_output={"findings": []}),
    )
    assert [one.kind for one in seen] == [
        Kind.CONFIG,
        Kind.SYSTEM,
        Kind.USER,
        Kind.RECORD,
        Kind.RECORD,
        Kind.RECORD,
        Kind.REASONING,
        Kind.RECORD,
        Kind.ASSISTANT,
        Kind.TOOL_CALL,
        Kind.RECORD,
        Kind.TOOL_RESULT,
        Kind.RECORD,
        Kind.TOOL_CALL,
        Kind.RECORD,
        Kind.RECORD,
    ]


def test_what_only_an_event_says_is_shown() -> None:
    seen = see_all(
        meta(),
        event("user_message", message="Fix it"),
        event("agent_reasoning", text="**Why**"),
        event("agent_message", message="Done", phase="final_answer"),
        event("exec_command_end", call_id="c1", stdout="a\n", aggregated_output="a\n", exit_code=1),
        event("item_completed", item={"type": "UserMessage", "content": [{"type": "text", "text": "More"}]}),
        event("item_completed", item={"type": "FileChange", "changes": {"a": 1}}),
        event("web_search_end", call_id="ws", query="x", results=[{"url": "u"}]),
    )
    assert [one.kind for one in seen[1:]] == [
        Kind.USER,
        Kind.REASONING,
        Kind.ASSISTANT,
        Kind.TOOL_RESULT,
        Kind.USER,
        Kind.NOTE,
        Kind.TOOL_RESULT,
    ]
    assert seen[3].header == {"phase": "final_answer"}
    assert (seen[4].tool, seen[4].header) == ("exec_command_end", {"id": "c1", "exit_code": 1, "is_error": True})
    assert texts(seen[4]) == [("event.aggregated_output", "a\n")]
    assert seen[6].header == {"item": "FileChange"}


@pytest.mark.parametrize(
    "noted",
    [
        event("task_started", model_context_window=1000),
        event("turn_started", turn_id="t"),
        item("reasoning", summary=[], encrypted_content="gAAA"),
        line("turn_context", {"model": "gpt-5"}),
    ],
)
def test_reasoning_is_shown_as_an_event_where_no_item_of_it_is_to_be_expected(noted: dict[str, object]) -> None:
    thoughts = [event("agent_reasoning", text="**Why**"), event("agent_reasoning_raw_content", text="Because")]
    here, here_too = see_all(meta(), message("user", "Fix it"), *thoughts, call("shell", command=["ls"]))[2:4]
    assert [texts(one) for one in (here, here_too)] == [[("", "**Why**")], [("", "Because")]]
    assert {here.kind, here_too.kind} == {Kind.REASONING}
    seen = see_all(meta(), message("user", "Fix it"), *thoughts, noted, *thoughts)
    assert [one.kind for one in seen[2:4]] == [Kind.REASONING] * 2
    assert [one.kind for one in seen[5:]] == [Kind.RECORD] * 2


def test_a_request_that_only_an_event_tells_of_is_shown_among_others_that_items_tell_of_too() -> None:
    """As reviews have them, whose request the model of the session is not sent."""
    seen = see_all(
        message("user", "Fix it"),
        event("user_message", message="Fix it"),
        event("user_message", message="Review it"),
        message("user", "Fix that"),
        event("user_message", message="Fix that"),
    )
    assert [one.kind for one in seen] == [Kind.USER, Kind.RECORD, Kind.USER, Kind.USER, Kind.RECORD]


def test_an_item_after_the_event_that_says_the_same_is_not_shown_again() -> None:
    told, after, other = see_all(
        event("user_message", message="Fix it"), message("user", "Fix it"), message("user", "Fix it")
    )
    assert (told.kind, after.kind, other.kind) == (Kind.USER, Kind.RECORD, Kind.USER)


def test_answers_are_the_same_when_they_are_recorded() -> None:
    """A later view gets what was told the first time as the event's own tool, and nothing else."""

    class Recorded(Earlier):
        def __init__(self, told: str) -> None:
            super().__init__()
            self.told = told

        def tool(self, call_id: str) -> str:
            return self.told

    records = [
        message("user", "Fix it"),
        event("user_message", message="Fix it"),
        event("user_message", message="Review it"),
        message("user", "Review it"),
        event("agent_message", message="Done"),
        call("shell", command=["ls"]),
        event("exec_command_end", call_id="c1", stdout="a"),
        event("patch_apply_end", call_id="other", stdout="a", success=True),
        output("a"),
        event("web_search_end", call_id="ws", results=["x"]),
    ]
    for record, first in zip(records, see_all(*records), strict=True):
        assert CodexLens().view(spelled(record), Recorded(first.tool)) == first


@given(mutated([record for record, _, _ in RECORDS]))
def test_no_line_can_break_the_view(payload: bytes) -> None:
    check(CodexLens().view(payload, Earlier()))

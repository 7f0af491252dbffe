import base64
import json

import pytest
from hypothesis import given

from store.events.event import Block, Event, Kind
from store.formats.claude_code.lens import ClaudeCodeLens
from tests.store.formats.earlier import Earlier
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

PNG = b"\x89PNG\r\n\x1a\n1234"
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
}


def line(kind: str, uuid: str = "u1", parent: str | None = None, **fields: object) -> dict[str, object]:
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "cwd": "/home/ada/shop",
        "sessionId": "5e55",
        "type": kind,
        "uuid": uuid,
        "timestamp": "2026-01-20T04:15:00.614Z",
        **fields,
    }


def user(content: object, **fields: object) -> dict[str, object]:
    return line("user", message={"role": "user", "content": content}, **fields)


def assistant(*content: object, **fields: object) -> dict[str, object]:
    return line("assistant", message={"role": "assistant", "model": "opus", "content": list(content)}, **fields)


def call(tool: str, identifier: str = "t1", **arguments: object) -> dict[str, object]:
    return {"type": "tool_use", "id": identifier, "name": tool, "input": arguments}


def result(content: object, identifier: str = "t1", **fields: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": identifier, "content": content, **fields}


def attached(kind: str, **fields: object) -> dict[str, object]:
    return line("attachment", attachment={"type": kind, **fields})


def see(record: dict[str, object] | bytes, earlier: Earlier | None = None) -> Event:
    payload = record if isinstance(record, bytes) else json.dumps(record).encode()
    earlier = earlier or Earlier()
    event = earlier.add(ClaudeCodeLens().view(payload, earlier))
    check(event)
    return event


def texts(event: Event) -> list[tuple[str, str | None]]:
    return [(block.name, block.text) for block in event.blocks]


RECORDS: list[tuple[dict[str, object], Kind, list[tuple[str, str | None]]]] = [
    (user("Fix it"), Kind.USER, [("", "Fix it")]),
    (user([{"type": "text", "text": "Fix it"}]), Kind.USER, [("", "Fix it")]),
    (
        user([{"type": "text", "text": "<ide_selection>x</ide_selection>"}, {"type": "text", "text": "Fix"}]),
        Kind.USER,
        [("ide_selection", "<ide_selection>x</ide_selection>"), ("", "Fix")],
    ),
    (user("The story so far", isCompactSummary=True), Kind.SUMMARY, [("", "The story so far")]),
    (user("Skill text", isMeta=True), Kind.SYSTEM, [("", "Skill text")]),
    (
        user("<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>"),
        Kind.NOTE,
        [("", "<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>")],
    ),
    (user("<local-command-stdout></local-command-stdout>"), Kind.RECORD, []),
    (user("<command-name>/clear</command-name>"), Kind.USER, [("", "<command-name>/clear</command-name>")]),
    (user(""), Kind.USER, [("", "")]),
    (user("", isMeta=True), Kind.SYSTEM, [("", "")]),
    (user([{"type": "text", "text": ""}]), Kind.USER, [("", "")]),
    (user([{"type": "text", "text": ""}], isMeta=True), Kind.SYSTEM, [("", "")]),
    (assistant({"type": "text", "text": ""}), Kind.ASSISTANT, [("", "")]),
    (line("system", content=""), Kind.NOTE, [("", "")]),
    (user([]), Kind.RECORD, []),
    (assistant({"type": "text", "text": "Done."}), Kind.ASSISTANT, [("", "Done.")]),
    (assistant({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}), Kind.REASONING, [("", "Hm.")]),
    (assistant({"type": "thinking", "thinking": "", "signature": "c2ln"}), Kind.RECORD, []),
    (assistant({"type": "redacted_thinking", "data": "eHh4"}), Kind.RECORD, []),
    (
        assistant({"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}),
        Kind.ASSISTANT,
        [("thinking", "Hm."), ("", "Yes.")],
    ),
    (
        assistant({"type": "text", "text": "Let me look."}, call("Bash", command="a\nb", description="look")),
        Kind.TOOL_CALL,
        [("", "Let me look."), ("arguments", '{\n  "description": "look"\n}'), ("arguments.command", "a\nb")],
    ),
    (
        assistant({"type": "web_search_tool_result", "content": "x"}),
        Kind.ASSISTANT,
        [("web_search_tool_result", '{\n  "content": "x"\n}')],
    ),
    (line("assistant", message={"content": "plain"}), Kind.ASSISTANT, [("", "plain")]),
    (user([result("out")]), Kind.TOOL_RESULT, [("", "out")]),
    (user([result("")]), Kind.TOOL_RESULT, [("", "")]),
    (
        user([result([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]),
        Kind.TOOL_RESULT,
        [("", "a"), ("", "b")],
    ),
    (
        user([result([{"type": "tool_reference", "tool_name": "X"}])]),
        Kind.TOOL_RESULT,
        [("tool_reference", '{\n  "tool_name": "X"\n}')],
    ),
    (
        user([result([{"type": "x", "y": "a\n"}, 5, {"type": "x", "y": "b\n"}])]),
        Kind.TOOL_RESULT,
        [("x.y", "a\n"), ("content[0][1]", "5"), ("x[0][2].y", "b\n")],
    ),
    ({"type": "summary", "summary": "Login fixed", "leafUuid": "u9"}, Kind.SUMMARY, [("", "Login fixed")]),
    ({"type": "summary", "summary": "", "leafUuid": "u9"}, Kind.SUMMARY, [("", "")]),
    ({"type": "summary", "leafUuid": "u9"}, Kind.RECORD, []),
    (
        {"type": "pr-link", "prUrl": "https://example.com/pull/7", "prNumber": 7},
        Kind.NOTE,
        [("", "https://example.com/pull/7")],
    ),
    (line("system", content="Running hook"), Kind.NOTE, [("", "Running hook")]),
    (
        line("system", subtype="away_summary", content="You were fixing it."),
        Kind.SUMMARY,
        [("", "You were fixing it.")],
    ),
    (line("system", subtype="compact_boundary", content="Compacted"), Kind.NOTE, [("", "Compacted")]),
    (line("system", subtype="local_command", content="<local-command-stdout></local-command-stdout>"), Kind.RECORD, []),
    (line("system", subtype="turn_duration", durationMs=5), Kind.RECORD, []),
    (line("system", subtype="stop_hook_summary", hookErrors=[], hookCount=1), Kind.RECORD, []),
    (
        line("system", subtype="stop_hook_summary", hookErrors=["no"]),
        Kind.NOTE,
        [("note", '{\n  "hookErrors": [\n    "no"\n  ]\n}')],
    ),
    (
        line("system", subtype="api_error", error={"status": 529}),
        Kind.NOTE,
        [("note", '{\n  "error": {\n    "status": 529\n  }\n}')],
    ),
    (attached("hook_success", content="", stdout='{"a": 1}', hookName="Stop"), Kind.RECORD, []),
    (attached("hook_success", content="Remember.", hookName="Stop"), Kind.NOTE, [("", "Remember.")]),
    (attached("hook_additional_context", content=["one", "two"]), Kind.SYSTEM, [("", "one"), ("", "two")]),
    (attached("queued_command", prompt="And this", commandMode="prompt"), Kind.USER, [("", "And this")]),
    (attached("queued_command", prompt="done", commandMode="task-notification"), Kind.NOTE, [("", "done")]),
    (attached("queued_command", prompt=""), Kind.RECORD, []),
    (attached("task_reminder", content=[], itemCount=0), Kind.RECORD, []),
    (attached("command_permissions", allowedTools=[]), Kind.RECORD, []),
    (attached("auto_mode", reminderType="full"), Kind.RECORD, []),
    (
        attached("deferred_tools_delta", addedNames=["X"]),
        Kind.CONFIG,
        [("attachment", '{\n  "addedNames": [\n    "X"\n  ]\n}')],
    ),
    (attached("skill_listing", content="- a: b", skillCount=1), Kind.SYSTEM, [("", "- a: b")]),
    (line("hologram", beam="x\ny"), Kind.NOTE, [("record.beam", "x\ny")]),
    (
        {"type": "queue-operation", "operation": "enqueue", "content": "And the tests?"},
        Kind.NOTE,
        [("", "And the tests?")],
    ),
    ({"type": "queue-operation", "operation": "dequeue"}, Kind.RECORD, []),
    ({"type": "task-summary", "summary": "Fixing the login"}, Kind.NOTE, [("", "Fixing the login")]),
    ({"type": 5, "x": 1}, Kind.NOTE, [("record", '{\n  "x": 1\n}')]),
]
BOOKKEEPING = [
    "progress",
    "file-history-snapshot",
    "file-history-delta",
    "mode",
    "permission-mode",
    "last-prompt",
    "bridge-session",
    "ai-title",
    "custom-title",
]


@pytest.mark.parametrize(("record", "kind", "blocks"), RECORDS)
def test_every_line_type(record: dict[str, object], kind: Kind, blocks: list[tuple[str, str | None]]) -> None:
    event = see(record)
    assert event.kind is kind
    assert texts(event) == blocks
    assert event.native == record


@pytest.mark.parametrize("kind", BOOKKEEPING)
def test_bookkeeping_has_no_file(kind: str) -> None:
    assert see({"type": kind, "content": "x", "sessionId": "s"}).kind is Kind.RECORD


def test_a_call_and_its_result() -> None:
    earlier = Earlier()
    calling = see(assistant(call("Bash", "t7", command="ls")), earlier)
    assert (calling.tool, calling.header) == ("Bash", {"id": "t7", "model": "opus"})
    assert calling.time_ms == 1768882500614
    answer = see(user([result("no", "t7", is_error=True)], uuid="u2", parent="u1"), earlier)
    assert (answer.tool, answer.header) == ("Bash", {"id": "t7", "is_error": True})
    assert see(user([result("?", "t8")]), earlier).tool == ""


def test_several_calls_and_results_on_a_line() -> None:
    earlier = Earlier()
    event = see(assistant(call("A", "t1", x="1\n"), call("B", "t2", x="2\n")), earlier)
    assert (event.tool, event.header) == ("A", {"id": "t1", "tool_2": "B", "id_2": "t2", "model": "opus"})
    assert texts(event) == [("arguments.x", "1\n"), ("call2.arguments.x", "2\n")]
    event = see(user([result("one", "t1"), result("two", "t2", is_error=True)]), earlier)
    assert event.header == {"id": "t1", "is_error": False, "id_2": "t2", "is_error_2": True}
    assert texts(event) == [("", "one"), ("result2", "two")]


def test_images_are_blocks_and_resources() -> None:
    event = see(user([IMAGE, {"type": "text", "text": "See?"}], uuid="u5"))
    image = event.blocks[0]
    assert (image.type, image.data, image.mime, image.encoding) == ("image", PNG, "image/png", "base64")
    (resource,) = event.resources
    assert (resource.uri, resource.content) == ("attachment:u5/image-1.png", PNG)
    assert image.uri == resource.uri
    assert see(user([result([IMAGE])])).blocks[0].data == PNG


def test_a_read_file_is_a_resource_without_line_numbers() -> None:
    file = {"filePath": "/shop/login.py", "content": "a\nb\n", "numLines": 2, "startLine": 1, "totalLines": 2}
    event = see(user([result("1\ta\n2\tb")], toolUseResult={"type": "text", "file": file}))
    assert texts(event) == [("", "1\ta\n2\tb")]
    (resource,) = event.resources
    assert (resource.uri, resource.mime, resource.content) == ("file:///shop/login.py", "text/x-python", "a\nb\n")
    part = see(user([result("")], toolUseResult={"file": {**file, "startLine": 7, "totalLines": 90}}))
    assert part.resources[0].uri == "file:///shop/login.py#L7-8"
    assert see(user([result("")], toolUseResult="Error: no such file")).resources == ()


def test_where_more_of_a_result_is() -> None:
    event = see(
        user([result("x")], toolUseResult={"agentId": "a2271d1", "persistedOutputPath": "/p/tool-results/b.txt"})
    )
    assert event.header["subagent"] == "a2271d1"
    assert event.header["full_output"] == "/p/tool-results/b.txt"


def test_files_put_into_the_context_are_resources() -> None:
    file = {"type": "text", "file": {"filePath": "/shop/README.md", "content": "# Shop"}}
    for record in (
        attached("file", filename="README.md", content=file),
        attached("nested_memory", content={"path": "/shop/README.md", "content": "# Shop"}),
    ):
        event = see(record)
        assert (event.kind, event.resources[0].uri) == (Kind.SYSTEM, "file:///shop/README.md")
        assert (event.blocks[0].type, event.blocks[0].text) == ("resource", "# Shop")


def test_the_parent_is_named_where_it_is_not_the_line_before() -> None:
    earlier = Earlier()
    assert see(user("a", uuid="u1"), earlier).parent == 0
    assert see({"type": "mode", "mode": "normal"}, earlier).parent == 0
    assert see(assistant({"type": "text", "text": "b"}, uuid="u2", parent="u1"), earlier).parent == 0
    assert see(assistant({"type": "text", "text": "c"}, uuid="u3", parent="u1"), earlier).parent == 1
    assert see(user("root", uuid="u4"), earlier).parent == -1
    assert see(user("lost", uuid="u5", parent="gone"), earlier).parent == -1


def test_sidechains_models_and_stops_are_named() -> None:
    event = see(user("Look around", isSidechain=True, agentId="a22"))
    assert event.header == {"sidechain": True, "agent": "a22"}
    event = see(
        line(
            "assistant",
            isApiErrorMessage=True,
            message={"model": "<synthetic>", "stop_reason": "refusal", "content": [{"type": "text", "text": "No."}]},
        )
    )
    assert event.header == {"model": "<synthetic>", "stop_reason": "refusal", "api_error": True}


def test_compaction_and_hooks_say_what_they_know() -> None:
    event = see(
        line(
            "system",
            subtype="compact_boundary",
            content="x",
            level="warning",
            compactMetadata={"trigger": "auto", "preTokens": 158105},
        )
    )
    assert event.header == {"subtype": "compact_boundary", "level": "warning", "trigger": "auto", "pre_tokens": 158105}
    assert see(attached("hook_success", content="x", hookName="Stop")).header == {
        "attachment": "hook_success",
        "hook": "Stop",
    }


@pytest.mark.parametrize(
    "payload",
    [b'{"parentUuid": "92f7{"type":"user"}', b'{"type":"user"}{"type":"user"}', b"\0" * 300, b"[1]", b"null", b'"\xff'],
)
def test_a_damaged_line_is_a_note_with_its_text(payload: bytes) -> None:
    event = see(payload)
    assert (event.kind, event.blocks) == (Kind.NOTE, (Block("text", payload.decode(errors="replace")),))


def test_text_that_is_no_unicode_is_marked() -> None:
    event = see(b'{"type":"user","message":{"content":"\xff \\ud800 x"}}')
    assert (event.kind, event.lossy, event.blocks[0].text) == (Kind.USER, True, "\ufffd \ufffd x")


def test_a_record_is_the_same_when_seen_again_with_the_answers_kept() -> None:
    class Kept(Earlier):
        def __init__(self, event: Event) -> None:
            super().__init__()
            self.event = event

        def tool(self, call_id: str) -> str:
            return self.event.tool

        def parent(self, key: str | None) -> int:
            return self.event.parent

    earlier = Earlier()
    see(assistant(call("A", "t1"), call("B", "t2")), earlier)
    see(user("x", uuid="u2", parent="u1"), earlier)
    answers = json.dumps(user([result("one", "t1"), result("two", "t2")], uuid="u3", parent="u1")).encode()
    first = see(answers, earlier)
    assert (first.tool, first.parent) == ("A", 1)
    assert see(answers, Kept(first)) == first


FILE_LINES = [
    attached("file", content={"type": "text", "file": {"filePath": "/a", "content": "b"}}),
    user([result([IMAGE])], toolUseResult={"file": {"filePath": "/a", "content": "b", "startLine": 1}}),
    assistant(call("A", a={"b": ["c\n"]}), {"type": "thinking", "thinking": "x"}),
    attached("queued_command", prompt=[IMAGE, {"type": "text", "text": "x"}]),
]


@given(mutated([record for record, _, _ in RECORDS] + FILE_LINES))
def test_no_line_makes_the_lens_fail(payload: bytes) -> None:
    see(payload)

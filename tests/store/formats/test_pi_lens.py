import base64
import hashlib
import json

import pytest
from hypothesis import given

from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind
from store.formats.pi.lens import CUT, PiLens
from store.formats.pi.slot import SLOT_BYTES
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import changed_paths, edit_of
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

PNG = b"\x89PNG\r\n\x1a\n1234"
IMAGE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
DIGEST = hashlib.sha256(PNG).digest()
REFERENCE = f"blob:sha256:{DIGEST.hex()}"
LENS = PiLens()


def entry(kind: str, key: str = "a1b2c3d4", parent: str | None = None, **fields: object) -> dict[str, object]:
    return {"type": kind, "id": key, "parentId": parent, "timestamp": "2026-01-20T04:15:00.614Z", **fields}


def said(role: str, content: object = None, **fields: object) -> dict[str, object]:
    return entry("message", message={"role": role, "content": content, **fields, "timestamp": 1768882500614})


def assistant(*content: object, **fields: object) -> dict[str, object]:
    return said("assistant", list(content), model="opus", stopReason="stop", **fields)


def text(said: str) -> dict[str, object]:
    return {"type": "text", "text": said}


def call(tool: str, key: str = "t1", **arguments: object) -> dict[str, object]:
    return {"type": "toolCall", "id": key, "name": tool, "arguments": arguments}


def result(*content: object, **fields: object) -> dict[str, object]:
    return said("toolResult", list(content), toolCallId="t1", toolName="bash", isError=False, **fields)


def payload(record: dict[str, object]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def see(record: dict[str, object] | bytes, earlier: Earlier | None = None) -> Event:
    earlier = earlier or Earlier()
    event = earlier.add(LENS.view(record if isinstance(record, bytes) else payload(record), earlier))
    check(event)
    return event


def texts(event: Event) -> list[tuple[str, str | None]]:
    return [(block.name, block.text) for block in event.blocks]


def slot(title: str) -> bytes:
    line = {"type": "title", "v": 1, "title": title, "source": "auto", "updatedAt": "2026-01-20T04:15:00.614Z"}
    return payload({**line, "pad": " " * (SLOT_BYTES - 1 - len(payload({**line, "pad": ""})))})


RECORDS: list[tuple[dict[str, object], Kind, list[tuple[str, str | None]]]] = [
    (said("user", "Fix it"), Kind.USER, [("", "Fix it")]),
    (said("user", [text("Fix it"), text("now")]), Kind.USER, [("", "Fix it"), ("", "now")]),
    (said("user", []), Kind.RECORD, []),
    (said("developer", "Be brief"), Kind.SYSTEM, [("", "Be brief")]),
    (assistant(text("Done.")), Kind.ASSISTANT, [("", "Done.")]),
    (assistant({"type": "thinking", "thinking": "Hm.", "thinkingSignature": "s"}), Kind.REASONING, [("", "Hm.")]),
    (assistant({"type": "thinking", "thinking": ""}), Kind.RECORD, []),
    (assistant({"type": "redactedThinking", "data": "x"}), Kind.RECORD, []),
    (assistant(), Kind.RECORD, []),
    (assistant(errorMessage="500"), Kind.NOTE, [("error", "500")]),
    (
        assistant({"type": "thinking", "thinking": "Hm."}, text("Look:"), call("bash", command="a\nb", timeout=3)),
        Kind.TOOL_CALL,
        [("thinking", "Hm."), ("", "Look:"), ("arguments", '{\n  "timeout": 3\n}'), ("arguments.command", "a\nb")],
    ),
    (
        assistant({"type": "anthropicServerTool", "block": 1}),
        Kind.ASSISTANT,
        [("anthropicServerTool", '{\n  "block": 1\n}')],
    ),
    (result(text("out")), Kind.TOOL_RESULT, [("", "out")]),
    (result(), Kind.TOOL_RESULT, []),
    (said("bashExecution", command="ls", output="a\n", exitCode=0), Kind.NOTE, [("command", "ls"), ("output", "a\n")]),
    (said("pythonExecution", code="1+1", output="2"), Kind.NOTE, [("code", "1+1"), ("output", "2")]),
    (said("custom", "Mind this", customType="ext", display=False), Kind.SYSTEM, [("", "Mind this")]),
    (said("custom", "/review", customType="skill", attribution="user"), Kind.USER, [("", "/review")]),
    (said("hookMessage", [text("Mind this")], customType="ext"), Kind.SYSTEM, [("", "Mind this")]),
    (said("branchSummary", summary="Tried."), Kind.SUMMARY, [("", "Tried.")]),
    (said("fileMention", files=[{"path": "/a.py", "content": "1"}]), Kind.SYSTEM, [("", "1")]),
    (said("telepathy", "x"), Kind.NOTE, [("message", '{\n  "role": "telepathy"}')]),
    (entry("custom_message", customType="ext", content="Mind", display=True), Kind.SYSTEM, [("", "Mind")]),
    (entry("compaction", summary="So far", tokensBefore=9), Kind.SUMMARY, [("", "So far")]),
    (entry("compaction", summary="So far", shortSummary="S"), Kind.SUMMARY, [("", "So far"), ("short", "S")]),
    (entry("branch_summary", summary="Tried", fromId="x"), Kind.SUMMARY, [("", "Tried")]),
    (entry("label", label="good", targetId="x"), Kind.NOTE, [("", "good")]),
    (entry("label", targetId="x"), Kind.RECORD, []),
    (entry("session_init", systemPrompt=["You", "are"], task="t", tools=[]), Kind.SYSTEM, [("", "You"), ("", "are")]),
    (entry("model_change", provider="p", modelId="m"), Kind.RECORD, []),
    (entry("thinking_level_change", thinkingLevel="high"), Kind.RECORD, []),
    (entry("custom", customType="ext", data={"x": 1}), Kind.RECORD, []),
    (entry("session_info", name="x"), Kind.RECORD, []),
    ({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/"}, Kind.RECORD, []),
    ({"type": "session", "id": "s", "systemPrompt": "You are"}, Kind.SYSTEM, [("", "You are")]),
    (entry("telepathy", level=3), Kind.NOTE, [("record", '{\n  "level": 3\n}')]),
]


@pytest.mark.parametrize(("record", "kind", "blocks"), RECORDS)
def test_what_a_line_says(record: dict[str, object], kind: Kind, blocks: list[tuple[str, str | None]]) -> None:
    event = see(record)
    assert event.kind is kind
    if record.get("message", {}).get("role") != "telepathy":  # type: ignore[attr-defined]
        assert texts(event) == blocks
    assert event.native == record


def test_a_title_and_damaged_lines() -> None:
    assert see(slot("Fix")).kind is Kind.RECORD
    assert texts(see(b'{"type":"message","mess')) == [("", '{"type":"message","mess')]
    assert see(b"[1]").kind is Kind.NOTE


def test_the_tree_is_told_by_ids() -> None:
    earlier = Earlier()
    assert see({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/"}, earlier).defines == ()
    assert see(entry("model_change", "a"), earlier).parent == 0
    assert see(entry("custom", "b", "a"), earlier).parent == 0
    assert see(entry("custom", "c", "a"), earlier).parent == 2
    assert see(entry("custom", "d", "gone"), earlier).parent == -1
    assert see(entry("custom", "e", None), earlier).parent == -1
    assert see({"type": "message", "message": {"role": "user", "content": "v1"}}, earlier).parent == 0


def test_calls_and_their_results() -> None:
    earlier = Earlier()
    event = see(assistant(call("read", "t1", path="a"), call("bash", "t2")), earlier)
    assert (event.tool, event.header["id"], event.header["tool_2"], event.header["id_2"]) == (
        "read",
        "t1",
        "bash",
        "t2",
    )
    assert see(result(text("x")), earlier).tool == "read"
    assert see(result(text("x"))).tool == "bash"
    whole = see(result(text("x"), details={"meta": {"truncation": {"artifactId": "3"}}, "fullOutputPath": "/tmp/a"}))
    assert (whole.header["artifact"], whole.header["full_output"]) == ("artifact://3", "/tmp/a")


def test_time_falls_back_to_that_of_the_message() -> None:
    record = said("user", "hi")
    del record["timestamp"]
    event = see(record)
    assert event.time_ms == 1768882500614
    edited = LENS.edit(payload(record), EventEdit((), (FieldEdit("timestamp", "2026-01-20T04:15:01.000Z"),)), Earlier())
    assert see(edited).time_ms == 1768882501000


def test_images_are_in_the_line_or_referred_to() -> None:
    inline = see(said("user", [text("Look"), IMAGE]))
    referred = {**IMAGE, "data": REFERENCE}
    elsewhere = see(said("user", [text("Look"), referred]), Earlier({DIGEST: PNG}))
    for event in (inline, elsewhere):
        assert event.blocks[1].data == PNG
        assert event.resources[0].content == PNG
        assert event.resources[0].uri == "attachment:a1b2c3d4/image-1.png"


def test_an_image_is_replaced_in_the_line() -> None:
    for data in (IMAGE["data"], REFERENCE):
        record = payload(said("user", [{**IMAGE, "data": data}]))
        edited = LENS.edit_resource(record, 0, b"GIF89a", Earlier({DIGEST: PNG}))
        assert edited == record.replace(data.encode(), base64.b64encode(b"GIF89a"))


@pytest.mark.parametrize("data", [REFERENCE, "blob:sha256:12", "ZmFrZQ==\n\n" + CUT, "no base64!"])
def test_images_that_cannot_be_had_leave_what_stands_for_them(data: str) -> None:
    event = see(said("user", [{**IMAGE, "data": data}]))
    assert texts(event) == [("image", data)] or event.blocks[0].data is not None
    assert (event.header.get("truncated") is True) == data.endswith(CUT)
    assert (event.header.get("missing") is True) == data.startswith("blob:")


def test_what_the_program_cut_says_so() -> None:
    assert see(result(text("long\n\n" + CUT))).header["truncated"] is True
    assert "truncated" not in see(result(text(CUT + " is what it writes"))).header
    record = payload(result(text("long\n\n" + CUT)))
    with pytest.raises(UsageError, match="cannot be changed"):
        LENS.edit(record, EventEdit((), (FieldEdit("truncated", False),)), Earlier())


def test_transient_members_are_hidden_and_stay() -> None:
    record = assistant({**call("bash", command="ls"), "partialJson": '{"comm'})
    event = see(record)
    assert "partialJson" not in json.dumps(event.native)
    assert all("comm" not in (block.text or "").replace("command", "") for block in event.blocks)
    event = see(result(text("x"), details={"results": [{"jsonlEvents": ["{}"], "output": "x"}]}))
    assert "jsonlEvents" not in json.dumps(event.native)
    new = json.loads(json.dumps(see(record).native))
    new["message"]["content"][0]["arguments"]["command"] = "pwd"
    edited = LENS.revise(payload(record), see(record).native, new, Earlier())
    assert edited == payload(record).replace(b'"ls"', b'"pwd"')


def test_a_new_title_keeps_the_size_of_its_place() -> None:
    old = see(slot("Fix the login"))
    for title in ("Fix", "Behebe das Anmelden für alle 😀", 'a "quoted" one'):
        new = {**json.loads(slot("Fix the login")), "title": title}
        edited = LENS.revise(slot("Fix the login"), old.native, new, Earlier())
        assert len(edited) == SLOT_BYTES - 1
        assert json.loads(edited)["title"] == title
    with pytest.raises(UsageError, match="shorten"):
        LENS.revise(slot("Fix"), see(slot("Fix")).native, {**json.loads(slot("Fix")), "title": "x" * 200}, Earlier())


def test_a_copy_of_a_result_is_edited_too() -> None:
    long = "The quick brown fox jumps\nover the lazy dog"
    record = payload(
        result(text(long), details={"output": long, "note": "ok", "results": [{"text": "Error: " + long}]})
    )
    edited = LENS.edit(record, edit_of(see(record).blocks[0], "no fox"), Earlier())
    assert changed_paths(record, edited) == {
        ("message", "content", 0, "text"),
        ("message", "details", "output"),
        ("message", "details", "results", 0, "text"),
    }
    short = payload(result(text("ok"), details={"note": "ok"}))
    edited = LENS.edit(short, edit_of(see(short).blocks[0], "well"), Earlier())
    assert changed_paths(short, edited) == {("message", "content", 0, "text")}


@pytest.mark.parametrize("kind", [Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.SUMMARY, Kind.NOTE])
def test_what_is_composed_says_what_was_written(kind: Kind) -> None:
    previous = payload(assistant(text("Done."), api="anthropic-messages", provider="anthropic"))
    composed = LENS.compose(kind, "So\nbe it", previous, 1768882500614)
    earlier = Earlier()
    see(previous, earlier)
    event = see(composed, earlier)
    assert (event.kind, texts(event), event.parent) == (kind, [("", "So\nbe it")], 0)
    assert event.time_ms == 1768882500614
    line = json.loads(composed)
    assert line["parentId"] == "a1b2c3d4"
    assert len(line["id"]) == 8
    if kind is Kind.ASSISTANT:
        assert (line["message"]["provider"], line["message"]["model"]) == ("anthropic", "opus")


def test_lines_of_version_1_get_no_ids() -> None:
    for previous in ({"type": "session", "id": "s", "cwd": "/"}, {"type": "message", "message": {"role": "user"}}):
        assert "id" not in json.loads(LENS.compose(Kind.USER, "hi", payload(previous), 1))
    header: dict[str, object] = {"type": "session", "version": 3, "id": "s", "cwd": "/"}
    line = json.loads(LENS.compose(Kind.USER, "hi", payload(header), 1))
    assert line["parentId"] is None
    for kind in (Kind.TOOL_CALL, Kind.NOTE):
        with pytest.raises(UsageError):
            LENS.compose(kind, "x", payload(header), 1)


@given(mutated([record for record, _, _ in RECORDS]))
def test_no_damage_makes_a_line_unreadable(damaged: bytes) -> None:
    see(damaged)

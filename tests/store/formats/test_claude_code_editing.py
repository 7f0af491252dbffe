import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import BlockEdit, EventEdit, FieldEdit, Kind, ValuePath
from store.formats.claude_code.lens import ClaudeCodeLens
from store.formats.claude_code.session import ClaudeCode
from store.formats.core.json_view import decode
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import changed_paths, check_text_edit, edit_of, made_or_refused
from tests.store.formats.mutations import mutated

LENS = ClaudeCodeLens()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
ANY = st.text(st.characters(), max_size=8)


def line(what: str, **more: object) -> dict[str, object]:
    common = {"parentUuid": "u0", "isSidechain": False, "type": what, "uuid": "u1"}
    return {**common, **more, "timestamp": "2026-03-05T19:31:54.356Z"}


def said(what: str, *content: object) -> dict[str, object]:
    return line(what, message={"role": what, "model": "m", "content": list(content)})


def result(content: object, copy: object, **more: object) -> dict[str, object]:
    answered = {"tool_use_id": "t1", "type": "tool_result", "content": content, **more}
    return line("user", message={"role": "user", "content": [answered]}, toolUseResult=copy)


RECORDS: list[dict[str, object]] = [
    line("user", message={"role": "user", "content": "Why?"}),
    said("user", {"type": "text", "text": "Look:"}, {"type": "text", "text": "<ide_selection>x</ide_selection>"}),
    said("user", {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}}),
    said("user", {"type": "file", "file": {"filePath": "/a.py", "content": "x = 1\n"}}),
    said("assistant", {"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "So."}),
    said(
        "assistant",
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "a\nb", "timeout": 1.50}},
        {
            "type": "tool_use",
            "id": "t2",
            "name": "Edit",
            "input": {"edits": [{"old": "a\n", "new": "b"}, {"old": 1}]},
        },
    ),
    result("out", {"stdout": "out", "stderr": "", "interrupted": False}, is_error=False),
    result([{"type": "text", "text": "one"}, {"type": "text", "text": "one"}], {"content": [{"text": "one"}]}),
    result({"odd": "as\nit is"}, None),
    line("system", subtype="local_command", content="<local-command-stdout>x</local-command-stdout>", level="warning"),
    line("system", subtype="odd", note={"a": ["b\nc"]}),
    line("attachment", attachment={"type": "hook_success", "hookName": "h", "content": "c", "stdout": "c\n"}),
    line("attachment", attachment={"type": "file", "content": {"file": {"filePath": "/a", "content": "b"}}}),
    line("attachment", attachment={"type": "skill_listing", "content": ["p", "q"], "names": ["r\n"]}),
    {"type": "summary", "summary": "All of it", "leafUuid": "u9"},
    line("newer", thing={"deep": ["x\ny"]}, message={"content": "odd"}),
]


def shown_at(payload: bytes, path: ValuePath) -> object:
    decoded = decode(payload)
    assert decoded is not None
    value = decoded.value
    for step in path:
        value = value[step]  # type: ignore[index]
    return value


def edit_field(record: dict[str, object], key: str, value: str | float | bool) -> bytes:
    return LENS.edit(json.dumps(record).encode(), EventEdit(fields=(FieldEdit(key, value),)), Earlier())


@pytest.mark.parametrize("ascii_", [True, False])
@given(st.sampled_from(RECORDS), TEXTS)
def test_any_text_can_be_written(ascii_: bool, record: dict[str, object], text: str) -> None:
    payload = json.dumps(record, ensure_ascii=ascii_).encode()
    event = LENS.view(payload, Earlier())
    for block in event.blocks:
        if block.type == "json":
            continue
        edited = made_or_refused(lambda block=block: LENS.edit(payload, edit_of(block, text), Earlier()))
        if isinstance(edited, str):
            assert not text.strip()
            continue
        assert shown_at(edited, block.path) == text
        now = LENS.view(edited, Earlier())
        shown = {one.path: one.text for one in now.blocks if one.type != "json"}
        if block.path in shown:
            assert shown[block.path] == text
        else:
            # a text that needs no block of its own any more is in the JSON
            assert any(one.type == "json" and one.path == block.path[: len(one.path)] for one in now.blocks)
        if text != block.text:
            assert block.path in changed_paths(payload, edited)


def test_what_an_edit_leaves_is_what_it_was() -> None:
    for record in RECORDS:
        payload = json.dumps(record).encode()
        event = LENS.view(payload, Earlier())
        for at, block in enumerate(event.blocks):
            if block.type != "json" and block.name != "ide_selection":
                check_text_edit(LENS, payload, Earlier(), event, at, "other\n")


@given(mutated(RECORDS), ANY, ANY)
def test_an_edit_of_odd_records_is_made_or_refused(payload: bytes, text: str, value: str) -> None:
    event = LENS.view(payload, Earlier())
    for block in event.blocks:
        if block.text is None:
            continue
        edited = made_or_refused(lambda block=block: LENS.edit(payload, edit_of(block, text), Earlier()))
        if isinstance(edited, bytes) and block.type != "json" and block.path:
            assert shown_at(edited, block.path) == text
    for key in ("tool", "is_error", "id_2", "model", "hook", *event.header):
        for new in (value, True, 1.5):
            change = EventEdit(fields=(FieldEdit(key, new),))
            made_or_refused(lambda change=change: LENS.edit(payload, change, Earlier()))
    content = text.encode("utf-8", "replace")
    for index in range(len(event.resources)):
        edited = made_or_refused(lambda index=index: LENS.edit_resource(payload, index, content, Earlier()))
        if isinstance(edited, bytes):
            assert LENS.view(edited, Earlier()).resources[index].content == content.decode()


@pytest.mark.parametrize("text", ["\ud800", "fine\udc00"])
def test_half_a_character_is_refused(text: str) -> None:
    for record in RECORDS:
        payload = json.dumps(record).encode()
        for block in LENS.view(payload, Earlier()).blocks:
            if block.type != "json":
                with pytest.raises(UsageError, match="Unicode"):
                    LENS.edit(payload, edit_of(block, text), Earlier())


def test_a_text_that_the_record_holds_damaged_is_only_read() -> None:
    payload = json.dumps(said("user", {"type": "text", "text": "a\ud800"}, {"type": "text", "text": "b"})).encode()
    damaged, whole = LENS.view(payload, Earlier()).blocks
    with pytest.raises(UsageError, match="only be read"):
        LENS.edit(payload, edit_of(damaged, "c"), Earlier())
    assert LENS.edit(payload, edit_of(whole, "c"), Earlier()) == payload.replace(b'"b"', b'"c"')


def test_a_text_can_be_emptied_where_that_still_is_an_event() -> None:
    payload = json.dumps(RECORDS[0]).encode()
    emptied = LENS.edit(payload, edit_of(LENS.view(payload, Earlier()).blocks[0], ""), Earlier())
    assert [block.text for block in LENS.view(emptied, Earlier()).blocks] == [""]
    # thinking without a text is that which the model keeps to itself
    thought = {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": "Hm."}]}}
    payload = json.dumps(thought).encode()
    with pytest.raises(UsageError, match="delete its file"):
        LENS.edit(payload, edit_of(LENS.view(payload, Earlier()).blocks[0], ""), Earlier())


def test_several_edits_at_once() -> None:
    payload = json.dumps(RECORDS[5]).encode()
    event = LENS.view(payload, Earlier())
    document, command, other, old = event.blocks
    assert (document.name, command.name) == ("arguments", "arguments.command")
    assert (other.type, old.name) == ("json", "call2.arguments.edits[0].old")
    edits = (
        BlockEdit(document.path, '{"timeout": 1.5, "also": [true]}', document.name, "json"),
        BlockEdit(command.path, "c\nd", command.name),
        BlockEdit(other.path, '{"edits": [{"old": {"$block": "' + old.name + '"}, "new": "b"}]}', other.name, "json"),
        BlockEdit(old.path, "A\n", old.name),
    )
    edited = LENS.edit(payload, EventEdit(edits, (FieldEdit("tool", "Sh"), FieldEdit("id_2", "x"))), Earlier())
    expected = payload.replace(b'"a\\nb"', b'"c\\nd"').replace(b"1.5}", b'1.5, "also": [true]}')
    expected = expected.replace(b'"a\\n"', b'"A\\n"').replace(b', {"old": 1}', b"")
    assert edited == expected.replace(b'"Bash"', b'"Sh"').replace(b'"t2"', b'"x"')


@pytest.mark.parametrize(
    ("record", "key", "value", "path"),
    [
        (RECORDS[6], "is_error", True, ("message", "content", 0, "is_error")),
        (RECORDS[6], "id", "t9", ("message", "content", 0, "tool_use_id")),
        (RECORDS[5], "tool_2", "Write", ("message", "content", 1, "name")),
        (RECORDS[4], "model", "m2", ("message", "model")),
        (RECORDS[9], "level", "error", ("level",)),
        (RECORDS[11], "hook", "h2", ("attachment", "hookName")),
        (RECORDS[14], "leaf", "u8", ("leafUuid",)),
        (RECORDS[0], "timestamp", "2027-01-01T00:00:00.000Z", ("timestamp",)),
    ],
)
def test_fields(record: dict[str, object], key: str, value: str | bool, path: tuple[str | int, ...]) -> None:
    payload = json.dumps(record).encode()
    assert changed_paths(payload, edit_field(record, key, value)) == {path}


def test_an_error_is_told_where_nothing_was() -> None:
    edited = edit_field(RECORDS[7], "is_error", True)
    assert edited == json.dumps(RECORDS[7]).encode().replace(b'"one"}]}]', b'"one"}], "is_error": true}]')
    assert edit_field(RECORDS[7], "is_error", False) == json.dumps(RECORDS[7]).encode()


@pytest.mark.parametrize(
    ("record", "key", "value", "told"),
    [
        (RECORDS[6], "tool", "Bash", "call's file"),
        (RECORDS[6], "is_error", "yes", "true or false"),
        (RECORDS[6], "model", "m", "nothing that this record holds"),
        (RECORDS[4], "model", 4, "double quotes"),
        (RECORDS[4], "model", "\ud800", "Unicode"),
        (RECORDS[4], "stop_reason", "length", "has no 'stop_reason'"),
        (RECORDS[0], "timestamp", "yesterday", "2026-"),
        (RECORDS[0], "type", "assistant", "nothing"),
        (RECORDS[9], "subtype", "turn_duration", "what the record is"),
        (RECORDS[0], "event", 9, "nothing"),
    ],
)
def test_fields_that_cannot_be(record: dict[str, object], key: str, value: str | int, told: str) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        edit_field(record, key, value)
    assert "\n" not in str(refused.value)


def test_of_two_alike_each_has_its_twin() -> None:
    texts = [{"type": "text", "text": "same"}, {"type": "text", "text": "same"}]
    payload = json.dumps(result(texts, {"content": texts})).encode()
    event = LENS.view(payload, Earlier())
    edited = LENS.edit(payload, edit_of(event.blocks[1], "new"), Earlier())
    place = ("message", "content", 0, "content", 1, "text")
    assert changed_paths(payload, edited) == {place, ("toolUseResult", "content", 1, "text")}
    # one copy of two: nobody knows whose it is
    payload = json.dumps(result(texts, {"content": texts[:1]})).encode()
    assert changed_paths(payload, LENS.edit(payload, edit_of(event.blocks[1], "new"), Earlier())) == {place}


def test_what_is_only_alike_by_chance_stays() -> None:
    payload = json.dumps(result("text", {"type": "text", "status": "text", "stdout": "text\n", "stderr": ""})).encode()
    event = LENS.view(payload, Earlier())
    edited = LENS.edit(payload, edit_of(event.blocks[0], "new"), Earlier())
    assert changed_paths(payload, edited) == {event.blocks[0].path, ("toolUseResult", "stdout")}
    # an output of nothing is filled on one stream
    payload = json.dumps(result("", {"stdout": "", "stderr": ""})).encode()
    edited = LENS.edit(payload, edit_of(LENS.view(payload, Earlier()).blocks[0], "new"), Earlier())
    assert changed_paths(payload, edited) == {event.blocks[0].path, ("toolUseResult", "stdout")}


def test_a_damaged_line_can_be_mended() -> None:
    payload = b'{"type":"user","message":{"content":"cut o'
    block = LENS.view(payload, Earlier()).blocks[0]
    mended = b'{"type":"user","message":{"content":"cut off"}}'
    assert LENS.edit(payload, edit_of(block, mended.decode()), Earlier()) == mended
    with pytest.raises(UsageError, match="one line"):
        LENS.edit(payload, edit_of(block, "two\nlines"), Earlier())
    bad = b"\xff cut o"
    with pytest.raises(UsageError, match="no valid text"):
        LENS.edit(bad, edit_of(LENS.view(bad, Earlier()).blocks[0], "x"), Earlier())


def test_a_resource_that_is_no_text_stays_base64() -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG").decode()},
    }
    payload = json.dumps(said("user", image)).encode()
    for content in (b"\x89PNG2", b"text", b""):
        edited = LENS.edit_resource(payload, 0, content, Earlier())
        assert edited == payload.replace(base64.b64encode(b"\x89PNG"), base64.b64encode(content))
    payload = json.dumps(RECORDS[3]).encode()
    with pytest.raises(UsageError, match="UTF-8"):
        LENS.edit_resource(payload, 0, b"\xff", Earlier())
    with pytest.raises(UsageError, match="no resource 1"):
        LENS.edit_resource(payload, 1, b"", Earlier())
    assert LENS.edit_resource(payload, 0, b"y\n", Earlier()) == payload.replace(b"x = 1", b"y")


# -- composing ---------------------------------------------------------------------------------------------------------

PREVIOUS = json.dumps(
    {
        **line("assistant", message={"content": [{"type": "text", "text": "So."}]}),
        "cwd": "/é",
        "sessionId": "s",
        "version": "2.1.0",
        "gitBranch": "main",
    }
).encode()


@given(TEXTS.filter(bool), st.sampled_from([Kind.USER, Kind.ASSISTANT, Kind.NOTE, Kind.SUMMARY, Kind.SYSTEM]))
def test_a_new_line_says_what_was_written(text: str, kind: Kind) -> None:
    composed = LENS.compose(kind, text, PREVIOUS, 1_772_739_114_356)
    assert b"\n" not in composed
    event = LENS.view(composed, Earlier())
    if event.kind is not Kind.RECORD:
        assert [block.text for block in event.blocks] == [text]


@pytest.mark.parametrize("kind", [Kind.USER, Kind.ASSISTANT, Kind.NOTE, Kind.SYSTEM])
def test_a_new_line_goes_on_where_the_last_ended(kind: Kind) -> None:
    earlier = Earlier()
    earlier.add(LENS.view(PREVIOUS, earlier))
    payload = LENS.compose(kind, "Well?", PREVIOUS, 1_772_739_114_356)
    event = LENS.view(payload, earlier)
    assert (event.kind, event.parent, event.time_ms) == (kind, 0, 1_772_739_114_356)
    decoded = decode(payload)
    assert decoded is not None
    assert isinstance(decoded.value, dict)
    held = decoded.value
    assert held["parentUuid"] == "u1"
    assert held["uuid"] not in ("u1", "u0")
    assert held["timestamp"] == "2026-03-05T19:31:54.356Z"
    assert [held[key] for key in ("cwd", "sessionId", "version", "gitBranch")] == ["/é", "s", "2.1.0", "main"]
    assert held["isSidechain"] is False


def test_the_first_line_and_lines_that_end_in_a_carriage_return() -> None:
    first = json.loads(LENS.compose(Kind.USER, "Hello", None, 0))
    assert first["parentUuid"] is None
    assert first["sessionId"]
    after_summary = json.loads(LENS.compose(Kind.USER, "Hello", b'{"type":"summary","summary":"s","leafUuid":"l"}', 0))
    assert after_summary["parentUuid"] == "l"
    assert LENS.compose(Kind.USER, "Hello", PREVIOUS + b"\r", 0).endswith(b"}\r")
    assert LENS.compose(Kind.USER, "Hello", b"damaged", 0).startswith(b'{"parentUuid":null,')


@pytest.mark.parametrize("kind", [Kind.QUESTION, Kind.ANSWER, Kind.RECORD])
def test_what_only_the_program_writes(kind: Kind) -> None:
    with pytest.raises(UsageError, match="write user"):
        LENS.compose(kind, "x", PREVIOUS, 0)


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        LENS.compose(Kind.USER, text, PREVIOUS, 0)


# -- taking out --------------------------------------------------------------------------------------------------------


def chain(*records: dict[str, object]) -> list[bytes]:
    """Return lines of which each follows the one before it, with keys 0, 1, 2 …"""
    linked = [
        {**record, "uuid": str(at), "parentUuid": str(at - 1) if at else None} for at, record in enumerate(records)
    ]
    return [json.dumps(record, separators=(",", ":")).encode() for record in linked]


def parents(records: list[bytes]) -> list[tuple[str, str | None]]:
    return [(held["uuid"], held["parentUuid"]) for held in map(json.loads, records)]


def call(*ids: str, text: str = "") -> dict[str, object]:
    spoken = [{"type": "text", "text": text}] if text else []
    return said("assistant", *spoken, *({"type": "tool_use", "id": one, "name": "x", "input": {}} for one in ids))


def answer(*ids: str) -> dict[str, object]:
    return said("user", *({"type": "tool_result", "tool_use_id": one, "content": "y"} for one in ids))


def test_what_followed_a_deleted_line_follows_the_one_before_it() -> None:
    records = chain(*RECORDS[:5])
    left = ClaudeCode().without(records, {1, 2})
    assert parents(left) == [("0", None), ("3", "0"), ("4", "3")]
    assert left[1] == records[3].replace(b'"parentUuid":"2"', b'"parentUuid":"0"')
    assert [left[0], left[2]] == [records[0], records[4]]
    assert parents(ClaudeCode().without(records, {0, 1})) == [("2", None), ("3", "2"), ("4", "3")]


def test_other_pointers_follow_too() -> None:
    records = [*chain(*RECORDS[:3]), b'{"type":"last-prompt","leafUuid":"2"}', b"damaged"]
    assert ClaudeCode().without(records, {2})[2:] == [b'{"type":"last-prompt","leafUuid":"1"}', b"damaged"]


def test_a_key_that_stays_on_another_line_is_no_loss() -> None:
    records = chain(*RECORDS[:3])
    assert ClaudeCode().without([records[0], *records], {0}) == records
    circle = [b'{"uuid":"a","parentUuid":"b"}', b'{"uuid":"b","parentUuid":"a"}', b'{"uuid":"c","parentUuid":"a"}']
    assert ClaudeCode().without(circle, {0, 1}) == [b'{"uuid":"c","parentUuid":null}']


@pytest.mark.parametrize("deleted", [{1}, {2}, {1, 2}])
def test_a_call_and_its_result_go_together(deleted: set[int]) -> None:
    records = chain(RECORDS[0], call("a"), answer("a"), RECORDS[4])
    assert parents(ClaudeCode().without(records, deleted)) == [("0", None), ("3", "0")]


def test_what_else_such_a_line_says_stays() -> None:
    records = chain(call("a", "b", text="Both:"), answer("a"), answer("b"))
    left = ClaudeCode().without(records, {1})
    assert parents(left) == [("0", None), ("2", "0")]
    gone = b',{"type":"tool_use","id":"a","name":"x","input":{}}'
    assert left[0] == records[0].replace(gone, b"")
    # the other way round: one line with two results
    records = chain(call("a"), call("b"), answer("a", "b"))
    assert parents(ClaudeCode().without(records, {0})) == [("1", None), ("2", "1")]
    assert b'"tool_use_id":"a"' not in ClaudeCode().without(records, {0})[1]


def test_a_call_that_never_had_a_result_stays() -> None:
    records = chain(RECORDS[0], call("a"), RECORDS[4])
    assert parents(ClaudeCode().without(records, {2})) == [("0", None), ("1", "0")]


@given(st.lists(mutated([*RECORDS, call("a", "t1"), answer("t1", "a")]), max_size=6), st.sets(st.integers(0, 7)))
def test_odd_lines_are_taken_out_too(records: list[bytes], deleted: set[int]) -> None:
    left = ClaudeCode().without(records, deleted)
    assert len(left) <= len([at for at in range(len(records)) if at not in deleted])
    assert all(decode(record) for record in left)
    assert ClaudeCode().without(left, set()) == left

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind
from store.formats.api_messages import ApiMessageLens
from tests.store.formats.chat_records import ANSWERS, IMAGE, MESSAGES, PNG, Shown, chat
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import check_text_edit, edit_of, made_or_refused
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

LENS = ApiMessageLens()
RECORDS = [record for record, *_ in (*MESSAGES, *ANSWERS)]


def earlier() -> Earlier:
    known = Earlier()
    known.add(Event(Kind.TOOL_CALL, "Read", defines=(("t1", "Read"), ("t2", "sh"))))
    return known


@pytest.mark.parametrize("shown", [*MESSAGES, *ANSWERS], ids=str)
def test_what_is_seen_of_a_record(shown: Shown) -> None:
    record, kind, tool, contents = shown
    event = LENS.view(json.dumps(record).encode(), earlier())
    check(event)
    assert (event.kind, event.tool) == (kind, tool)
    assert [block.text if block.text is not None else block.data for block in event.blocks] == contents


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_every_text_can_be_edited_alone(record: dict[str, object]) -> None:
    payload = json.dumps(record, indent=2).encode()
    event = LENS.view(payload, earlier())
    for at, block in enumerate(event.blocks):
        if block.type == "text":
            check_text_edit(LENS, payload, earlier(), event, at, 'Other "text" → é\nand more')
        if block.text is not None:
            assert LENS.edit(payload, edit_of(block, block.text), earlier()) == payload


def test_arguments_in_a_string_are_edited_where_they_stand() -> None:
    call = {"id": "t", "type": "function", "function": {"name": "f", "arguments": '{"a":1, "b": "x\\ny"}'}}
    payload = json.dumps({"role": "assistant", "tool_calls": [call]}).encode()
    event = LENS.view(payload, Earlier())
    document, text = event.blocks
    edited = LENS.edit(payload, edit_of(text, "z"), Earlier())
    assert edited == payload.replace(b"x\\\\ny", b"z")
    edited = LENS.edit(payload, edit_of(document, '{\n  "a": 2\n}'), Earlier())
    assert edited == payload.replace(b'\\"a\\":1', b'\\"a\\":2')


def test_an_answer_in_base64_is_edited_within_it() -> None:
    record = next(record for record, *_ in ANSWERS if "encoding" in record)
    payload = json.dumps(record).encode()
    edited = LENS.edit(payload, edit_of(LENS.view(payload, Earlier()).blocks[0], "Not so."), Earlier())
    assert LENS.view(edited, Earlier()).blocks[0].text == "Not so."
    assert json.loads(edited) | {"data": ""} == record | {"data": ""}


def test_images_are_resources_that_can_be_replaced() -> None:
    record = next(record for record, *_ in MESSAGES if IMAGE in str(record) and "content" in record)
    payload = json.dumps(record).encode()
    resources = LENS.view(payload, Earlier()).resources
    assert [resource.content for resource in resources] == [PNG] * 4
    assert len({resource.uri for resource in resources}) == 2
    for index in range(len(resources)):
        edited = LENS.edit_resource(payload, index, b"other", Earlier())
        assert LENS.view(edited, Earlier()).resources[index].content == b"other"


def test_fields_are_edited_where_they_stand() -> None:
    record = {
        "role": "assistant",
        "model": "m",
        "stop_reason": "max_tokens",
        "content": [
            {"type": "tool_use", "id": "a", "name": "Read", "input": {}},
            {"type": "tool_use", "id": "b", "name": "Grep", "input": {}},
        ],
    }
    payload = json.dumps(record).encode()
    event = LENS.view(payload, Earlier())
    assert event.header == {"id": "a", "tool_2": "Grep", "id_2": "b", "model": "m", "stop_reason": "max_tokens"}
    for key in ("tool", "id", "tool_2", "id_2", "model", "stop_reason"):
        edited = LENS.view(LENS.edit(payload, EventEdit(fields=(FieldEdit(key, "new"),)), Earlier()), Earlier())
        assert (edited.tool if key == "tool" else edited.header[key]) == "new"
    result = b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}'
    failed = LENS.edit(result, EventEdit(fields=(FieldEdit("is_error", True),)), Earlier())
    assert failed == result.replace(b'"x"}', b'"x","is_error":true}')
    with pytest.raises(UsageError, match="that of its call"):
        LENS.edit(result, EventEdit(fields=(FieldEdit("tool", "Read"),)), Earlier())


@pytest.mark.parametrize(("payload", "text"), [(b'"Be brief."', "Be brief."), (b'[{"type":"text","text":"Be"}]', "Be")])
def test_a_system_prompt_is_a_record_of_its_own(payload: bytes, text: str) -> None:
    event = LENS.view(payload, Earlier())
    assert (event.kind, event.blocks[0].text) == (Kind.SYSTEM, text)
    assert LENS.edit(payload, edit_of(event.blocks[0], "Go → on"), Earlier()) == payload.replace(
        text.encode(), "Go → on".encode()
    )
    with pytest.raises(UsageError, match="empty"):
        LENS.edit(payload, edit_of(event.blocks[0], ""), Earlier())


@pytest.mark.parametrize(
    ("kind", "previous", "expected"),
    [
        (Kind.USER, None, {"role": "user", "content": "Go"}),
        (Kind.SYSTEM, b'{"role": "user", "content": "x"}', {"role": "system", "content": "Go"}),
        (Kind.ASSISTANT, b'{"role":"user","parts":[]}', {"role": "model", "parts": [{"text": "Go"}]}),
    ],
)
def test_messages_are_written_as_those_before(kind: Kind, previous: bytes | None, expected: object) -> None:
    written = LENS.compose(kind, "Go", previous, 0)
    assert json.loads(written) == expected
    assert previous is None or (b": " in written) == (b": " in previous)
    assert LENS.view(written, Earlier()).kind is kind


@pytest.mark.parametrize("last", [chat("So."), {"role": "assistant", "content": "x", "usage": {}}, "system", ["a"]])
def test_nothing_is_written_after_what_is_no_message_of_a_request(last: object) -> None:
    with pytest.raises(UsageError, match="last"):
        LENS.compose(Kind.USER, "Go", json.dumps(last).encode(), 0)


@given(mutated(RECORDS), st.text(max_size=8))
def test_no_record_makes_the_lens_fail(payload: bytes, text: str) -> None:
    event = LENS.view(payload, earlier())
    check(event)
    for block in event.blocks:
        if block.text is not None:
            made_or_refused(lambda block=block: LENS.edit(payload, edit_of(block, text), earlier()))  # type: ignore[misc]

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgpack import packb, unpackb

from store.disk.turn_format import Encoding
from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind
from store.formats.core.msgpack_view import decode
from store.formats.cxdb import CONVERSATION_ITEM
from store.formats.registry import lens_for
from tests.store.formats.conversation_items import (
    CALL,
    FAILED,
    NOON,
    TALK,
    TYPE,
    filled,
    in_integers,
    in_texts,
    item,
    numbered,
    turn,
    user,
)
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of
from tests.store.formats.msgpack_values import DOCUMENTS, TEXTS, locate, packed

LENS = lens_for(TYPE, Encoding.MSGPACK)
Pack = Callable[[object], bytes]


@pytest.fixture(params=[in_integers, in_texts], ids=["integers", "texts"])
def pack(request: pytest.FixtureRequest) -> Pack:
    """Return one of the ways in which clients number fields."""
    found: Pack = request.param
    return found


def talk(pack: Pack) -> list[Event]:
    before = Earlier()
    return [before.add(LENS.view(pack(said), before)) for said in TALK]


def test_what_is_shown_of_a_conversation(pack: Pack) -> None:
    events = talk(pack)
    assert [(event.kind, event.tool) for event in events] == [
        (Kind.USER, ""),
        (Kind.ASSISTANT, "bash"),
        (Kind.SYSTEM, ""),
        (Kind.NOTE, ""),
        (Kind.TOOL_CALL, "grep"),
        (Kind.TOOL_RESULT, "grep"),
        (Kind.ASSISTANT, ""),
    ]
    assert [event.time_ms for event in events] == [NOON + 1000 * second for second in range(1, 8)]
    assert [event.header for event in events] == [
        {"item": "item-1", "conversation": "A talk", "client": "cxtx", "labels": "a, b"},
        {
            "id": "call_1",
            "is_error": False,
            "exit_code": 0,
            "tool_2": "read",
            "id_2": "call_2",
            "status_2": "error",
            "description_2": "Read the file",
            "is_error_2": True,
            "exit_code_2": 2,
            "agent": "main",
            "model": "model-1",
            "stop_reason": "length",
        },
        {"level": "warning", "title": "rewind"},
        {"record": "handoff", "from": "a", "to": "b", "through": "go"},
        {"id": "call_3"},
        {"id": "call_3", "is_error": False, "exit_code": 1},
        {"model": "model-2"},
    ]
    assert [[(block.type, block.name, block.text) for block in event.blocks] for event in events] == [
        [("text", "", "Hello there")],
        [
            ("text", "thinking", "What is there?"),
            ("text", "", "I look.\nNow."),
            ("json", "arguments", '{\n  "timeout": 50\n}'),
            ("text", "arguments.command", "ls\n-l"),
            ("text", "result", "a.txt\nb.txt"),
            ("text", "call2.arguments", "not json"),
            ("text", "call2.output", "reading"),
            ("text", "call2.error", "no such file"),
        ],
        [("text", "", "History was rewritten")],
        [("text", "input", "do it")],
        [("json", "arguments", '{\n  "q": "x"\n}')],
        [("text", "", "found")],
        [("text", "thinking", "All is well"), ("text", "", "Done")],
    ]


def test_what_a_record_says_has_the_names_of_the_type() -> None:
    assert [event.native for event in talk(in_integers)] == TALK
    native = LENS.view(in_texts(TALK[0]), Earlier()).native
    assert isinstance(native, dict)
    assert native["turn"] is None
    assert native["user_input"] == {"text": "Hello there", "files": None, "synthetic": None}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (user(""), Kind.RECORD),
        (turn(""), Kind.RECORD),
        (turn("", reasoning="Why?"), Kind.REASONING),
        (turn("", reasoning="Why?", tool_calls=[CALL]), Kind.TOOL_CALL),
        (item("assistant", assistant={"text": ""}), Kind.RECORD),
        (item("assistant", assistant={"text": "", "reasoning": "Why?"}), Kind.REASONING),
        (item("system", system={"kind": "info", "content": ""}), Kind.RECORD),
        (item("system", system={"kind": "info", "title": "session_end", "content": ""}), Kind.SYSTEM),
        (item("what", user_input={"text": "x"}), Kind.NOTE),
        (item("user_input"), Kind.RECORD),
        (item("user_input", user_input="text"), Kind.NOTE),
        ([1, 2], Kind.NOTE),
        ("text", Kind.NOTE),
    ],
)
def test_what_an_item_is(said: object, kind: Kind) -> None:
    event = LENS.view(in_integers(said), Earlier())
    assert event.kind is kind
    assert event.blocks or kind in (Kind.RECORD, Kind.SYSTEM)


def test_files_of_a_user() -> None:
    event = LENS.view(in_integers(item("user_input", user_input={"text": "See", "files": ["a", "b"]})), Earlier())
    assert [(block.name, block.text) for block in event.blocks] == [("", "See"), ("files", '[\n  "a",\n  "b"\n]')]


@pytest.mark.parametrize("stamp", [NOON, str(NOON), -1, "x", 1 << 63, 1.5, None, True, "9" * 400])
def test_times(stamp: object) -> None:
    event = LENS.view(in_integers({**user("x"), "timestamp": stamp}), Earlier())
    assert event.time_ms == (NOON if stamp in (NOON, str(NOON)) else 0)


def test_earlier_clients_and_other_encodings() -> None:
    payload = in_texts(TALK[0])
    assert lens_for("cxdb.v3:ConversationItem", Encoding.MSGPACK).view(payload, Earlier()).kind is Kind.USER
    assert lens_for(TYPE, Encoding.JSON).view(b'{"a": 1}', Earlier()).native == {"a": 1}


@given(st.sampled_from(TALK), TEXTS, st.data())
def test_a_text_that_changes_changes_only_itself(said: object, text: str, data: st.DataObject) -> None:
    pack = data.draw(st.sampled_from([in_integers, in_texts]))
    payload, before = pack(said), Earlier()
    event = LENS.view(payload, before)
    texts = [block for block in event.blocks if block.type == "text" and block.name != "arguments.command"]
    assume(texts)
    block = data.draw(st.sampled_from(texts))
    start, end = locate(payload, block.path, CONVERSATION_ITEM)
    assert payload[start:end] == packed(block.text)
    try:
        now = LENS.edit(payload, edit_of(block, text), before)
    except UsageError:
        assert not text
        return
    assert now == payload[:start] + packed(text) + payload[end:]


def test_arguments_are_edited_within_their_text(pack: Pack) -> None:
    payload = pack(TALK[1])
    event = LENS.view(payload, Earlier())
    document, command = event.blocks[2:4]
    both = (*edit_of(document, '{"timeout": 70, "more": "x"}').blocks, *edit_of(command, 'echo "hi"').blocks)
    now = LENS.edit(payload, EventEdit(both), Earlier())
    args = '{"command":"echo \\"hi\\"","timeout":70,"more":"x"}'
    assert now == pack({**TALK[1], "turn": {**TALK[1]["turn"], "tool_calls": [{**CALL, "args": args}, FAILED]}})
    assert LENS.edit(payload, edit_of(document, '{"timeout":50}'), Earlier()) == payload
    with pytest.raises(UsageError, match="cannot be read"):
        LENS.edit(payload, edit_of(document, '{"timeout":'), Earlier())


def test_an_output_that_is_the_result_once_more_is_edited_with_it(pack: Pack) -> None:
    def result(text: str, output: str) -> bytes:
        return pack(item("tool_result", tool_result={"call_id": "c", "content": text, "streaming_output": output}))

    def called(text: str, output: str) -> bytes:
        return pack(turn("", tool_calls=[{**FAILED, "streaming_output": output, "result": {"content": text}}]))

    for made, at in ((result, 0), (called, 1)):
        payload = made("same", "same")
        block = LENS.view(payload, Earlier()).blocks[at]
        assert (block.text, LENS.view(made("a", "b"), Earlier()).blocks[at + 1].text) in (("same", "b"), ("same", "a"))
        assert LENS.edit(payload, edit_of(block, "other"), Earlier()) == made("other", "other")
        native = LENS.view(payload, Earlier()).native
        wanted = LENS.view(made("other", "same"), Earlier()).native
        assert LENS.revise(payload, native, wanted, Earlier()) == made("other", "other")


@pytest.mark.parametrize(
    ("at", "key", "value", "path"),
    [
        (1, "tool", "sh", ("turn", "tool_calls", 0, "name")),
        (1, "tool_2", "write", ("turn", "tool_calls", 1, "name")),
        (1, "model", "model-9", ("turn", "metrics", "model")),
        (1, "stop_reason", "error", ("turn", "finish_reason")),
        (2, "level", "error", ("system", "kind")),
        (4, "tool", "rg", ("tool_call", "name")),
        (5, "is_error", True, ("tool_result", "is_error")),
        (6, "model", "model-9", ("assistant", "model")),
    ],
)
def test_fields_of_the_head(pack: Pack, at: int, key: str, value: str | bool, path: tuple[str | int, ...]) -> None:
    payload, before = pack(TALK[at]), Earlier()
    start, end = locate(payload, path, CONVERSATION_ITEM)
    now = LENS.edit(payload, EventEdit((), (FieldEdit(key, value),)), before)
    assert now == payload[:start] + packed(value) + payload[end:]


def test_a_success_becomes_an_error() -> None:
    now = LENS.edit(in_integers(TALK[1]), EventEdit((), (FieldEdit("is_error", True),)), Earlier())
    assert unpackb(now, strict_map_key=False)[11][2][0][8] == {1: "a.txt\nb.txt", 3: False, 4: 0}


@pytest.mark.parametrize(
    ("at", "key", "value", "told"),
    [
        (5, "tool", "x", "in the call's file"),
        (0, "model", "x", "nothing that this record holds"),
        (0, "item", "x", "nothing that this record holds"),
        (1, "is_error_2", False, "nothing that this record holds"),
        (1, "is_error_3", False, "nothing that this record holds"),
        (5, "is_error", "yes", "true or false"),
        (6, "model", "two\nlines", "cannot be"),
    ],
)
def test_fields_that_cannot_change(at: int, key: str, value: str | bool, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        LENS.edit(in_texts(TALK[at]), EventEdit((), (FieldEdit(key, value),)), Earlier())


@pytest.mark.parametrize("kind", [Kind.USER, Kind.ASSISTANT, Kind.SYSTEM])
def test_what_a_person_adds(kind: Kind) -> None:
    for previous in (None, *map(in_integers, TALK[:2]), *map(in_texts, TALK[:2]), b"", b"\xc1"):
        event = LENS.view(payload := LENS.compose(kind, "Hällo", previous, NOON), Earlier())
        assert (event.kind, event.time_ms, event.blocks[0].text) == (kind, NOON, "Hällo")
        keys = {type(key) for key in unpackb(payload, strict_map_key=False)}
        assert keys == {int if previous is not None and previous[1:2] == b"\1" else str}
    for unfit, text in ((Kind.TOOL_CALL, "x"), (kind, ""), (kind, "\ud800")):
        with pytest.raises(UsageError):
            LENS.compose(unfit, text, None, NOON)


@given(DOCUMENTS, st.sampled_from(sorted(CONVERSATION_ITEM)), st.data())
def test_whatever_a_field_holds_is_shown_and_written_back(value: object, number: int, data: st.DataObject) -> None:
    said = data.draw(st.sampled_from(TALK))
    for whole in (numbered(said), filled(said)):
        assert isinstance(whole, dict)
        key = number if number in whole else str(number)
        whole[key] = value
        payload = packb(whole)
        event = LENS.view(payload, Earlier())
        decoded = decode(payload, CONVERSATION_ITEM)
        assert decoded is not None
        assert repr(event.native) == repr(decoded.value)
        edits = tuple(edit for block in event.blocks for edit in edit_of(block, block.text or "").blocks)
        assert LENS.edit(payload, EventEdit(edits), Earlier()) == payload

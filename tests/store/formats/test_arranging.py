"""Blocks of an event added, taken out and moved: what becomes of the bytes of its record."""

import pytest

from store.errors import UsageError
from store.events.event import BlockEdit, EventEdit, NewBlock
from store.formats.registry import lens_for
from tests.store.formats.earlier import Earlier

CLAUDE, PI, CODEX, GEMINI = "claude-code.line.v1", "pi.entry.v1", "codex.line.v1", "gemini-cli.record.v1"
USER = b'{"type":"user", "n": 1.50e+3,"message":{"role":"user","content":"caf\\u00e9"},"uuid":"u1"}'
PARTS = (
    b'{"type":"user","message":{"role":"user","content":[ {"type":"text","text":"one"}, '
    b'{"cache_control":null,"type":"text","text":"two"},{"type":"text","text":"three"} ]},"uuid":"u1"}'
)
CALL = (
    b'{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":'
    b'"tool_use","id":"t1","name":"Edit","input":{"path":"a","edits":[{"old":"a\\nb"},{"old":"c\\nd"}],"new":"e\\nf"}}'
    b']},"uuid":"u1"}'
)


def arranged(type_name: str, payload: bytes, *order: int | NewBlock, edits: tuple[BlockEdit, ...] = ()) -> bytes:
    return lens_for(type_name).edit(payload, EventEdit(edits, (), order), Earlier())


def refused(type_name: str, payload: bytes, *order: int | NewBlock) -> str:
    with pytest.raises(UsageError) as raised:
        arranged(type_name, payload, *order)
    assert str(raised.value).isprintable()
    return str(raised.value)


def added(text: str, name: str = "") -> NewBlock:
    return NewBlock("text", text, name)


def test_a_text_becomes_a_list_of_parts_in_the_style_of_its_record() -> None:
    assert arranged(CLAUDE, USER, 0, added("é")) == USER.replace(
        b'"caf\\u00e9"', b'[{"type": "text", "text": "caf\\u00e9"}, {"type": "text", "text": "\\u00e9"}]'
    )


def test_elements_keep_their_bytes_wherever_they_go() -> None:
    one, two, three = (
        b'{"type":"text","text":"one"}',
        b'{"cache_control":null,"type":"text","text":"two"}',
        b'{"type":"text","text":"three"}',
    )
    assert arranged(CLAUDE, PARTS, 1, 0, 2) == PARTS.replace(b", ".join((one, two)), b", ".join((two, one)))
    assert arranged(CLAUDE, PARTS, 0, 2) == PARTS.replace(two + b"," + three, three)
    new = b'{"type": "text", "text": "new"}'.replace(b": ", b":").replace(b", ", b",")
    assert arranged(CLAUDE, PARTS, 0, 1, added("new"), 2) == PARTS.replace(two, two + b"," + new)


def test_a_text_is_edited_as_its_element_moves() -> None:
    edit = BlockEdit(("message", "content", 0, "text"), "1")
    assert arranged(CLAUDE, PARTS, 2, 0, edits=(edit,)) == PARTS.replace(
        b'{"type":"text","text":"one"}, {"cache_control":null,"type":"text","text":"two"},'
        b'{"type":"text","text":"three"}',
        b'{"type":"text","text":"three"}, {"type":"text","text":"1"}',
    )


def test_a_call_goes_with_its_arguments_and_stays_where_it_is_all() -> None:
    assert lens_for(CLAUDE).view(CALL, Earlier()).blocks[1].name == "arguments"
    assert arranged(CLAUDE, CALL, 0) == CALL[: CALL.index(b',{"type":"tool_use"')] + b']},"uuid":"u1"}'
    alone = CALL.replace(b'{"type":"text","text":"I look."},', b"")
    assert arranged(CLAUDE, alone) == alone.replace(
        b'{"path":"a","edits":[{"old":"a\\nb"},{"old":"c\\nd"}],"new":"e\\nf"}', b"{}"
    )


def test_an_argument_is_added_taken_out_and_moved() -> None:
    shown = [block.name for block in lens_for(CLAUDE).view(CALL, Earlier()).blocks]
    assert shown == ["", "arguments", "arguments.edits[0].old", "arguments.edits[1].old", "arguments.new"]
    more = arranged(CLAUDE, CALL, 0, 1, 2, 3, 4, added("x\ny", "arguments.more"))
    assert more == CALL.replace(b'"new":"e\\nf"', b'"new":"e\\nf","more":"x\\ny"')
    assert arranged(CLAUDE, CALL, 0, 1, 2, 3) == CALL.replace(b',"new":"e\\nf"', b"")
    # the place that stood for it in the JSON goes, too
    assert arranged(CLAUDE, CALL, 0, 1, 3, 4) == CALL.replace(b'{"old":"a\\nb"},', b"{},")
    told = refused(CLAUDE, CALL, 0, 1, 3, 2, 4)
    assert told == "the record of this tool call has its JSON say where these texts stand: move their places in that"


def test_content_where_there_is_none() -> None:
    call = b'{"timestamp":"t","type":"response_item","payload":{"type":"function_call","name":"x","arguments":""}}'
    assert arranged(CODEX, call, added("a\nb", "arguments.y")) == call.replace(b'""', b'"{\\"y\\":\\"a\\\\nb\\"}"')
    result = b'{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}}'
    assert arranged(CLAUDE, result, added("a")) == result.replace(b'"t1"', b'"t1","content":"a"')
    thought = (
        b'{"timestamp":"t","type":"response_item",'
        b'"payload":{"type":"reasoning","summary":[],"encrypted_content":"x"}}'
    )
    assert arranged(CODEX, thought, added("Hm.")) == thought.replace(b"[]", b'[{"type":"summary_text","text":"Hm."}]')


def test_the_parts_of_a_document_in_a_string_are_arranged_in_it() -> None:
    result = (
        b'{"timestamp":"t","type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":'
        b'"[{\\"type\\":\\"text\\",\\"text\\":\\"a\\"},{\\"type\\":\\"text\\",\\"text\\":\\"b\\"}]"}}'
    )
    a, b = b'{\\"type\\":\\"text\\",\\"text\\":\\"a\\"}', b'{\\"type\\":\\"text\\",\\"text\\":\\"b\\"}'
    assert arranged(CODEX, result, 1, 0) == result.replace(a + b"," + b, b + b"," + a)
    assert arranged(CODEX, result, 1) == result.replace(a + b",", b"")


def test_what_a_record_says_twice_changes_twice() -> None:
    message = b'{"id":"m1","timestamp":"2026-03-05T12:00:00Z","type":"user","content":"a","displayContent":"a"}'
    parts = b'[{"text":"a"},{"text":"b"}]'
    now = arranged(GEMINI, message, 0, added("b"))
    assert now == message.replace(b'"content":"a"', b'"content":' + parts).replace(
        b'"displayContent":"a"', b'"displayContent":' + parts
    )


def test_what_shows_nothing_stays_behind_what_it_follows() -> None:
    line = PARTS.replace(b'{"type":"text","text":"three"}', b'null,{"type":"text","text":"three"}')
    assert arranged(CLAUDE, line, 2, 0, 1).count(b'"two"},null ]') == 1


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ((), "delete its file"),
        ((0, 1, 2, NewBlock("json", "{}", "arguments")), "holds no JSON 'arguments'"),
        ((0, 1, 2, NewBlock("text", "Hm.", "thinking")), "none can be written by hand"),
        ((0, 1, 2, NewBlock("resource", "x")), "cannot be added by hand"),
        ((0, 1, 2, NewBlock("text", "half \ud800")), "Unicode"),
    ],
)
def test_what_is_refused(order: tuple[int | NewBlock, ...], told: str) -> None:
    assert told in refused(CLAUDE, PARTS, *order)

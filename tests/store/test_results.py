"""Results that are JSON in a text: drawn as the JSON that they are, edited there, and everything around them stays."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.events.event import Block, BlockEdit, Event, EventEdit, Kind
from store.formats.core.json_view import decode
from store.formats.registry import format_named, lens_for
from store.results import to_texts, with_documents
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of
from tests.store.formats.test_json_view import JSON
from tests.store.formats.test_sample_edits import NEW, seen
from tests.store.formats.test_samples import SAMPLES

REPORT = {"agent": "Explore", "report": "Two places:\n- shop/login.py\n- shop/views.py", "steps": [{"said": 'a "b"'}]}
SPACED = '{"agent":  "Explore",\n\t"report": "Two \\u2014 places:\\n- one"  , "count": 1e3}\n'


def result(text: str, *, kind: Kind = Kind.TOOL_RESULT, name: str = "") -> Event:
    return Event(kind, blocks=(Block("text", text, name=name, path=("content",)),), native={"content": text})


def described(event: Event) -> list[tuple[str, str]]:
    return [(block.type, block.name) for block in with_documents(event).blocks]


def edited(text: str, name: str, new: str) -> str:
    """Return a text after the block with a name, of what it is drawn as, was given another one."""
    event = result(text)
    (block,) = (block for block in with_documents(event).blocks if block.name == name)
    edit = EventEdit((BlockEdit(block.path, new, name, "json" if block.type == "json" else "text"),))
    (change,) = to_texts(event, edit).blocks
    assert (change.path, change.type) == (("content",), "text")
    return change.text


def test_its_strings_are_texts_of_lines() -> None:
    event = with_documents(result(json.dumps(REPORT)))
    assert [(block.type, block.name) for block in event.blocks] == [
        ("json", "result"),
        ("text", "result.report"),
        ("text", "result.steps[0].said"),
    ]
    assert event.blocks[1].text == REPORT["report"]
    assert json.loads(event.blocks[0].text or "") == {
        "agent": "Explore",
        "steps": [{"said": {"$block": "result.steps[0].said"}}],
    }
    assert with_documents(event) is event


def test_documents_within_documents() -> None:
    inner = json.dumps(REPORT)
    text = json.dumps([{"type": "text", "text": inner}])
    names = [name for _type, name in described(result(text))]
    assert names == ["result", "result[0].text", "result[0].text.report", "result[0].text.steps[0].said"]
    new = json.loads(edited(text, "result[0].text.report", "None\n"))
    assert json.loads(new[0]["text"]) == {**REPORT, "report": "None\n"}
    changed = json.dumps({"agent": "Plan", "steps": [{"said": {"$block": "result[0].text.steps[0].said"}}]})
    assert json.loads(json.loads(edited(text, "result[0].text", changed))[0]["text"]) == {**REPORT, "agent": "Plan"}


@pytest.mark.parametrize(
    "text", ["plain", "", "[1, 2]", '{"a": "b"}', '{"a": "b\\n"', '[link](x)\n"', '{"half": "\\ud800\\n"}', "{}", "[]"]
)
def test_what_stays_as_it_is(text: str) -> None:
    event = result(text)
    assert with_documents(event) is event


def test_only_results_are_drawn_so() -> None:
    text = json.dumps(REPORT)
    for kind in Kind:
        drawn = with_documents(result(text, kind=kind))
        assert (len(drawn.blocks) > 1) == (kind is Kind.TOOL_RESULT)
    assert described(result(text, kind=Kind.TOOL_CALL, name="call2.output"))[1] == ("text", "call2.output.report")
    assert len(described(result(text, kind=Kind.TOOL_CALL, name="arguments"))) == 1


def test_the_bytes_around_an_edit_stay() -> None:
    assert edited(SPACED, "result.report", "One:\n- é") == SPACED.replace(
        '"Two \\u2014 places:\\n- one"', '"One:\\n- \\u00e9"'
    )
    document = '{"agent": "Plan", "count": 1000.0}'
    assert edited(SPACED, "result", document) == SPACED.replace("Explore", "Plan")


@given(JSON, st.text(st.characters(exclude_categories=["Cs"])), st.booleans())
def test_each_text_of_any_document_can_be_edited(value: object, new: str, ascii_: bool) -> None:
    text = json.dumps({"value": value}, ensure_ascii=ascii_, indent=1)
    event = result(text)
    drawn = with_documents(event)
    if drawn is event:
        return
    for block in drawn.blocks:
        if block.type != "text":
            continue
        edit = to_texts(event, edit_of(block, new))
        now = decode(edit.blocks[0].text.encode())
        assert now is not None
        expected, found = json.loads(text), now.value
        # a path may lead through strings that are documents, too
        for step in block.path[1:]:
            expected = json.loads(expected) if isinstance(expected, str) else expected
            found = json.loads(found) if isinstance(found, str) else found
            expected, found = expected[step], found[step]  # type: ignore[index]
        assert (expected, found) == (block.text, new)


TEXT = json.dumps(REPORT)
PART = {"type": "text", "text": TEXT}
RETURNED = {"functionResponse": {"id": "c", "name": "t", "response": {"output": TEXT}}}
RECORDS: list[tuple[str, object]] = [
    (
        "claude-code.line.v1",
        {
            "type": "user",
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [PART]}]},
            "toolUseResult": {"content": [PART]},
        },
    ),
    (
        "codex.line.v1",
        {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c", "output": TEXT}},
    ),
    (
        "pi.entry.v1",
        {"type": "message", "message": {"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": [PART]}},
    ),
    ("jp.event.v1", {"type": "tool_call_response", "id": "c", "content": TEXT}),
    (
        "gemini-cli.record.v1",
        {
            "type": "gemini",
            "id": "g",
            "timestamp": "2026-03-05T19:31:54.356Z",
            "content": "",
            "toolCalls": [{"id": "c", "name": "t", "args": {}, "status": "success", "result": [RETURNED]}],
        },
    ),
    (
        "opencode.assistant-part.v1",
        {"type": "tool", "callID": "c", "tool": "t", "state": {"status": "completed", "input": {}, "output": TEXT}},
    ),
    ("messages-jsonl.line.v1", {"role": "tool", "tool_call_id": "c", "content": TEXT}),
    ("api.message.v1", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": TEXT}]}),
]


@pytest.mark.parametrize(("type_name", "value"), RECORDS, ids=[type_name for type_name, _value in RECORDS])
def test_every_format_draws_and_edits_them(type_name: str, value: object) -> None:
    lens, record = lens_for(type_name), json.dumps(value).encode()
    event = lens.view(record, Earlier())
    drawn = with_documents(event)
    (block,) = (block for block in drawn.blocks if block.text == REPORT["report"])
    assert block.name.endswith(".report")
    changed = lens.edit(record, to_texts(event, edit_of(block, "None:\nno place")), Earlier())
    now = with_documents(lens.view(changed, Earlier()))
    texts = {one.name: one.text for one in now.blocks}
    assert texts == {one.name: one.text for one in drawn.blocks} | {block.name: "None:\nno place"}
    # in every copy that the record has
    old, new = (json.dumps(json.dumps(text))[1:-1].encode() for text in (REPORT["report"], "None:\nno place"))
    assert old in record
    assert changed == record.replace(old, new)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)")
def test_those_of_real_sessions_can_be_edited() -> None:
    edited: Counter[str] = Counter()
    for name in ("claude-code", "codex", "pi"):
        lens = lens_for(format_named(name).main_type)
        for record, event, earlier in seen(format_named(name)):
            drawn = with_documents(event)
            if drawn is event or event.lossy:
                continue
            for block in drawn.blocks:
                if block.type != "text" or any(other.path == block.path for other in event.blocks):
                    continue
                changed = lens.edit(record, to_texts(event, edit_of(block, NEW)), earlier)
                now = with_documents(lens.view(changed, earlier)).blocks
                assert [one.text for one in now if one.path == block.path] == [NEW]
                others = [(one.path, one.text) for one in drawn.blocks if one is not block and one.type == "text"]
                assert [(one.path, one.text) for one in now if one.path != block.path and one.type == "text"] == others
                edited[name] += 1
    assert edited

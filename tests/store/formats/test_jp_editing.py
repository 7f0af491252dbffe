import base64
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import EventEdit, FieldEdit, Kind
from store.formats.jp import Jp, JpConfigLens, JpEventLens
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import changed_paths, edit_of, made_or_refused
from tests.store.formats.mutations import mutated

LENS = JpEventLens()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
STAMP = "2026-03-05 23:12:34.3"
BLOB = b"the content of a blob\n"
DIGEST = hashlib.sha256(BLOB).hexdigest()


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def event(what: str, **more: object) -> dict[str, object]:
    return {"timestamp": STAMP, "type": what, **more}


RECORDS: list[dict[str, object]] = [
    event("chat_request", content="Why?", resources=[{"uri": "file:///a.md", "content": {"text": "# é"}}]),
    event("chat_request", content={"$blob": DIGEST, "size": len(BLOB)}),
    event("chat_response", message="So."),
    event("chat_response", reasoning="Hm."),
    event(
        "tool_call_request", id="c", name="fs_read", arguments={"path": b64("a"), "l": [b64("b\n"), 1, {"x": b64("")}]}
    ),
    event("tool_call_request", id="c", name="old", arguments={"path": "plain text", "more": "two\nlines"}),
    event("tool_call_response", id="c", content=b64("Found it."), is_error=False),
    event("tool_call_response", id="c", content="no base64"),
    event("tool_call_response", id="c", content=[{"type": "text", "text": "t"}, {"type": "text", "content": "u"}]),
    event(
        "tool_call_response",
        id="c",
        isError=True,
        content=[
            {"type": "resource", "resource": {"uri": "file:///b.md", "blob": b64("b"), "mimeType": "text/plain"}},
            {"type": "resource", "resource": {"uri": "file:///c.md", "content": {"$blob": DIGEST, "size": 9}}},
            {"type": "resource", "resource": {"uri": "file:///d.md", "$blob": DIGEST, "size": 9}},
            {"type": "resource", "resource": {"uri": "file:///e.png", "blob": "iVBORw==", "mimeType": "image/png"}},
            {"type": "resource", "resource": {"uri": "file:///f.md", "content": {"$blob": "0" * 64}}},
        ],
    ),
    event(
        "inquiry_request", id="q", source={"source": "tool", "name": "t"}, question={"text": "Sure?", "default": True}
    ),
    event("inquiry_response", id="q", answer="yes"),
    event("config_delta", delta={"a": {"b": "c\nd", "e": 1}}),
    event("compaction", summary={"summary": "All", "model": "m"}, from_turn=1, to_turn=2),
    event("newer", thing=["x\ny"]),
]


def earlier() -> Earlier:
    return Earlier({hashlib.sha256(BLOB).digest(): BLOB})


@given(st.sampled_from(RECORDS), TEXTS)
def test_any_text_can_be_written(record: dict[str, object], text: str) -> None:
    payload = json.dumps(record, ensure_ascii=False, indent=2).encode()
    seen = LENS.view(payload, earlier())
    for at, block in enumerate(seen.blocks):
        if block.type == "json" or block.text is None or "not in the store" in block.text:
            continue
        edited = made_or_refused(lambda block=block: LENS.edit(payload, edit_of(block, text), earlier()))
        if isinstance(edited, str):
            assert ("\0" in text and block.encoding == "base64") or not text
            continue
        now = LENS.view(edited, earlier())
        if len(now.blocks) != len(seen.blocks):
            # a text that needs no block of its own any more is in the JSON
            assert block.name
            continue
        assert now.blocks[at].text == text
        assert [one.text for which, one in enumerate(now.blocks) if which != at] == [
            one.text for which, one in enumerate(seen.blocks) if which != at
        ]
        if now.blocks[at].path == block.path and text != block.text:
            assert changed_paths(payload, edited) == {block.path}


@given(mutated(RECORDS), st.text(st.characters(), max_size=8))
def test_an_edit_of_odd_records_is_made_or_refused(payload: bytes, text: str) -> None:
    seen = LENS.view(payload, earlier())
    for block in seen.blocks:
        if block.text is None:
            continue
        edited = made_or_refused(lambda block=block: LENS.edit(payload, edit_of(block, text), earlier()))
        if block.text != text and block.type != "json":
            assert edited != payload
    for key in ("tool", "is_error", "timestamp", *seen.header):
        for new in (text, True, 1.5):
            change = EventEdit(fields=(FieldEdit(key, new),))
            made_or_refused(lambda change=change: LENS.edit(payload, change, earlier()))


def test_base64_stays_base64_and_plain_text_is_not_taken_for_it() -> None:
    for record, expected in ((RECORDS[6], b64("Zm9v")), (RECORDS[7], b64("Zm9v"))):
        payload = json.dumps(record).encode()
        edited = LENS.edit(payload, edit_of(LENS.view(payload, earlier()).blocks[0], "Zm9v"), earlier())
        assert json.loads(edited)["content"] == expected
    payload = json.dumps(RECORDS[7]).encode()
    edited = LENS.edit(payload, edit_of(LENS.view(payload, earlier()).blocks[0], "plain too!"), earlier())
    assert json.loads(edited)["content"] == "plain too!"
    payload = json.dumps(RECORDS[2]).encode()
    edited = LENS.edit(payload, edit_of(LENS.view(payload, earlier()).blocks[0], "Zm9v"), earlier())
    assert json.loads(edited)["message"] == "Zm9v"


def test_arguments() -> None:
    payload = json.dumps(RECORDS[4], indent=2).encode()
    document = LENS.view(payload, earlier()).blocks[0]
    new = (document.text or "").replace('"a"', '"é"').replace("1,", '1, "added",').replace('"x": ""', '"x": "Zm9v"')
    edited = LENS.edit(payload, edit_of(document, new), earlier())
    expected = {"path": b64("é"), "l": [b64("b\n"), 1, b64("added"), {"x": b64("Zm9v")}]}
    assert json.loads(edited)["arguments"] == expected
    assert edited.startswith(payload[: payload.index(b'"path"')])
    payload = json.dumps(RECORDS[5]).encode()
    document = LENS.view(payload, earlier()).blocks[0]
    edited = LENS.edit(payload, edit_of(document, '{"path": "plain still", "n": "Zm9v"}'), earlier())
    # what would be read as base64 has to be written in it
    assert json.loads(edited)["arguments"] == {"path": "plain still", "n": b64("Zm9v"), "more": "two\nlines"}


@pytest.mark.parametrize(
    ("at", "held"),
    [
        (1, b'{"type": "resource", "resource": {"uri": "file:///c.md", "content": {"text": "new"}}}'),
        (2, b'{"type": "resource", "resource": {"uri": "file:///d.md", "text": "new"}}'),
    ],
)
def test_a_reference_becomes_text(at: int, held: bytes) -> None:
    payload = json.dumps(RECORDS[9]).encode()
    seen = LENS.view(payload, earlier())
    edited = LENS.edit(payload, edit_of(seen.blocks[at], "new"), earlier())
    assert held in edited
    assert LENS.edit_resource(payload, at, b"new", earlier()) == edited
    request = json.dumps(RECORDS[1]).encode()
    edited = LENS.edit(request, edit_of(LENS.view(request, earlier()).blocks[0], "new"), earlier())
    assert json.loads(edited)["content"] == {"text": "new"}


def test_resources() -> None:
    payload = json.dumps(RECORDS[9]).encode()
    assert json.loads(LENS.edit_resource(payload, 0, "é".encode(), earlier())) == json.loads(
        payload.replace(b64("b").encode(), b64("é").encode())
    )
    held = LENS.view(payload, earlier()).resources[3]
    assert isinstance(held.content, bytes)
    edited = LENS.edit_resource(payload, 3, b"\xff\x00", earlier())
    assert edited == payload.replace(base64.b64encode(held.content), base64.b64encode(b"\xff\x00"))
    # what is held in base64 may be anything
    edited = LENS.edit_resource(payload, 0, b"\0", earlier())
    assert LENS.view(edited, earlier()).resources[0].data == b"\0"
    missing = LENS.view(payload, earlier()).blocks[4]
    with pytest.raises(UsageError, match="kept elsewhere"):
        LENS.edit(payload, edit_of(missing, "x"), earlier())


@pytest.mark.parametrize(
    ("at", "key", "value", "path", "literal"),
    [
        (6, "is_error", True, ("is_error",), b"true"),
        (9, "is_error", False, ("isError",), b"false"),
        (4, "tool", "fs_write", ("name",), b'"fs_write"'),
        (4, "id", "d", ("id",), b'"d"'),
        (10, "tool", "u", ("source", "name"), b'"u"'),
        (10, "default", False, ("question", "default"), b"false"),
        (13, "to_turn", 5, ("to_turn",), b"5"),
        (2, "timestamp", "2026-03-05T23:12:35.120000Z", ("timestamp",), b'"2026-03-05 23:12:35.12"'),
        (2, "timestamp", "2026-03-05T23:12:35Z", ("timestamp",), b'"2026-03-05 23:12:35.0"'),
    ],
)
def test_fields(at: int, key: str, value: str | int | bool, path: tuple[str | int, ...], literal: bytes) -> None:
    payload = json.dumps(RECORDS[at]).encode()
    edited = LENS.edit(payload, EventEdit(fields=(FieldEdit(key, value),)), earlier())
    assert changed_paths(payload, edited) == {path}
    assert literal in edited


def test_fields_that_come_from_elsewhere_or_from_nowhere() -> None:
    for at, key, told in (
        (6, "tool", "call"),
        (11, "tool", "question"),
        (2, "model", "nothing"),
        (14, "record", "nothing"),
    ):
        payload = json.dumps(RECORDS[at]).encode()
        with pytest.raises(UsageError, match=told):
            LENS.edit(payload, EventEdit(fields=(FieldEdit(key, "x"),)), earlier())
    payload = json.dumps(RECORDS[7], indent=2).encode()
    told = LENS.edit(payload, EventEdit(fields=(FieldEdit("is_error", True),)), earlier())
    assert told == payload.replace(b'base64"\n', b'base64",\n  "is_error": true\n')


def test_the_configuration_is_edited_as_a_document() -> None:
    payload = b'{"model": {"temperature": 1.0},\n "assistant": {"system_prompt": "Be\\ngood"}}'
    lens = JpConfigLens()
    document, prompt = lens.view(payload, earlier()).blocks
    edited = lens.edit(payload, edit_of(prompt, "Be\nbad"), earlier())
    assert edited == payload.replace(b"good", b"bad")
    edited = lens.edit(payload, edit_of(document, (document.text or "").replace("1.0", "0.5")), earlier())
    assert edited == payload.replace(b"1.0", b"0.5")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.USER, '{\n    "timestamp": "%s",\n    "type": "chat_request",\n    "content": "%s"\n  }'),
        (Kind.ASSISTANT, '{\n    "timestamp": "%s",\n    "type": "chat_response",\n    "message": "%s"\n  }'),
    ],
)
def test_a_new_event_looks_as_the_last_one(kind: Kind, expected: str) -> None:
    previous = json.dumps(RECORDS[2], indent=2).replace("\n", "\n  ").encode()
    composed = LENS.compose(kind, "Héllo", previous, 1_772_752_354_300)
    assert composed.decode() == expected % (STAMP, "Héllo")
    assert LENS.compose(kind, "Héllo", None, 1_772_752_354_300) == composed
    iso = json.dumps({**RECORDS[2], "timestamp": "2026-03-05T23:12:34.3Z"}).encode()
    assert json.loads(LENS.compose(kind, "x", iso, 1_772_752_354_300))["timestamp"] == "2026-03-05T23:12:34.300Z"
    assert b"\n" not in LENS.compose(kind, "x", iso, 0)


@given(TEXTS.filter(bool), st.sampled_from([Kind.USER, Kind.ASSISTANT]))
def test_a_new_event_says_what_was_written(text: str, kind: Kind) -> None:
    seen = LENS.view(LENS.compose(kind, text, json.dumps(RECORDS[6]).encode(), 0), earlier())
    assert (seen.kind, [block.text for block in seen.blocks]) == (kind, [text])


@pytest.mark.parametrize(
    ("kind", "text"), [(Kind.NOTE, "x"), (Kind.TOOL_CALL, "x"), (Kind.USER, ""), (Kind.USER, "\ud800")]
)
def test_what_cannot_be_composed(kind: Kind, text: str) -> None:
    with pytest.raises(UsageError):
        LENS.compose(kind, text, None, 0)
    with pytest.raises(UsageError, match="by hand"):
        JpConfigLens().compose(Kind.USER, "x", None, 0)


def test_what_belongs_together_is_taken_out_together() -> None:
    records = [json.dumps(RECORDS[at]).encode() for at in (0, 4, 10, 11, 6, 2)]
    for deleted, left in (({1}, [0, 2, 3, 5]), ({4}, [0, 2, 3, 5]), ({3}, [0, 1, 4, 5]), ({0}, [1, 2, 3, 4, 5])):
        assert Jp().without(records, deleted) == [records[at] for at in left]
    assert Jp().without([b"damaged", *records], {0}) == records


@given(st.lists(mutated(RECORDS), max_size=6), st.sets(st.integers(0, 7)))
def test_odd_events_are_taken_out_too(records: list[bytes], deleted: set[int]) -> None:
    assert set(Jp().without(records, deleted)) <= {record for at, record in enumerate(records) if at not in deleted}

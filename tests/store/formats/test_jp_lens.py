import base64
import hashlib
import json

import pytest
from hypothesis import given

from store.events.event import Event, Kind
from store.formats.jp import JpConfigLens, JpEventLens
from tests.store.formats.earlier import Earlier
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

PNG = b"\x89PNG\r\n\x1a\n\0\xff"
RUST = b"fn main() {}\n"


def b64(data: str | bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def reference(data: bytes) -> dict[str, object]:
    return {"$blob": hashlib.sha256(data).hexdigest(), "size": len(data)}


BLOBS = {hashlib.sha256(data).digest(): data for data in (PNG, RUST)}


def event(kind: str, **fields: object) -> dict[str, object]:
    return {"timestamp": "2026-03-05 23:16:39.251268", "type": kind, **fields}


def answered(content: object, **fields: object) -> dict[str, object]:
    return event("tool_call_response", id="c1", content=content, **{"is_error": False, **fields})


def see(record: dict[str, object] | bytes, earlier: Earlier | None = None) -> Event:
    payload = record if isinstance(record, bytes) else json.dumps(record).encode()
    earlier = earlier or Earlier(BLOBS)
    seen = earlier.add(JpEventLens().view(payload, earlier))
    check(seen)
    return seen


def texts(seen: Event) -> list[tuple[str, str, str | None]]:
    return [(block.type, block.name, block.text) for block in seen.blocks]


QUESTION = event(
    "inquiry_request",
    id="c1.apply",
    source={"source": "tool", "name": "fs_modify_file"},
    question={"text": "Apply?\n", "answer_type": {"type": "boolean"}, "default": True},
)
RECORDS: list[tuple[dict[str, object], Kind, list[tuple[str, str, str | None]]]] = [
    (event("turn_start"), Kind.RECORD, []),
    (event("turn_start", note="x"), Kind.NOTE, [("json", "record", '{\n  "note": "x"\n}')]),
    (event("chat_request", content="Hi\n"), Kind.USER, [("text", "", "Hi\n")]),
    (event("chat_request", content={"text": "Hi"}), Kind.USER, [("text", "", "Hi")]),
    (event("chat_request", content=reference(RUST)), Kind.USER, [("text", "", "fn main() {}\n")]),
    (
        event("chat_request", content="Hi", schema={"type": "object"}),
        Kind.USER,
        [("text", "", "Hi"), ("json", "schema", '{\n  "type": "object"\n}')],
    ),
    (event("chat_response", message="Hello"), Kind.ASSISTANT, [("text", "", "Hello")]),
    (event("chat_response", message=""), Kind.ASSISTANT, [("text", "", "")]),
    (event("chat_response", reasoning="Hm", metadata={"s": "eA=="}), Kind.REASONING, [("text", "", "Hm")]),
    (event("chat_response", data={"a": 1}), Kind.ASSISTANT, [("json", "data", '{\n  "a": 1\n}')]),
    (event("chat_response", hologram="x"), Kind.NOTE, [("json", "record", '{\n  "hologram": "x"\n}')]),
    (
        event("tool_call_request", id="c1", name="fs", arguments={"path": b64("a.rs"), "new": [b64("x\ny")], "n": 1}),
        Kind.TOOL_CALL,
        [
            (
                "json",
                "arguments",
                '{\n  "path": "a.rs",\n  "new": [\n    {\n      "$block": "arguments.new[0]"\n    }\n  ],\n  "n": 1\n}',
            ),
            ("text", "arguments.new[0]", "x\ny"),
        ],
    ),
    (answered(b64("ok\n")), Kind.TOOL_RESULT, [("text", "", "ok\n")]),
    (answered("never encoded"), Kind.TOOL_RESULT, [("text", "", "never encoded")]),
    (answered("/w=="), Kind.TOOL_RESULT, [("text", "", "/w==")]),
    (answered(""), Kind.TOOL_RESULT, [("text", "", "")]),
    (answered({"text": "plain"}), Kind.TOOL_RESULT, [("text", "", "plain")]),
    (answered([{"type": "text", "text": "a"}]), Kind.TOOL_RESULT, [("text", "", "a")]),
    (answered([{"type": "text", "content": {"text": "a"}}]), Kind.TOOL_RESULT, [("text", "", "a")]),
    (answered([{"type": "text", "content": {"blob": b64("ü")}}]), Kind.TOOL_RESULT, [("text", "", "ü")]),
    (answered([{"type": "text", "content": reference(RUST)}]), Kind.TOOL_RESULT, [("text", "", "fn main() {}\n")]),
    (
        answered([{"type": "question", "question": {"id": "q", "text": "Which?\n"}}]),
        Kind.TOOL_RESULT,
        [
            (
                "json",
                "question",
                (
                    '{\n  "question": {\n    "id": "q",\n    "text": {\n      "$block": '
                    '"question.question.text"\n    }\n  }\n}'
                ),
            ),
            ("text", "question.question.text", "Which?\n"),
        ],
    ),
    (
        answered(["a\n", {"type": "x", "y": "b\n"}, {"type": "x", "y": "c\n"}]),
        Kind.TOOL_RESULT,
        [("text", "content", "a\n"), ("text", "x[1].y", "b\n"), ("text", "x[2].y", "c\n")],
    ),
    (answered({"x": 1}), Kind.TOOL_RESULT, [("json", "content", '{\n  "x": 1\n}')]),
    (QUESTION, Kind.QUESTION, [("text", "", "Apply?\n")]),
    (event("inquiry_response", id="c1.apply", answer=True), Kind.ANSWER, [("json", "answer", "true")]),
    (event("inquiry_response", id="c1.apply", answer="yes"), Kind.ANSWER, [("text", "", "yes")]),
    (
        event("config_delta", delta={"assistant": {"prompt": "Be\nkind"}}),
        Kind.CONFIG,
        [
            (
                "json",
                "config",
                '{\n  "assistant": {\n    "prompt": {\n      "$block": "config.assistant.prompt"\n    }\n  }\n}',
            ),
            ("text", "config.assistant.prompt", "Be\nkind"),
        ],
    ),
    (event("config_delta", reset=True), Kind.CONFIG, [("json", "config", '{\n  "reset": true\n}')]),
    (
        event("compaction", from_turn=0, to_turn=2, summary={"summary": "We\nmet", "source": "authored"}),
        Kind.SUMMARY,
        [("text", "", "We\nmet"), ("json", "policy", '{\n  "summary": {\n    "source": "authored"\n  }\n}')],
    ),
    (
        event("compaction", from_turn=0, to_turn=2, reasoning="strip"),
        Kind.SUMMARY,
        [("json", "policy", '{\n  "reasoning": "strip"\n}')],
    ),
    (event("event_overlay", text="x\ny"), Kind.NOTE, [("text", "record.text", "x\ny")]),
    ({"no": "type"}, Kind.NOTE, [("json", "record", '{\n  "no": "type"\n}')]),
]


@pytest.mark.parametrize(("record", "kind", "blocks"), RECORDS)
def test_every_event_type(record: dict[str, object], kind: Kind, blocks: list[tuple[str, str, str | None]]) -> None:
    seen = see(record)
    assert seen.kind is kind
    assert texts(seen) == blocks
    assert seen.native == record


def test_headers() -> None:
    earlier = Earlier()
    when = {"timestamp": "2026-03-05T23:16:39.251268Z"}
    calling = see(event("tool_call_request", id="c1", name="fs_modify_file", arguments={}), earlier)
    assert (calling.tool, calling.header, calling.time_ms) == ("fs_modify_file", {"id": "c1", **when}, 1772752599251)
    asked = see(QUESTION, earlier)
    assert asked.tool == "fs_modify_file"
    assert asked.header == {"id": "c1.apply", "answer_type": "boolean", "default": True, **when}
    assert see(event("inquiry_response", id="c1.apply", answer=True), earlier).tool == "fs_modify_file"
    failed = see(answered("", is_error=True), earlier)
    assert (failed.tool, failed.header) == ("fs_modify_file", {"id": "c1", "is_error": True, **when})
    assert list(failed.header) == ["id", "is_error", "timestamp"]
    ranged = see(event("compaction", from_turn=0, to_turn=2))
    assert ranged.header == {"from_turn": 0, "to_turn": 2, **when}
    assert see({"timestamp": "2026-03-05T23:16:39Z", "type": "chat_request", "content": "x"}).header == {
        "timestamp": "2026-03-05T23:16:39Z"
    }


@pytest.mark.parametrize(
    ("content", "block"),
    [
        ({"content": reference(RUST)}, "fn main() {}\n"),
        ({"content": {"text": "fn main() {}\n"}}, "fn main() {}\n"),
        ({"content": {"blob": b64(RUST)}}, "fn main() {}\n"),
        ({"content": {"blob": b64(PNG)}}, PNG),
        ({"content": reference(PNG)}, PNG),
        ({"text": "fn main() {}\n"}, "fn main() {}\n"),
        ({"blob": b64(RUST)}, "fn main() {}\n"),
        ({"content": "fn main() {}\n"}, "fn main() {}\n"),
    ],
)
def test_every_way_to_hold_a_resource(content: dict[str, object], block: str | bytes) -> None:
    resource = {"uri": "file:///p/main.rs", "mimeType": "text/x-rust", **content}
    attached = see(event("chat_request", content="Look", resources=[resource]))
    returned = see(answered([{"type": "resource", "resource": resource}]))
    for seen in (attached, returned):
        shown = seen.blocks[-1]
        assert (shown.type, shown.uri, shown.mime) == ("resource", "file:///p/main.rs", "text/x-rust")
        assert block == (shown.data if isinstance(block, bytes) else shown.text)
        assert [(found.uri, found.content) for found in seen.resources] == [("file:///p/main.rs", block)]


def test_mime_types_decide_what_text_is() -> None:
    resource = {"uri": "file:///p/a.png", "mimeType": "image/png", "blob": b64("text?")}
    assert see(event("chat_request", content="", resources=[resource])).blocks[-1].data == b"text?"
    del resource["mimeType"]
    assert see(event("chat_request", content="", resources=[resource])).blocks[-1].mime == "image/png"
    unknown = {"uri": "custom:x", "blob": b64(PNG)}
    assert see(event("chat_request", content="", resources=[unknown])).resources[0].mime == "application/octet-stream"


def test_content_that_is_not_in_the_store_is_named() -> None:
    absent = reference(b"gone")
    seen = see(
        answered(
            [{"type": "text", "content": absent}, {"type": "resource", "resource": {"uri": "a:b", "content": absent}}]
        )
    )
    assert f"{absent['$blob']}, 4 bytes: not in the store" in (seen.blocks[0].text or "")
    assert [block.path for block in seen.blocks] == [(), ()]
    assert seen.resources == ()


@pytest.mark.parametrize("content", [{"text": "a", "blob": "YQ=="}, {"$blob": 7}, {"$blob": "zz" * 32}, {}])
def test_contradictory_content_is_shown_as_it_is(content: dict[str, object]) -> None:
    seen = see(answered([{"type": "text", "content": content}]))
    assert "".join(block.text or "" for block in seen.blocks) or content == {}


def test_images_of_mcp_tools() -> None:
    seen = see(answered([{"type": "image", "data": b64(PNG), "mimeType": "image/png"}]))
    assert (seen.blocks[0].type, seen.blocks[0].data) == ("image", PNG)


def test_damage_is_a_note() -> None:
    seen = see(b'{"timestamp": "2026-03-05 23:16:39", "type": "chat_req')
    assert (seen.kind, seen.blocks[0].text) == (Kind.NOTE, '{"timestamp": "2026-03-05 23:16:39", "type": "chat_req')


def test_the_configuration_that_a_conversation_began_with() -> None:
    seen = JpConfigLens().view(b'{"assistant": {"system_prompt": "You are\\nJP"}, "n": 1}', Earlier())
    check(seen)
    assert seen.kind is Kind.CONFIG
    assert seen.blocks[1].name == "config.assistant.system_prompt"
    assert JpConfigLens().view(b"{cut", Earlier()).kind is Kind.NOTE


HOLDING = [
    event("chat_request", content={"text": "x"}, resources=[{"uri": "file:///a", "content": reference(PNG)}]),
    answered([{"type": "resource", "resource": {"uri": "file:///a", "mimeType": "a/b", "blob": b64(PNG)}}]),
    answered([{"type": "image", "data": b64(PNG)}, {"type": "text", "content": reference(RUST)}]),
]


@given(mutated([record for record, _, _ in RECORDS] + HOLDING))
def test_no_event_makes_the_lens_fail(payload: bytes) -> None:
    see(payload)

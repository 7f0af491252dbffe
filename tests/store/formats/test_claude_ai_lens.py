import base64
import json
from functools import partial

import pytest
from hypothesis import given

from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind
from store.formats.claude_ai import ROOT, ClaudeAiLens
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import changed_paths, check_text_edit, edit_of, made_or_refused
from tests.store.formats.exports import PNG, message
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

LENS = ClaudeAiLens()
NEW = 'Edited → "quoted" \\ back\nline <b>&amp; é😀 end'

THINKING = {"type": "thinking", "thinking": "Hm.", "summaries": [{"summary": "s"}], "cut_off": False}
SEARCH = {
    "type": "tool_use",
    "id": "t1",
    "name": "web_search",
    "input": {"query": "a\nb", "n": 3},
    "message": "Searching",
}
FOUND = {
    "type": "tool_result",
    "tool_use_id": "t1",
    "name": "web_search",
    "is_error": False,
    "content": [
        {"type": "knowledge", "title": "A page", "url": "https://a.example/x", "text": "It says so.", "metadata": {}},
        {"type": "text", "text": "and this", "uuid": "u"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
        },
        {"type": "new", "a": "b"},
    ],
}


def payload(told: dict[str, object]) -> bytes:
    return json.dumps(told).encode()


def seen(told: dict[str, object]) -> Event:
    event = LENS.view(payload(told), Earlier())
    check(event)
    return event


def texts(event: Event) -> list[tuple[str, str]]:
    return [(block.name, block.text) for block in event.blocks if block.text is not None]


def test_who_speaks() -> None:
    event = seen(message("m", "human", "Hi", parent=ROOT))
    assert (event.kind, texts(event), event.parent) == (Kind.USER, [("", "Hi")], 0)
    assert event.time_ms == 1_741_169_472_131
    assert event.defines == (("m", ""),)
    assert seen(message("m", "assistant", "Ho")).kind is Kind.ASSISTANT
    assert seen(message("m", "assistant", THINKING)).kind is Kind.REASONING
    assert texts(seen(message("m", "assistant", THINKING))) == [("", "Hm.")]
    call = seen(message("m", "assistant", THINKING, SEARCH))
    assert (call.kind, call.tool, call.header["id"]) == (Kind.TOOL_CALL, "web_search", "t1")
    result = seen(message("m", "assistant", FOUND | {"is_error": True}))
    assert (result.kind, result.tool, result.header) == (Kind.TOOL_RESULT, "web_search", {"id": "t1", "is_error": True})
    assert seen(message("m", "narrator", "Ho")).kind is Kind.NOTE


def test_an_answer_with_all_that_was_done_for_it_is_one_event() -> None:
    event = seen(message("m", "assistant", THINKING, "Let me look.", SEARCH, FOUND, "So it is.", SEARCH | {"id": "t2"}))
    assert (event.kind, event.tool, event.header) == (Kind.ASSISTANT, "", {"tools": "web_search"})
    assert event.defines == (("m", ""), ("t1", "web_search"), ("t2", "web_search"))
    assert [(block.type, block.name) for block in event.blocks] == [
        ("text", "thinking"),
        ("text", ""),
        ("json", "call1.web_search"),
        ("text", "call1.web_search.query"),
        ("text", "title"),
        ("resource", ""),
        ("text", "result1.web_search[1]"),
        ("image", "result1.web_search[2]"),
        ("json", "result1.web_search[3]"),
        ("text", ""),
        ("json", "call2.web_search"),
        ("text", "call2.web_search.query"),
    ]
    assert [resource.uri for resource in event.resources][:1] == ["https://a.example/x"]
    assert event.resources[1].data == PNG


def test_attachments_are_resources_and_files_are_named() -> None:
    attached = [
        {"file_name": "no/tes.md", "file_size": 5, "file_type": "md", "extracted_content": "# Notes"},
        {"file_name": "", "file_size": 4, "file_type": "txt", "extracted_content": "pasted"},
        {"file_name": "empty.pdf", "file_size": 7, "file_type": "pdf", "extracted_content": ""},
    ]
    files = [{"file_name": "photo.png"}, {"file_name": "no/tes.md"}, {"file_uuid": "f-1"}]
    event = seen(message("m", "human", "Look", attachments=attached, files=files, files_v2=files))
    assert [(resource.uri, resource.mime, resource.content) for resource in event.resources] == [
        ("attachment:m/no_tes.md", "text/markdown", "# Notes"),
        ("attachment:m/attachment-1.txt", "text/plain", "pasted"),
    ]
    assert [text for _name, text in texts(event)] == [
        "Look",
        "# Notes",
        "pasted",
        "[file empty.pdf, 7 bytes: not in the export]",
        "[file photo.png: not in the export]",
        "[file f-1: not in the export]",
    ]


def test_what_is_cited_is_listed_once() -> None:
    cited = [
        {"uuid": "1", "details": {"type": "web_search_citation", "url": "https://a.example"}},
        {"url": "https://a.example", "title": "A"},
        {"url": "https://b.example"},
    ]
    part = {"type": "text", "text": "So", "citations": cited}
    event = seen(message("m", "assistant", part))
    assert texts(event) == [("", "So"), ("citations", "- [A](https://a.example)\n- https://b.example")]


def test_older_and_odd_messages_show_all_that_they_say() -> None:
    old = message("m", "human", text="As it was")
    assert texts(seen(old)) == [("", "As it was")]
    assert texts(seen(old | {"content": "bare"})) == [("", "As it was"), ("", "bare")]
    odd = message("m", "assistant", "x", {"type": "flag", "flag": "y", "none": None}, {"type": "token_budget"}, 3, None)
    assert [name for name, _text in texts(seen(odd))] == ["", "flag[1]", "content[3]"]
    assert seen({"new": "thing"}).kind is Kind.NOTE
    for nothing in ({}, message("m", "assistant"), message("m", "human", "")):
        assert seen(nothing).kind is Kind.RECORD
    for damaged in (b'{"uuid": "x", "te', b"[]", b"\xff"):
        assert LENS.view(damaged, Earlier()).kind is Kind.NOTE


def test_every_text_can_be_edited_and_the_rest_stays() -> None:
    attached = [{"file_name": "a.md", "extracted_content": "text"}]
    told = payload(message("m", "assistant", THINKING, "one", SEARCH, FOUND, "two", text="-", attachments=attached))
    event = LENS.view(told, Earlier())
    edited = 0
    for at, block in enumerate(event.blocks):
        if block.text is not None:
            assert LENS.edit(told, edit_of(block, block.text), Earlier()) == told
            if block.type != "json":
                assert check_text_edit(LENS, told, Earlier(), event, at, NEW) == {block.path}
                edited += 1
    assert edited == 8
    for index, resource in enumerate(event.resources):
        assert LENS.edit_resource(told, index, resource.data, Earlier()) == told


def test_what_a_message_says_twice_is_edited_twice() -> None:
    told = payload(message("m", "assistant", "one", SEARCH, "two", text="one\n```\nunsupported\n```\ntwo"))
    block = LENS.view(told, Earlier()).blocks[-1]
    edited = LENS.edit(told, edit_of(block, "three"), Earlier())
    assert changed_paths(told, edited) == {("text",), ("content", 2, "text")}
    assert json.loads(edited)["text"] == "one\n```\nunsupported\n```\nthree"

    code = "print('a long enough text')"
    drawn = {"type": "code_block", "language": "python", "code": code}
    part = {"type": "tool_result", "name": "run", "content": [{"type": "text", "text": code}], "display_content": drawn}
    told = payload(message("m", "assistant", part))
    edited = LENS.edit(told, edit_of(LENS.view(told, Earlier()).blocks[0], "other"), Earlier())
    assert changed_paths(told, edited) == {
        ("content", 0, "content", 0, "text"),
        ("content", 0, "display_content", "code"),
    }


def test_fields_of_the_head_can_be_edited_where_the_message_holds_them() -> None:
    told = payload(message("m", "assistant", "x", stop_reason="max_tokens", model="claude"))

    def changed(key: str, value: str) -> Event:
        return LENS.view(LENS.edit(told, EventEdit(fields=(FieldEdit(key, value),)), Earlier()), Earlier())

    assert changed("model", "other").header["model"] == "other"
    assert changed("stop_reason", "refusal").header["stop_reason"] == "refusal"
    assert changed("timestamp", "2031-01-02T03:04:05.678Z").time_ms == 1_925_089_445_678
    for key in ("id", "tools", "colour"):
        with pytest.raises(UsageError):
            changed(key, "other")


def test_a_person_may_add_messages() -> None:
    before = payload(message("m", "assistant", "Ho", parent="l", index=4))
    for kind in (Kind.USER, Kind.ASSISTANT):
        told = LENS.compose(kind, NEW, before, 1_700_000_000_123)
        event = LENS.view(told, Earlier())
        assert (event.kind, texts(event), event.time_ms) == (kind, [("", NEW)], 1_700_000_000_123)
        assert (json.loads(told)["parent_message_uuid"], json.loads(told)["index"]) == ("m", 5)
    assert "parent_message_uuid" not in json.loads(LENS.compose(Kind.USER, "Hi", None, 1))
    for kind, text in ((Kind.TOOL_CALL, "x"), (Kind.USER, "")):
        with pytest.raises(UsageError):
            LENS.compose(kind, text, before, 1)


CITED = {"type": "text", "text": "So", "citations": [{"url": "u", "title": "t"}, {"details": {"url": "v"}}]}
ATTACHED = [{"file_name": "a", "extracted_content": "e", "file_size": 3}]
MESSAGES = [
    message(
        "m", "assistant", THINKING, CITED, SEARCH, FOUND, parent="x", attachments=ATTACHED, files=[{"file_name": "f"}]
    ),
    message("m", "human", text="old"),
]


@given(mutated(MESSAGES))
def test_whatever_a_message_holds_it_is_an_event_and_its_texts_are_edited_or_refused(record: bytes) -> None:
    earlier = Earlier()
    event = LENS.view(record, earlier)
    check(event)
    for block in event.blocks:
        if block.text is not None:
            new = '{"new": 1}' if block.type == "json" else NEW
            made_or_refused(partial(LENS.edit, record, edit_of(block, new), earlier))

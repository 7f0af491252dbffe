import json
from collections.abc import Mapping
from functools import partial

import pytest
from hypothesis import given

from store.errors import UsageError
from store.events.event import Block, Event, EventEdit, FieldEdit, Kind
from store.formats.chatgpt import ChatGpt, ChatGptLens, named_files
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import changed_paths, check_text_edit, edit_of, made_or_refused
from tests.store.formats.exports import PNG, WAV, Node, said
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

CHATGPT = ChatGpt()
LENS = ChatGptLens()
NEW = 'Edited → "quoted" \\ back\nline <b>&amp; é😀 end'
FILES = {b"file-AbC123": PNG, b"file_0001": WAV, b"file-Notes": "Ünïcode notes\n".encode()}


def payload(node: Node) -> bytes:
    return json.dumps(node).encode()


def seen(node: Node, files: Mapping[bytes, bytes] = FILES) -> Event:
    event = LENS.view(payload(node), Earlier(dict(files), "chatgpt-file"))
    check(event)
    return event


def texts(event: Event) -> list[tuple[str, str]]:
    return [(block.name, block.text) for block in event.blocks if block.text is not None]


def test_who_speaks_and_to_whom() -> None:
    assert seen(said("u", "r", "user", "Hi")).kind is Kind.USER
    answer = seen(said("a", "u", "assistant", "Ho", metadata={"model_slug": "gpt-5"}))
    assert (answer.kind, answer.header, texts(answer)) == (Kind.ASSISTANT, {"model": "gpt-5"}, [("", "Ho")])
    assert answer.time_ms == 1_700_000_000_500
    code = {"content_type": "code", "language": "python", "response_format_name": None, "text": "print(1)"}
    call = seen(said("c", "u", "assistant", code, recipient="python"))
    assert (call.kind, call.tool, call.header) == (Kind.TOOL_CALL, "python", {"id": "c", "language": "python"})
    assert texts(call) == [("", "print(1)")]
    output = {"content_type": "execution_output", "text": "1\n"}
    result = seen(said("t", "c", "tool", output, name="python"))
    assert (result.kind, result.tool, result.header) == (Kind.TOOL_RESULT, "python", {"id": "c", "is_error": False})
    plugin = seen(said("p", "u", "assistant", '{"query": "x"}', recipient="web.run"))
    assert (plugin.kind, plugin.tool, texts(plugin)[0][0]) == (Kind.TOOL_CALL, "web.run", "arguments")


def test_arguments_that_are_a_document_are_shown_as_what_they_say() -> None:
    text = json.dumps({"name": "notes", "content": "# Notes\n- one", "n": 3}, indent=1)
    for content in (text, {"content_type": "code", "language": "json", "text": text}):
        node = payload(said("c", "u", "assistant", content, recipient="canmore.create_textdoc"))
        event = LENS.view(node, Earlier())
        check(event)
        assert [(block.type, block.name) for block in event.blocks] == [
            ("json", "arguments"),
            ("text", "arguments.content"),
        ]
        edited = LENS.edit(node, edit_of(event.blocks[1], NEW), Earlier())
        assert texts(LENS.view(edited, Earlier()))[1] == ("arguments.content", NEW)
        said_now = json.loads(edited)["message"]["content"]
        inner = said_now["text"] if "text" in said_now else said_now["parts"][0]
        assert json.loads(inner) == json.loads(text) | {"content": NEW}
        assert inner.startswith('{\n "name": "notes",\n "content": "')
    plain = seen(said("c", "u", "assistant", "{}", recipient="dalle.text2im"))
    assert texts(plain) == [("", "{}")]


def test_a_result_without_a_name_is_that_of_the_call_before_it() -> None:
    earlier = Earlier()
    earlier.add(LENS.view(payload(said("c", None, "assistant", "go", recipient="browser")), earlier))
    result = LENS.view(payload(said("t", "c", "tool", "came")), earlier)
    assert (result.tool, result.parent) == ("browser", 0)


def test_what_is_empty_or_no_message_is_bookkeeping() -> None:
    for node in (
        {"id": "r", "message": None, "parent": None, "children": ["s"]},
        said("s", "r", "system", ""),
        said("s", "r", "system", {"content_type": "text", "parts": []}),
        said("m", "r", "assistant", {"content_type": "model_editable_context", "model_set_context": ""}),
        said(
            "b", "r", "tool", {"content_type": "tether_browsing_display", "result": "", "summary": "", "assets": None}
        ),
        said("t", "r", "assistant", {"content_type": "thoughts", "thoughts": [], "source_analysis_msg_id": "x"}),
        {},
    ):
        event = seen(node)
        assert (event.kind, event.blocks) == (Kind.RECORD, ())
    assert seen({"id": "r", "message": "odd", "parent": None}).kind is Kind.NOTE


def test_damaged_nodes_are_notes_with_their_text() -> None:
    for damaged in (b'{"id": "x", "mess', b"[1]", b"\xff\xfe", b'{"id": EPOCH}'):
        assert LENS.view(damaged, Earlier()).kind is Kind.NOTE


def test_thoughts_and_how_long_they_took() -> None:
    thoughts = [{"summary": "Looking", "content": "First this.\nThen that.", "chunks": [], "finished": True}]
    event = seen(said("t", "u", "assistant", {"content_type": "thoughts", "thoughts": thoughts}))
    assert event.kind is Kind.REASONING
    assert texts(event) == [("summary", "Looking"), ("", "First this.\nThen that.")]
    recap = seen(said("r", "t", "assistant", {"content_type": "reasoning_recap", "content": "Thought for 8s"}))
    assert (recap.kind, texts(recap)) == (Kind.NOTE, [("", "Thought for 8s")])


def test_what_users_say_of_themselves_is_for_the_system() -> None:
    content = {"content_type": "user_editable_context", "user_profile": "A baker", "user_instructions": "Be brief"}
    node = said("c", "r", "user", content, metadata={"is_visually_hidden_from_conversation": True})
    event = seen(node)
    assert (event.kind, event.header) == (Kind.SYSTEM, {"hidden": True})
    assert texts(event) == [("user_profile", "A baker"), ("user_instructions", "Be brief")]


def test_pages_that_were_read_are_resources_under_their_address() -> None:
    quote = {
        "content_type": "tether_quote",
        "url": "https://a.example/b",
        "domain": "a.example",
        "text": "Said",
        "title": "T",
    }
    event = seen(said("q", "c", "tool", quote, name="browser"))
    assert [(resource.uri, resource.content) for resource in event.resources] == [("https://a.example/b", "Said")]
    assert texts(event) == [("title", "T"), ("", "Said")]
    upload = seen(said("q", "c", "tool", quote | {"url": "file-Xyz"}, name="browser"))
    assert upload.resources[0].uri == "attachment:file-Xyz"
    display = {"content_type": "tether_browsing_display", "result": "L0: page", "summary": "sum", "assets": None}
    assert texts(seen(said("d", "c", "tool", display))) == [("", "L0: page"), ("summary", "sum")]
    failed = seen(said("e", "c", "tool", {"content_type": "system_error", "name": "ToolError", "text": "no"}))
    assert (failed.header["is_error"], failed.header["error"], texts(failed)) == (True, "ToolError", [("", "no")])


def test_images_and_sound_come_from_the_files_of_the_export() -> None:
    parts = [
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-AbC123", "width": 4, "height": 2},
        "What is this?",
        {"content_type": "audio_transcription", "text": "I say", "direction": "in"},
        {
            "content_type": "real_time_user_audio_video_asset_pointer",
            "frames_asset_pointers": [],
            "audio_asset_pointer": {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_0001"},
        },
    ]
    attached = [{"id": "file-AbC123", "name": "p/hoto.png", "size": 9}, {"id": "file-Notes", "name": "notes.md"}]
    event = seen(
        said("u", "r", "user", {"content_type": "multimodal_text", "parts": parts}, metadata={"attachments": attached})
    )
    assert [(block.type, block.uri, block.mime) for block in event.blocks] == [
        ("image", "attachment:file-AbC123/p_hoto.png", "image/png"),
        ("text", "", ""),
        ("text", "", ""),
        ("resource", "attachment:file_0001/audio.wav", "audio/wav"),
        ("resource", "attachment:file-Notes/notes.md", "text/markdown"),
    ]
    assert [resource.data for resource in event.resources] == list(FILES.values())


def test_what_code_has_drawn_is_shown_with_its_output() -> None:
    image = {"message_type": "image", "image_url": "file-service://file-AbC123", "width": 6, "height": 4}
    run = {"status": "failed_with_in_kernel_exception", "messages": [{"message_type": "stream", "text": "x"}, image]}
    output = {"content_type": "execution_output", "text": "<<ImageDisplayed>>"}
    event = seen(said("t", "c", "tool", output, name="python", metadata={"aggregate_result": run}))
    assert [(block.type, block.uri) for block in event.blocks] == [
        ("text", ""),
        ("image", "attachment:file-AbC123/image.png"),
    ]
    assert event.resources[0].data == PNG
    assert event.header["is_error"] is True


def test_files_that_the_export_does_not_hold_are_named() -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_9", "width": 4, "height": 2}
    image["metadata"] = {"dalle": {"prompt": "a fox"}}
    node = said("u", "r", "tool", {"content_type": "multimodal_text", "parts": [image]}, name="dalle.text2im")
    event = seen(node)
    assert texts(event) == [("", "[image file_9, 4x2: not in the export]"), ("prompt", "a fox")]
    assert event.resources == ()
    with pytest.raises(UsageError, match="no text in this record"):
        LENS.edit(payload(node), edit_of(event.blocks[0], "[other]"), Earlier({}, "chatgpt-file"))


def test_what_is_cited_is_listed_once() -> None:
    references = [
        {"type": "grouped_webpages", "items": [{"title": "A\npage", "url": "https://a.example"}]},
        {
            "type": "sources_footnote",
            "sources": [{"title": "", "url": "https://b.example"}, {"url": "https://a.example"}],
        },
        {"type": "hidden"},
        "odd",
    ]
    citations = [{"metadata": {"title": "B", "url": "https://b.example"}}, {"url": "https://c.example"}]
    event = seen(said("a", "u", "assistant", "So", metadata={"content_references": references, "citations": citations}))
    assert event.blocks[1] == Block(
        "text", "- [A page](https://a.example)\n- [B](https://b.example)\n- https://c.example", name="citations"
    )


def test_what_a_search_found_is_listed() -> None:
    found = {"title": "A", "url": "https://a.example", "snippet": "so"}
    groups = [
        {"type": "search_result_group", "domain": "a.example", "entries": [found, {"url": ""}]},
        {"entries": None},
    ]
    node = said("t", "c", "tool", "", name="web.run", metadata={"search_result_groups": groups})
    event = seen(node)
    assert (event.kind, event.tool) == (Kind.TOOL_RESULT, "web.run")
    assert texts(event) == [("search_results", "- [A](https://a.example)")]
    with pytest.raises(UsageError, match="no text in this record"):
        LENS.edit(payload(node), edit_of(event.blocks[0], "other"), Earlier())


def test_contents_of_types_that_are_not_known_are_shown_whole() -> None:
    event = seen(said("x", "u", "assistant", {"content_type": "super_widget", "html": "<a\n>", "n": {"deep": ['"']}}))
    assert [(block.type, block.name) for block in event.blocks] == [
        ("json", "content"),
        ("text", "content.html"),
        ("text", "content.n.deep[0]"),
    ]
    odd = {"content_type": "text", "parts": [None, 3, {"content_type": "new", "a": "b"}, ["x"], "said"]}
    assert texts(seen(said("x", "u", "user", odd)))[-1] == ("", "said")
    for content in (
        None,
        3,
        "bare",
        {"content_type": "code", "text": 3},
        {"content_type": "thoughts", "thoughts": ["x"]},
    ):
        node = said("x", "u", "assistant", "y")
        node["message"]["content"] = content  # type: ignore[index]
        seen(node)


def test_every_text_can_be_edited_and_the_rest_stays() -> None:
    thoughts = [{"summary": "S", "content": "C"}, {"summary": "", "content": "D"}]
    for content in (
        "plain",
        {
            "content_type": "multimodal_text",
            "parts": ["one", "two", {"content_type": "audio_transcription", "text": "x"}],
        },
        {"content_type": "code", "language": "unknown", "text": "x = 1"},
        {"content_type": "execution_output", "text": "1"},
        {"content_type": "thoughts", "thoughts": thoughts},
        {"content_type": "reasoning_recap", "content": "Thought"},
        {"content_type": "tether_quote", "url": "https://a.example", "text": "t", "title": "u", "domain": "d"},
        {"content_type": "tether_browsing_display", "result": "r", "summary": "s"},
        {"content_type": "user_editable_context", "user_profile": "p", "user_instructions": "i"},
        {"content_type": "model_editable_context", "model_set_context": "m", "repository": None},
        {"content_type": "system_error", "name": "n", "text": "t"},
        {"content_type": "other", "deep": [{"er": "a\nb"}]},
    ):
        node = payload(said("x", "u", "tool", content, name="t"))
        event = LENS.view(node, Earlier())
        for at, block in enumerate(event.blocks):
            assert LENS.edit(node, edit_of(block, block.text or ""), Earlier()) == node
            if block.type != "json":
                assert check_text_edit(LENS, node, Earlier(), event, at, NEW) == {block.path}


def test_what_a_node_says_twice_is_edited_twice() -> None:
    run = {
        "status": "success",
        "code": "x",
        "final_expression_output": "42",
        "messages": [{"text": "42", "stream_name": "stdout"}],
    }
    output = {"content_type": "execution_output", "text": "42"}
    node = payload(said("t", "c", "tool", output, name="python", metadata={"aggregate_result": run}))
    edited = LENS.edit(node, edit_of(LENS.view(node, Earlier()).blocks[0], NEW), Earlier())
    place = ("message", "metadata", "aggregate_result")
    assert changed_paths(node, edited) == {
        ("message", "content", "text"),
        (*place, "final_expression_output"),
        (*place, "messages", 0, "text"),
    }

    thought = {"summary": "", "content": "One. Two.", "chunks": ["One.", "Two."]}
    node = payload(said("t", "u", "assistant", {"content_type": "thoughts", "thoughts": [thought]}))
    edited = LENS.edit(node, edit_of(LENS.view(node, Earlier()).blocks[0], "One. Three."), Earlier())
    assert json.loads(edited)["message"]["content"]["thoughts"][0]["chunks"] == ["One.", "Three."]

    context = {
        "content_type": "user_editable_context",
        "user_profile": "They said:\n```A baker```",
        "user_instructions": "",
    }
    data = {"user_context_message_data": {"about_user_message": "A baker", "about_model_message": ""}}
    node = payload(said("t", "u", "user", context, metadata=data))
    edited = LENS.edit(node, edit_of(LENS.view(node, Earlier()).blocks[0], "They said:\n```A smith```"), Earlier())
    now = json.loads(edited)["message"]["metadata"]["user_context_message_data"]
    assert now == {"about_user_message": "A smith", "about_model_message": ""}


def test_fields_of_the_head_can_be_edited_where_the_node_holds_them() -> None:
    node = payload(said("c", "u", "assistant", "go", recipient="python", metadata={"model_slug": "gpt-5"}))

    def changed(record: bytes, key: str, value: str) -> Event:
        return LENS.view(LENS.edit(record, EventEdit(fields=(FieldEdit(key, value),)), Earlier()), Earlier())

    assert changed(node, "tool", "browser").tool == "browser"
    assert changed(node, "model", "gpt-6").header["model"] == "gpt-6"
    assert changed(node, "timestamp", "2031-01-02T03:04:05.678Z").time_ms == 1_925_089_445_678
    result = payload(said("t", "c", "tool", "came", name="python"))
    assert changed(result, "tool", "browser").tool == "browser"
    for record, key in ((node, "id"), (node, "colour"), (payload(said("t", "c", "tool", "came")), "tool")):
        with pytest.raises(UsageError):
            changed(record, key, "other")


def test_a_person_may_add_messages() -> None:
    before = payload(said("a", "u", "assistant", "Ho"))
    for kind in (Kind.USER, Kind.ASSISTANT, Kind.SYSTEM):
        node = LENS.compose(kind, NEW, before, 1_700_000_000_123)
        event = LENS.view(node, Earlier())
        assert (event.kind, texts(event), event.time_ms) == (kind, [("", NEW)], 1_700_000_000_123)
        assert json.loads(node)["parent"] == "a"
    assert json.loads(LENS.compose(Kind.USER, "Hi", None, 1))["parent"] is None
    for kind, text in ((Kind.CONFIG, "x"), (Kind.USER, "")):
        with pytest.raises(UsageError):
            LENS.compose(kind, text, before, 1)


ASSETS = [
    {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://file-AbC123",
        "metadata": {"dalle": {"prompt": "p"}},
    },
    {
        "content_type": "real_time_user_audio_video_asset_pointer",
        "audio_asset_pointer": {"asset_pointer": "sediment://file_0001"},
    },
    "said",
]
METADATA = {
    "attachments": [{"id": "file-Notes", "name": "n", "size": 3}],
    "citations": [{"metadata": {"url": "u", "title": "t"}}],
    "content_references": [{"items": [{"url": "a", "title": "b"}]}],
    "search_result_groups": [{"entries": [{"url": "u", "title": "t"}]}],
}
THOUGHTS = {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "c d", "chunks": ["c"]}]}
RUN = {"aggregate_result": {"messages": [{"text": "x"}]}}
NODES = [
    said("a", "b", "user", {"content_type": "multimodal_text", "parts": ASSETS}, metadata=METADATA),
    said(
        "t",
        "c",
        "assistant",
        {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "c d", "chunks": ["c"]}]},
    ),
    said("t", "c", "assistant", '{"a": "b\\nc"}', recipient="x"),
    said("q", "c", "tool", {"content_type": "tether_quote", "url": "u", "text": "t", "title": "x"}),
    said(
        "e",
        "c",
        "tool",
        {"content_type": "execution_output", "text": "x"},
        metadata={"aggregate_result": {"messages": [{"text": "x"}]}},
    ),
]


@given(mutated(NODES))
def test_whatever_a_node_holds_it_is_an_event_and_its_texts_are_edited_or_refused(record: bytes) -> None:
    earlier = Earlier(FILES, "chatgpt-file")
    event = LENS.view(record, earlier)
    check(event)
    assert all(isinstance(name, str) for name in named_files(record))
    for block in event.blocks:
        if block.text is not None:
            new = '{"new": 1}' if block.type == "json" else NEW
            made_or_refused(partial(LENS.edit, record, edit_of(block, new), earlier))
    CHATGPT.without([record, payload(NODES[0])], {1})

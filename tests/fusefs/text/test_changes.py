import os
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusefs.text.changes import changes
from fusefs.text.grammar import fence
from fusefs.text.parse import ParseError, Value, parse_event
from fusefs.text.render import render_event
from store.events.event import Block, BlockEdit, Event, EventEdit, FieldEdit, Kind, NewBlock, utf8
from store.formats.core.format import Source
from store.formats.core.look import Look
from store.formats.registry import FORMATS, lens_for
from store.results import with_documents
from tests.fusefs.text import strategies
from tests.store.formats.earlier import Earlier

SAMPLES = Path(os.environ.get("CONVFS_SAMPLES") or Path(__file__).parents[4] / "shared" / "samples")

RESULT = Event(
    Kind.TOOL_RESULT,
    tool="Grep",
    header={"id": "call_7", "is_error": False, "model": "m-1", "pre_tokens": 5, "timestamp": "2026-03-05T19:31:54Z"},
    blocks=(Block("text", "Found one file.", path=("content",)),),
    parent=3,
)
CALL = Event(
    Kind.TOOL_CALL,
    tool="Bash",
    blocks=(
        Block("json", '{\n  "a": 1\n}', name="arguments", path=("input",), encoding="base64"),
        Block("text", "ls\n", name="arguments.command", path=("input", "command")),
        Block("resource", "# A", uri="file:///a.md", mime="text/markdown", path=("file",)),
        Block("image", data=b"\x89PNG", uri="file:///a.png", mime="image/png"),
    ),
)
DRAWN = render_event(7, RESULT)
DRAWN_CALL = render_event(7, CALL)


def edited(event: Event, *replacements: tuple[str, str]) -> EventEdit:
    """Return what :func:`changes` sees after each first string in the file became the second."""
    drawn = render_event(7, event)
    text = drawn.decode()
    for before, after in replacements:
        assert before in text
        text = text.replace(before, after, 1)
    return changes(7, event, drawn, text.encode())


def refused(event: Event, *replacements: tuple[str, str]) -> str:
    with pytest.raises(ParseError) as raised:
        edited(event, *replacements)
    assert str(raised.value).isprintable()
    return str(raised.value)


def test_the_same_bytes_change_nothing_whatever_they_are() -> None:
    assert changes(7, RESULT, b"\xff---", b"\xff---") == EventEdit()


def test_a_text_that_changed() -> None:
    assert edited(RESULT, ("one file.", "two files.\n")) == EventEdit((BlockEdit(("content",), "Found two files.\n"),))


def test_fields_that_changed() -> None:
    edit = edited(RESULT, ("is_error: false", "is_error: true"), ("tool: Grep", 'tool: "7"'), ("m-1", "m-2"))
    assert edit == EventEdit((), (FieldEdit("tool", "7"), FieldEdit("is_error", True), FieldEdit("model", "m-2")))


def test_a_field_that_was_not_there_and_could_be() -> None:
    assert edited(CALL, ("tool: Bash\n", "tool: Bash\nmodel: m\n")).fields == (FieldEdit("model", "m"),)


def test_numbered_fields() -> None:
    event = msgspec.structs.replace(RESULT, header={"is_error_2": True, "tool_2": "Read", "id_2": "x"})
    edit = edited(event, ("is_error_2: true", "is_error_2: false"), ("tool_2: Read", "tool_2: Write"))
    assert edit.fields == (FieldEdit("is_error_2", False), FieldEdit("tool_2", "Write"))
    assert edited(event, ("id_2: x", "id_2: z")).fields == (FieldEdit("id_2", "z"),)


def test_every_block_that_changed_is_its_own_edit() -> None:
    edit = edited(CALL, ('"a": 1', '"a": 2'), ("\nls\n", "\nls -l\n"), ("# A", ""))
    assert edit.blocks == (
        BlockEdit(("input",), '{\n  "a": 2\n}', "arguments", "json", "base64"),
        BlockEdit(("input", "command"), "ls -l\n", "arguments.command"),
        BlockEdit(("file",), "", "", "resource"),
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("event: 7", "event: 8", 'line 2: "event" cannot be changed: write back event: 7'),
        ("type: tool_result", "type: user", 'line 3: "type" cannot be changed: write back type: tool_result'),
        ("parent: 3", "parent: none", 'line 9: "parent" cannot be changed: write back parent: 3'),
        ("is_error: false", "is_error: no way", 'line 6: "is_error" is true or false: write one of these'),
        ("model: m-1", "model: 5", 'line 7: "model" is a text: write "5", in double quotes'),
        ("parent: 3", "parents: 3", 'line 9: an event has no field "parents" to write: remove this line'),
        ("model: m-1\n", "", "line 1: a field is missing from the head: write back model: m-1"),
        ("parent: 3\n", '"tool": x\n', 'line 9: an event has no field "tool" to write: remove this line'),
        ("---\nevent", "event", "line 1: this line is one of the head's: begin the head in line 1 with ---"),
        ("---\nevent: 7\ntype: tool_result\n", "", "line 1: this line is one of the head's"),
        ("---\nevent", "\n---\nevent", "line 3: this line is one of the head's"),
        ("Found one", "````block text\nFound", "line 12: this block has no end: write a line ````"),
        ("Found", "````block json a\n{}\n````\n\n````block text\nFound", "line 16: this block has no end"),
        (
            "Found one file.",
            "````block json a\n{}\n````",
            "line 12: what a block is cannot be changed: write back ````block text",
        ),
        (
            "Found one file.",
            "````block text\nFound one file.\n````\n````block resource file:///a\nFound\n````",
            "line 15: a block of the type resource cannot be added by hand",
        ),
        (
            "Found one file.",
            '````block text\nFound one file.\n````\n![a](b "block image c")',
            "line 15: this link leads to nothing that the event holds",
        ),
    ],
)
def test_what_only_is_there_to_be_read(before: str, after: str, message: str) -> None:
    assert refused(RESULT, (before, after)).startswith(message)


JSON_BLOCK = '````block json arguments\n{\n  "a": 1\n}\n````\n\n'
TEXT_BLOCK = "````block text arguments.command\nls\n\n````\n\n"
IMAGE = DRAWN_CALL.decode().splitlines()[-1]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (IMAGE, IMAGE.replace("convfs", "conv"), f"line 21: this link stands for what is not text: write back {IMAGE}"),
        (IMAGE, IMAGE.replace("a.png", "b.png"), f"line 21: what a block is cannot be changed: write back {IMAGE}"),
        (
            "json arguments",
            "text arguments",
            "line 6: what a block is cannot be changed: write back ````block json arg",
        ),
        (
            "````block json arguments\n",
            "",
            "line 6: the content stands in blocks: let it begin with ````block json arg",
        ),
        ('"a": 1', '"a": 1,', "line 9: this is not JSON, in column 1 ("),
        ('"a": 1', '"a": NaN', "line 6: this block is not JSON (there is no NaN): correct it"),
        ('{\n  "a": 1\n}', "[" * 100_000, "line 6: this block is not JSON ("),
    ],
)
def test_what_blocks_are_stays_as_it_is(before: str, after: str, message: str) -> None:
    assert refused(CALL, (before, after)).startswith(message)


ANOTHER = TEXT_BLOCK.replace("command", "x")


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [
        (JSON_BLOCK, "", (1, 2, 3)),
        (IMAGE, "", (0, 1, 2)),
        (JSON_BLOCK + TEXT_BLOCK, TEXT_BLOCK + JSON_BLOCK, (1, 0, 2, 3)),
        (TEXT_BLOCK, TEXT_BLOCK + ANOTHER, (0, 1, NewBlock("text", "ls\n", "arguments.x"), 2, 3)),
        (IMAGE, f"{IMAGE}\n{IMAGE}", (0, 1, 2, 3, NewBlock("image", None, "", 3))),
    ],
)
def test_blocks_that_were_added_removed_and_moved(
    before: str, after: str, order: tuple[int | NewBlock, ...]
) -> None:
    assert edited(CALL, (before, after)) == EventEdit((), (), order)


def test_a_text_that_changed_beside_one_that_was_added() -> None:
    edit = edited(RESULT, ("Found one file.", "````block text\nSee:\n````\n````block text\nFound no file.\n````"))
    assert edit == EventEdit((BlockEdit(("content",), "Found no file."),), (), (NewBlock("text", "See:"), 0))


def test_a_text_may_get_a_fence_and_lose_it() -> None:
    assert edited(RESULT, ("Found one file.", "````block text\nFound one file.\n````")) == EventEdit()
    event = msgspec.structs.replace(RESULT, blocks=(Block("text", "````block text\na\n````", path=("x",)),))
    drawn = render_event(7, event)
    assert b"`````block text\n````block text\na\n````\n`````\n" in drawn
    head = drawn[: drawn.index(b"`")]
    assert changes(7, event, drawn, head + b"a\n").blocks == (BlockEdit(("x",), "a"),)
    with pytest.raises(ParseError, match="line 14: the text begins before this fence: move it into the block"):
        changes(7, event, drawn, drawn.replace(head, head + b"Look:\n\n"))


def test_an_empty_text_and_no_content_are_told_apart_by_the_event() -> None:
    empty = msgspec.structs.replace(RESULT, blocks=(Block("text", "", path=("x",)),))
    nothing = msgspec.structs.replace(RESULT, blocks=())
    drawn, bare = render_event(7, empty), render_event(7, nothing)
    assert drawn == bare + b"\n"
    assert changes(7, empty, drawn, bare) == changes(7, nothing, bare, drawn) == EventEdit()
    assert changes(7, RESULT, DRAWN, bare).blocks == (BlockEdit(("content",), ""),)
    assert changes(7, nothing, bare, DRAWN).order == (NewBlock("text", "Found one file."),)


def test_a_file_without_a_head_changes_no_field() -> None:
    assert changes(7, RESULT, DRAWN, b"A\n---\n\nB\n").blocks == (BlockEdit(("content",), "A\n---\n\nB"),)
    assert changes(7, RESULT, DRAWN, b"Nothing.\n").blocks == (BlockEdit(("content",), "Nothing."),)
    assert changes(7, RESULT, DRAWN, b"---\n---\nNothing.\n").blocks == (BlockEdit(("content",), "Nothing."),)


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(ParseError, match="line 1: the file is empty"):
        changes(7, RESULT, DRAWN, b"")


def test_what_is_shown_with_losses_is_read_only() -> None:
    event = msgspec.structs.replace(RESULT, lossy=True)
    assert changes(7, event, DRAWN, DRAWN) == EventEdit()
    assert refused(event, ("one file", "two files")).startswith("line 12: event 7 is read-only")
    with pytest.raises(ParseError, match="line 13: "):
        changes(7, event, DRAWN, DRAWN + b"\n")
    with pytest.raises(ParseError, match="line 12: "):
        changes(7, event, DRAWN, DRAWN[:-1])


def test_a_result_that_is_a_document_is_changed_in_its_blocks_or_as_a_whole() -> None:
    document = '{"agent":"Explore",  "report": "Two places:\\n- one"}'
    event = msgspec.structs.replace(RESULT, blocks=(Block("text", document, path=("content",)),))
    drawn = render_event(7, event)
    assert b"\n````block text result.report\nTwo places:\n- one\n````\n" in drawn
    for before, after, new in (
        ("- one", "- two\n- three", document.replace("one", "two\\n- three")),
        ("Explore", "Plan", document.replace("Explore", "Plan")),
    ):
        assert edited(event, (before, after)) == EventEdit((BlockEdit(("content",), new),))
    head = drawn[: drawn.index(b"`")]
    for data in (b"None.\n", head + b"None.\n"):
        assert changes(7, event, drawn, data).blocks == (BlockEdit(("content",), "None."),)
    assert changes(7, event, drawn, head + document.encode() + b"\n") == EventEdit()
    assert refused(event, ("````block json result\n", "")).startswith("line 12: the content stands in blocks")
    at = drawn.index(b"\n````block text result.report")
    with pytest.raises(ParseError, match="line 16: this block is a part of a result that is JSON"):
        changes(7, event, drawn, drawn[:at])


def test_an_artifact_is_read_only() -> None:
    event = msgspec.structs.replace(RESULT, blocks=(Block("artifact", "out", uri="artifact:0"),))
    assert refused(event, ("out", "in")).startswith("line 12: the text of an artifact cannot be changed here")


# What holds for every event


def outcome(number: int, event: Event, drawn: bytes, data: bytes) -> EventEdit | None:
    """Return what changed; None where that is refused, which must be clear."""
    refusal = None
    try:
        return changes(number, event, drawn, data)
    except ParseError as error:
        refusal = error
    assert 1 <= refusal.line <= data.count(b"\n") + 1
    assert "\n" not in str(refusal)
    return None


def careless(drawn: bytes, *, plain: bool) -> Iterator[bytes]:
    """Yield the file as careless programs leave it."""
    end = drawn.index(b"\n---\n") + 5
    head, content = drawn[:end], drawn[end:]
    yield b"\xef\xbb\xbf" + drawn
    yield head.replace(b"\n", b"\r\n") + content
    yield head.replace(b"\n", b" \t\n") + content
    if not plain:
        yield drawn + b"\n" if content else drawn
        yield head + b"\n" + content if content.startswith(b"`") else drawn
    if not content.endswith(b"\n\n") or not plain:
        yield drawn.removesuffix(b"\n")


def is_plain(drawn: bytes) -> bool:
    blocks = parse_event(drawn).blocks
    return any(not block.opening for block in blocks)


def placed(event: Event) -> Event:
    """Return ``event`` with blocks that come from different places."""
    blocks = (msgspec.structs.replace(block, path=("blocks", at)) for at, block in enumerate(event.blocks))
    return msgspec.structs.replace(event, blocks=tuple(blocks))


def with_text(event: Event, at: int, text: str) -> Event:
    blocks = list(event.blocks)
    blocks[at] = msgspec.structs.replace(blocks[at], text=text)
    return msgspec.structs.replace(event, blocks=tuple(blocks))


def as_shown(text: str) -> str:
    return utf8(text).decode()


@given(strategies.events())
def test_what_does_no_harm_is_no_change(event: Event) -> None:
    drawn = render_event(7, event)
    assert changes(7, event, drawn, drawn) == EventEdit()
    for data in careless(drawn, plain=is_plain(drawn)):
        assert changes(7, event, drawn, data) == EventEdit()


json_texts = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
).map(lambda value: msgspec.json.format(msgspec.json.encode(value)).decode())


# how long drawing takes is the machine's load, not the strategies'
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(strategies.events().map(placed), st.data())
def test_a_new_text_is_exactly_one_edit(event: Event, data: st.DataObject) -> None:
    places = [at for at, block in enumerate(event.blocks) if block.text is not None and block.type != "artifact"]
    if not places:
        return
    at = data.draw(st.sampled_from(places))
    block = event.blocks[at]
    text = data.draw(json_texts if block.type == "json" else strategies.texts)
    edit = changes(7, event, render_event(7, event), render_event(7, with_text(event, at, text)))
    if as_shown(text) == as_shown(block.text or ""):
        assert edit == EventEdit()
    else:
        assert edit == EventEdit((BlockEdit(block.path, as_shown(text), block.name, block.type, block.encoding),))  # type: ignore[arg-type]


def sort(value: Value) -> type:
    return float if type(value) is int else type(value)


@given(
    strategies.events(),
    st.sampled_from(["is_error", "model", "level", "default_2"]),
    strategies.values,
    strategies.values,
)
def test_a_new_value_is_exactly_one_edit(event: Event, key: str, before: Value, after: Value) -> None:
    old = msgspec.structs.replace(event, header={**event.header, key: before})
    new = msgspec.structs.replace(event, header={**event.header, key: after})
    drawn, data = render_event(7, old), render_event(7, new)
    if drawn == data:
        assert changes(7, old, drawn, data) == EventEdit()
    elif sort(before) is not sort(after):
        with pytest.raises(ParseError):
            changes(7, old, drawn, data)
    else:
        (field,) = changes(7, old, drawn, data).fields
        assert (field.key, repr(field.value)) == (key, repr(after))


pieces = st.one_of(
    st.binary(max_size=4),
    st.sampled_from([b"\n", b"---\n", b"````\n", b"````block text\n", b"`", b'"', b": ", b"\r", b"event: 7\n", b"\\"]),
    st.sampled_from([b"````block json x\n{}\n````\n", b'![a](b "block image x")\n', b"tool: x\n", b"is_error: true\n"]),
)


@given(strategies.events().map(placed), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), pieces), max_size=4))
def test_whatever_is_done_to_a_file_is_an_edit_or_a_clear_error(
    event: Event, mutations: list[tuple[float, int, bytes]]
) -> None:
    drawn = data = render_event(7, event)
    for where, removed, added in mutations:
        at = int(where * len(data))
        data = data[:at] + added + data[at + removed :]
    edit = outcome(7, event, drawn, data)
    if edit is None:
        return
    # what the edit says is what the file says
    after = event
    for block in edit.blocks:
        after = with_text(after, int(block.path[1]), block.text)
    said = [block.text for block in parse_event(data).blocks]
    every = range(len(after.blocks)) if edit.order is None else edit.order
    texts = [after.blocks[one].text if isinstance(one, int) else one.text for one in every]
    shows = [None if text is None else as_shown(text) for text in texts]
    if not shows:
        assert not said or (len(said) == 1 and not (said[0] or "").strip())
    else:
        assert said == shows or (not said and shows == [""])


def sessions() -> Iterator[tuple[str, Source]]:
    for format_ in FORMATS:
        for path in sorted(SAMPLES.rglob("*")):
            if source := format_.claim(Look(path)):
                yield format_.name, source


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)")
def test_every_event_of_every_sample() -> None:
    chance = random.Random(7)
    seen = 0
    formats = {format_.name: format_ for format_ in FORMATS}
    for path, name in {source.main: name for name, source in sessions()}.items():
        data, lens, earlier = path.read_bytes(), lens_for(formats[name].main_type), Earlier()
        for number, span in enumerate(formats[name].spans(memoryview(data), 0), 1):
            event = earlier.add(lens.view(data[span.start : span.end], earlier))
            if event.kind is not Kind.RECORD:
                seen += 1
                check(number, event, chance)
    assert seen


def check(number: int, event: Event, chance: random.Random) -> None:
    drawn = render_event(number, event)
    assert changes(number, event, drawn, drawn) == EventEdit()
    if event.lossy:
        with pytest.raises(ParseError, match="read-only"):
            changes(number, event, drawn, drawn + b"\n")
        return
    for data in careless(drawn, plain=is_plain(drawn)):
        assert changes(number, event, drawn, data) == EventEdit()
    shown = with_documents(event)
    for at, block in enumerate(event.blocks):
        if block.text is None or (shown is not event and len(event.blocks) > 1):
            continue
        text = f"[{block.text}]" if block.type == "json" else f"````block\n{block.text}\n{fence(block.text)}"
        data = render_event(number, with_text(event, at, text))
        (edit,) = changes(number, event, drawn, data).blocks
        assert (edit.path, edit.text) == (block.path, text)
    for at, block in enumerate(shown.blocks if shown is not event else ()):
        if block.type == "text":
            data = render_event(number, with_text(shown, at, "other\n"))
            (edit,) = changes(number, event, drawn, data).blocks
            assert edit.text == "other\n" if edit.path == block.path else block.path[: len(edit.path)] == edit.path
    at = chance.randrange(len(drawn))
    outcome(number, event, drawn, drawn[:at] + drawn[at + chance.randrange(1, 200) :])

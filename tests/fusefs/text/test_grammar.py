import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.grammar import body, body_size, encoded_size, fence, head, head_size, scalar, timestamp
from fusefs.text.parse import Value, parse_event
from store.events.event import Block, Event, Kind, utf8
from tests.fusefs.text import strategies


def same(left: Value, right: Value) -> bool:
    return type(left) is type(right) and (left == right or (left != left and right != right))


def test_a_head_holds_its_fields_in_order() -> None:
    event = Event(
        Kind.TOOL_RESULT,
        tool="fs_read_file",
        header={"id": "call_7", "is_error": False, "timestamp": "2026-03-05T19:31:54.356164Z", "model": "m: 1"},
        time_ms=1_772_739_114_356,
        parent=3,
    )
    assert head(7, event) == (
        "---\n"
        "event: 7\n"
        "type: tool_result\n"
        "tool: fs_read_file\n"
        "id: call_7\n"
        "is_error: false\n"
        'model: "m: 1"\n'
        "parent: 3\n"
        "timestamp: 2026-03-05T19:31:54.356164Z\n"
        "---\n"
    )


def test_an_events_time_is_shown_where_its_producer_wrote_none() -> None:
    event = Event(Kind.USER, time_ms=1_772_739_114_356, parent=-1)
    assert head(1, event) == "---\nevent: 1\ntype: user\nparent: none\ntimestamp: 2026-03-05T19:31:54.356Z\n---\n"


@pytest.mark.parametrize(
    ("time_ms", "shown"),
    [
        (1, "1970-01-01T00:00:00.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000"),
        (-62_135_596_800_001, "-62135596800001"),
    ],
)
def test_times_that_no_calendar_has_are_numbers(time_ms: int, shown: str) -> None:
    assert timestamp(time_ms) == shown


PLAIN = ["call_7", "claude-opus-4-5", "/home/me/app", "file:///a/b.rs", "b5692723-2180-49c5-bc25-6536e06855a5", "Zoë"]
PLAIN += ["2026-03-05T19:31:54Z", "a(b)", "C:\\x", "don't", "a b"]
AMBIGUOUS = ["", "true", "No", "null", "~", "7", "-1", "1.5", "1e5", "0x1f", "12:30", "1_000", ".5", ".inf", " a", "a "]
AMBIGUOUS += ["a: b", "a #b", "a:", "- a", "[", "{", "'a'", '"a"', "&a", "*a", "!a", "|", ">", "%a", "@a", "`a`", "="]
HIDDEN = ["a\nb", "a\tb", "\x85", "\u202ea", "\ufeff", "\ud800", "a\u2028b", "\x00"]


@pytest.mark.parametrize("text", PLAIN)
def test_what_nobody_can_misread_is_plain(text: str) -> None:
    assert scalar(text) == text


@pytest.mark.parametrize("text", AMBIGUOUS + HIDDEN)
def test_what_could_be_misread_is_quoted(text: str) -> None:
    quoted = scalar(text)
    assert quoted[0] == quoted[-1] == '"'
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]", quoted)


@given(strategies.events(), st.integers(1, 10**7))
def test_a_head_reads_back_as_it_was(event: Event, number: int) -> None:
    expected: list[tuple[str, Value]] = [("event", number), ("type", event.kind.name.lower())]
    if event.tool:
        expected.append(("tool", event.tool))
    expected += [(key, value) for key, value in event.header.items() if key != "timestamp"]
    if event.parent:
        expected.append(("parent", event.parent if event.parent > 0 else "none"))
    if "timestamp" in event.header:
        expected.append(("timestamp", event.header["timestamp"]))
    elif event.time_ms:
        shown = timestamp(event.time_ms)
        expected.append(("timestamp", shown if shown.endswith("Z") else int(shown)))
    text = head(number, event)
    file = parse_event(utf8(text))
    fields = sorted([*file.head.items(), *file.header.items()], key=lambda item: item[1].line)
    assert [field.line for _, field in fields] == list(range(2, len(fields) + 2))
    assert [key for key, _ in fields] == [key for key, _ in expected]
    assert all(same(left.value, right) for (_, left), (_, right) in zip(fields, expected, strict=True))
    assert head_size(number, event) == len(utf8(text))


@given(st.floats())
def test_numbers_keep_their_value(value: float) -> None:
    seen = parse_event(f"---\nx: {scalar(value)}\n---\n".encode()).header["x"].value
    assert same(seen, value)
    assert math.isnan(value) or seen == value


def test_the_only_text_stands_as_it_is() -> None:
    assert body((Block("text", text="Found one file.\n\n---\n```rust\nx\n```"),), str) == (
        "Found one file.\n\n---\n```rust\nx\n```\n"
    )


def test_nothing_and_an_empty_text_differ() -> None:
    assert body((), str) == ""
    assert body((Block("text", text=""),), str) == "\n"


def test_several_blocks_are_fenced() -> None:
    blocks = (
        Block("text", text="Here it is."),
        Block("resource", text="fn main() {}", uri="file:///project/src/main.rs", mime="text/x-rust"),
        Block("json", text='{\n  "a": 1\n}', name="arguments"),
        Block("text", text="ls\n````\n", name="arguments.command"),
        Block("image", data=b"\x89PNG", uri="file:///tmp/a b.png", mime="image/png"),
    )
    assert body(blocks, lambda _: "../resources/tmp/a%20b.png") == (
        "````block text\n"
        "Here it is.\n"
        "````\n"
        "\n"
        "````block resource file:///project/src/main.rs text/x-rust\n"
        "fn main() {}\n"
        "````\n"
        "\n"
        "````block json arguments\n"
        '{\n  "a": 1\n}\n'
        "````\n"
        "\n"
        "`````block text arguments.command\n"
        "ls\n````\n\n"
        "`````\n"
        "\n"
        '![a%20b.png](../resources/tmp/a%20b.png "block image \\"file:///tmp/a b.png\\" image/png")\n'
    )


@pytest.mark.parametrize(
    "text",
    ["````block", "a\n````block text\nb", "  `````block x", '![](a "block image")', '[a](b "block resource x y")\nc'],
)
def test_a_text_that_looks_like_a_block_is_fenced(text: str) -> None:
    ticks = fence(text)
    assert body((Block("text", text=text),), str) == f"{ticks}block text\n{text}\n{ticks}\n"


@pytest.mark.parametrize("text", ["````", "````blocks", "a ````block text", '\n![](a "block image")', "[a](b)", "![a]"])
def test_a_text_that_looks_like_no_block_is_not(text: str) -> None:
    assert body((Block("text", text=text),), str) == text + "\n"


@pytest.mark.parametrize("block", [Block("json", text="{}"), Block("text", text="x", name="thinking")])
def test_a_block_that_is_not_plain_text_is_fenced_alone_too(block: Block) -> None:
    assert body((block,), str).startswith(f"````block {block.type}")


@given(strategies.texts)
def test_a_fence_is_longer_than_any_run_of_backticks(text: str) -> None:
    runs = [len(run) for run in re.findall("`+", text)]
    assert len(fence(text)) == max([3, *runs]) + 1


@given(strategies.events())
def test_blocks_read_back_as_they_were(event: Event) -> None:
    text = body(event.blocks, lambda _: "../resources/x@00007.bin")
    seen = parse_event(utf8("---\nevent: 1\n---\n" + text)).blocks
    assert len(seen) == len(event.blocks)
    for block, shown in zip(event.blocks, seen, strict=True):
        assert (shown.type, shown.name, shown.uri, shown.mime) == (block.type, block.name, block.uri, block.mime)
        if block.text is None:
            assert shown.link == "../resources/x@00007.bin"
        else:
            assert shown.text == utf8(block.text).decode()
    assert body_size(event.blocks, lambda _: "../resources/y@00007.bin") == len(utf8(text))


@given(st.text(strategies.characters))
def test_half_pairs_become_replacement_characters(text: str) -> None:
    data = utf8(text)
    assert data.decode() == re.sub("[\ud800-\udfff]", "\ufffd", text)
    assert encoded_size(text) == len(data)

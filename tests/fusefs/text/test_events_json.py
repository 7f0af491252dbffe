import base64
import copy
import json
import re
from collections.abc import Sequence

import pytest
from blake3 import blake3
from hypothesis import assume, given
from hypothesis import strategies as st

from fusefs.text import events_json
from fusefs.text.events_json import LONG_STRING, TAIL_SIZE, contents, document, element_size, sized
from store.events.event import Block, Event, Kind, ValuePath
from tests.fusefs.text import strategies


def element(number: int, event: Event, format: str, payload: bytes) -> bytes:
    return events_json.element(number, event, format, blake3(payload).digest(), len(payload))


def reference(content: str | bytes) -> dict[str, object]:
    data = content.encode() if isinstance(content, str) else content
    return {"$blob": blake3(data).hexdigest(), "size": len(data)}


def event(native: object, *blocks: Block) -> Event:
    return Event(Kind.USER, blocks=blocks, native=native)


def parsed(*elements: bytes) -> object:
    return json.loads(b"".join(document(elements)))


def test_contents_become_references() -> None:
    native = {"type": "user", "message": {"content": [{"type": "text", "text": "Grüße"}]}, "n": 1}
    before = copy.deepcopy(native)
    block = Block("text", text="Grüße", path=("message", "content", 0, "text"))
    made = b"".join(document([element(3, event(native, block), "claude-code", b"{}")]))
    assert native == before
    assert made.decode() == (
        "[\n"
        "  {\n"
        '    "$event": 3,\n'
        '    "type": "user",\n'
        '    "message": {\n'
        '      "content": [\n'
        "        {\n"
        '          "type": "text",\n'
        '          "text": {\n'
        f'            "$blob": "{blake3("Grüße".encode()).hexdigest()}",\n'
        '            "size": 7\n'
        "          }\n"
        "        }\n"
        "      ]\n"
        "    },\n"
        '    "n": 1\n'
        "  }\n"
        "]\n"
    )


def test_the_array_of_jp_has_no_keys_of_ours() -> None:
    native = {"type": "chat_request", "content": "aGk=", "image": "iVA="}
    blocks = (
        Block("text", text="hi", path=("content",), encoding="base64"),
        Block("image", data=b"\x89P", path=("image",), encoding="base64"),
    )
    assert parsed(element(1, event(native, *blocks), "jp", b"")) == [
        {"type": "chat_request", "content": reference("hi"), "image": reference(b"\x89P")}
    ]


def test_a_record_that_is_not_json_is_a_reference() -> None:
    payload = b'{"a": tru'
    assert parsed(element(4, event(None, Block("text", text="x")), "claude-code", payload)) == [
        {"$event": 4, "$raw": reference(payload)}
    ]


@pytest.mark.parametrize("native", [[1, "x"], "text", 7, True, {"$event": 9, "a": 1}])
def test_a_record_that_cannot_be_led_by_its_number_is_a_value(native: object) -> None:
    assert parsed(element(4, event(native), "codex", b"")) == [{"$event": 4, "$value": native}]


def test_an_empty_record_has_its_number() -> None:
    assert parsed(element(4, event({}), "codex", b"")) == [{"$event": 4}]


def test_half_pairs_are_spelled_out() -> None:
    native = {"a": "\ud800", "b": "ü"}
    assert parsed(element(1, event(native), "codex", b"")) == [{"$event": 1, **native}]


def test_what_nests_too_deep_is_a_reference() -> None:
    native: list[object] = []
    for _ in range(5000):
        native = [native]
    assert parsed(element(1, event(native), "codex", b"[[")) == [{"$event": 1, "$raw": reference(b"[[")}]


@pytest.mark.parametrize("path", [("b",), ("a", 5), ("a", "x"), ("a", 0, "y"), ("n", "z"), ("o",)])
def test_a_place_that_holds_no_string_stays(path: ValuePath) -> None:
    native = {"a": [1, {}], "t": "text", "n": None, "o": {"p": "q"}}
    assert parsed(element(1, event(native, Block("text", text="x", path=path)), "codex", b"")) == [
        {"$event": 1, **native}
    ]


def test_a_text_that_blocks_lead_into_is_a_reference() -> None:
    text = '{"command": "ls\\npwd", "size": "x\\n", "$blob": "y\\n"}'
    native = {"payload": {"arguments": text, "name": "shell"}}
    blocks = [
        Block("text", inner, path=("payload", "arguments", key))
        for key, inner in (("command", "ls\npwd"), ("size", "x\n"), ("$blob", "y\n"))
    ]
    seen = event(native, *blocks)
    made = [{"$event": 1, "payload": {"arguments": reference(text), "name": "shell"}}]
    assert parsed(element(1, seen, "codex", b"")) == made
    assert len(element(1, seen, "codex", b"")) == element_size(1, seen, "codex", 0)
    assert contents(seen) == [text.encode()]


def test_contents_are_all_that_an_element_names() -> None:
    native = {"a": "shown", "b": "x" * LONG_STRING, "c": "short", "d": base64.b64encode(b"\xff\x00").decode()}
    picture = Block("image", data=b"\xff\x00", path=("d",), encoding="base64")
    assert contents(event(native, Block("text", "shown", path=("a",)), picture)) == [
        b"shown", b"\xff\x00", b"x" * LONG_STRING
    ]  # fmt: skip


def test_arguments_keep_their_shape_around_their_texts() -> None:
    native = {"input": {"command": "ls\n", "timeout": 5}}
    blocks = (
        Block("json", text="{\n}", name="arguments", path=("input",)),
        Block("text", text="ls\n", name="arguments.command", path=("input", "command")),
    )
    assert parsed(element(1, event(native, *blocks), "codex", b"")) == [
        {"$event": 1, "input": {"command": reference("ls\n"), "timeout": 5}}
    ]


def test_a_large_record_keeps_no_long_string() -> None:
    long, short = "ü" * LONG_STRING, "x" * (LONG_STRING - 1)
    native = {"a": [{"twin": long}, short, short], "b": "\ud800" * LONG_STRING}
    assert parsed(element(1, event(native), "codex", b"")) == [
        {"$event": 1, "a": [{"twin": reference(long)}, short, short], "b": native["b"]}
    ]


def test_a_small_record_keeps_its_long_string() -> None:
    native = {"a": "x" * LONG_STRING}
    assert parsed(element(1, event(native), "codex", b"")) == [{"$event": 1, **native}]


numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
long = st.builds(str.__mul__, st.sampled_from(["x", "ü", "\ud800", '"']), st.integers(1000, 1100))
leaves = st.one_of(st.none(), st.booleans(), numbers, strategies.texts, long)
names = st.text(strategies.characters, max_size=5)
natives = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)


def places(value: object, path: ValuePath = ()) -> list[tuple[ValuePath, object]]:
    found: list[tuple[ValuePath, object]] = [(path, value)]
    inner: Sequence[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    for key, child in inner:
        found += places(child, (*path, key))
    return found


@st.composite
def seen_natives(draw: st.DrawFn) -> Event:
    """Draw a record whose strings are partly shown by blocks."""
    native = draw(natives)
    blocks = [
        Block("text", text=value, path=path)
        for path, value in places(native)
        if path and isinstance(value, str) and draw(st.booleans())
    ]
    return event(native, *draw(st.permutations(blocks)))


@given(seen_natives(), st.integers(1, 10**7), st.sampled_from(["jp", "codex"]), st.binary(max_size=9))
def test_an_element_has_its_size_and_leaves_the_record_alone(
    seen: Event, number: int, format: str, payload: bytes
) -> None:
    before = copy.deepcopy(seen.native)
    size = element_size(number, seen, format, len(payload))
    assert len(element(number, seen, format, payload)) == size
    told, named = sized(number, seen, format, len(payload))
    assert (told, sorted(named)) == (size, sorted(contents(seen)))
    assert seen.native == before


@given(seen_natives())
def test_references_resolve_to_the_record(seen: Event) -> None:
    assume(seen.native is not None)
    # half a pair has no bytes that a reference could name
    named = {
        reference(text)["$blob"]: text
        for _, text in places(seen.native)
        if isinstance(text, str) and not re.search("[\ud800-\udfff]", text)
    }

    def resolved(value: object) -> object:
        if isinstance(value, dict):
            if value.keys() == {"$blob", "size"}:
                return named[value["$blob"]]
            return {key: resolved(inner) for key, inner in value.items()}
        return [resolved(inner) for inner in value] if isinstance(value, list) else value

    (made,) = json.loads(b"".join(document([element(1, seen, "jp", b"")])))
    assert resolved(made) == seen.native


@given(st.lists(seen_natives(), max_size=4))
def test_a_document_is_as_long_as_its_elements_say(records: list[Event]) -> None:
    numbered = list(enumerate(records, 1))
    data = b"".join(document(element(number, record, "codex", b"x") for number, record in numbered))
    sizes = [element_size(number, record, "codex", 1) for number, record in numbered]
    assert len(data) == sum(sizes) + TAIL_SIZE
    assert len(json.loads(data)) == len(records)
    if not records:
        assert data == b"[]\n"

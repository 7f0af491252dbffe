import json
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from store.events.event import Block, Event, Kind
from store.formats.core.blocks import argument_blocks
from tests.store.formats.places import check
from tests.store.formats.test_json_view import JSON


def restored(blocks: tuple[Block, ...], name: str) -> object:
    """Put a value together again from its blocks, as someone who edits them would have it."""
    texts = {block.name: block.text for block in blocks if block.type == "text"}
    if name in texts:
        return texts[name]

    def fill(value: object) -> object:
        if isinstance(value, dict):
            if value.keys() == {"$block"}:
                return texts.pop(value["$block"])
            return {key: fill(item) for key, item in value.items()}
        return [fill(item) for item in value] if isinstance(value, list) else value

    left = next((json.loads(block.text or "") for block in blocks if block.type == "json"), {})
    whole = fill(left)
    for block in blocks:
        if block.name in texts:
            assert isinstance(whole, dict)
            whole[block.path[-1]] = block.text
    return whole


def strings(value: object) -> Iterator[str]:
    """Yield the strings of a parsed value that are no keys."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(inner)


@given(JSON)
def test_nothing_is_lost_and_no_text_is_escaped(value: object) -> None:
    blocks = argument_blocks(value, ("input",), "arguments")
    check(Event(Kind.TOOL_CALL, blocks=blocks, native={"input": value}))
    if value is None or value == {}:
        assert blocks == ()
    else:
        assert restored(blocks, "arguments") == value
    for text in strings(json.loads(next((block.text for block in blocks if block.type == "json"), None) or "null")):
        assert json.dumps(text, ensure_ascii=False) == f'"{text}"'


def test_names_and_order() -> None:
    value = {
        "file": "/a",
        "command": "ls\npwd",
        "edits": [{"old": "plain", "new": 'say "hi"'}, "x"],
        "a b.c": "tab\t",
        "n": 1,
    }
    blocks = argument_blocks(value, ("input",), "arguments")
    assert [(block.type, block.name) for block in blocks] == [
        ("json", "arguments"),
        ("text", "arguments.command"),
        ("text", "arguments.edits[0].new"),
        ("text", "arguments.a%20b%2Ec"),
    ]
    assert json.loads(blocks[0].text or "") == {
        "file": "/a",
        "edits": [{"old": "plain", "new": {"$block": "arguments.edits[0].new"}}, "x"],
        "n": 1,
    }
    assert blocks[2].path == ("input", "edits", 0, "new")


def test_no_json_block_where_nothing_is_left() -> None:
    assert [block.name for block in argument_blocks({"command": "a\nb"}, (), "arguments")] == ["arguments.command"]


def test_strings_are_decoded_before_they_are_judged() -> None:
    decode = {"TEXT": "line\nline", "WORD": "word"}.get
    blocks = argument_blocks({"a": "TEXT", "b": "WORD", "c": "other"}, ("x",), "arguments", decode)
    assert json.loads(blocks[0].text or "") == {"b": "word", "c": "other"}
    assert blocks[0].encoding == "base64"
    assert (blocks[1].text, blocks[1].encoding) == ("line\nline", "base64")


def test_deep_values_stay_in_the_json() -> None:
    value: object = "deep\n"
    for _ in range(500):
        value = [value]
    (block,) = argument_blocks(value, (), "arguments")
    assert block.type == "json"


@given(st.text(), st.text())
def test_names_are_single_words(key: str, text: str) -> None:
    for block in argument_blocks({key: {key: text + "\n"}}, (), "arguments"):
        assert len(block.name.split()) == 1
        assert '"' not in block.name

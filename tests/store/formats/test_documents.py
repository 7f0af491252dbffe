import base64
import copy
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import Block
from store.formats.core.blocks import argument_blocks
from store.formats.core.documents import carried, parse
from store.formats.core.json_view import decode
from store.formats.jp import plain_text
from tests.store.formats.edited import changed_paths, made_or_refused
from tests.store.formats.mutations import places

KEYS = st.text(st.sampled_from('ab$é" '), max_size=3)
TEXTS = st.text(st.sampled_from('ab\n"\\é<😀'), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
LAYOUTS = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}])


class Shown:
    """A value in a payload, as its blocks show it."""

    def __init__(self, value: object, layout: dict[str, object], decode_: Callable[[str], str | None] | None) -> None:
        self.payload = json.dumps({"é": 1, "with": value, "z": [2]}, **layout).encode()  # type: ignore[arg-type]
        self.decode = decode_
        self.blocks = self.view(self.payload)

    def view(self, payload: bytes) -> tuple[Block, ...]:
        decoded = decode(payload)
        assert decoded is not None
        assert isinstance(decoded.value, dict)
        return argument_blocks(decoded.value["with"], ("with",), "arguments", self.decode)

    @property
    def document(self) -> Block | None:
        return next((block for block in self.blocks if block.type == "json"), None)

    def revised(self, new: str) -> bytes:
        assert self.document is not None
        lifted = {block.name: block.path for block in self.blocks if block.type == "text"}
        assert self.document.text is not None
        return carried(self.payload, ("with",), parse(self.document.text), parse(new), lifted, self.decode)


def said(value: object, decode_: Callable[[str], str | None] | None) -> object:
    """Return a value as its producer means it."""
    if isinstance(value, str):
        plain = decode_(value) if decode_ else None
        return value if plain is None else plain
    if isinstance(value, dict):
        return {key: said(item, decode_) for key, item in value.items()}
    if isinstance(value, list):
        return [said(item, decode_) for item in value]
    return value


def resolved(value: object, texts: dict[str, str]) -> object:
    """Return a document with texts in the place of placeholders."""
    if isinstance(value, dict):
        if len(value) == 1 and value.get("$block") in texts:
            return texts[value["$block"]]
        return {key: resolved(item, texts) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, texts) for item in value]
    return value


def encoded(value: object) -> object:
    """Return a value with its strings in base64."""
    if isinstance(value, str):
        return base64.b64encode(value.encode()).decode()
    if isinstance(value, dict):
        return {key: encoded(item) for key, item in value.items()}
    return [encoded(item) for item in value] if isinstance(value, list) else value


@st.composite
def changes(draw: st.DrawFn, document: object) -> object:
    """Draw a document that differs: values replaced, removed, added, moved."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        containers = [path for path in ((), *places(document)) if isinstance(at(document, path), (dict, list))]
        if not containers:
            return draw(VALUES)
        holder = at(document, draw(st.sampled_from(containers)))
        if isinstance(holder, dict) and "$block" not in holder:
            what = draw(st.integers(0, 3))
            if what == 0 or not holder:
                holder[draw(KEYS)] = draw(VALUES)
            elif what == 1:
                del holder[draw(st.sampled_from(sorted(holder)))]
            elif what == 2:
                holder[draw(st.sampled_from(sorted(holder)))] = draw(VALUES)
            else:
                items = draw(st.permutations(list(holder.items())))
                holder.clear()
                holder.update(items)
        elif isinstance(holder, list):
            what = draw(st.integers(0, 2))
            where = draw(st.integers(0, len(holder)))
            if what == 0:
                holder.insert(where, draw(VALUES))
            elif what == 1:
                del holder[where : where + 1]
            else:
                holder.reverse()
    return document


def at(value: object, path: tuple[str | int, ...]) -> object:
    for step in path:
        value = value[step]  # type: ignore[index]
    return value


@given(st.data(), OBJECTS | st.lists(VALUES, max_size=4), LAYOUTS, st.booleans())
def test_a_changed_document_is_the_changed_value(
    data: st.DataObject, value: object, layout: dict[str, object], in_base64: bool
) -> None:
    decode_ = plain_text if in_base64 else None
    shown = Shown(encoded(value) if in_base64 else value, layout, decode_)
    if shown.document is None or shown.document.text is None:
        return
    texts = {block.name: block.text or "" for block in shown.blocks if block.type == "text"}
    at_top = {block.path[-1]: block.text for block in shown.blocks if block.type == "text" and len(block.path) == 2}
    new = data.draw(changes(json.loads(shown.document.text)))
    edited = made_or_refused(lambda: shown.revised(json.dumps(new)))
    if isinstance(edited, str):
        # a key that is shown as a block of its own, or a text for which there is no block
        assert "already" in edited or "$block" in edited
        return
    expected = resolved(new, texts)
    if isinstance(value, dict) and isinstance(expected, dict):
        expected = {**expected, **at_top} if isinstance(new, dict) else expected
        assert said(json.loads(edited)["with"], decode_) == expected
    elif isinstance(value, list):
        assert said(json.loads(edited)["with"], decode_) == expected
    assert json.loads(edited).keys() == {"é", "with", "z"}
    head, tail = shown.payload.partition(b"with")[0], shown.payload.rpartition(b"z")[2]
    assert edited.startswith(head)
    assert edited.endswith(tail)


@given(OBJECTS, LAYOUTS)
def test_the_same_document_changes_nothing(value: object, layout: dict[str, object]) -> None:
    shown = Shown(value, layout, None)
    if shown.document is not None and shown.document.text is not None:
        assert shown.revised(shown.document.text) == shown.payload
        assert shown.revised(json.dumps(json.loads(shown.document.text))) == shown.payload


def revise(payload: bytes, old: str, new: str, **lifted: tuple[str | int, ...]) -> bytes:
    return carried(payload, ("a",), parse(old), parse(new), lifted)


@pytest.mark.parametrize(
    ("payload", "old", "new", "expected"),
    [
        # a scalar in its place
        (b'{"a":{"x" : 1.50,"y":2}}', '{"x":1.5,"y":2}', '{"x":1.5,"y":3}', b'{"a":{"x" : 1.50,"y":3}}'),
        # numbers as they are written
        (b'{"a":[1]}', "[1]", "[12345678901234567890123.10]", b'{"a":[12345678901234567890123.10]}'),
        (b'{"a":[1,1]}', "[1,1]", "[true,1.0]", b'{"a":[true,1.0]}'),
        # added after what it stands after, spaced as its neighbours
        (
            b'{"a":{"x": 1, "z": 2}}',
            '{"x":1,"z":2}',
            '{"x":1,"y":"\u00e9","z":2}',
            b'{"a":{"x": 1, "y": "\xc3\xa9", "z": 2}}',
        ),
        (b'{"a":{"hidden":0,"z":2}}', '{"z":2}', '{"y":1,"z":2}', b'{"a":{"hidden":0,"y":1,"z":2}}'),
        (b'{"a":{"hidden":0}}', "{}", '{"y":1}', b'{"a":{"hidden":0,"y":1}}'),
        (b'{"a":{\n  "x": 1\n}}', '{"x":1}', '{"x":1,"y":{"b":[1,2]}}', b'{"a":{\n  "x": 1,\n  "y": {"b": [1, 2]}\n}}'),
        (b'{"a": {}}', "{}", '{"x":1,"y":2}', b'{"a": {"x": 1, "y": 2}}'),
        # removed, with a twin of it that does not count
        (b'{"a":{"x":1,"y":2,"x":3}}', '{"x":3,"y":2}', '{"y":2}', b'{"a":{"y":2}}'),
        (b'{"a":{ "x":1 }}', '{"x":1}', "{}", b'{"a":{}}'),
        # moved by a person; what is not shown stays where it is
        (b'{"a":{"x":1,"h":0,"y":2}}', '{"x":1,"y":2}', '{"y":2,"x":1}', b'{"a":{"y":2,"h":0,"x":1}}'),
        # elements that stay keep their bytes
        (b'{"a":[1.0, {"k" :1}, 3]}', '[1.0,{"k":1},3]', '[{"k":1},3]', b'{"a":[{"k" :1}, 3]}'),
        (b'{"a":[1, 2]}', "[1,2]", "[1,5,6]", b'{"a":[1, 5, 6]}'),
        (b'{"a":[1]}', "[1]", '{"b":null}', b'{"a":{"b":null}}'),
    ],
)
def test_only_what_changes_is_written(payload: bytes, old: str, new: str, expected: bytes) -> None:
    assert revise(payload, old, new) == expected


def test_placeholders_stand_for_the_bytes_of_their_text() -> None:
    payload = b'{"a":[{"t":"x\\u000ay"},{"t":"p\\nq"}]}'
    old = '[{"t":{"$block":"one"}},{"t":{"$block":"two"}}]'
    lifted: dict[str, tuple[str | int, ...]] = {"one": ("a", 0, "t"), "two": ("a", 1, "t")}
    swapped = '[{"t":{"$block":"two"}},{"t":{"$block":"one"}}]'
    assert revise(payload, old, swapped, **lifted) == b'{"a":[{"t":"p\\nq"},{"t":"x\\u000ay"}]}'
    assert revise(payload, old, '[{"t":{"$block":"two"}}]', **lifted) == b'{"a":[{"t":"p\\nq"}]}'
    assert revise(payload, old, '[{"t":"s"},{"t":{"$block":"two"}}]', **lifted) == b'{"a":[{"t":"s"},{"t":"p\\nq"}]}'
    with pytest.raises(UsageError, match="no block 'three'"):
        revise(payload, old, '[{"t":{"$block":"three"}}]', **lifted)


def test_a_record_may_hold_what_looks_like_a_placeholder() -> None:
    payload = b'{"a":[{"$block":"own"}]}'
    assert revise(payload, '[{"$block":"own"}]', '[1,{"$block":"own"}]') == b'{"a":[1,{"$block":"own"}]}'


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("{", "line 1"),
        ('{"x":1,"x":2}', "twice"),
        ('{"x":NaN}', "NaN"),
        ('{"x":"\\ud800"}', "surrogate"),
        ('{"x":1,"h":2}', "'h' already"),
        ("[" * 100_000, "deep"),
    ],
)
def test_what_cannot_be_said_is_refused_in_one_line(new: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        revise(b'{"a":{"h":0,"x":1}}', '{"x":1}', new)
    assert "\n" not in str(refused.value)


def test_one_changed_string_is_the_only_change() -> None:
    payload = b'{"a":{"x":"one","y":["two","three"]}}'
    edited = revise(payload, '{"x":"one","y":["two","three"]}', '{"x":"one","y":["two","4"]}')
    assert changed_paths(payload, edited) == {("a", "y", 1)}

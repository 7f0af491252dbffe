import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.core import json_beginning
from store.formats.core.json_beginning import characters, completed

TEXTS = st.text(st.sampled_from('ab\n"\\é<😀'), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    VALUES,
    st.booleans(),
    st.sampled_from([None, 1]),
)


@pytest.mark.parametrize(
    ("text", "whole", "empty", "begun"),
    [
        ('{"a":1,"b":"Hel', '{"a":1}', '{"a":1,"b":""}', '{"a":1,"b":"Hel"}'),
        ('{"a":[{"b":"x\\n', '{"a":[{}]}', '{"a":[{"b":""}]}', '{"a":[{"b":"x\\n"}]}'),
        ('["\\ud83d\\ude0', "[]", '[""]', '[""]'),
        ('["a\\\\ud83d', "[]", '[""]', '["a\\\\ud83d"]'),
        ('["a\\', "[]", '[""]', '["a"]'),
        ('"top', '""', '""', '"top"'),
        ('{"a":1,"ke', *3 * ['{"a":1}']),
        ('{"a":tru', *3 * ["{}"]),
        ('{"a":[1, 12', *3 * ['{"a":[1]}']),
        ('{"a":[1, 12,', *3 * ['{"a":[1, 12]}']),
        ('{"a":[1, 12]', *3 * ['{"a":[1, 12]}']),
        ("[1]", *3 * ["[1]"]),
    ],
)
def test_what_is_open_is_closed(text: str, whole: str, empty: str, begun: str) -> None:
    made = completed(text.encode())
    assert made is not None
    assert (made.whole.decode(), made.empty.decode(), made.begun.decode()) == (whole, empty, begun)


@pytest.mark.parametrize("text", ["", " ", "no json", "[1 2", '{"a" 1', "{1", "[}", '["a" "b"', "12", '{"a":1}}'])
def test_what_is_no_beginning_is_left_alone(text: str) -> None:
    assert completed(text.encode()) is None


@given(DOCUMENTS)
def test_every_beginning_of_a_document_is_one(text: str) -> None:
    data = text.encode()
    for end in range(1, len(data) + 1):
        made = completed(characters(data[:end]))
        if made is not None:
            for one in made:
                json.loads(one)
    if data[:1] in (b"{", b"[", b'"'):
        assert completed(data) == (data, data, data)


@given(st.text(min_size=1))
def test_no_character_is_left_half(text: str) -> None:
    data = text.encode(errors="replace")
    for end in range(len(data) + 1):
        cut = characters(data[:end])
        assert data.startswith(cut)
        cut.decode()
        assert end - len(cut) < 4


def test_bytes_that_are_no_text_are_left_alone() -> None:
    for data in (b"", b"a", b"\x80\x80\x80\x80", b"\xff", b"a\xe2\x82\xac"):
        assert characters(data) in (data, data[:-1])


def test_lists_in_lists_take_no_longer_than_they_are() -> None:
    """Brackets that close them would be spelled out at each of a million steps: this ends, or the test does not."""
    assert completed(b"[" * 1_000_000) is None
    assert completed(b'{"a":' * 1_000_000) is None
    assert completed(b"[" * 900) is not None


@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), min_size=1, max_size=5), st.booleans(), st.integers(1))
def test_a_long_beginning_is_completed_as_one_that_is_gone_through(
    items: list[object], in_object: bool, back: int
) -> None:
    many = items * (json_beginning._WORTH // len(json.dumps(items)) + 2)
    data = json.dumps({"items": many, "more": items} if in_object else many, ensure_ascii=False).encode()
    data = characters(data[: max(len(data) - back % len(data), 1)])
    with pytest.MonkeyPatch.context() as patch:
        at_once = completed(data)
        patch.setattr(json_beginning, "_TRIED", 0)
        assert at_once == completed(data)


def test_most_of_a_long_beginning_is_passed_at_once() -> None:
    data = json.dumps([{"a": [1, {"b": "},"}]}] * 1000).encode()
    at, closing, _awaited = json_beginning._well_in(data[:-10])
    assert (len(data) - at < 100, closing) == (True, b"]")

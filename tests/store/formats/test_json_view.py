import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from store.formats.core import json_view
from store.formats.core.json_view import Decoded, decode, pretty, scalar

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_python_writes_is_read_back(value: object) -> None:
    decoded = decode(json.dumps(value).encode())
    assert decoded is not None
    assert decoded.value == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(payload: bytes) -> None:
    decoded = decode(payload)
    # as it is cut out of another document
    assert (decode(Raw(payload)), decode(Raw(payload), 1)) == (decoded, decode(payload, 1))
    if decoded is not None:
        pretty(decoded.value).encode()


@pytest.mark.parametrize(
    ("payload", "value", "lossy"),
    [
        (b'{"a": 1}\r', {"a": 1}, False),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}, False),
        (b'\0\0\0\0{"a": 1}', {"a": 1}, False),
        (b'{"a": 1, "a": 2}', {"a": 2}, False),
        (b"123456789012345678901234567890", 123456789012345678901234567890, False),
        (b'"\\ud83d\\ude00"', "\U0001f600", False),
        (b'"\\ud800 x"', "\ufffd x", True),
        (b'"\xff\xfe"', "\ufffd\ufffd", True),
        (b'{"\\udfff": NaN}', {"\ufffd": "NaN"}, True),
        (b"[1e999]", ["1e999"], True),
        (b'"\xef\xbf\xbd"', "\ufffd", False),
        (b'"raw\ttab"', "raw\ttab", False),
    ],
)
def test_what_strict_parsers_refuse(payload: bytes, value: object, lossy: bool) -> None:
    assert decode(payload) == Decoded(value, lossy)


@pytest.mark.parametrize(
    "payload",
    [b"", b" \r\n", b"\0" * 300, b'{"a": 1', b'{"a": 1}{"b": 2}', b"hello", b"[" * 5000, b'{"a": "\xff', b"9" * 5000],
)
def test_what_is_not_one_document_is_nothing(payload: bytes) -> None:
    decoded = decode(payload)
    assert decoded is None or payload == b"9" * 5000


def test_pretty_keeps_text_as_it_is() -> None:
    assert pretty({"a": ["ü", {}], "b": []}) == '{\n  "a": [\n    "ü",\n    {}\n  ],\n  "b": []\n}'


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a", "a"), ("", None), ("a\nb", None), ("x" * 201, None), (3, 3), (False, False), (None, None), ([], None)],
)
def test_what_fits_in_a_header(value: object, shown: object) -> None:
    assert scalar(value) == shown


def test_very_many_values_are_not_parsed() -> None:
    few, many = b"[" + b'{"a":1},' * 49 + b"0]", b"[" + b'{"a":1},' * 50 + b"0]"
    assert decode(few, most=100) is not None
    assert decode(many, most=100) is None
    # what stands in a string is no value
    text = b'["' + b'[{,\\"' * 1000 + b'"]'
    assert decode(text, most=100) is not None
    damaged = b"[" + b"1," * 200 + b'"'
    assert decode(damaged, most=100) is None


def test_a_very_long_text_of_wide_characters_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_view, "MOST_TEXT", 4000)
    for text, is_read in (("a" * 3999, True), ("a" * 2001 + "\u4e2d", False), ("a" * 1990 + "\u4e2d", True)):
        for ascii_only in (True, False):
            assert (decode(json.dumps([text], ensure_ascii=ascii_only).encode(), most=10) is not None) == is_read
    assert decode(json.dumps(["a" * 999 + "\U0001f600"]).encode(), most=10) is None
    assert decode(json.dumps(["a" * 900 + "\U0001f600"] * 9).encode(), most=10) is not None

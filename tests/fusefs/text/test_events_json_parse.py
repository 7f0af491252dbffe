import json

import pytest

from fusefs.text.events_json_edit import Element, split
from fusefs.text.parse import ParseError


def refused(data: bytes) -> ParseError:
    with pytest.raises(ParseError) as raised:
        split(data)
    return raised.value


def test_elements_are_taken_as_they_stand() -> None:
    data = b'[\n  {"a": [1, "]"]},\n  "two",\n\n  3.0\n]\n'
    assert split(data) == [
        Element(b'{"a": [1, "]"]}', 4, 2),
        Element(b'"two"', 23, 3),
        Element(b"3.0", 33, 5),
    ]


@pytest.mark.parametrize("data", [b"[]", b"[]\n", b" [ \n ] \n", b"\xef\xbb\xbf[]"])
def test_an_empty_array(data: bytes) -> None:
    assert split(data) == []


def test_one_after_a_byte_order_mark_and_blanks() -> None:
    assert split(b'\xef\xbb\xbf\r\n [{"a":1}]\r\n')[0].text == b'{"a":1}'


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b'{"a": 1}', 1),
        (b"[\n1,\n2", 3),
        (b"[\n1,\n]", 3),
        (b"[\n1\n2\n]", 3),
        (b"[\n1\n]\nx", 4),
        (b'[\n"a\xff"\n]', 2),
        (b'[\n{"a": "b\n]', 2),
        (b"[\n{]\n}", 2),
        (b"[" * 100_000, 1),
    ],
)
def test_what_is_no_array_is_refused_with_its_line(data: bytes, line: int) -> None:
    error = refused(data)
    assert error.line == line
    assert str(error).isprintable()


def test_an_element_that_is_no_json_is_told_with_its_line() -> None:
    (element,) = split(b'[\n  {\n    "a": 1,\n    "b": nul\n  }\n]\n')
    with pytest.raises(ParseError, match=r"line 4: .*column 10"):
        element.parsed()


def test_a_key_that_stands_twice_is_refused() -> None:
    (element,) = split(b'[\n{"a": 1, "a": 2}]')
    with pytest.raises(ParseError, match=r"line 2: .*'a' twice"):
        element.parsed()


def test_depth_beyond_reason() -> None:
    (element,) = split(b"[\n" + b"[" * 100_000 + b"]" * 100_000 + b"]")
    with pytest.raises(ParseError, match=r"line 2: .*deep"):
        element.parsed()


def test_numbers_keep_their_text() -> None:
    (element,) = split(b"[1.50e+3]")
    assert element.parsed() != json.loads("1500.0")
    assert element.parsed().text == "1.50e+3"  # type: ignore[attr-defined]


def test_the_line_of_what_an_element_says() -> None:
    (element,) = split(b'[\n\n{\n"a": 1,\n"b": 2}]')
    assert element.line_of('"b"') == 5
    assert element.line_of("not there") == 3

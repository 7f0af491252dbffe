import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import ValuePath
from store.formats.core.json_spans import literals, locate, spelled_path
from store.formats.core.json_view import decode
from tests.store.formats.mutations import places

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
LAYOUTS = st.sampled_from(
    [{}, {"indent": 2}, {"separators": (",", ":")}, {"separators": (" ,\r\n", "\t: ")}, {"ensure_ascii": False}]
)
AROUND = st.sampled_from([(b"", b""), (b"\xef\xbb\xbf", b"\r"), (b" \r\n", b"\n\0\0"), (b"\0\t", b" ")])


@given(VALUES, LAYOUTS, AROUND)
def test_every_value_is_found_where_it_stands(
    value: object, layout: dict[str, object], around: tuple[bytes, bytes]
) -> None:
    payload = json.dumps(value, **layout).encode().join(around)  # type: ignore[arg-type]
    for path in ((), *places(value)):
        start, end = locate(payload, path)
        held: object = value
        for step in path:
            held = held[step]  # type: ignore[index]
        assert json.loads(payload[start:end]) == held


@pytest.mark.parametrize(
    ("payload", "path", "held"),
    [
        (b'{"a":1,"a":2}', ("a",), b"2"),
        (b'{"a":{"b":1},"c":0,"a":{"b":2,"\\u0062":3}}', ("a", "b"), b"3"),
        (b'{"q\\"":[[],{"x":"]}\\\\"}]}', ('q"', 1, "x"), b'"]}\\\\"'),
        (b'[NaN , -1.5e+10,"\\ud800"]', (2,), b'"\\ud800"'),
        (b'[NaN , -1.5e+10,"\\ud800"]', (0,), b"NaN"),
        (b'{"\\ud800":"\xff", "b": "raw\tcontrol\x01"}', ("\ufffd",), b'"\xff"'),
        (b'{"\\ud800":"\xff", "b": "raw\tcontrol\x01"}', ("b",), b'"raw\tcontrol\x01"'),
    ],
)
def test_what_strict_parsers_refuse_or_pass_over(payload: bytes, path: ValuePath, held: bytes) -> None:
    assert decode(payload) is not None
    start, end = locate(payload, path)
    assert payload[start:end] == held


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (b'{"a":{"x":1},"a":{"y":2}}', ("a", "x")),
        (b'{"a":[1]}', ("a", 1)),
        (b'{"a":[1]}', ("a", "0")),
        (b'{"a":"text"}', ("a", 0)),
        (b'{"0":1}', (0,)),
        (b"", ()),
        (b" \0", ()),
        (b'{"a":', ("a",)),
        (b'{"a" 1}', ("a",)),
        (b'{"a":1', ("b",)),
        (b"{a:1}", ("a",)),
        (b"[1 2]", (1,)),
        (b'["cut o', (0,)),
        (b'{"a":[1,2', ("a",)),
    ],
)
def test_what_is_not_there_is_said_in_one_line(payload: bytes, path: ValuePath) -> None:
    with pytest.raises(UsageError) as refused:
        locate(payload, path)
    assert "\n" not in str(refused.value)


def test_depth_and_size_cost_neither_stack_nor_time() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    started = time.perf_counter()
    assert locate(deep, ()) == (0, len(deep))
    payload = b'{"deep":%b,"long":"%b","at":1}' % (deep, b'\\"x' * 1_000_000)
    assert payload[slice(*locate(payload, ("at",)))] == b"1"
    assert time.perf_counter() - started < 30


def test_literals_are_all_strings_keys_too() -> None:
    assert list(literals(b'{"a":["b\\"",1,"c\\\\"]}')) == [b'"a"', b'"b\\""', b'"c\\\\"']


def test_paths_are_spelled_as_people_do() -> None:
    assert spelled_path(("message", "content", 0, "text")) == "message.content[0].text"
    assert spelled_path(()) == "its top"

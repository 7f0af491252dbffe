"""Edits of MessagePack that nothing is known of, seen as JSON."""

import json
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgpack import ExtType, Timestamp, packb

from store.disk.turn_format import Encoding
from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind, ValuePath
from store.formats.core import documents
from store.formats.core.documents import Number
from store.formats.registry import lens_for
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of
from tests.store.formats.msgpack_values import DOCUMENTS, KEYS, PLAIN, TEXTS, WRITERS, locate, nested, packed, wide

LENS = lens_for("somebody.else.v7", Encoding.MSGPACK)


def view(payload: bytes) -> Event:
    return LENS.view(payload, Earlier())


def edited(payload: bytes, text: str) -> bytes:
    return LENS.edit(payload, edit_of(view(payload).blocks[0], text), Earlier())


def leaves(value: object, path: ValuePath = ()) -> list[tuple[ValuePath, object]]:
    if isinstance(value, dict) and value.keys().isdisjoint({"$map", "$bin", "$float", "$ext"}):
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for at, item in enumerate(value) for leaf in leaves(item, (*path, at))]
    return [(path, value)]


def with_value(value: object, path: ValuePath, new: object) -> object:
    if not path:
        return new
    if isinstance(value, dict):
        return {key: with_value(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    assert isinstance(value, list)
    return [with_value(item, path[1:], new) if at == path[0] else item for at, item in enumerate(value)]


@given(DOCUMENTS, WRITERS)
def test_what_is_shown_written_back_changes_nothing(value: object, write: Callable[[object], bytes]) -> None:
    payload = write(value)
    event = view(payload)
    text = event.blocks[0].text or ""
    assert event.header == {"shown_as": "msgpack"}
    assert edited(payload, text) == payload
    if event.blocks[0].type == "json":
        assert edited(payload, json.dumps(json.loads(text), indent=7)) == payload
        said = documents.parse(text)
        assert LENS.revise(payload, said, said, Earlier()) == payload


@given(st.binary(max_size=60))
def test_any_bytes_are_shown_and_written_back(payload: bytes) -> None:
    for name in ("somebody.else.v7", "cxdb.ConversationItem"):
        lens = lens_for(name, Encoding.MSGPACK)
        event = lens.view(payload, Earlier())
        for block in event.blocks:
            assert lens.edit(payload, edit_of(block, block.text or ""), Earlier()) == payload


@given(nested(PLAIN, KEYS), WRITERS, st.data())
def test_a_value_that_changes_changes_only_itself(
    value: object, write: Callable[[object], bytes], data: st.DataObject
) -> None:
    payload = write(value)
    native = view(payload).native
    found = [(path, was) for path, was in leaves(native) if not isinstance(was, (dict, list))]
    assume(found and isinstance(native, (dict, list)))
    path, was = data.draw(st.sampled_from(found))
    same_type: dict[type, st.SearchStrategy[object]] = {
        str: TEXTS,
        bool: st.booleans(),
        int: st.integers(-(1 << 63), (1 << 64) - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
    }
    new = data.draw(same_type.get(type(was), TEXTS))
    wanted = with_value(native, path, new)
    now = edited(payload, json.dumps(wanted, ensure_ascii=False))
    assert repr(view(now).native) == repr(wanted)
    start, end = locate(payload, path)
    assert now == payload[:start] + packed(new) + payload[end:] or (was, now) == (new, payload)
    if was is not None and write is packed:
        assert edited(now, json.dumps(native, ensure_ascii=False)) == payload


def test_many_values_at_once() -> None:
    payload = wide({"z": "a", 5: [1, 1.5, {"b": b"xyz"}], "a": None})
    new = {"a": "long" * 20, "5": [-1, 2, {"b": {"$bin": "AAE="}}], "z": ""}
    expected = b"\xdf\0\0\0\3\xdb\0\0\0\1z\xa0\xd3" + bytes(7) + b"\5\xdd\0\0\0\3\xff\xcb@" + bytes(7)
    expected += b"\xdf\0\0\0\1\xdb\0\0\0\1b\xc4\2\0\1\xdb\0\0\0\1a\xd9\x50" + b"long" * 20
    assert edited(payload, json.dumps(new)) == expected


def test_a_short_number_stays_short_where_it_can() -> None:
    payload = b"\x92\xca\x3f\xc0\x00\x00\xca\x3f\xc0\x00\x00"
    assert edited(payload, "[2.5, 0.1]") == b"\x92\xca\x40\x20\x00\x00" + packed(0.1)


def test_a_text_is_text() -> None:
    payload = packed("one\ntwo")
    assert view(payload).blocks[0].text == "one\ntwo"
    assert edited(payload, "one") == packed("one")


@pytest.mark.parametrize(
    ("value", "new", "told"),
    [
        ({"a": 1}, '{"a": 1, "b": 2}', "only values can be changed"),
        ({"a": 1}, "{}", "only values can be changed"),
        ({"a": [1]}, '{"a": [1, 2]}', "at a something was added"),
        ({"a": [1]}, '{"a": 1}', "only values can be changed"),
        ({"a": 1}, '{"a": "1"}', "a is a whole number"),
        ({"a": 1}, '{"a": 1.0}', "a is a whole number"),
        ({"a": 1}, '{"a": 18446744073709551616}', "too large"),
        ({"a": 1}, '{"a": -9223372036854775809}', "too large"),
        ({"a": 1}, '{"a": 1' + "0" * 5000 + "}", "too large"),
        ({"a": 1.5}, '{"a": true}', "a is a number"),
        ({"a": 1.5}, '{"a": 1e999}', "too large"),
        ({"a": True}, '{"a": 1}', "true or false"),
        ({"a": "x"}, '{"a": null}', "a is a text"),
        ({"a": None}, '{"a": {}}', "null, or a text"),
        ({"a": b"x"}, '{"a": "x"}', "a is bytes"),
        ({"a": b"x"}, '{"a": {"$bin": "?"}}', "no base64"),
        ({"a": ExtType(5, b"x")}, '{"a": {"$ext": 6, "$bin": "eA=="}}', "only a program"),
        ({"a": Timestamp(5)}, '{"a": {"$timestamp": "1970-01-01T00:00:06Z"}}', "only a program"),
        ({"a": {1: 2, "1": 3}}, '{"a": {"$map": [[1, 2], ["1", 4]]}}', "keys at a look alike"),
        ({"a": "x"}, '{"a": "\\ud800"}', "surrogate"),
    ],
)
def test_what_cannot_be_said(value: object, new: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as raised:
        edited(packb(value), new)
    assert "\n" not in str(raised.value)


def test_bad_unicode_can_only_be_read() -> None:
    payload = b"\x82\xa1a\xa1\xff\xa1b\xa1x"
    assert view(payload).lossy
    with pytest.raises(UsageError, match="no valid Unicode"):
        edited(payload, '{"a": "y", "b": "x"}')


@pytest.mark.parametrize(
    ("payload", "shown"),
    [(b"\x81\xa1a", "hex"), (b"\xc1", "hex"), (b"not packed at all", ""), (b'{"a": 1}', "")],
)
def test_what_is_no_messagepack_is_seen_as_what_it_is(payload: bytes, shown: str) -> None:
    event = view(payload)
    assert event.kind is Kind.NOTE
    assert event.header.get("shown_as", "") == shown
    if not shown:
        assert edited(payload, (event.blocks[0].text or "").replace("a", "b")) == payload.replace(b"a", b"b")


def test_what_people_cannot_write() -> None:
    with pytest.raises(UsageError, match="by hand"):
        LENS.compose(Kind.USER, "Hello", None, 0)
    assert LENS.written_out({"a": Number("1"), "b": [Number("0.5")]}, None) == packed({"a": 1, "b": [0.5]})
    with pytest.raises(UsageError, match="no resource"):
        LENS.edit_resource(packed({}), 0, b"", Earlier())
    with pytest.raises(UsageError, match="holds"):
        LENS.edit(packed({}), EventEdit((), (FieldEdit("shown_as", "x"),)), Earlier())

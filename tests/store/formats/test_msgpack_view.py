import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgpack import Timestamp, packb

from store.errors import UsageError
from store.formats.core.msgpack_view import Field, decode, elements, members, value_end
from tests.store.formats.msgpack_values import DOCUMENTS, WRITERS, locate, packed, seen, wide


def same(left: object, right: object) -> bool:
    """Say whether two views are the same; 1, 1.0 and true are not."""
    return repr(left) == repr(right)


@given(DOCUMENTS, WRITERS)
def test_every_value_is_shown_however_it_is_spelled(value: object, write: Callable[[object], bytes]) -> None:
    payload = write(value)
    decoded = decode(payload)
    assert decoded is not None
    assert same(decoded.value, seen(value))
    assert not decoded.lossy
    assert value_end(payload, 0) == len(payload)
    assert decode(payload + b"\xc0") is None
    assert all(decode(payload[:length]) is None for length in range(len(payload)))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_document_or_not(payload: bytes) -> None:
    decoded = decode(payload)
    try:
        end = value_end(payload, 0)
    except UsageError:
        assert decoded is None
    else:
        assert (decoded is not None) == (end == len(payload))


@pytest.mark.parametrize(
    ("seconds", "nanoseconds", "shown"),
    [
        (1_772_739_114, 0, "2026-03-05T19:31:54Z"),
        (1_772_739_114, 356_154_000, "2026-03-05T19:31:54.356154Z"),
        (1_772_739_114, 1, "2026-03-05T19:31:54.000000001Z"),
        (-1, 999_999_999, "1969-12-31T23:59:59.999999999Z"),
    ],
)
def test_points_in_time(seconds: int, nanoseconds: int, shown: str) -> None:
    decoded = decode(packb(Timestamp(seconds, nanoseconds)))
    assert decoded is not None
    assert decoded.value == {"$timestamp": shown}


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"\xc7\x0c\xff" + bytes(4) + b"\x7f" + bytes(7), {"$ext": -1, "$bin": "AAAAAH8AAAAAAAAA"}),
        (b"\xd6\x05abcd", {"$ext": 5, "$bin": "YWJjZA=="}),
        (b"\xca\x3f\xc0\x00\x00", 1.5),
        (b"\xca\x7f\xc0\x00\x00", {"$float": "NaN"}),
        (packed(-math.inf), {"$float": "-Infinity"}),
        (packed(2**64 - 1), 2**64 - 1),
        # keys that libraries take for each other, or cannot have
        (b"\x82\x01\xa1a\xa11\xa1b", {"$map": [[1, "a"], ["1", "b"]]}),
        (b"\x82\xa1a\x01\xa1a\x02", {"$map": [["a", 1], ["a", 2]]}),
        (b"\x82\x01\xa1a\xc3\xa1b", {"1": "a", "true": "b"}),
        (b"\x83\xc0\x01\x91\x02\x02\x81\x01\x02\x03", {"null": 1, "[2]": 2, '{"1": 2}': 3}),
    ],
)
def test_what_json_does_not_have(payload: bytes, shown: object) -> None:
    decoded = decode(payload)
    assert decoded is not None
    assert same(decoded.value, shown)
    assert not decoded.lossy


def test_text_that_is_not_unicode_is_marked() -> None:
    decoded = decode(b"\x81\xa1a\x92\xa3x\xffy\xa2ok")
    assert decoded is not None
    assert decoded.value == {"a": ["x\ufffdy", "ok"]}
    assert decoded.lossy


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff\x01",
        b"\xdb\xff\xff\xff\xffx",
        b"\xcb\x00\x00",
        # headers that say more than there is, one in the other
        b"\xdd\x00\x0f\xff\xff" * 900 + b"\x01" * 1_100_000,
        b"\x91" * 100_000 + b"\x01",
        b"\x81\x01" * 100_000 + b"\x01",
        b"\x91" * 101 + b"\x01",
    ],
    ids=len,
)
def test_damaged_and_deep_documents_are_none(payload: bytes) -> None:
    assert decode(payload) is None


def test_fields_are_named() -> None:
    schema = {1: Field("kind"), 10: Field("calls", {2: Field("name"), 3: Field("inner", {1: Field("deep")})})}
    value = {1: "x", 10: [{2: "a", 3: {1: True}}, {"2": "b", 4: "other"}], 11: {1: 2}, "01": 0}
    named = {
        "kind": "x",
        "calls": [{"name": "a", "inner": {"deep": True}}, {"name": "b", "4": "other"}],
        "11": {"1": 2},
        "01": 0,
    }
    for payload in (packed(value), wide(value)):
        decoded = decode(payload, schema)
        assert decoded is not None
        assert decoded.value == named
        start, end = locate(payload, ("calls", 1, "name"), schema)
        assert payload[start:end].endswith(b"b")
        start, end = locate(payload, ("calls", 0, "inner", "deep"), schema)
        assert payload[start:end] == b"\xc3"
    for path in (("calls", 2), ("calls", "name"), ("calls", 0, "2"), ("kind", "x"), ("10",)):
        with pytest.raises(LookupError):
            locate(packed(value), path, schema)


def test_a_number_and_its_name_are_two_keys() -> None:
    decoded = decode(packed({1: "x", "kind": "y"}), {1: Field("kind")})
    assert decoded is not None
    assert decoded.value == {"$map": [[1, "x"], ["kind", "y"]]}


def test_where_members_and_elements_stand() -> None:
    payload = packed({"a": [1, "text"], 2: None})
    first, second = members(payload, 0)
    assert payload[first.key : first.value] == b"\xa1a"
    assert [payload[slice(*span)] for span in elements(payload, first.value)] == [b"\x01", b"\xa4text"]
    assert payload[second.key : second.end] == b"\x02\xc0"

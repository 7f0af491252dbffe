"""Canonical forms: the same value in the same bytes, applied to types that ask for it and to nothing else."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import cbor2
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.conversations.canonical import canonical, canonical_cbor, canonical_json, canonical_msgpack
from store.conversations.contexts import Append
from store.disk.turn_format import Encoding
from store.errors import Conflict
from store.importing.importer import Importer
from store.service.client import Client
from store.service.server import Service, serving
from store.store import Store
from tests.store.importing.sessions import line, native, session

SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
SCALARS = st.one_of(st.none(), st.booleans(), SAFE, st.floats(allow_nan=False, allow_infinity=False))
TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.one_of(SCALARS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
BINARY = st.recursive(
    st.one_of(SCALARS, TEXTS, st.binary(max_size=40), st.integers(-(2**63), 2**64 - 1)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(TEXTS, st.binary(max_size=4), st.integers(-300, 70_000)), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(value=VALUES, indent=st.sampled_from([None, 0, 3]), ascii_only=st.booleans())
def test_every_spelling_of_json_comes_to_the_same(value: object, indent: int | None, ascii_only: bool) -> None:
    form = canonical_json(json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode())
    # a float may be written as an integer
    assert json.loads(form, parse_int=float) == value
    assert canonical_json(form) == form
    assert canonical_json(b" " + json.dumps(value).encode() + b"\n") == form


@pytest.mark.parametrize(
    ("payload", "form"),
    [
        # the example of RFC 8785, section 3.2.2
        (
            rb"""{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
            "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}""",
            (
                r"""{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"""
                r""""string":"€$\u000f\nA'B\"\\\\\"/"}"""
            ),
        ),
        # sorted by UTF-16, as in section 3.2.3
        (
            b'{"\\u20ac":1,"\\r":2,"\\ufb33":3,"1":4,"\\ud83d\\ude00":5,"\\u0080":6,"\\u00f6":7}',
            '{"\\r":2,"1":4,"\x80":6,"ö":7,"€":1,"😀":5,"\ufb33":3}',
        ),
        (b"[1.0, -0.0, 1e2, 10000000000000000.0]", "[1,0,100,10000000000000000]"),
    ],
)
def test_json_is_that_of_rfc_8785(payload: bytes, form: str) -> None:
    assert canonical_json(payload) == form.encode()


@given(value=BINARY, seed=st.integers())
def test_every_spelling_of_messagepack_and_cbor_comes_to_the_same(value: object, seed: int) -> None:
    other = shuffled(value, random.Random(seed))
    form = canonical_msgpack(msgpack.packb(value))
    assert msgpack.unpackb(form, strict_map_key=False) == value
    assert canonical_msgpack(form) == form == canonical_msgpack(msgpack.packb(other, use_bin_type=True))
    form = canonical_cbor(cbor2.dumps(value))
    assert cbor2.loads(form) == value
    assert canonical_cbor(form) == form
    assert canonical_cbor(cbor2.dumps(other, indefinite_containers=True)) == form


def shuffled(value: object, source: random.Random) -> object:
    """Return an equal value whose keys are in another order."""
    if isinstance(value, list):
        return [shuffled(one, source) for one in value]
    if isinstance(value, dict):
        pairs = list(value.items())
        source.shuffle(pairs)
        return {key: shuffled(one, source) for key, one in pairs}
    return value


@pytest.mark.parametrize(
    ("payload", "form"),
    [
        ("cd0001", "01"),
        ("d9 01 61", "a161"),
        ("df 00000002 a162 02 a161 01", "82a16101a16202"),
        ("ca 3f800000", "cb3ff0000000000000"),
        ("82 02 c0 01 c0", "8201c002c0"),
        # a time and another extension
        ("c7 04 ff 00000001", "d6ff00000001"),
        ("c7 01 05 aa", "d405aa"),
        # neither bytes nor keys of other kinds become texts
        ("c5 0001 61", "c40161"),
        ("82 a161 01 01 02", "820102a16101"),
    ],
)
def test_messagepack(payload: str, form: str) -> None:
    assert canonical_msgpack(bytes.fromhex(payload)).hex() == form
    assert canonical_msgpack(bytes.fromhex(form)).hex() == form


@pytest.mark.parametrize(
    ("payload", "form"),
    [
        ("1800", "00"),
        ("fb3ff8000000000000", "f93e00"),
        ("a2 62 6161 01 61 7a 02", "a2617a0262616101"),
        ("5f 4101 420203 ff", "43010203"),
        ("bf 6161 9f 01 ff ff", "a161618101"),
        # tags stay, whatever they mean: dates, large numbers, sets, shared values, CBOR itself
        ("c0 78 14 323031332d30332d32315432303a30343a30305a", "c074323031332d30332d32315432303a30343a30305a"),
        ("c1 1a 514b67b0", "c11a514b67b0"),
        ("c2 58 01 01", "c24101"),
        ("d90102 82 03 1801", "d90102820301"),
        ("d9d9f7 d81c 81 d81d 00", "d9d9f7d81c81d81d00"),
        ("f7", "f7"),
    ],
)
def test_cbor(payload: str, form: str) -> None:
    assert canonical_cbor(bytes.fromhex(payload)).hex() == form
    assert canonical_cbor(bytes.fromhex(form)).hex() == form


@pytest.mark.parametrize("form", [canonical_json, canonical_msgpack, canonical_cbor])
@given(payload=st.binary(max_size=60))
def test_anything_has_a_form(form: Callable[[bytes], bytes], payload: bytes) -> None:
    assert form(form(payload)) == form(payload)


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"{", b'{"a":1,"a":2}', b'"\\ud800"', b"[NaN]", b"1e999", b"[" * 100_000, b"\xff", b"1" * 5000),
        *(b"{} {}", b" [9007199254740993]", b" 12345678901234567890"),
    ],
)
def test_what_json_is_left_as_it_is(payload: bytes) -> None:
    assert canonical_json(payload) == payload


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"\xc1", b"\xcd\x00", b"\xcc\x01\xcc\x01", b"\x82\x01\x01\x01\x02", b"\x82\x01\x01\xc3\xcc\x02"),
        *(b"\xd9\x01\xff", b"\x81\x91\x01\xcc\x01", b"\x91" * 100_000 + b"\x01"),
    ],
)
def test_what_messagepack_is_left_as_it_is(payload: bytes) -> None:
    assert canonical_msgpack(payload) == payload


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"\xff", b"\x19\x00", b"\x18\x01\x18\x01", b"\xa2\x01\x01\x01\x02", b"\x61\xff"),
        b"\x81" * 100_000 + b"\x18\x01",
    ],
)
def test_what_cbor_is_left_as_it_is(payload: bytes) -> None:
    assert canonical_cbor(payload) == payload


def test_other_encodings_have_no_form() -> None:
    for encoding in (*Encoding, 40_000):
        changed = canonical(b"[ ]", encoding) != b"[ ]"
        assert changed is (encoding == Encoding.JSON)
    assert math.isnan(msgpack.unpackb(canonical_msgpack(msgpack.packb(math.nan))))


def test_nothing_is_changed_unless_asked_for(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.contexts.canonicalize("other.v1")
        turn = store.contexts.append(store.contexts.create().context, b'{ "b": 1 }', "test.v1")
        assert store.contents.payload(turn.turn_id) == b'{ "b": 1 }'


@pytest.mark.parametrize("asked", ["canonical_json = true", 'canonical_types = ["test.v1"]', ""])
def test_where_it_is_asked_for(tmp_path: Path, asked: str) -> None:
    root = tmp_path / "store"
    root.mkdir()
    (root / "convfs.toml").write_text(f"{asked}\n")
    with Store.open(root) as store:
        if not asked:
            store.contexts.canonicalize("test.v1")
        context = store.contexts.create().context
        one = store.contexts.append(context, b'{ "b": 1, "a": "\\u00e9" }', "test.v1", idempotency_key=b"k")
        assert store.contents.payload(one.turn_id) == '{"a":"é","b":1}'.encode()
        # in another spelling it is the same turn
        assert store.contexts.append(context, b'{"a":"\xc3\xa9", "b":1}', "test.v1", idempotency_key=b"k") == one
        with pytest.raises(Conflict):
            store.contexts.append(context, b"{}", "test.v1", idempotency_key=b"k")
        raw = store.contexts.append(context, b'{ "b": 1 }', "test.v1", encoding=Encoding.RAW_BYTES)
        assert store.contents.payload(raw.turn_id) == b'{ "b": 1 }'
        other = store.contexts.append(context, b"[ ]", "test.v2")
        assert store.contents.payload(other.turn_id) == (b"[]" if "json" in asked else b"[ ]")
        many = store.contexts.append_many(
            context, [Append(b"[1, 2]", "test.v1"), Append(b"[ ]", "test.v1")], parent=one.turn_id
        )
        assert [store.contents.payload(turn.turn_id) for turn in many] == [b"[1,2]", b"[]"]
        large = b'[ "%s" ]' % (b"x" * (2 << 20))
        assert store.contents.payload(store.contexts.append(context, large, "test.v1").turn_id) == large.replace(
            b" ", b""
        )
        after = store.contexts.append(context, b"[ 3 ]", "test.v1", parent=one.turn_id)
        assert store.contents.payload(after.turn_id) == b"[3]"
        piece = store.open_turns.open(context, "test.v1", encoding=Encoding.JSON)
        piece.add(b"[ 1,")
        piece.add(b" 2 ]")
        assert store.contents.payload(piece.seal().turn_id) == b"[1,2]"
        packed = store.contexts.append(context, b"\xcd\x00\x01", "test.v1", encoding=Encoding.MSGPACK)
        assert store.contents.payload(packed.turn_id) == (b"\xcd\x00\x01" if "json" in asked else b"\x01")


def test_a_hook_of_ones_own(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.contexts.hooks.add("test.v1", lambda payload, encoding: payload.strip() + b"%d" % encoding)
        context = store.contexts.create().context
        for name, stored in (("test.v1", b"x40000"), ("test.v2", b" x ")):
            turn = store.contexts.append(context, b" x ", name, encoding=40_000)
            assert store.contents.payload(turn.turn_id) == stored


def test_imports_stay_as_they_are(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    (root / "convfs.toml").write_text("canonical_json = true\n")
    data = line("Hi", 0).replace(b'":', b'"  :') + b"\n"
    with Store.open(root) as store:
        for type_name in ("claude-code.line.v1", "demo.note.v1"):
            store.contexts.canonicalize(type_name)
        path = session(tmp_path, data)
        assert Importer(store).run([path]).errors == []
        assert native(store, path) == data
        context = store.contexts.create().context
        [turn] = store.contexts.append_many(context, [Append(b"{ }", "demo.note.v1", imported=True)])
        assert store.contents.payload(turn.turn_id) == b"{ }"


def test_a_program_asks_for_it(tmp_path: Path, runtime_path: Path) -> None:
    with Store.open(tmp_path / "store") as store, serving(Service(store, ())) as place:
        assert place.socket is not None
        with Client(place.socket) as client:
            context = client.create_context().context
            for stored in (b"[ 1.0 ]", b"[1]"):
                turn = client.append(context, b"[ 1.0 ]", "demo.note.v1")
                assert store.contents.payload(turn.turn_id) == stored
                client.canonicalize("demo.note.v1")

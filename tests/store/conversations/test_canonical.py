"""Canonical forms: the same value in the same bytes, applied where it is asked for and nowhere else."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.conversations.contexts import Append, canonical_json
from store.disk.turn_format import Encoding
from store.errors import Conflict
from store.store import Store

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=12,
)


@given(value=VALUES, indent=st.sampled_from([None, 0, 3]), ascii_only=st.booleans())
def test_every_spelling_comes_to_the_same(value: object, indent: int | None, ascii_only: bool) -> None:
    try:
        spelled = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    form = canonical_json(spelled)
    assert json.loads(form) == value
    assert canonical_json(form) == form
    assert canonical_json(b" " + json.dumps(value).encode() + b"\n") == canonical_json(json.dumps(value).encode())


@given(payload=st.binary(max_size=60))
def test_anything_has_a_form(payload: bytes) -> None:
    assert canonical_json(canonical_json(payload)) == canonical_json(payload)


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b'{"a":1,"a":2}', b'"\\ud800"', b"[NaN]", b"1e999", b"[" * 100_000, b"\xff", b"1" * 5000, b"{} {}"],
)
def test_what_is_left_as_it_is(payload: bytes) -> None:
    assert canonical_json(payload) == payload


def test_nothing_is_changed_unless_asked_for(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        turn = store.contexts.append(store.contexts.create().context, b'{ "b": 1 }', "test.v1")
        assert store.contents.payload(turn.turn_id) == b'{ "b": 1 }'


def test_where_it_is_asked_for(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    (root / "convfs.toml").write_text("canonical_json = true\n")
    with Store.open(root) as store:
        context = store.contexts.create().context
        one = store.contexts.append(context, b'{ "b": 1, "a": "\\u00e9" }', "test.v1", idempotency_key=b"k")
        assert store.contents.payload(one.turn_id) == '{"a":"é","b":1}'.encode()
        # in another spelling it is the same turn
        assert store.contexts.append(context, b'{"a":"\xc3\xa9", "b":1}', "test.v1", idempotency_key=b"k") == one
        with pytest.raises(Conflict):
            store.contexts.append(context, b"{}", "test.v1", idempotency_key=b"k")
        raw = store.contexts.append(context, b'{ "b": 1 }', "test.v1", encoding=Encoding.RAW_BYTES)
        assert store.contents.payload(raw.turn_id) == b'{ "b": 1 }'
        many = store.contexts.append_many(
            context, [Append(b"[1, 2]", "test.v1"), Append(b"[ ]", "test.v1")], parent=one.turn_id
        )
        assert [store.contents.payload(turn.turn_id) for turn in many] == [b"[1,2]", b"[]"]
        large = b'[ "%s" ]' % (b"x" * (2 << 20))
        assert store.contents.payload(store.contexts.append(context, large, "test.v1").turn_id) == large.replace(
            b" ", b""
        )
        piece = store.open_turns.open(context, "test.v1", encoding=Encoding.JSON)
        piece.add(b"[ 1,")
        piece.add(b" 2 ]")
        assert store.contents.payload(piece.seal().turn_id) == b"[1,2]"


def test_a_form_of_ones_own(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.contexts.canonical[40_000] = bytes.strip
        turn = store.contexts.append(store.contexts.create().context, b" x ", "test.v1", encoding=40_000)
        assert store.contents.payload(turn.turn_id) == b"x"

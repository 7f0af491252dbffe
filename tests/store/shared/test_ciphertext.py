"""Ciphertext: opened where it belongs and as it was, and nowhere else."""

import os
from struct import pack

import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from store.errors import DamageError
from store.shared.ciphertext import (
    FRAME,
    OBJECT_HEAD,
    TAG,
    Locked,
    frame_place,
    object_head,
    open_entry,
    open_frames,
    open_object,
    seal_entry,
    seal_object,
    text_length,
)
from store.shared.entry import Entry

SPACE = bytes(range(16))
KEY = bytes(range(32))
KEYS = {3: KEY}

# Made once, and opened by every version from then on.
OBJECT = (
    "4356534f030000001400000000000000d4f8c8fd95a4a468b047841d7cf6aea34aa648e40d7c12b4519463658f5854b00856"
    "4c49b34d9937f3357f85093e757d5ca16a3abf497da49df3fe550ef1fc1795f6360b"
)
ENTRY = (
    "5395e32212a95f458764be44141153d775511012ac2f8fecd6d73a1faf99d53484062cdc69170d4b9a659fcf54b61f11b8ea"
    "2567ef292d90567e77402495ad57357e31d5c2cfe1283289194d5dbdc0d691e7992fdb67cf49f485bb8827e53d060d9521"
)


CHAIN = bytes(range(100, 132))
TOKEN = bytes(range(50, 66))


def entry(body: bytes, prev: int = 5, seq: int = 9, chain: bytes = CHAIN) -> Entry:
    return Entry(prev, seq, TOKEN, 2, 0, 7, chain, body)


def test_what_was_sealed_once_is_opened() -> None:
    assert open_object(KEYS, SPACE, "packs/1", bytes.fromhex(OBJECT)) == b"What an object says."
    sealed = Entry(5, 9, TOKEN, 2, 3, 7, bytes(32), bytes.fromhex(ENTRY))
    opened = open_entry(KEYS, SPACE, sealed)
    assert (opened.chain, opened.body) == (CHAIN, b"What an entry says.")


def test_the_bytes_are_those_that_are_documented() -> None:
    sealed = seal_object(KEY, 3, SPACE, "packs/1", b"text")
    assert sealed[:4] == b"CVSO"
    assert (int.from_bytes(sealed[4:8], "little"), int.from_bytes(sealed[8:16], "little")) == (3, 4)
    head, salt = sealed[:48], sealed[16:48]
    key = HKDF(SHA256(), 32, salt, b"convfs object\0" + SPACE + b"packs/1").derive(KEY)
    assert AESGCM(key).decrypt(bytes(12), sealed[48:], head + bytes(8)) == b"text"
    entry_ = seal_entry(KEY, 3, SPACE, entry(b"text"))
    mark = HKDF(SHA256(), 32, SPACE, b"convfs chain\0").derive(KEY)
    assert (entry_.generation, entry_.chain) == (3, blake3(CHAIN, key=mark).digest())
    key = HKDF(SHA256(), 32, entry_.body[:32], b"convfs entry\0" + SPACE).derive(KEY)
    about = pack("<QQ16sIIQ", 5, 9, TOKEN, 2, 3, 7)
    assert AESGCM(key).decrypt(bytes(12), entry_.body[32:], about) == CHAIN + b"text"


@given(st.binary(max_size=200), st.text(max_size=20), st.integers(0, 2**32 - 1))
def test_an_object_is_opened_as_it_was(text: bytes, name: str, generation: int) -> None:
    sealed = seal_object(KEY, generation, SPACE, name, text)
    assert open_object({generation: KEY}, SPACE, name, sealed) == text
    assert len(sealed) == OBJECT_HEAD + len(text) + TAG
    # nothing is told by two of the same
    assert seal_object(KEY, generation, SPACE, name, text)[16:] != sealed[16:]


@given(st.binary(max_size=60), st.data())
def test_no_bit_of_an_object_can_be_changed(text: bytes, data: st.DataObject) -> None:
    sealed = bytearray(seal_object(KEY, 3, SPACE, "a", text))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DamageError, match=r"^a\b"):
        open_object(KEYS, SPACE, "a", sealed)


_NUMBERS = st.integers(0, 2**64 - 1)
_SMALL = st.integers(0, 2**32 - 1)
_ENTRIES = st.builds(
    Entry,
    _NUMBERS,
    _NUMBERS,
    st.binary(min_size=16, max_size=16),
    _SMALL,
    st.just(0),
    _NUMBERS,
    st.binary(min_size=32, max_size=32),
    st.binary(max_size=300),
)


@given(_ENTRIES, _SMALL)
def test_an_entry_is_opened_as_it_was(plain: Entry, generation: int) -> None:
    sealed = seal_entry(KEY, generation, SPACE, plain)
    assert open_entry({generation: KEY}, SPACE, sealed) == structs.replace(plain, generation=generation)
    assert plain.chain not in sealed.chain
    assert sealed.chain == seal_entry(KEY, generation, SPACE, plain).chain


@given(_ENTRIES, st.data())
def test_no_bit_of_an_entry_can_be_changed(plain: Entry, data: st.DataObject) -> None:
    sealed = seal_entry(KEY, 3, SPACE, plain)
    field = data.draw(st.sampled_from(["prev", "seq", "token", "machine", "generation", "packs", "body"]))
    value = getattr(sealed, field)
    if isinstance(value, bytes):
        changed = bytearray(value)
        changed[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        value = bytes(changed)
    else:
        value ^= 1 << data.draw(st.integers(0, 31))
    with pytest.raises(DamageError, match="commit"):
        open_entry(KEYS, SPACE, structs.replace(sealed, **{field: value}))


@given(st.binary(max_size=100))
def test_noise_is_damage(data: bytes) -> None:
    with pytest.raises(DamageError):
        open_object(KEYS, SPACE, "a", data)
    with pytest.raises(DamageError):
        open_entry(KEYS, SPACE, Entry(5, 9, TOKEN, 2, 3, 7, bytes(32), data))


def test_an_object_belongs_to_its_key_and_space_and_generation() -> None:
    sealed = seal_object(KEY, 3, SPACE, "a", b"text")
    with pytest.raises(DamageError, match=r"b: .*belongs elsewhere"):
        open_object(KEYS, SPACE, "b", sealed)
    with pytest.raises(DamageError, match="belongs elsewhere"):
        open_object(KEYS, bytes(16), "a", sealed)
    with pytest.raises(DamageError, match="belongs elsewhere"):
        open_object({3: bytes(32)}, SPACE, "a", sealed)
    with pytest.raises(Locked, match="key 3"):
        open_object({2: KEY}, SPACE, "a", sealed)


def test_an_entry_belongs_where_it_was_put() -> None:
    first = seal_entry(KEY, 3, SPACE, entry(b"first", 0, 5))
    second = seal_entry(KEY, 3, SPACE, entry(b"second", 5, 9))
    for moved in (structs.replace(first, body=second.body), structs.replace(second, prev=0, seq=5)):
        with pytest.raises(DamageError, match="commit 5 of the space was changed, or belongs elsewhere"):
            open_entry(KEYS, SPACE, moved)
    with pytest.raises(DamageError, match="belongs elsewhere"):
        open_entry(KEYS, bytes(16), first)
    with pytest.raises(Locked, match="key 3"):
        open_entry({}, SPACE, first)


@pytest.mark.parametrize("length", [0, 1, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME])
def test_objects_of_several_frames(length: int) -> None:
    text = os.urandom(length)
    sealed = seal_object(KEY, 3, SPACE, "a", text)
    head = object_head(sealed, "a")
    assert (head.length, head.generation) == (length, 3)
    assert len(sealed) == OBJECT_HEAD + length + head.frames * TAG
    assert text_length(len(sealed)) == length
    assert open_object(KEYS, SPACE, "a", sealed) == text
    with pytest.raises(DamageError, match="cut or lengthened"):
        open_object(KEYS, SPACE, "a", sealed[:-1])


LONG = os.urandom(3 * FRAME + 1000)
SEALED = seal_object(KEY, 3, SPACE, "a", LONG)


@settings(max_examples=30)
@given(st.tuples(st.integers(0, len(LONG)), st.integers(0, len(LONG))).filter(lambda both: both[0] != both[1]))
def test_frames_are_read_alone(both: tuple[int, int]) -> None:
    start, end = sorted(both)
    head = object_head(SEALED[:OBJECT_HEAD], "a")
    first, at, length = frame_place(head, start, end)
    text = open_frames(KEYS, SPACE, "a", head, first, SEALED[at : at + length])
    assert text[start - first * FRAME : end - first * FRAME] == LONG[start:end]
    assert length < end - start + 2 * (FRAME + TAG)


def test_frames_stand_in_their_order() -> None:
    size = FRAME + TAG
    frames = [SEALED[OBJECT_HEAD + at * size : OBJECT_HEAD + (at + 1) * size] for at in range(4)]
    swapped = b"".join((SEALED[:OBJECT_HEAD], frames[1], frames[0], frames[2], frames[3]))
    with pytest.raises(DamageError, match="frame 0"):
        open_object(KEYS, SPACE, "a", swapped)
    # fewer, with a header that says so
    fewer = SEALED[:8] + (3 * FRAME).to_bytes(8, "little") + SEALED[16:OBJECT_HEAD] + b"".join(frames[:3])
    with pytest.raises(DamageError, match="frame 0"):
        open_object(KEYS, SPACE, "a", fewer)

"""Ciphertext: opened where it belongs and as it was, and nowhere else."""

import os

import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from store.errors import DamageError
from store.shared.ciphertext import (
    BEGINNING,
    FRAME,
    OBJECT_HEAD,
    TAG,
    Locked,
    chain,
    entry_generation,
    frame_place,
    object_head,
    open_entry,
    open_frames,
    open_object,
    seal_entry,
    seal_object,
)

SPACE = bytes(range(16))
KEY = bytes(range(32))
KEYS = {3: KEY}

# Made once, and opened by every version from then on.
OBJECT = (
    "4356534f030000001400000000000000d4f8c8fd95a4a468b047841d7cf6aea34aa648e40d7c12b4519463658f5854b00856"
    "4c49b34d9937f3357f85093e757d5ca16a3abf497da49df3fe550ef1fc1795f6360b"
)
ENTRY = (
    "0900000000000000030000000000000000000000000000000000000000000000000000000000000000000000000000000523"
    "050ec6ee3b13c3054555e32d352d573cc69e76b2eab5183b080fe8ba294c632f286586f3ad23863632968a5151ff37088ff6"
    "8c98bb6c6e7fd98f3a368a02381de8647849f151067279"
)


def entry(seq: int, rest: bytes) -> bytes:
    return seq.to_bytes(8, "little") + rest


def test_what_was_sealed_once_is_opened() -> None:
    assert open_object(KEYS, SPACE, "packs/1", bytes.fromhex(OBJECT)) == b"What an object says."
    sealed = bytes.fromhex(ENTRY)
    assert open_entry(KEYS, SPACE, 5, BEGINNING, sealed) == entry(9, b"What an entry says.")
    assert entry_generation(sealed) == 3


def test_the_bytes_are_those_that_are_documented() -> None:
    sealed = seal_object(KEY, 3, SPACE, "packs/1", b"text")
    assert sealed[:4] == b"CVSO"
    assert (int.from_bytes(sealed[4:8], "little"), int.from_bytes(sealed[8:16], "little")) == (3, 4)
    head, salt = sealed[:48], sealed[16:48]
    key = HKDF(SHA256(), 32, salt, b"convfs object\0" + SPACE + b"packs/1").derive(KEY)
    assert AESGCM(key).decrypt(bytes(12), sealed[48:], head + bytes(8)) == b"text"
    sealed = seal_entry(KEY, 3, SPACE, 5, BEGINNING, entry(9, b"text"))
    assert sealed[:16] == (9).to_bytes(8, "little") + (3).to_bytes(8, "little")
    assert sealed[16:48] == BEGINNING
    key = HKDF(SHA256(), 32, sealed[48:80], b"convfs entry\0" + SPACE).derive(KEY)
    assert AESGCM(key).decrypt(bytes(12), sealed[80:], sealed[:80] + (5).to_bytes(8, "little")) == entry(9, b"text")
    assert chain(sealed) == blake3(sealed).digest()


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
    with pytest.raises(DamageError, match=r"^a: "):
        open_object(KEYS, SPACE, "a", sealed)


@given(st.binary(max_size=60), st.integers(0, 2**63), st.data())
def test_no_bit_of_an_entry_can_be_changed(rest: bytes, before: int, data: st.DataObject) -> None:
    sealed = bytearray(seal_entry(KEY, 3, SPACE, before, BEGINNING, entry(9, rest)))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DamageError, match=f"the entry after {before}"):
        open_entry(KEYS, SPACE, before, None, bytes(sealed))


@given(st.integers(0, 2**64 - 1), st.binary(max_size=300), st.integers(0, 2**63), st.binary(min_size=32, max_size=32))
def test_an_entry_is_opened_as_it_was(seq: int, rest: bytes, before: int, parent: bytes) -> None:
    sealed = seal_entry(KEY, 3, SPACE, before, parent, entry(seq, rest))
    assert open_entry(KEYS, SPACE, before, parent, sealed) == entry(seq, rest)
    assert open_entry(KEYS, SPACE, before, None, sealed) == entry(seq, rest)


@given(st.binary(max_size=100))
def test_noise_is_damage(data: bytes) -> None:
    with pytest.raises(DamageError):
        open_object(KEYS, SPACE, "a", data)
    with pytest.raises(DamageError):
        open_entry(KEYS, SPACE, 5, None, data)


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


def test_an_entry_belongs_behind_the_one_that_it_was_sealed_behind() -> None:
    first = seal_entry(KEY, 3, SPACE, 0, BEGINNING, entry(5, b"first"))
    other = seal_entry(KEY, 3, SPACE, 0, BEGINNING, entry(5, b"other"))
    second = seal_entry(KEY, 3, SPACE, 5, chain(first), entry(9, b"second"))
    assert open_entry(KEYS, SPACE, 5, chain(first), second) == entry(9, b"second")
    with pytest.raises(DamageError, match="follows another one"):
        open_entry(KEYS, SPACE, 5, chain(other), second)
    with pytest.raises(DamageError, match="belongs elsewhere"):
        open_entry(KEYS, SPACE, 0, None, second)
    with pytest.raises(DamageError, match="belongs elsewhere"):
        open_entry(KEYS, bytes(16), 0, BEGINNING, first)
    with pytest.raises(Locked, match="key 3"):
        open_entry({}, SPACE, 0, BEGINNING, first)


@pytest.mark.parametrize("length", [0, 1, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME])
def test_objects_of_several_frames(length: int) -> None:
    text = os.urandom(length)
    sealed = seal_object(KEY, 3, SPACE, "a", text)
    head = object_head(sealed, "a")
    assert (head.length, head.generation) == (length, 3)
    assert len(sealed) == OBJECT_HEAD + length + head.frames * TAG
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

import random
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.disk import skeleton_format
from store.disk.skeleton_format import Spelling
from store.errors import DamageError, FormatTooNew
from store.ids import hash_bytes

BODY = skeleton_format.encode(
    20, [(3, 5, Spelling.JS, hash_bytes(b"a")), (8, 2, Spelling.RAW, hash_bytes(b"b"))], [b"abc", b"", b"0123456789"]
)


def test_a_body_is_laid_out_as_documented() -> None:
    table = bytes.fromhex("03000000 05000000 01") + hash_bytes(b"a") + bytes.fromhex("08000000 02000000 00")
    expected = bytes.fromhex("0100 02000000 14000000") + table + hash_bytes(b"b") + b"abc0123456789"
    assert expected + crc32(expected).to_bytes(4, "little") == BODY


@given(st.data())
def test_what_is_encoded_is_decoded(data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 1 << 20), st.sampled_from(Spelling))))
    tail = data.draw(st.binary(max_size=9))
    cuts, position = [], 0
    for rest, length, spelling in gaps:
        position += len(rest)
        cuts.append((position, length, int(spelling), hash_bytes(rest)))
        position += length
    body = skeleton_format.encode(position + len(tail), cuts, [*(rest for rest, _, _ in gaps), tail])
    skeleton = skeleton_format.decode(body)
    assert skeleton.payload_length == position + len(tail)
    assert skeleton.cuts == cuts
    assert bytes(skeleton.rest) == b"".join(rest for rest, _, _ in gaps) + tail
    assert skeleton_format.references(memoryview(body)) == [cut[3] for cut in cuts]


def test_any_flipped_bit_is_damage() -> None:
    for bit in range(len(BODY) * 8):
        damaged = bytearray(BODY)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamageError):
            skeleton_format.decode(bytes(damaged))


def test_a_body_that_was_cut_off_is_damage() -> None:
    for length in range(len(BODY)):
        with pytest.raises(DamageError):
            skeleton_format.decode(BODY[:length])


def resealed(body: bytes) -> bytes:
    return body + crc32(body).to_bytes(4, "little")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(BODY[:2] + b"\xff\xff\xff\xff" + BODY[6:-4], id="more cuts than there is room for"),
        pytest.param(BODY[:6] + b"\xff\xff\xff\xff" + BODY[10:-4], id="a longer payload"),
        pytest.param(BODY[:-5], id="less rest"),
        pytest.param(BODY[:51] + b"\x07" + BODY[52:-4], id="overlapping cuts"),
    ],
)
def test_a_body_that_contradicts_itself_is_damage(body: bytes) -> None:
    with pytest.raises(DamageError):
        skeleton_format.decode(resealed(body))


def test_a_newer_version_is_told_apart_from_damage() -> None:
    with pytest.raises(FormatTooNew):
        skeleton_format.decode(resealed(b"\x02" + BODY[1:-4]))


def test_random_bytes_are_damage() -> None:
    generator = random.Random(1)
    for length in range(200):
        with pytest.raises((DamageError, FormatTooNew)):
            skeleton_format.decode(resealed(generator.randbytes(length)))

"""TurnRecordV1: one record, and runs of them."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.disk import turn_format
from store.disk.turn_format import RECORD_SIZE, Encoding, Turn
from store.errors import DamageError
from store.ids import Hash

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
hashes = st.binary(min_size=32, max_size=32).map(Hash)
turns = st.builds(
    Turn,
    turn_id=u64,
    parent=u64,
    depth=u32,
    codec=u32,
    type_tag=u64,
    payload_hash=hashes,
    flags=u32,
    created_ms=u64,
)


def run(first: int, count: int) -> list[Turn]:
    return [
        Turn(first + place, first + place - 1, place, 7, 99, Hash(bytes([place % 256]) * 32), 0, 1_700_000_000_000)
        for place in range(count)
    ]


def encode_all(turns: list[Turn]) -> bytes:
    return b"".join(map(turn_format.encode, turns))


@given(turn=turns, before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_round_trip(turn: Turn, before: bytes, after: bytes) -> None:
    record = turn_format.encode(turn)
    assert len(record) == RECORD_SIZE
    assert turn_format.decode(before + record + after, len(before)) == turn
    assert turn_format.decode(memoryview(record)) == turn


@given(encoding=st.integers(0, 0xFFFF), version=st.integers(0, 0xFFFF))
def test_codec_halves(encoding: int, version: int) -> None:
    turn = Turn(1, 0, 0, turn_format.codec(encoding, version), 0, Hash(bytes(32)), 0, 0)
    assert (turn.encoding, turn.type_version) == (encoding, version)


@pytest.mark.parametrize(("encoding", "version"), [(-1, 0), (0x10000, 0), (0, -1), (0, 0x10000)])
def test_codec_halves_have_16_bits(encoding: int, version: int) -> None:
    with pytest.raises(ValueError, match="16 bits"):
        turn_format.codec(encoding, version)


def test_msgpack_has_the_number_of_the_wire_protocol() -> None:
    assert Encoding(1) is Encoding.MSGPACK


def test_the_checksum_is_of_the_76_bytes_before_it() -> None:
    record = turn_format.encode(run(5, 1)[0])
    assert int.from_bytes(record[76:], "little") == zlib.crc32(record[:76])


def test_every_flipped_bit_shows() -> None:
    record = turn_format.encode(run(12345, 1)[0])
    for bit in range(RECORD_SIZE * 8):
        damaged = bytearray(record)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamageError):
            turn_format.decode(bytes(damaged))


@pytest.mark.parametrize("length", [0, 1, 79])
def test_a_cut_record_shows(length: int) -> None:
    with pytest.raises(DamageError, match=f"cut off after {length}"):
        turn_format.decode(turn_format.encode(run(1, 1)[0])[:length])


def test_zeros_are_no_record() -> None:
    with pytest.raises(DamageError):
        turn_format.decode(bytes(RECORD_SIZE))
    with pytest.raises(DamageError):
        turn_format.decode_run(bytes(RECORD_SIZE * 3), 0)


@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1024, 1025, 3000])
def test_runs_of_any_length(count: int) -> None:
    assert turn_format.decode_run(encode_all(run(7, count)), 7) == run(7, count)


@given(place=st.integers(0, 1099), bit=st.integers(0, RECORD_SIZE * 8 - 1))
def test_a_flipped_bit_in_a_run_shows_and_only_there(place: int, bit: int) -> None:
    expected = run(7, 1100)
    data = bytearray(encode_all(expected))
    data[place * RECORD_SIZE + bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamageError):
        turn_format.decode_run(bytes(data), 7)
    each = list(turn_format.decode_each(bytes(data), 7))
    assert [turn_id for turn_id, _ in each] == list(range(7, 1107))
    damaged = each.pop(place)[1]
    assert isinstance(damaged, DamageError)
    assert f"turn {7 + place} " in str(damaged)
    del expected[place]
    assert [turn for _, turn in each] == expected


def test_a_record_in_anothers_place_shows() -> None:
    records = [turn_format.encode(turn) for turn in run(1, 4)]
    records[1], records[2] = records[2], records[1]
    with pytest.raises(DamageError, match="not in their places"):
        turn_format.decode_run(b"".join(records), 1)
    each = dict(turn_format.decode_each(b"".join(records), 1))
    assert str(each[2]) == "the record of turn 3 stands in the place of turn 2"
    assert each[4] == run(1, 4)[3]

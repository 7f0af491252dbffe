"""BlobRecords, group tables and chunk tables."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.disk import blob_format
from store.disk.blob_format import HEAD_SIZE, MAX_STORED, OVERHEAD, Chunk, Compression, Form, Member, Record, Stretch
from store.errors import DamageError, FormatTooNew, UsageError
from store.ids import Hash, hash_bytes

u32 = st.integers(0, 2**32 - 1)
hashes = st.binary(min_size=32, max_size=32).map(Hash)
members = st.builds(Member, hashes, st.sampled_from(Form), u32, u32)
CODEC = blob_format.codec(Compression.RAW, Form.PLAIN)


@given(
    compression=st.sampled_from(Compression),
    form=st.sampled_from(Form),
    raw_len=u32,
    digest=hashes,
    stored=st.binary(max_size=300),
)
def test_round_trip(compression: Compression, form: Form, raw_len: int, digest: Hash, stored: bytes) -> None:
    data = blob_format.encode_record(blob_format.codec(compression, form), raw_len, digest, stored)
    assert len(data) == blob_format.record_size(len(stored))
    assert blob_format.stored_length(data) == blob_format.stored_length(data[:HEAD_SIZE]) == len(stored)
    record = blob_format.decode_record(memoryview(data))
    assert record == Record(blob_format.codec(compression, form), raw_len, digest, memoryview(stored))
    assert (record.compression, record.form) == (compression, form)


def test_the_magic_is_the_number_0x42534C42() -> None:
    data = blob_format.encode_record(CODEC, 0, bytes(32), b"")
    assert int.from_bytes(data[:4], "little") == 0x42534C42


def test_every_flipped_bit_shows() -> None:
    data = blob_format.encode_record(CODEC, 5, hash_bytes(b"hello"), b"hello")
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamageError):
            blob_format.decode_record(memoryview(damaged))


def test_a_cut_record_shows() -> None:
    data = memoryview(blob_format.encode_record(CODEC, 5, hash_bytes(b"hello"), b"hello"))
    for length in range(len(data)):
        with pytest.raises(DamageError, match="cut off"):
            blob_format.decode_record(data[:length])


def resealed(data: bytes, offset: int, value: int) -> memoryview:
    data = data[:offset] + value.to_bytes(2, "little") + data[offset + 2 : -4]
    return memoryview(data + zlib.crc32(data).to_bytes(4, "little"))


@pytest.mark.parametrize(("offset", "value"), [(4, 2), (6, 9), (6, 0x0200), (6, 0xFF01)])
def test_a_sound_record_of_an_unknown_kind_is_new(offset: int, value: int) -> None:
    data = blob_format.encode_record(CODEC, 5, hash_bytes(b"hello"), b"hello")
    with pytest.raises(FormatTooNew, match="update convfs"):
        blob_format.decode_record(resealed(data, offset, value))


def test_a_length_beyond_all_bounds_is_not_believed() -> None:
    head = bytearray(blob_format.encode_record(CODEC, 0, bytes(32), b"")[:HEAD_SIZE])
    head[12:16] = (MAX_STORED + 1).to_bytes(4, "little")
    with pytest.raises(DamageError, match="more than any does"):
        blob_format.stored_length(bytes(head))


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(UsageError, match="chunk it"):
        blob_format.encode_record(CODEC, 1, bytes(32), memoryview(bytes(MAX_STORED + 1)))
    with pytest.raises(UsageError, match="chunk it"):
        blob_format.encode_record(CODEC, 2**32, bytes(32), b"")
    stored = bytes(MAX_STORED)
    assert len(blob_format.encode_record(CODEC, 1, bytes(32), stored)) == MAX_STORED + OVERHEAD


@given(table=st.lists(members, max_size=20), dictionary=st.none() | hashes, frame=st.binary(max_size=30))
def test_group_tables(table: list[Member], dictionary: Hash | None, frame: bytes) -> None:
    stored = blob_format.encode_group_table(table, dictionary) + frame
    compression = Compression.GROUP_DICT if dictionary else Compression.GROUP
    decoded = blob_format.decode_group_table(compression, memoryview(stored))
    assert decoded == (dictionary, table, len(stored) - len(frame))
    assert all(isinstance(member.form, Form) for member in decoded.members)


@pytest.mark.parametrize("compression", [Compression.GROUP, Compression.GROUP_DICT])
def test_group_tables_that_are_cut_show(compression: Compression) -> None:
    dictionary = Hash(bytes(32)) if compression == Compression.GROUP_DICT else None
    stored = blob_format.encode_group_table([Member(Hash(bytes(32)), Form.PLAIN, 1, 1)] * 2, dictionary)
    for length in range(len(stored)):
        with pytest.raises(DamageError):
            blob_format.decode_group_table(compression, stored[:length])


def test_a_group_of_unknown_forms_shows() -> None:
    stored = bytearray(blob_format.encode_group_table([Member(Hash(bytes(32)), Form.PLAIN, 1, 1)]))
    stored[4 + 32] = 2
    with pytest.raises(DamageError, match="unknown form"):
        blob_format.decode_group_table(Compression.GROUP, bytes(stored))


def test_a_group_that_claims_too_many_members_takes_no_memory() -> None:
    with pytest.raises(DamageError, match="does not fit"):
        blob_format.decode_group_table(Compression.GROUP, b"\xff\xff\xff\xff" + bytes(42))


@given(st.lists(st.builds(Chunk, hashes, u32), min_size=1, max_size=20))
def test_chunk_tables(chunks: list[Chunk]) -> None:
    stored = blob_format.encode_chunks(chunks)
    assert blob_format.decode_chunks(stored) == chunks
    for wrong in (stored[:-1], stored + b"\0", b""):
        with pytest.raises(DamageError, match="cannot have"):
            blob_format.decode_chunks(wrong)


@given(
    hashes, st.lists(st.tuples(u32, st.integers(0, 1000), st.integers(0, 1000)), max_size=20), st.binary(max_size=30)
)
def test_delta_tables(base: Hash, rows: list[tuple[int, int, int]], frame: bytes) -> None:
    stretches = []
    position = 0
    for fresh, skipped, length in rows:
        stretches.append(Stretch(fresh, position + skipped, length))
        position += skipped + length
    stored = blob_format.encode_delta_table(base, stretches) + frame
    assert blob_format.decode_delta_table(memoryview(stored)) == (base, stretches, len(stored) - len(frame))


def test_delta_tables_that_are_cut_show() -> None:
    stored = blob_format.encode_delta_table(Hash(bytes(32)), [Stretch(1, 2, 3), Stretch(4, 5, 6)])
    for length in range(len(stored)):
        with pytest.raises(DamageError):
            blob_format.decode_delta_table(stored[:length])
    with pytest.raises(DamageError, match="does not fit"):
        blob_format.decode_delta_table(bytes(32) + b"\xff\xff\xff\xff" + bytes(24))


def test_a_delta_has_no_more_stretches_than_it_may() -> None:
    stretches = [Stretch(0, number, 1) for number in range(blob_format.MAX_STRETCHES + 1)]
    stored = blob_format.encode_delta_table(Hash(bytes(32)), stretches[:-1])
    assert blob_format.decode_delta_table(stored).stretches == stretches[:-1]
    with pytest.raises(UsageError, match="too large"):
        blob_format.encode_delta_table(Hash(bytes(32)), stretches)
    more = stored[:32] + len(stretches).to_bytes(4, "little") + stored[36:] + bytes(12)
    with pytest.raises(DamageError, match="does not fit"):
        blob_format.decode_delta_table(more)


@pytest.mark.parametrize("offset", [0, 4])
def test_a_delta_takes_nothing_twice_and_nothing_out_of_order(offset: int) -> None:
    stored = blob_format.encode_delta_table(Hash(bytes(32)), [Stretch(0, 2, 3), Stretch(0, offset, 1)])
    with pytest.raises(DamageError, match="overlap"):
        blob_format.decode_delta_table(stored)

"""Journal entries and checkpoint slots."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.disk import journal_format
from store.disk.blob_format import Form
from store.disk.journal_format import FRAME_OVERHEAD, SLOT_SIZE, Checkpoint, JournalBlob, JournalEntry, Slot
from store.errors import DamageError
from store.ids import Hash

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
hashes = st.binary(min_size=32, max_size=32).map(Hash)
blobs = st.builds(JournalBlob, hashes, st.sampled_from(Form), u32, st.binary(max_size=50))
entries = st.builds(
    JournalEntry,
    seq=u64,
    first_turn=u64,
    turns=st.binary(max_size=200),
    heads_offset=u64,
    heads=st.binary(max_size=200),
    pack=st.tuples(u32, u64),
    blobs=st.lists(blobs, max_size=4),
)
EXAMPLE = JournalEntry(
    7, 3, b"t" * 80, 500, b"heads", (2, 900), [JournalBlob(Hash(bytes(32)), Form.SKELETON, 90, b"body")]
)
SEED = zlib.crc32(bytes(16))


@given(entries)
def test_entries_come_back(entry: JournalEntry) -> None:
    body = journal_format.encode_entry(entry)
    assert journal_format.decode_entry(body) == entry
    assert journal_format.entry_seq(body) == entry.seq


def test_an_entry_that_does_not_add_up_shows() -> None:
    body = journal_format.encode_entry(EXAMPLE)
    for length in range(len(body)):
        with pytest.raises(DamageError):
            journal_format.decode_entry(body[:length])
    with pytest.raises(DamageError, match="its parts end at"):
        journal_format.decode_entry(body + b"x")


def test_an_entry_of_absurd_lengths_takes_no_memory() -> None:
    body = bytearray(journal_format.encode_entry(EXAMPLE))
    for offset in (36, 40, 44):
        absurd = body[:]
        absurd[offset : offset + 4] = b"\xff\xff\xff\xff"
        with pytest.raises(DamageError):
            journal_format.decode_entry(bytes(absurd))


@given(
    body=entries.map(journal_format.encode_entry),
    epoch=u64,
    before=st.binary(max_size=30),
    after=st.binary(max_size=30),
)
def test_frames_come_back(body: bytes, epoch: int, before: bytes, after: bytes) -> None:
    framed = journal_format.frame([body], epoch, len(before), SEED)
    assert len(framed) == len(body) + FRAME_OVERHEAD
    found = journal_format.unframe(memoryview(before + framed + after), len(before), SEED)
    assert found == (epoch, len(framed), memoryview(body))


def test_every_flipped_bit_and_every_cut_shows() -> None:
    framed = journal_format.frame(journal_format.entry_pieces(EXAMPLE), 4, 0, SEED)
    for bit in range(len(framed) * 8):
        damaged = bytearray(framed)
        damaged[bit // 8] ^= 1 << bit % 8
        assert journal_format.unframe(memoryview(damaged), 0, SEED) is None
    for length in range(len(framed)):
        assert journal_format.unframe(memoryview(framed[:length]), 0, SEED) is None


def test_an_entry_counts_only_at_its_place_and_in_its_store() -> None:
    framed = journal_format.frame(journal_format.entry_pieces(EXAMPLE), 4, 8, SEED)
    assert journal_format.unframe(memoryview(bytes(8) + framed), 8, SEED) is not None
    assert journal_format.unframe(memoryview(bytes(9) + framed), 9, SEED) is None
    assert journal_format.unframe(memoryview(bytes(8) + framed), 8, SEED + 1) is None


@given(generation=u64, epoch=u64, seq=u64, turns=u64, heads=u64, pack=u32, length=u64)
def test_slots_come_back(generation: int, epoch: int, seq: int, turns: int, heads: int, pack: int, length: int) -> None:
    slot = Slot(generation, epoch, Checkpoint(seq, turns, heads, pack, length))
    data = journal_format.encode_slot(slot)
    assert len(data) == SLOT_SIZE
    assert journal_format.decode_slot(data) == slot


def test_a_slot_that_is_not_whole_is_none() -> None:
    data = journal_format.encode_slot(Slot(1, 2, Checkpoint(3, 4, 5, 6, 7)))
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert journal_format.decode_slot(bytes(damaged)) is None
    assert journal_format.decode_slot(data[:-1]) is None
    assert journal_format.decode_slot(bytes(SLOT_SIZE)) is None

"""Frames of the head log."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.disk import head_format
from store.disk.head_format import (
    MAX_FRAME,
    Alias,
    AppendNoted,
    Body,
    Closed,
    Commit,
    ContextCreated,
    Deleted,
    Dictionary,
    FsRoot,
    HeadFrame,
    HeadMoved,
    Metadata,
    Patched,
    Reclaimed,
    Superseded,
    TextAdded,
    TurnOpened,
    TypeRegistered,
    VersionsPruned,
)
from store.errors import DamageError, UsageError
from store.ids import Hash

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
hashes = st.binary(min_size=32, max_size=32).map(Hash)
texts = st.text(max_size=40)
bodies: st.SearchStrategy[Body] = st.one_of(
    st.builds(ContextCreated, u64, u64, u32),
    st.builds(HeadMoved, u64, u32, u64, texts),
    st.builds(Metadata, u64, st.binary(max_size=60)),
    st.builds(TypeRegistered, u64, u32, texts),
    st.builds(Alias, hashes, st.text(st.characters(max_codepoint=127), max_size=255), st.binary(max_size=64)),
    st.builds(Dictionary, u64, hashes),
    st.builds(Commit, u64, u32, u64, u64),
    st.builds(Superseded, st.lists(st.tuples(u64, u64, u32), max_size=3).map(tuple)),
    st.builds(Patched, u64, u64, u64, st.lists(st.tuples(u64, hashes, u32, u64), max_size=3).map(tuple), texts),
    st.builds(AppendNoted, u64, u64, st.binary(max_size=60)),
    st.builds(FsRoot, u64, hashes),
    st.builds(TurnOpened, u64, u32, u64),
    st.builds(TextAdded, u64, u64, u64, st.binary(max_size=60)),
    st.builds(Closed, u64, u64),
    st.builds(Deleted, u64),
    st.builds(VersionsPruned, u64, u64),
    st.builds(Reclaimed, st.lists(st.tuples(u64, u64), max_size=3).map(tuple)),
)
EXAMPLES: list[Body] = [
    ContextCreated(0, 1_700_000_000_000, 0),
    HeadMoved(9, 8, 1_700_000_000_000, "append"),
    Metadata(1_700_000_000_000, b'{"title":"x"}'),
    TypeRegistered(77, 1, "jp.event.v1"),
    Alias(Hash(bytes([7]) * 32), "sha256", bytes(32)),
    Dictionary(77, Hash(bytes([8]) * 32)),
    Commit(9, 1, 32, 32),
    Superseded(((2, 9, 3), (5, 0, 1))),
    Patched(3, 1, 1_700_000_000_000, ((2, Hash(bytes([9]) * 32), 2, 1_700_000_000_000),), "edit 00002"),
    AppendNoted(9, 1_700_000_000_000, b"request 7"),
    FsRoot(9, Hash(bytes([10]) * 32)),
    TurnOpened(77, 7, 1_700_000_000_000),
    TextAdded(12, 40, 1_772_739_114_356, b"and then"),
    Closed(12, 9),
    Deleted(1_772_739_114_356),
    VersionsPruned(7, 1_772_739_114_356),
    Reclaimed(((2, 3), (9, 1))),
]


def resealed(frame: bytes) -> bytes:
    """Give changed bytes a checksum that holds."""
    return frame[:-4] + zlib.crc32(frame[:-4]).to_bytes(4, "little")


@given(seq=u64, context=u64, body=bodies, offset=u64)
def test_round_trip(seq: int, context: int, body: Body, offset: int) -> None:
    data = head_format.encode(seq, context, body)
    assert head_format.frame_length(data) == len(data)
    assert head_format.decode(data, offset) == HeadFrame(offset, seq, context, body)
    assert head_format.decode(memoryview(data)) == HeadFrame(0, seq, context, body)


@pytest.mark.parametrize("body", EXAMPLES, ids=lambda body: type(body).__name__)
def test_every_flipped_bit_and_every_cut_shows(body: Body) -> None:
    data = head_format.encode(3, 5, body)
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamageError):
            head_format.decode(bytes(damaged))
    for length in range(len(data)):
        with pytest.raises(DamageError, match="cut off"):
            head_format.decode(data[:length])


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (head_format.encode(1, 2, EXAMPLES[0])[:4] + b"\x0f\0" + head_format.encode(1, 2, EXAMPLES[0])[6:], "kind 15"),
        (head_format.encode(1, 2, EXAMPLES[1])[:4] + b"\x01\0" + head_format.encode(1, 2, EXAMPLES[1])[6:], "26 bytes"),
        (head_format.encode(1, 2, EXAMPLES[0])[:4] + b"\x06\0" + head_format.encode(1, 2, EXAMPLES[0])[6:], "20 bytes"),
        (head_format.encode(1, 2, EXAMPLES[0])[:4] + b"\x05\0" + head_format.encode(1, 2, EXAMPLES[0])[6:], "ends"),
        (head_format.encode(1, 2, HeadMoved(1, 1, 1, "x")).replace(b"x", b"\xff"), "utf-8"),
    ],
)
def test_sound_checksum_over_nonsense(frame: bytes, reason: str) -> None:
    with pytest.raises(DamageError, match=reason):
        head_format.decode(resealed(frame))


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14])
def test_a_body_too_short_for_its_kind(kind: int) -> None:
    frame = (30).to_bytes(4, "little") + kind.to_bytes(2, "little") + bytes(16) + b"shrt" + bytes(4)
    with pytest.raises(DamageError, match=f"kind {kind} makes no sense"):
        head_format.decode(resealed(frame))


@pytest.mark.parametrize("length", [0, 25, MAX_FRAME + 1, 0xFFFFFFFF])
def test_lengths_that_cannot_be_true(length: int) -> None:
    assert head_format.frame_length(length.to_bytes(4, "little")) == 0


def test_the_longest_frame() -> None:
    fits = MAX_FRAME - head_format.MIN_FRAME - 8
    assert len(head_format.encode(1, 1, Metadata(0, bytes(fits)))) == MAX_FRAME
    with pytest.raises(UsageError, match="too large"):
        head_format.encode(1, 1, Metadata(0, bytes(fits + 1)))


def test_an_algorithms_name_has_at_most_255_bytes() -> None:
    with pytest.raises(UsageError, match="at most 255"):
        head_format.encode(1, 0, Alias(Hash(bytes(32)), "x" * 256, b""))


@given(st.lists(st.tuples(st.integers(0, 2**48 - 1), u64, bodies), max_size=5), st.binary(max_size=50))
def test_possible_frames_has_all_true_ones(frames: list[tuple[int, int, Body]], junk: bytes) -> None:
    data, true = junk, []
    for seq, context, body in frames:
        true.append(len(data))
        data += head_format.encode(seq, context, body)
    assert set(true) <= set(head_format.possible_frames(data))


def test_text_holds_no_possible_frame() -> None:
    assert list(head_format.possible_frames(b'{"title": "Fix the login bug", "labels": ["a", "b"]}' * 100)) == []
    assert list(head_format.possible_frames(bytes(10_000))) == []

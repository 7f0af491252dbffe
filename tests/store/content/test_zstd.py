import contextlib
import struct
import threading
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from store.content import zstd
from store.content.zstd import Dictionary
from store.errors import DamageError

DICTIONARY = Dictionary(b'{"type":"user","message":{"role":"user","content":"' * 20)


def claiming(size: int) -> bytes:
    """Return a frame that declares ``size`` bytes and holds none."""
    return struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x58, size) + bytes.fromhex("010000")


@given(st.binary(max_size=2000), st.sampled_from([None, DICTIONARY]))
def test_what_is_compressed_is_decompressed(data: bytes, dictionary: Dictionary | None) -> None:
    frame = zstd.compress(data, dictionary=dictionary)
    assert zstd.decompress(frame, len(data), dictionary) == data
    assert zstd.decompress(memoryview(frame), len(data) + 1, dictionary) == data


def test_a_hostile_size_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        for size in (1 << 20, 1 << 40, (1 << 64) - 3):
            with pytest.raises(DamageError):
                zstd.decompress(claiming(size), 1000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_frame_must_say_how_large_it_is() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"a" * 100)
    with pytest.raises(DamageError, match="does not say"):
        zstd.decompress(frame, 1000)


def test_damage_is_noticed_or_harmless() -> None:
    data = b"some words, and more words, and the same words again " * 20
    frame = zstd.compress(data)
    for length in range(len(frame)):
        with pytest.raises(DamageError):
            zstd.decompress(frame[:length], len(data))
    with pytest.raises(DamageError):
        zstd.decompress(frame + frame, len(data))
    with pytest.raises(DamageError):
        zstd.decompress(b"no frame at all", len(data))


def test_another_dictionary_does_not_crash() -> None:
    frame = zstd.compress(b'{"type":"user","message":' * 9, dictionary=DICTIONARY)
    for other in (None, Dictionary(b"something else " * 50)):
        with contextlib.suppress(DamageError):
            assert isinstance(zstd.decompress(frame, 1000, other), bytes)


def test_threads_do_not_share_what_must_not_be_shared() -> None:
    texts = [bytes([65 + number]) * 5000 + b"tail %d" % number for number in range(8)]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(300):
            frame = zstd.compress(texts[number], dictionary=DICTIONARY)
            if zstd.decompress(frame, 9000, DICTIONARY) != texts[number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_compressed_in_steps_may_be_left_or_have_others_between() -> None:
    texts = [f"{number}: what stands in a record, {number * 7}. ".encode() * 20_000 for number in range(4)]
    left = zstd.compress_in_steps([texts[3]], 19)
    next(left)
    left.close()
    working = [zstd.compress_in_steps([text[:at], text[at:]], 19) for at, text in enumerate(texts[:3])]
    frames: dict[int, bytes] = {}
    while len(frames) < len(working):
        for number, one in enumerate(working):
            try:
                next(one)
            except StopIteration as end:
                frames.setdefault(number, end.value)
    assert [zstd.decompress(frames[number], 10 << 20) for number in range(3)] == texts[:3]

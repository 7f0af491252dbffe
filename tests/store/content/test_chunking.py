import random

from hypothesis import given
from hypothesis import strategies as st

from store.content.delta import chunks, chunks_of

NOISE = random.Random(7).randbytes(2 << 20)


def test_boundaries_are_the_ones_of_earlier_versions() -> None:
    ends = [end for _, end in chunks(NOISE)]
    assert len(ends) == 25
    assert ends[:4] == [111090, 178375, 264465, 485765]


@given(st.integers(0, 3000), st.integers(0, 1 << 20))
def test_chunks_cover_everything(length: int, start: int) -> None:
    data = NOISE[start : start + 100 * length]
    position = 0
    for begin, end in chunks(data):
        assert begin == position < end
        position = end
    assert position == len(data)


def test_an_insertion_changes_few_chunks() -> None:
    before = {NOISE[start:end] for start, end in chunks(NOISE)}
    changed = NOISE[: 1 << 20] + b"inserted" + NOISE[1 << 20 :]
    after = {changed[start:end] for start, end in chunks(changed)}
    assert len(after - before) <= 3


@given(st.lists(st.integers(1, 3 << 20), max_size=8), st.integers(0, 9 << 20))
def test_what_comes_in_pieces_is_cut_as_the_whole_is(lengths: list[int], size: int) -> None:
    data = (NOISE * 5)[:size]
    pieces, start = [], 0
    for length in [*lengths, size]:
        pieces.append(data[start : start + length])
        start += length
    assert list(chunks_of(pieces)) == [data[start:end] for start, end in chunks(data)]

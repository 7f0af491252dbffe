from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.tree.view import Pieces
from store.errors import DamageError


def pieces_of(parts: list[bytes], drawn: list[int]) -> Pieces:
    def draw(first: int, beyond: int) -> Iterator[bytes]:
        for number in range(first, beyond):
            drawn.append(number)
            yield parts[number]

    return Pieces(list(accumulate(map(len, parts))), len(parts), draw)


@given(
    st.lists(st.binary(max_size=30), max_size=12),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=20),
)
def test_a_read_is_the_slice_of_the_whole(parts: list[bytes], reads: list[tuple[int, int]]) -> None:
    whole = b"".join(parts)
    pieces = pieces_of(parts, [])
    assert pieces.size == len(whole)
    for offset, size in reads:
        assert pieces.read(offset, size) == whole[offset : offset + size]


def test_only_what_is_touched_is_drawn() -> None:
    drawn: list[int] = []
    pieces = pieces_of([bytes([number]) * 10 for number in range(100)], drawn)
    assert pieces.read(505, 10) == bytes([50]) * 5 + bytes([51]) * 5
    assert drawn == [50, 51]
    assert pieces.read(515, 5) == bytes([51]) * 5
    assert drawn == [50, 51], "the piece in which the last read ended is remembered"


def test_reading_a_huge_piece_in_parts_draws_it_once() -> None:
    drawn: list[int] = []
    pieces = pieces_of([b"a" * 10, b"b" * 1000, b"c" * 10], drawn)
    for offset in range(0, 1020, 100):
        pieces.read(offset, 100)
    assert drawn.count(1) == 1


def test_a_piece_of_another_size_than_promised_is_an_error() -> None:
    pieces = Pieces([3, 6], 2, lambda first, beyond: iter([b"abc", b"toolong"][first:beyond]))
    assert pieces.read(0, 3) == b"abc"
    with pytest.raises(DamageError):
        pieces.read(2, 3)

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.tree.view import Pieces
from store.conversations.records import NO_SUMS, Block, Rows
from store.errors import DamageError
from store.events.conversation import EventRow
from store.events.event import Kind
from store.index.views import Run


def pieces_of(parts: list[bytes], drawn: list[int]) -> Pieces:
    sizes = [*map(len, parts)]

    def read(some: tuple[Run, ...], number: int) -> Block:
        [(first, count)] = some
        places = range(first - 1, first - 1 + count)
        return Block(some, [EventRow(at + 1, at + 1, Kind.USER, "", 0, 0, 0, sizes[at], 0, 0) for at in places])

    def draw(rows: Sequence[EventRow]) -> Iterator[bytes]:
        for row in rows:
            drawn.append(row.number - 1)
            yield parts[row.number - 1]

    rows = Rows(((1, len(parts)),) if parts else (), read, lambda _runs: NO_SUMS, lambda _runs: 0)
    return Pieces(rows, "section_size", sum(map(len, parts)), draw)


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


@given(
    st.integers(1000, 1700),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.sampled_from([0, 1, 500, 20_000])), max_size=10),
)
def test_a_read_of_many_pieces_is_the_slice_of_the_whole(count: int, reads: list[tuple[int, int]]) -> None:
    parts = [b"%d" % number * (number % 7) for number in range(count)]
    whole, drawn = b"".join(parts), list[int]()
    pieces = pieces_of(parts, drawn)
    for offset, size in reads:
        drawn.clear()
        assert pieces.read(offset, size) == whole[offset : offset + size]
        assert sum(len(parts[number]) for number in drawn) <= size + 2 * max(map(len, parts))


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
    parts = [b"abc", b"def"]
    pieces = pieces_of(parts, [])
    assert pieces.read(0, 3) == b"abc"
    parts[1] = b"toolong"
    with pytest.raises(DamageError):
        pieces.read(2, 3)

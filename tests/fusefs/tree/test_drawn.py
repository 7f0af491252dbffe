"""Files that are drawn by a thread, as far as they are read."""

from collections.abc import Iterator

import pytest

from fusefs.tree import documents
from fusefs.tree.documents import Drawn
from fusefs.tree.waiting import Workers
from store.errors import DamageError, StoreBusy
from tests.fusefs.tree.mounting import answered


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.end()


def read(content: Drawn, offset: int, size: int) -> bytes:
    """Read as a handler does."""
    return answered(lambda: content.read(offset, size))


def test_no_more_is_drawn_than_is_read(workers: Workers) -> None:
    taken = []

    def draw() -> Iterator[bytes]:
        for number in range(100):
            taken.append(number)
            yield bytes([number]) * 10

    content = Drawn(workers, draw)
    assert read(content, 0, 5) == bytes([0]) * 5
    assert taken == [0]
    assert read(content, 5, 10) == bytes([0]) * 5 + bytes([1]) * 5
    assert taken == [0, 1]
    assert read(content, 995, 50) == bytes([99]) * 5
    assert read(content, 1000, 50) == b""
    assert read(content, 5000, 50) == b""
    assert taken == list(range(100))


def test_who_goes_back_far_has_it_drawn_again(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_REMEMBERED_BYTES", 20)
    whole = bytes(range(256)) * 4
    begun = []

    def draw() -> Iterator[bytes]:
        begun.append(1)
        return (whole[at : at + 7] for at in range(0, len(whole), 7))

    content = Drawn(workers, draw)
    assert read(content, 500, 100) == whole[500:600]
    assert len(content._recent) < 200
    assert read(content, 485, 30) == whole[485:515]
    assert len(begun) == 1
    assert read(content, 3, 30) == whole[3:33]
    assert read(content, 1000, 100) == whole[1000:]
    assert len(begun) == 2


def test_an_error_is_told_and_is_no_end(workers: Workers) -> None:
    broken = [True]

    def draw() -> Iterator[bytes]:
        yield b"one"
        if broken:
            raise DamageError("two is damaged")
        yield b"two"

    content = Drawn(workers, draw)
    for _ in range(2):
        with pytest.raises(DamageError):
            read(content, 0, 10)
    broken.clear()
    assert read(content, 0, 10) == b"onetwo"


def test_a_mount_that_ends_waits_for_nothing(workers: Workers) -> None:
    content = Drawn(workers, lambda: iter([b"x"] * 10))
    assert read(content, 0, 2) == b"xx"
    workers.give_up()
    with pytest.raises(StoreBusy):
        read(content, 5, 2)

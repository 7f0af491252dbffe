"""The turn log on a real file."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from msgspec import structs

from store.disk import durable, file_header, turn_format
from store.disk.file_header import HEAD_LOG, HEADER_SIZE, TURN_LOG
from store.disk.turn_format import RECORD_SIZE, Turn
from store.disk.turn_log import TurnLog
from store.errors import DamageError, NotFound, UsageError
from store.ids import Hash

Flip = Callable[[Path, int, int], None]


def turns(first: int, count: int) -> list[Turn]:
    return [
        Turn(number, number - 1, number - 1, 7, 99, Hash(number.to_bytes(32, "big")), 0, 1_700_000_000_000)
        for number in range(first, first + count)
    ]


def encoded(turns: list[Turn]) -> bytes:
    return b"".join(map(turn_format.encode, turns))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.log"


@pytest.fixture
def log(path: Path, store_id: bytes) -> Iterator[TurnLog]:
    log = TurnLog(path, store_id)
    yield log
    log.close()


def test_turns_come_back(log: TurnLog, path: Path, store_id: bytes) -> None:
    log.append(encoded(turns(1, 3)))
    log.append(encoded(turns(4, 1)))
    log.append(b"")
    log.sync()
    assert log.count == 4
    assert log.get(3) == turns(3, 1)[0]
    assert log.range(1, 4) == turns(1, 4)
    again = TurnLog(path, store_id)
    assert (again.count, again.damage) == (4, None)
    assert again.range(2, 2) == turns(2, 2)
    again.close()


def test_turn_n_lies_at_its_place(log: TurnLog, path: Path) -> None:
    log.append(encoded(turns(1, 5)))
    data = path.read_bytes()
    assert len(data) == 32 + 5 * 80
    assert turn_format.decode(data, 32 + 4 * 80) == turns(5, 1)[0]


def test_a_range_ends_with_the_log(log: TurnLog) -> None:
    log.append(encoded(turns(1, 5)))
    assert log.range(4, 1000) == turns(4, 2)
    assert log.range(2, 0) == []
    for first in (0, 6, -1):
        with pytest.raises(NotFound):
            log.range(first, 1)


@pytest.mark.parametrize("turn_id", [0, -1, 6, 2**63])
def test_no_such_turn(log: TurnLog, turn_id: int) -> None:
    log.append(encoded(turns(1, 5)))
    with pytest.raises(NotFound, match=f"no turn {turn_id}"):
        log.get(turn_id)


def test_ids_rise_by_one(log: TurnLog) -> None:
    log.append(encoded(turns(1, 2)))
    for first in (1, 2, 4):
        with pytest.raises(UsageError, match="cannot follow turn 2"):
            log.append(encoded(turns(first, 1)))
    with pytest.raises(UsageError, match="no whole number"):
        log.append(encoded(turns(3, 1))[:-1])
    assert log.count == 2


def test_a_torn_tail_does_not_count_and_is_written_over(path: Path, store_id: bytes) -> None:
    log = TurnLog(path, store_id)
    log.append(encoded(turns(1, 2)))
    log.close()
    whole = path.read_bytes()
    for cut in range(HEADER_SIZE, len(whole) + 1):
        path.write_bytes(whole[:cut])
        log = TurnLog(path, store_id)
        assert log.count == (cut - HEADER_SIZE) // RECORD_SIZE
        assert log.count == 0 or log.range(1, 2) == turns(1, log.count)
        log.append(encoded(turns(log.count + 1, 3)))
        assert log.range(1, 5) == turns(1, log.count)
        log.close()


def test_damage_is_read_around(log: TurnLog, path: Path, flip: Flip) -> None:
    log.append(encoded(turns(1, 9)))
    flip(path, HEADER_SIZE + 4 * RECORD_SIZE + 40, 3)
    with pytest.raises(DamageError, match=r"turns\.log: turn 5"):
        log.get(5)
    with pytest.raises(DamageError, match=r"turns\.log: the record of turn 5 is damaged"):
        log.range(1, 9)
    assert log.range(6, 4) == turns(6, 4)
    found = dict(log.scan())
    assert isinstance(found.pop(5), DamageError)
    assert list(found.values()) == turns(1, 4) + turns(6, 4)


def test_a_record_in_anothers_place_is_damage(log: TurnLog, path: Path) -> None:
    log.append(encoded(turns(1, 3)))
    with path.open("r+b") as file:
        file.seek(HEADER_SIZE + RECORD_SIZE)
        file.write(turn_format.encode(turns(3, 1)[0]))
    with pytest.raises(DamageError, match="the record of turn 3 stands in the place of turn 2"):
        log.get(2)


def test_a_damaged_header_costs_no_turn(log: TurnLog, path: Path, store_id: bytes, flip: Flip) -> None:
    log.append(encoded(turns(1, 3)))
    for offset in range(HEADER_SIZE):
        flip(path, offset, offset % 8)
        again = TurnLog(path, store_id)
        assert again.damage is not None
        assert again.range(1, 3) == turns(1, 3)
        again.close()
        flip(path, offset, offset % 8)


def test_another_stores_file_is_refused(log: TurnLog, path: Path) -> None:
    open_files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(DamageError, match="belongs to the store"):
        TurnLog(path, b"another store id")
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_another_kind_of_file_is_damage(tmp_path: Path, store_id: bytes) -> None:
    file_header.create(tmp_path / "heads.log", HEAD_LOG, store_id)
    log = TurnLog(tmp_path / "heads.log", store_id)
    assert "instead of b'CVFSTURN'" in str(log.damage)
    log.close()


def test_cut(log: TurnLog, path: Path) -> None:
    log.append(encoded(turns(1, 9)))
    assert log.cut(9) == 0
    assert log.cut(4) == 5 * RECORD_SIZE
    assert (log.count, path.stat().st_size) == (4, HEADER_SIZE + 4 * RECORD_SIZE)
    log.append(encoded(turns(5, 1)))
    assert log.range(1, 9) == turns(1, 5)


def test_missing_turns_keep_their_places(path: Path, store_id: bytes) -> None:
    file_header.create(path, file_header.TURN_LOG, store_id)
    with path.open("ab") as file:
        file.write(encoded(turns(1, 2))[: RECORD_SIZE + 10])
    log = TurnLog(path, store_id)
    assert log.cut(4) == 10 - 3 * RECORD_SIZE
    log.append(encoded(turns(5, 1)))
    found = dict(log.scan())
    assert [turn_id for turn_id, turn in found.items() if isinstance(turn, DamageError)] == [2, 3, 4]
    assert found[5] == turns(5, 1)[0]
    with pytest.raises(DamageError):
        log.get(3)
    log.close()


def test_a_file_cut_behind_our_back_is_damage(log: TurnLog, path: Path) -> None:
    log.append(encoded(turns(1, 5)))
    os.truncate(path, HEADER_SIZE + 2 * RECORD_SIZE)
    with pytest.raises(DamageError, match="cut"):
        log.range(1, 5)
    with pytest.raises(DamageError, match="cut off"):
        log.get(3)
    found = dict(log.scan())
    assert [found[1], found[2]] == turns(1, 2)
    assert all(isinstance(found[turn_id], DamageError) for turn_id in (3, 4, 5))


def test_a_failed_write_adds_nothing(log: TurnLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append(encoded(turns(1, 1)))

    def failing(fd: int, data: bytes, offset: int) -> None:
        os.pwrite(fd, data[:100], offset)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "pwrite_all", failing)
        with pytest.raises(OSError, match="Input/output"):
            log.append(encoded(turns(2, 3)))
    assert log.count == 1
    log.append(encoded(turns(2, 1)))
    assert log.range(1, 9) == turns(1, 2)


@contextmanager
def full_disk() -> Iterator[None]:
    """Take 100 bytes of a write, whether there is something at its place or not."""

    def full(fd: int, data: bytes, offset: int) -> None:
        os.pwrite(fd, data[:100], offset)
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "pwrite_all", full)
        yield


def reopened(log: TurnLog) -> list[Turn]:
    again = TurnLog(log._path, file_header.read(log._path, TURN_LOG))
    try:
        return again.range(1, 99)
    finally:
        again.close()


def test_what_a_full_disk_does_not_take_is_read_from_memory(log: TurnLog) -> None:
    log.append(encoded(turns(1, 3)))

    with full_disk():
        log.append(encoded(turns(4, 2)))
        log.append(encoded(turns(6, 1)))
        assert log.range(1, 9) == turns(1, 6)
        assert [log.get(number) for number in (3, 4, 6)] == [turns(1, 6)[number - 1] for number in (3, 4, 6)]
        assert log.range(3, 2) == turns(3, 2)
        with pytest.raises(OSError, match="No space"):
            log.sync()
        assert log.range(1, 9) == turns(1, 6)
    log.sync()
    assert log.range(1, 9) == turns(1, 6)
    log.append(encoded(turns(7, 1)))
    assert reopened(log) == turns(1, 7)


@pytest.mark.parametrize("waiting", [False, True], ids=["no turns wait", "turns wait"])
@pytest.mark.parametrize("full", [False, True], ids=["there is room again", "full"])
@pytest.mark.parametrize(("first", "count"), [(1, 2), (3, 1), (3, 3), (4, 1), (5, 2), (6, 1)])
def test_turns_that_are_blanked_stay_so(log: TurnLog, waiting: bool, full: bool, first: int, count: int) -> None:
    log.append(encoded(turns(1, 3)))
    with full_disk() if waiting else nullcontext():
        log.append(encoded(turns(4, 3)))
    expected = turns(1, 6)
    for turn in expected[first - 1 : first + count - 1]:
        blank = turn_format.blank(turn.turn_id, turn.parent, turn.depth)
        expected[turn.turn_id - 1] = turn_format.decode(blank)
    with full_disk() if full else nullcontext():
        log.blank(first, count)
        assert log.range(1, 9) == expected
        log.append(encoded(turns(7, 1)))
        assert log.range(1, 9) == expected + turns(7, 1)
    log.sync()
    assert log.range(1, 9) == reopened(log) == expected + turns(7, 1)


def test_a_turn_that_is_put_back_stays_so(log: TurnLog) -> None:
    log.append(encoded(turns(1, 3)))
    with full_disk():
        log.append(encoded(turns(4, 1)))
        log.cut(6)
        with pytest.raises(OSError, match="No space"):
            log.put_back(turns(5, 1)[0])
    log.put_back(turns(6, 1)[0])
    assert log.range(1, 9) == reopened(log) == turns(1, 6)


def test_a_cut_keeps_what_was_blanked_in_memory(log: TurnLog) -> None:
    log.append(encoded(turns(1, 3)))
    with full_disk():
        log.append(encoded(turns(4, 3)))
        log.blank(4, 1)
        log.cut(5)
    log.sync()
    assert [turn.reclaimed for turn in log.range(1, 9)] == [False, False, False, True, False]


def test_a_rewritten_log_stays_so(log: TurnLog) -> None:
    log.append(encoded(turns(1, 3)))
    with full_disk():
        log.append(encoded(turns(4, 2)))
    changed = [structs.replace(turn, payload_hash=Hash(bytes(32))) for turn in turns(1, 5)]
    log.rewrite(lambda first, records: encoded(changed[first - 1 :])[: len(records)])
    log.append(encoded(turns(6, 1)))
    log.sync()
    assert log.range(1, 9) == reopened(log) == changed + turns(6, 1)


def test_readers_beside_the_writer_see_whole_turns(log: TurnLog) -> None:
    done = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                count = log.count
                if count:
                    assert log.get(count).turn_id == count
                    first = max(count - 50, 1)
                    assert log.range(first, count - first + 1) == turns(first, count - first + 1)
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for first in range(1, 2000, 7):
        log.append(encoded(turns(first, 7)))
    done.set()
    for reader in readers:
        reader.join()
    assert not errors

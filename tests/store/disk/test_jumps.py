"""Jumps: any ancestor is found, in few steps, whatever the file has come to."""

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.conversations.contexts import Append
from store.disk import durable, jumps
from store.disk.file_header import HEADER_SIZE
from store.disk.jumps import ENTRY_SIZE, Jumps, jump_depth
from store.disk.turn_format import RECORD_SIZE, Turn, encode
from store.disk.turn_log import TurnLog
from store.errors import DamageError, NotFound
from store.ids import Hash
from store.store import Store
from tests.model import findings

STORE = bytes(range(16))


class Forest:
    """A turn log, its jumps, and the parents and depths that it should have."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.parents: list[int] = [0]
        self.depths: list[int] = [-1]
        self.log = TurnLog(directory / "turns.log", STORE)
        self.jumps = self.open()

    def open(self, *, trusted: bool = True) -> Jumps:
        return Jumps(self.directory / "turns.jump", STORE, self.log, trusted=trusted)

    def reopen(self, *, trusted: bool = True) -> None:
        self.jumps.close()
        self.jumps = self.open(trusted=trusted)

    def add(self, *parents: int) -> None:
        records = []
        for parent in parents:
            self.parents.append(parent)
            self.depths.append(self.depths[parent] + 1)
            turn = Turn(len(self.parents) - 1, parent, self.depths[-1], 0, 0, Hash(bytes(32)), 0, 0)
            records.append(encode(turn))
        self.log.append(b"".join(records))

    def branch(self, turn: int) -> list[int]:
        found = []
        while turn:
            found.append(turn)
            turn = self.parents[turn]
        return found[::-1]

    def check(self, turns: Iterator[int] | list[int]) -> None:
        for turn in turns:
            branch = self.branch(turn)
            for depth in {0, 1, len(branch) // 3, len(branch) // 2, len(branch) - 2, len(branch) - 1}:
                if 0 <= depth < len(branch):
                    assert self.jumps.ancestor(turn, depth) == branch[depth]
            for last in (0, branch[0], branch[len(branch) // 2], turn - 1, turn, turn + 5):
                there = [one for one in branch if one <= last]
                assert self.jumps.not_after(turn, last) == (there[-1] if there else 0)

    def close(self) -> None:
        self.jumps.close()
        self.log.close()


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Forest]:
    made = Forest(tmp_path)
    yield made
    made.close()


def test_depths_of_jumps() -> None:
    """As Myers builds them: two jumps of equal length make one of both and the step to the parent."""
    depths = [0, 0]
    for parent in range(1, 3000):
        one = depths[parent]
        two = depths[one]
        depths.append(two if one and parent - one == one - two else parent)
    assert [jump_depth(depth) for depth in range(len(depths))] == depths


@given(turn=st.integers(1, 1 << 40), jump=st.integers(0, 1 << 40))
def test_every_flipped_bit_of_an_entry_shows(turn: int, jump: int) -> None:
    entry = jumps.encode(turn, jump)
    assert jumps.decode(entry, turn) == jump
    for bit in range(len(entry) * 8):
        damaged = bytearray(entry)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamageError):
            jumps.decode(bytes(damaged), turn)
    with pytest.raises(DamageError):
        jumps.decode(entry, turn + 1)
    with pytest.raises(DamageError):
        jumps.decode(entry[:-1], turn)


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_forests(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    forest = Forest(tmp_path_factory.mktemp("forest"))
    try:
        for _step in range(data.draw(st.integers(1, 8))):
            count = len(forest.parents)
            width = data.draw(st.sampled_from([1, 2, 7]))
            ends = data.draw(st.lists(st.integers(0, count - 1), min_size=width, max_size=width))
            for _turn in range(data.draw(st.integers(1, 40))):
                for at, end in enumerate(ends):
                    forest.add(end)
                    ends[at] = len(forest.parents) - 1
            match data.draw(st.sampled_from(["ask", "reopen", "anew", "extend", "cut", "damage", "nothing"])):
                case "ask":
                    forest.check([len(forest.parents) - 1])
                case "extend":
                    forest.jumps.extend()
                case "reopen":
                    forest.reopen()
                case "anew":
                    forest.reopen(trusted=False)
                    assert forest.jumps.count == 0
                case "cut":
                    size = (forest.directory / "turns.jump").stat().st_size
                    os.truncate(forest.directory / "turns.jump", data.draw(st.integers(0, size)))
                    forest.reopen()
                case "damage":
                    forest.jumps.extend()
                    with (forest.directory / "turns.jump").open("r+b") as file:
                        file.seek(data.draw(st.integers(HEADER_SIZE, HEADER_SIZE + forest.log.count * ENTRY_SIZE - 1)))
                        file.write(b"\xff\xff\xff")
        forest.check(list(range(1, len(forest.parents))))
    finally:
        forest.close()


def test_what_grew_is_what_is_made_anew(forest: Forest) -> None:
    for start in range(0, 3000, 7):
        forest.add(*(max(0, start + n - 2) for n in range(1, 8)))
        if start % 5 == 0:
            forest.jumps.extend()
        if start % 11 == 0:
            forest.jumps.shrink()
    forest.jumps.extend()
    grown = (forest.directory / "turns.jump").read_bytes()
    assert list(forest.jumps.wrong(1, 3000)) == []
    forest.reopen(trusted=False)
    forest.jumps.extend()
    assert (forest.directory / "turns.jump").read_bytes() == grown


def test_little_is_remembered_once_memory_is_given_back(forest: Forest) -> None:
    forest.add(*range(8000))
    tracemalloc.start()
    try:
        forest.jumps.extend()
        taken, _most = tracemalloc.get_traced_memory()
        forest.jumps.shrink()
        assert 4 * tracemalloc.get_traced_memory()[0] < taken
    finally:
        tracemalloc.stop()
    forest.check(range(1, 8000, 500))


def test_few_steps(forest: Forest, monkeypatch: pytest.MonkeyPatch) -> None:
    forest.add(*range(20_000))
    forest.jumps.extend()
    steps = 0
    get = forest.log.get

    def counted(turn: int) -> Turn:
        nonlocal steps
        steps += 1
        return get(turn)

    monkeypatch.setattr(forest.log, "get", counted)
    for depth in range(0, 20_000, 321):
        steps = 0
        assert forest.jumps.ancestor(20_000, depth) == depth + 1
        assert steps <= 2 + 15


def test_the_log_is_shorter_than_the_jumps(forest: Forest) -> None:
    forest.add(*range(100))
    forest.jumps.extend()
    forest.log.cut(50)
    del forest.parents[51:], forest.depths[51:]
    forest.reopen()
    assert forest.jumps.count == 50
    forest.add(*[7] * 50)
    forest.check(list(range(1, 101)))


def test_damaged_turns(forest: Forest) -> None:
    """Turns that are not on the way cost nothing, and those that are cannot be gone around wrongly."""
    forest.add(*range(300))
    path = forest.directory / "turns.log"
    with path.open("r+b") as file:
        for turn in (50, 120):
            file.seek(HEADER_SIZE + (turn - 1) * RECORD_SIZE + 20)
            file.write(b"\xff")
    found = 0
    for turn in range(1, 301):
        for depth in range(0, turn, 7):
            try:
                assert forest.jumps.ancestor(turn, depth) == depth + 1
                found += 1
            except DamageError:
                continue
    assert found > 2000
    assert list(forest.jumps.wrong(1, 300)) == []


def test_nothing_to_find(forest: Forest) -> None:
    forest.add(0, 1)
    for turn, depth in ((1, 1), (2, 2), (2, -1), (3, 0), (0, 0)):
        with pytest.raises(NotFound):
            forest.jumps.ancestor(turn, depth)


def test_a_file_of_another_kind(forest: Forest) -> None:
    forest.add(*range(10))
    forest.jumps.extend()
    forest.jumps.close()
    (forest.directory / "turns.jump").write_bytes((forest.directory / "turns.log").read_bytes())
    forest.jumps = forest.open()
    assert (forest.jumps.count, "begins with" in forest.jumps.damage) == (0, True)
    forest.check([10])


def test_wrong_entries_are_told(forest: Forest) -> None:
    forest.add(*range(100))
    forest.jumps.extend()
    with (forest.directory / "turns.jump").open("r+b") as file:
        file.seek(HEADER_SIZE + 9 * ENTRY_SIZE)
        file.write(bytes(ENTRY_SIZE) + jumps.encode(11, 2))
    assert list(forest.jumps.wrong(1, 100)) == [10, 11]


def test_a_full_disk_is_no_error(forest: Forest, monkeypatch: pytest.MonkeyPatch) -> None:
    forest.add(*range(100))
    forest.jumps.extend()
    forest.add(*range(100, 200))

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "pwrite_all", full)
    forest.check([200, 150])
    assert forest.jumps.count == 100


@pytest.mark.parametrize("unwritten", [1, 40, 700])
def test_what_a_power_failure_left_at_the_end_is_made_anew(memory_path: Path, unwritten: int) -> None:
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        store.contexts.append_many(context, [Append(b"%d" % number, "x.v1") for number in range(1000)])
        store.files.jumps.extend()
    path = memory_path / "store/turns/turns.jump"
    whole = path.read_bytes()
    path.write_bytes(whole[: -unwritten * ENTRY_SIZE] + bytes(unwritten * ENTRY_SIZE))
    with Store.open(memory_path / "store") as store:
        assert findings(store) == []
        assert store.files.jumps.ancestor(1000, 3) == 4
    assert path.read_bytes() == whole

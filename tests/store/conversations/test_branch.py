"""Branches as runs of turns, against following one parent after the other."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.conversations import branch
from store.disk.turn_format import Turn, encode
from store.disk.turn_log import TurnLog
from store.errors import DamageError
from store.ids import hash_bytes, tip_of
from tests.conftest import scratch_file

PARENTS = st.lists(st.tuples(st.booleans(), st.integers(0, 10_000)), max_size=60)


@contextmanager
def logged(parents: list[int]) -> Iterator[TurnLog]:
    """Make a log of turns with these parents (turn 1 has the first)."""
    depths = {0: -1}
    for turn, parent in enumerate(parents, 1):
        depths[turn] = depths[parent] + 1
    with scratch_file("turns.log") as path, closing(TurnLog(path, bytes(16))) as log:
        digest = hash_bytes(b"")
        log.append(
            b"".join(
                encode(Turn(turn, parent, depths[turn], 7, 1, digest, 0, 0)) for turn, parent in enumerate(parents, 1)
            )
        )
        yield log


def chosen(choices: list[tuple[bool, int]]) -> list[int]:
    """Return parents: mostly the turn before, else any earlier one or none."""
    return [turn if follows else other % (turn + 1) for turn, (follows, other) in enumerate(choices)]


def followed(parents: list[int], turn: int) -> list[int]:
    found = []
    while turn:
        found.append(turn)
        turn = parents[turn - 1]
    return found[::-1]


def turns_of(runs: tuple[branch.Run, ...]) -> list[int]:
    return [turn for first, count in runs for turn in range(first, first + count)]


@given(PARENTS)
def test_runs_are_the_branch(choices: list[tuple[bool, int]]) -> None:
    parents = chosen(choices)
    with logged(parents) as log:
        known: dict[int, tuple[branch.Run, ...]] = {}
        for head in range(len(parents) + 1):
            runs = branch.runs_to(log, head)
            expected = followed(parents, head)
            assert turns_of(runs) == expected
            # as few as can be
            assert all(first + count != behind for (first, count), (behind, _) in pairwise(runs))
            # whatever is known of others
            assert branch.runs_to(log, head, known) == runs
            if head % 3:
                known[head] = runs


@given(PARENTS, st.integers(0, 70), st.integers(0, 70))
def test_places_and_parts(choices: list[tuple[bool, int]], start: int, count: int) -> None:
    parents = chosen(choices)
    with logged(parents) as log:
        runs = branch.runs_to(log, len(parents))
        expected = followed(parents, len(parents))
        assert branch.length(runs) == len(expected)
        assert [branch.position(runs, number) for number in range(len(expected) + 3)] == [0, *expected, 0, 0]
        assert turns_of(tuple(branch.part(runs, start, count))) == expected[start : start + count]


def test_a_damaged_turn_of_another_branch_is_read_around() -> None:
    parents = [0, 1, 0, 2, 4]
    with logged(parents) as log:
        damage(log, 3)
        assert turns_of(branch.runs_to(log, 5)) == [1, 2, 4, 5]
        with pytest.raises(DamageError):
            branch.runs_to(log, 3)
        damage(log, 2)
        with pytest.raises(DamageError):
            branch.runs_to(log, 5)


def damage(log: TurnLog, turn: int) -> None:
    path = Path(log._path)
    data = bytearray(path.read_bytes())
    data[32 + 80 * (turn - 1) + 9] ^= 1
    path.write_bytes(data)


def test_a_branch_that_grows_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with logged([0, *range(1, 5000)]) as log:
        known = {4990: branch.runs_to(log, 4990)}
        read: list[int] = []
        real = log.links
        monkeypatch.setattr(log, "links", lambda first, n: read.append(n) or real(first, n))
        assert branch.runs_to(log, 5000, known) == ((1, 5000),)
        assert sum(read) <= 20


def test_patched_runs_and_back() -> None:
    runs = ((1, 3), (7, 1), (10, 4))
    assert branch.patched(runs, {}) == runs
    seen = {2: 1, 3: 1, 5: 9, 7: 2, 10: 3, 13: 1}
    found = branch.patched(runs, seen)
    assert found == (
        (1, 1),
        (tip_of(2, 1), 2),
        (tip_of(7, 2), 1),
        (tip_of(10, 3), 1),
        (11, 2),
        (tip_of(13, 1), 1),
    )
    assert branch.length(found) == 8
    assert [branch.position(found, number) for number in (2, 3, 4, 6)] == [tip_of(2, 1), tip_of(3, 1), tip_of(7, 2), 11]
    assert branch.plain(found) == runs

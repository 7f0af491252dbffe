import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from store.importing.watch import LONGEST_SECONDS, QUIET_SECONDS, RESTS, Settling

ONE, OTHER = Path("/one"), Path("/other")


def test_a_file_is_looked_at_when_it_is_quiet() -> None:
    settling = Settling()
    assert settling.next() is None
    settling.changed(ONE, 10.0)
    assert settling.next() == 10.0 + QUIET_SECONDS
    assert settling.due(10.0) == []
    settling.changed(ONE, 10.05)
    assert settling.due(10.0 + QUIET_SECONDS) == []
    assert settling.due(10.05 + QUIET_SECONDS) == [ONE]
    assert (settling.due(99.0), settling.next()) == ([], None)


def test_one_that_is_never_quiet_is_looked_at_all_the_same() -> None:
    settling = Settling()
    looked = []
    for step in range(200):
        now = step * 0.02
        settling.changed(ONE, now)
        looked += [now for _path in settling.due(now)]
    gaps = [after - before for before, after in itertools.pairwise(looked)]
    assert gaps
    assert all(gap <= LONGEST_SECONDS + 0.05 for gap in gaps)


def test_one_that_takes_long_is_left_alone_for_a_while() -> None:
    settling = Settling()
    settling.changed(ONE, 0.0)
    settling.changed(OTHER, 0.05)
    assert settling.due(1.0) == [ONE, OTHER]
    settling.looked_at(ONE, 1.5, 0.5)
    settling.looked_at(OTHER, 1.5, 0.0)
    settling.changed(ONE, 1.6)
    settling.changed(OTHER, 1.6)
    assert settling.due(2.0) == [OTHER]
    assert settling.next() == 1.5 + RESTS * 0.5
    assert settling.due(3.5) == [ONE]
    settling.looked_at(ONE, 4.0, 0.0, rest=3.0)
    settling.changed(ONE, 4.1)
    assert settling.next() == 7.0


def test_one_that_took_long_is_looked_at_after_the_others() -> None:
    settling = Settling()
    settling.looked_at(ONE, 0.0, 2.0)
    for path in (ONE, OTHER):
        settling.changed(path, 10.0)
    assert settling.due(11.0) == [OTHER, ONE]
    settling.looked_at(ONE, 12.0, 0.0)
    for path in (ONE, OTHER):
        settling.changed(path, 20.0)
    assert settling.due(21.0) == sorted([ONE, OTHER])


@given(st.lists(st.tuples(st.sampled_from([ONE, OTHER]), st.floats(0.0, 0.5)), max_size=60))
def test_nothing_is_forgotten(changes: list[tuple[Path, float]]) -> None:
    settling = Settling()
    now = 0.0
    changed: dict[Path, float] = {}
    looked: dict[Path, float] = {}
    for path, pause in changes:
        now += pause
        for due in settling.due(now):
            looked[due] = now
        settling.changed(path, now)
        changed[path] = now
    looked |= dict.fromkeys(settling.due(now + 10), now + 10)
    assert all(looked[path] > changed[path] for path in changed)

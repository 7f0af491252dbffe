"""Things that are hidden for a moment, and files that rest, by a clock that the test moves."""

import pytest

from fusefs.editing.delays import Delayed, Quiet


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def delayed(clock: Clock) -> Delayed[str, int, str]:
    return Delayed(1.0, clock)


def test_a_group_is_due_a_second_after_the_last_thing_was_hidden(delayed: Delayed[str, int, str], clock: Clock) -> None:
    delayed.hide("talk", 1, "one")
    clock.now += 0.9
    delayed.hide("talk", 2, "two")
    clock.now += 0.9
    assert delayed.due() == []
    clock.now += 0.1
    assert delayed.due() == ["talk"]
    assert delayed.take("talk") == {1: "one", 2: "two"}
    assert delayed.due() == []
    assert "talk" not in delayed


def test_groups_wait_each_for_itself(delayed: Delayed[str, int, str], clock: Clock) -> None:
    delayed.hide("first", 1, "one")
    clock.now += 0.6
    delayed.hide("second", 1, "other")
    clock.now += 0.5
    assert delayed.due() == ["first"]
    assert delayed.groups() == ["first", "second"]


def test_a_group_stays_due_until_it_is_taken(delayed: Delayed[str, int, str], clock: Clock) -> None:
    delayed.hide("talk", 1, "one")
    clock.now += 5
    assert delayed.due() == delayed.due() == ["talk"]


def test_what_comes_back_was_never_gone(delayed: Delayed[str, int, str], clock: Clock) -> None:
    delayed.hide("talk", 1, "one")
    delayed.hide("talk", 2, "two")
    assert delayed.come_back("talk", 1)
    assert not delayed.come_back("talk", 1)
    assert not delayed.come_back("other", 2)
    clock.now += 1
    assert delayed.take("talk") == {2: "two"}


def test_a_group_of_which_all_has_come_back_is_still_one_until_its_time_comes(
    delayed: Delayed[str, int, str], clock: Clock
) -> None:
    delayed.hide("talk", 1, "one")
    delayed.come_back("talk", 1)
    assert "talk" in delayed
    clock.now += 1
    assert delayed.due() == ["talk"]
    assert delayed.take("talk") == {}


def test_what_nobody_has_hidden_is_nothing_to_take(delayed: Delayed[str, int, str]) -> None:
    assert delayed.take("talk") == {}


def test_a_file_that_nobody_wrote_to_waits_for_nothing() -> None:
    assert not Quiet().is_due(100.0, 0.1, 0.4)


def test_a_file_is_due_once_it_has_been_quiet() -> None:
    quiet = Quiet()
    quiet.written(100.0)
    assert not quiet.is_due(100.05, 0.1, 0.4)
    assert quiet.is_due(100.125, 0.1, 0.4)


def test_a_file_that_is_written_to_all_the_time_is_due_when_it_has_waited_for_long() -> None:
    quiet = Quiet()
    for tenths in range(5):
        quiet.written(100 + tenths / 10)
    assert quiet.is_due(100.45, 0.1, 0.4)
    assert not quiet.rests(100.45, 0.1)


def test_what_was_looked_at_waits_no_more_until_it_is_written_to_again() -> None:
    quiet = Quiet()
    quiet.written(100.0)
    quiet.looked_at()
    assert not quiet.is_due(200.0, 0.1, 0.4)
    assert quiet.rests(200.0, 2.0)
    quiet.written(200.0)
    assert quiet.is_due(200.5, 0.1, 0.4)

from hypothesis import given
from hypothesis import strategies as st

from fusefs import inodes
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, MAX_NUMBER, Handed, Lookups, Space

SPACES = st.sampled_from([space for space in Space if space is not Space.FIXED])
VIEWS = st.integers(1, 2 * FIRST_HANDED_OUT_VIEW - 1)
NUMBERS = st.integers(0, MAX_NUMBER)


@given(SPACES, VIEWS, NUMBERS)
def test_a_computed_number_says_what_it_is(space: Space, view: int, number: int) -> None:
    ino = inodes.base(space, view) + number
    assert inodes.split(ino) == (space, view, number)
    assert MAX_NUMBER < ino < 1 << 53


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans())))
def test_no_handed_out_number_is_used_twice(steps: list[tuple[int, bool]]) -> None:
    handed: Handed[int] = Handed(1)
    owner: dict[int, int] = {}
    for key, drop in steps:
        number = handed.number(key)
        assert owner.setdefault(number, key) == key
        assert handed.number(key) == number
        assert handed.key(number) == key
        if drop:
            handed.drop(number)
            assert handed.key(number) is None


@given(st.lists(st.tuples(st.sampled_from(["add", "forget"]), st.integers(1, 4), st.integers(1, 3))))
def test_the_kernel_knows_what_it_was_told_and_has_not_forgotten(steps: list[tuple[str, int, int]]) -> None:
    lookups = Lookups()
    model: dict[int, int] = {}
    for action, ino, count in steps:
        if action == "add":
            for _ in range(count):
                lookups.add(ino)
            model[ino] = model.get(ino, 0) + count
        else:
            gone = lookups.forget([(ino, count)])
            left = model.get(ino, 0) - count
            assert gone == ([ino] if left <= 0 else [])
            model[ino] = max(left, 0)
        assert all((ino in lookups) == bool(count) for ino, count in model.items())

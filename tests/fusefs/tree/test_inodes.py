from hypothesis import given
from hypothesis import strategies as st

from fusefs import inodes
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, MAX_NUMBER, Handed, InodeSet, Lookups, Space

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


EVENT = inodes.base(Space.EVENT, 7)
KNOWN = st.sampled_from([1, 2, inodes.base(Space.PLACE, 7), EVENT + 1, EVENT + 2, EVENT + 70, EVENT + MAX_NUMBER])


@given(st.lists(st.tuples(st.sampled_from(["add", "forget", "drop"]), KNOWN, st.sampled_from([1, 2, 3, 252, 260]))))
def test_the_kernel_knows_what_it_was_told_and_has_not_forgotten(steps: list[tuple[str, int, int]]) -> None:
    lookups = Lookups()
    model: dict[int, int] = {}
    for action, ino, count in steps:
        if action == "add":
            for _ in range(count):
                lookups.add(ino)
            model[ino] = model.get(ino, 0) + count
        elif action == "drop":
            lookups.drop(ino)
            model[ino] = 0
        else:
            gone = lookups.forget([(ino, count)])
            left = model.get(ino, 0) - count
            assert gone == ([ino] if left <= 0 else [])
            model[ino] = max(left, 0)
        assert all((ino in lookups) == bool(count) for ino, count in model.items())
        assert all(lookups.count(ino) == count for ino, count in model.items())
        assert sorted(lookups) == sorted(ino for ino, count in model.items() if count)


@given(st.lists(st.tuples(st.booleans(), KNOWN)))
def test_a_set_of_inodes_is_a_set(steps: list[tuple[bool, int]]) -> None:
    made = InodeSet()
    model: set[int] = set()
    for adds, ino in steps:
        (made.add if adds else made.discard)(ino)
        (model.add if adds else model.discard)(ino)
        assert all((EVENT + number in made) == (EVENT + number in model) for number in range(130))
        assert all(ino in made for ino in model)
    made.clear()
    assert all(ino not in made for ino in model)

"""Copies of a record that say it anew: found, made again, and small."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.importing.likeness import Copied, collected, difference, read_changes, respelled
from store.importing.reading import essence

VOLATILE = frozenset(("session", "forked", "at"))
ID = "5c0375b4-57a5-4bd1-b1f3-0f4a1e3a5d00"

KEYS = st.sampled_from(["session", "forked", "at", "text", "id", "more", "ü"])
VALUES = st.one_of(st.text(max_size=5), st.integers(), st.just(ID), st.lists(st.integers(), max_size=2), st.none())
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=6)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :")])


def dumps(value: object, separators: tuple[str, str] = (",", ":")) -> bytes:
    return json.dumps(value, separators=separators, ensure_ascii=False).encode()


@given(OBJECTS, OBJECTS, SEPARATORS, SEPARATORS)
def test_a_difference_makes_the_copy_or_there_is_none(
    one: dict[str, Any], other: dict[str, Any], ours: tuple[str, str], theirs: tuple[str, str]
) -> None:
    old, new = dumps(one, theirs), dumps(other, ours)
    change = difference(old, new, VOLATILE)
    if change is not None:
        assert respelled(old, change) == new
        assert essence(old, VOLATILE) == essence(new, VOLATILE)
    assert difference(old, old, VOLATILE) == ()


@given(OBJECTS, st.dictionaries(st.sampled_from(sorted(VOLATILE)), VALUES), SEPARATORS, st.booleans())
def test_a_copy_is_known(
    record: dict[str, Any], fresh: dict[str, Any], separators: tuple[str, str], first: bool
) -> None:
    kept = {key: value for key, value in record.items() if key not in VOLATILE or key in fresh}
    copy = fresh | kept | fresh if first else kept | fresh
    old, new = dumps(record, separators), dumps(copy, separators)
    assert essence(old, VOLATILE) == essence(new, VOLATILE)
    stable = [key for key in record if key not in VOLATILE]
    if stable and [key for key in copy if key not in VOLATILE] == stable:
        # members that changed their places are another spelling
        order = [key for key in record if key in copy]
        change = difference(old, new, VOLATILE)
        if order == [key for key in copy if key in record]:
            assert change is not None
            assert respelled(old, change) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"text":"a","session":"x"}', b'{"text":"b","session":"y"}'),
        (b'{"text":"a","session":"x"}', b'{"text": "a","session":"x"}'),
        (b'{"session":"x"}', b'{"session":"x","session":"y"}'),
        (b'{"session":"x"', b'{"session":"y"}'),
        (b"[1]", b"[2]"),
        (b"", b"{}"),
        (b'{"session":"x"}', b'{"other":"x"}'),
    ],
)
def test_what_is_no_copy(old: bytes, new: bytes) -> None:
    assert difference(old, new, VOLATILE) is None


def test_ids_that_a_copy_repeats_are_not_kept_again() -> None:
    changes = []
    for number in range(1, 1001):
        own = f"{number:08x}-57a5-4bd1-b1f3-0f4a1e3a5d00"
        old = dumps({"session": "one", "id": own, "text": f"{number}"})
        new = dumps({"session": "two", "id": own, "text": f"{number}", "forked": {"session": "one", "id": own}})
        change = difference(old, new, VOLATILE)
        assert change
        assert respelled(old, change) == new
        changes.append((number, change))
    kept = collected(changes)
    assert len(kept.encode()) < 200
    assert read_changes(kept.encode()).by_number() == dict(changes)


def test_a_record_that_was_edited_is_changed_as_it_is() -> None:
    old, new = b'{"session":"x","text":"a","at":1}', b'{"session":"y","text":"a","at":2,"forked":true}'
    change = difference(old, new, VOLATILE)
    assert change
    edited = b'{"session":"x","text":"something longer","at":1}'
    assert respelled(edited, change) == b'{"session":"y","text":"something longer","at":2,"forked":true}'
    # of members that are gone, nothing is said
    assert respelled(b'{"text":"a"}', change) == b'{"text":"a"}'
    with pytest.raises(UsageError):
        respelled(b"no object", change)


@given(st.integers(1, 9), st.integers(0, 2), st.integers(0, 2), st.integers(0, 5))
def test_places_in_the_file_and_in_the_branch(records: int, left_out: int, first: int, more: int) -> None:
    left_out = min(left_out, records)
    copied = Copied(records, left_out, first)
    count = records - left_out + first + more
    numbers = [copied.number(position) for position in range(count)]
    assert sorted(numbers) == list(range(left_out + 1, left_out + count + 1))
    assert [copied.position(number) for number in numbers] == list(range(count))
    assert all(copied.position(number) is None for number in range(1, left_out + 1))
    # the branch has what is shared first, then what stands before that in the file
    assert numbers[:first] == list(range(records + 1, records + first + 1))

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.events_json_edit import DrawnElement, Match, match, split
from fusefs.text.parse import ParseError


def bare(*values: object) -> list[DrawnElement]:
    return [DrawnElement(number, json.dumps(value).encode(), numbered=False) for number, value in enumerate(values, 1)]


def numbered(*numbers: int) -> list[DrawnElement]:
    return [DrawnElement(number, json.dumps(_numbered(number)).encode(), numbered=True) for number in numbers]


def _numbered(number: int, **more: object) -> dict[str, object]:
    return {"$event": number, "type": "user", **more}


def matched(shown: list[DrawnElement], *told: object, records: int = 9) -> list[int]:
    return [one.number for one in matches(shown, *told, records=records)]


def matches(shown: list[DrawnElement], *told: object, records: int = 9) -> list[Match]:
    return match(shown, split(json.dumps(told).encode()), records)


def refused(shown: list[DrawnElement], *told: object) -> str:
    with pytest.raises(ParseError) as raised:
        matches(shown, *told)
    return str(raised.value)


def test_numbers_say_which_record_an_element_is() -> None:
    shown = numbered(1, 2, 3, 5)
    assert matched(shown, _numbered(1), _numbered(2), _numbered(3), _numbered(5)) == [1, 2, 3, 5]
    assert matched(shown, _numbered(3), _numbered(2, said=1), {"new": 1}, _numbered(1)) == [3, 2, 0, 1]
    # of one that is not shown, because it was deleted
    assert matched(shown, _numbered(1), _numbered(4)) == [1, 4]


def test_only_what_differs_is_parsed() -> None:
    found = matches(numbered(1, 2, 3), _numbered(1), _numbered(2, said=1), _numbered(3))
    assert [one.value is None for one in found] == [True, False, True]
    found = matches(numbered(1, 2, 3), _numbered(3), _numbered(1), _numbered(2))
    assert all(one.value is None for one in found)


def test_numbers_that_cannot_be() -> None:
    shown = numbered(1, 2)
    assert "record 2 stands here twice" in refused(shown, _numbered(1), _numbered(2), _numbered(2))
    assert "record 1 stands here twice" in refused(shown, _numbered(1), _numbered(1, said=1))
    assert "no record 10" in refused(shown, _numbered(10))
    assert "no record 0" in refused(shown, _numbered(0))
    assert "is the number" in refused(shown, {"$event": "1"})
    assert "is the number" in refused(shown, {"$event": -1})
    assert "no record" in refused(shown, {"$event": 10**30})


A, B, C, D = ({"type": "t", "id": name, "text": name * 20} for name in "abcd")


@pytest.mark.parametrize(
    ("told", "numbers"),
    [
        ((A, B, C, D), [1, 2, 3, 4]),
        ((A, C, D), [1, 3, 4]),
        ((D, A, B, C), [4, 1, 2, 3]),
        ((B, A, D, C), [2, 1, 4, 3]),
        ((A, {"type": "n"}, B, C, D), [1, 0, 2, 3, 4]),
        ((A, {**B, "text": "other"}, C, D), [1, 2, 3, 4]),
        ((A, {**B, "id": "x"}, C, D), [1, 2, 3, 4]),
        ((A, {**B, "id": "x"}, {"type": "new", "n": 1}, C, D), [1, 2, 0, 3, 4]),
        ((A, {"type": "new", "n": 1}, {**B, "id": "x"}, C, D), [1, 0, 2, 3, 4]),
        (({**C, "text": "other"}, A), [3, 1]),
        ((A, {"text": "b" * 20, "id": "b", "type": "t"}, C, D), [1, 2, 3, 4]),
        ((), []),
    ],
)
def test_without_numbers_they_are_known_by_what_they_are(told: tuple[object, ...], numbers: list[int]) -> None:
    assert matched(bare(A, B, C, D), *told) == numbers


def test_spelling_does_not_matter() -> None:
    shown = bare(A, B, 1.5, "x")
    told = json.dumps([B, "x", 1.5, A], indent=7).replace("x", "\\u0078").encode()
    assert [one.number for one in match(shown, split(told), 4)] == [2, 4, 3, 1]


def test_equal_elements_stay_in_order() -> None:
    assert matched(bare(A, A, B, A), A, A, A, B) == [1, 2, 4, 3]
    assert matched(bare(A, A, B, A), A, B, A) == [1, 3, 4]


def test_many_changed_elements_are_one_for_one() -> None:
    shown = bare(*({"n": number} for number in range(3000)))
    told = [{"n": number, "m": 1} for number in range(3000)]
    assert matched(shown, *told) == list(range(1, 3001))


elements = st.sampled_from([A, B, C, D, {"type": "u"}, 7, "text", [1]])


@given(st.lists(elements, max_size=8), st.lists(elements, max_size=8))
def test_each_record_is_one_element_at_most(old: list[object], new: list[object]) -> None:
    found = matches(bare(*old), *new)
    numbers = [one.number for one in found if one.number]
    assert len(set(numbers)) == len(numbers)
    for one in found:
        if one.value is None:
            assert one.element.text == json.dumps(old[one.number - 1]).encode()
    # whatever is still there is found
    kept = sum(min(old.count(value), new.count(value)) for value in [A, B, C, D, {"type": "u"}, 7, "text", [1]])
    assert len(numbers) >= kept

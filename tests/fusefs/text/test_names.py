import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.event_names import event_name, number_width, parse_event_name
from store.events.conversation import EventRow
from store.events.event import Kind
from store.filenames import cut, safe_name, unique
from tests.fusefs.text import strategies

anything = st.one_of(st.text(strategies.characters), st.text("./\x00 a\ud800ü€𝄞", max_size=400))


def valid(name: str, limit: int = 255) -> bool:
    return (
        0 < len(name.encode()) <= limit
        and name not in {".", ".."}
        and not any(character == "/" or unicodedata.category(character) in {"Cc", "Cs"} for character in name)
    )


def row(number: int, kind: Kind, tool: str = "") -> EventRow:
    return EventRow(1, number, kind, tool, 0, 0, 0, 0, 0, 0)


@given(anything)
def test_a_safe_name_is_valid(text: str) -> None:
    assert valid(safe_name(text))
    assert safe_name(safe_name(text)) == safe_name(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("main.rs", "main.rs"),
        ("a/b", "a_b"),
        ("", "unnamed"),
        ("  ", "unnamed"),
        (".", "_"),
        ("..", "__"),
        ("...", "..."),
        (" a\tb\n", "a_b"),
        ("x" * 300 + ".html", "x" * 250 + ".html"),
        ("ü" * 200, "ü" * 127),
    ],
)
def test_safe_names(text: str, name: str) -> None:
    assert safe_name(text) == name


@given(st.text(max_size=50), st.integers(0, 60))
def test_cutting_keeps_whole_characters(text: str, limit: int) -> None:
    assert text.startswith(cut(text, limit))
    assert len(cut(text, limit).encode()) <= limit
    assert cut(text, len(text.encode())) == text


@given(st.lists(st.sampled_from(["a", "b", "a-2", "x" * 255, "ü" * 127]), max_size=20))
def test_unique_names_are_unique(names: list[str]) -> None:
    taken: set[str] = set()
    for name in names:
        found = unique(name, taken)
        assert found not in taken
        assert valid(found)
        taken.add(found)


def test_unique_names_count_from_two() -> None:
    assert unique("a", set()) == "a"
    assert unique("a", {"a", "a-2"}) == "a-3"


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (row(7, Kind.TOOL_RESULT, "fs_read_file"), "00007-result-fs_read_file.md"),
        (row(6, Kind.TOOL_CALL, "fs_read_file"), "00006-call-fs_read_file.md"),
        (row(5, Kind.TOOL_RESULT), "00005-result.md"),
        (row(4, Kind.TOOL_CALL, "web search/x\n"), "00004-call-web_search_x.md"),
        (row(1, Kind.USER), "00001-user.md"),
        (row(123_456, Kind.REASONING), "123456-reasoning.md"),
    ],
)
def test_event_names(event: EventRow, name: str) -> None:
    assert event_name(event) == name
    assert parse_event_name(name) == event.number


def test_numbers_are_wide_enough_to_sort() -> None:
    assert number_width(99_999) == 5
    assert event_name(row(7, Kind.USER), records=100_000) == "000007-user.md"


@given(st.sampled_from(Kind), anything, st.integers(1, 10**8))
def test_event_names_are_valid_and_read_back(kind: Kind, tool: str, number: int) -> None:
    name = event_name(row(number, kind, tool), records=number)
    assert valid(name)
    assert parse_event_name(name) == number
    assert re.match(r"[0-9]{5,}-[a-z]+", name)


NUMBERLESS = ["7-user.md", "00007.md", "00007-.md", "00000-user.md", "00007-user.txt", "x00007-user.md", ""]
NUMBERLESS += ["\u0661\u0661\u0661\u0661\u0661-user.md", "00007-user.md~", ".00007-user.md.swp"]


@pytest.mark.parametrize("name", NUMBERLESS)
def test_other_names_have_no_number(name: str) -> None:
    assert parse_event_name(name) is None

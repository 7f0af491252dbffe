import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.cli import output
from fusefs.cli.show import _fit
from store import visible


@given(st.text())
def test_what_is_escaped_holds_nothing_that_acts_on_a_terminal(text: str) -> None:
    escaped = visible.line(text)
    assert all(unicodedata.category(character) != "Cc" for character in escaped)
    assert not set(escaped) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@given(st.text())
def test_text_keeps_its_lines_and_nothing_else_that_acts(text: str) -> None:
    assert visible.lines(text).count("\n") == text.count("\n")
    rest = visible.lines(text).replace("\n", "").replace("\t", "")
    assert all(unicodedata.category(character) != "Cc" for character in rest)


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert visible.line(text) == visible.lines(text) == text


@pytest.mark.parametrize(
    ("character", "shown"),
    [("\x1b", r"\x1b"), ("\n", r"\n"), ("\x7f", r"\x7f"), ("\x9b", r"\x9b"), ("\u202e", r"\u202e")],
)
def test_controls_are_spelled_as_programmers_know_them(character: str, shown: str) -> None:
    assert visible.line(f"a{character}b") == f"a{shown}b"


@pytest.mark.parametrize(("text", "wide"), [("abc", 3), ("\u3042\u3044", 4), ("e\u0301", 1), ("\u2026", 1)])
def test_columns_are_those_of_a_terminal(text: str, wide: int) -> None:
    assert output.columns(text) == wide


@given(st.text(st.characters(categories=["L", "N", "P"])), st.integers(10, 80))
def test_a_title_is_cut_to_the_room_there_is(title: str, room: int) -> None:
    assert output.columns(_fit(title, room)) <= room
    assert _fit(title, None) == title

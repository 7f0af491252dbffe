"""Expressions within lines, against looking at one line after the other; and what they tell the index."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.search.folding import fold
from store.search.needs import ANYTHING, Every, needs_of
from store.search.patterns import Pattern, parsed
from store.search.terms import Apart, Regex, Text

PIECES = ("a", "b", "B", "ab", ".", "\\n", "\\s", "[^b]", "^", "$", "\\b", "\\A", "\\Z", "(?=b)", "(?<!a)", "é")
EXPRESSIONS = st.recursive(
    st.sampled_from(PIECES),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join).map("(?:{})".format),
        st.tuples(inner, st.sampled_from(("*", "+?", "?", "{1,2}", "++", "*+"))).map(
            lambda part: "(?:{}){}".format(*part)
        ),
        inner.map("({})".format),
        inner.map("(?i:{})".format),
    ),
    max_leaves=6,
)
TEXTS = st.text(alphabet="abABé\n ", max_size=40)


def by_line(pattern: str, text: str, *, ignore_case: bool) -> list[int]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    found = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    return [number for number, line in enumerate(lines) if found.search(line)]


def met(need: Every, text: str) -> bool:
    return all(one in text for one in need.literals) and all(any(met(n, text) for n in some) for some in need.either)


@given(EXPRESSIONS, TEXTS, st.booleans())
def test_what_each_line_says_the_whole_says(pattern: str, text: str, ignore_case: bool) -> None:
    expected = by_line(pattern, text, ignore_case=ignore_case)
    assert Pattern(pattern, ignore_case=ignore_case).lines(text) == expected
    if expected:
        assert met(needs_of(parsed(pattern)), fold(text))


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("connection reset", ["connection reset"]),
        ("Con(nect)ion", ["connection"]),
        ("time(?:d )?out", ["time", "out"]),
        ("[Ff]oo[12]bar", ["foo", "bar"]),
        ("(abc)+d", ["abc"]),
        ("^import\\b os$", ["import os"]),
        ("ab.cd", ["ab", "cd"]),
        ("a.b.;;", []),
        ("a.;;;", [";;;"]),
        ("(?i)STRAßE", ["strasse"]),
        ("x*", []),
    ],
)
def test_what_a_text_must_hold(pattern: str, literals: list[str]) -> None:
    assert needs_of(parsed(pattern)) == Every(tuple(literals))


def test_alternatives() -> None:
    need = needs_of(parsed("connect|refuse"))
    assert need == Every((), ((Every(("connect",)), Every(("refuse",))),))
    assert needs_of(parsed("connect|n")) == ANYTHING
    assert needs_of(parsed("connect|;;;")) == ANYTHING
    assert needs_of(parsed(";;;")).vacuous


def test_what_might_take_for_ever_is_run_apart_and_ended() -> None:
    assert Pattern("a[bc]d{1,3}(x|y)", ignore_case=False).quick
    for pattern in (".*x", "(a+)+$", "(?:a?){40}a{40}", "(a|b|ab){20}c", "\\s+$"):
        assert not Pattern(pattern, ignore_case=False).quick
        assert not Pattern(pattern, ignore_case=False).quick_at(10_000, 10_000)
    text = "fine ab\n" + "a" * 60 + "b"
    apart = Apart("(a+)+$", ignore_case=False, seconds=0.3)
    began = time.monotonic()
    with pytest.raises(UsageError, match="takes too long"):
        apart.find(text)
    assert time.monotonic() - began < 30
    # another text may be searched again
    assert list(apart.find("fine a\n\nbaa")) == [0, 2]


@given(EXPRESSIONS, st.lists(TEXTS, max_size=4), st.booleans())
def test_apart_as_here(pattern: str, texts: list[str], ignore_case: bool) -> None:
    apart = Apart(pattern, ignore_case=ignore_case)
    for text in texts:
        assert list(apart.find(text)) == Pattern(pattern, ignore_case=ignore_case).lines(text)


WORDS = st.lists(
    st.sampled_from(("abc", "a+b", "[ab]+", ".*", "ABC", "(abc|bca)", " ", "(?:a+)+", "a?", "^")), max_size=4
)


@given(WORDS, st.text(alphabet="abcABC\0 \n", max_size=60), st.booleans())
def test_lines_without_what_a_match_needs_change_nothing(pieces: list[str], text: str, ignore_case: bool) -> None:
    pattern = "".join(pieces)
    found = list(Regex(pattern, ignore_case=ignore_case).lines(Text(text)))
    assert found == by_line(pattern, text, ignore_case=ignore_case)


def test_a_repeat_after_a_rare_literal_needs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(Apart, "find", lambda _apart, text: started.append(text) or [])
    term = Regex("needle-[a-z]+-here", ignore_case=False)
    text = "none\n" * 10_000 + "x" * 100_000 + "\na needle-so-here\n"
    assert (list(term.lines(Text(text))), started) == ([10_001], [])
    # without one, or where repeats are nested, it may take long
    assert list(Regex(".*x.*y", ignore_case=False).lines(Text("x" * 10_000))) == []
    assert list(Regex("needle(-+)+$", ignore_case=False).lines(Text(text))) == []
    assert started == ["x" * 10_000, "a needle-so-here\n"]


def test_no_expression_at_all() -> None:
    for pattern in ("(", "a{2,1}", "(?P<a>x)(?P<a>y)", "\\", "(?z)", "(" * 5000 + ")" * 5000):
        with pytest.raises(UsageError, match="is no regular expression"):
            Regex(pattern, ignore_case=False)
    assert list(Regex("héllo", ignore_case=True).lines(Text("Hi\nHÉLLO"))) == [1]

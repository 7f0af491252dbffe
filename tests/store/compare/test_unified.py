"""Unified diffs: what ``patch`` makes of them, and what ``diff -u`` says of the same texts."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.compare import Match, matches, unified
from tests.conftest import scratch_file

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "a b\n", "--- a\n", "\r\n", "d\x0ce\n"]), max_size=30)
TEXTS = st.builds(lambda lines, rest: "".join(lines) + rest, LINES, st.sampled_from(["", "end", "\u2028"]))


@given(st.lists(st.integers(0, 6), max_size=40), st.lists(st.integers(0, 6), max_size=40))
def test_what_matches_is_the_same_and_in_order(a: list[int], b: list[int]) -> None:
    a_end = b_end = -1
    for match in matches(a, b):
        assert match.length > 0
        assert a[match.a : match.a + match.length] == b[match.b : match.b + match.length]
        assert match.a >= a_end
        assert match.b >= b_end
        assert (match.a, match.b) != (a_end, b_end), "neighbours are one match"
        a_end, b_end = match.a + match.length, match.b + match.length


@given(st.lists(st.integers(0, 50), max_size=60, unique=True), st.data())
def test_what_was_taken_out_or_put_in_is_all_that_differs(a: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(a), max_size=len(a)))
    b = [element for element, stays in zip(a, kept, strict=True) if stays]
    b[len(b) // 2 : len(b) // 2] = [100, 101]
    assert sum(match.length for match in matches(a, b)) == sum(kept)


def test_long_sequences_without_anything_that_stands_once() -> None:
    # difflib alone would take minutes
    a = ["x", "y", "z"] * 20_000
    b = ["y", "x", "z"] * 20_000
    assert all(a[match.a] == b[match.b] for match in matches(a, b))
    assert matches(["p", *a], ["p", *a]) == [Match(0, 0, len(a) + 1)]


@pytest.mark.skipif(not shutil.which("diff"), reason="diff is not installed")
def test_it_is_what_diff_says() -> None:
    before = "".join(f"{number}\n" for number in range(40))
    after = before.replace("7\n8\n", "seven\n").replace("20\n", "20\nmore\n").replace("39\n", "39")
    with scratch_file("old") as old:
        new = old.with_name("new")
        old.write_text(before)
        new.write_text(after)
        said = subprocess.run(
            ["diff", "-u", "--label", "old", "--label", "new", old, new], capture_output=True, text=True, timeout=20
        ).stdout
    assert unified(before, after, "old", "new").text == said


@given(TEXTS, TEXTS)
def test_a_diff_can_be_applied(before: str, after: str) -> None:
    diff = unified(before, after, "a", "b")
    assert (diff.text == "") == (before == after)
    assert applied(before, diff.text) == after
    assert diff.added == sum(line.startswith("+") for line in body(diff.text))
    assert diff.removed == sum(line.startswith("-") for line in body(diff.text))


def body(diff: str) -> list[str]:
    return [line for line in diff.split("\n")[2:] if line]


def applied(before: str, diff: str) -> str:
    """Return a text as a diff changes it, by what the diff says and nothing else."""
    *lines, rest = before.split("\n")
    old = [line + "\n" for line in lines] + ([rest] if rest else [])
    made: list[str] = []
    at = 0
    parts = diff.split("\n")[2:-1] if diff else []
    for number, part in enumerate(parts):
        end = "" if number + 1 < len(parts) and parts[number + 1].startswith("\\") else "\n"
        match part[:1]:
            case "@":
                first, _, count = part.split(" ")[1][1:].partition(",")
                begin = int(first) - (count != "0")
                made += old[at:begin]
                at = begin
            case " " | "-":
                assert old[at] == part[1:] + end
                made += [old[at]] * (part[0] == " ")
                at += 1
            case "+":
                made.append(part[1:] + end)
            case other:
                assert other == "\\"
    return "".join(made + old[at:])

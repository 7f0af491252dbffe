import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.core.twins import carried, carried_to_numbered, unnumbered

FILE = "one\n\ntwo\nthree\n"
NUMBERED = "     9→one\n    10→\n    11→two\n    12→three\n    13→"
ENDED = NUMBERED.removesuffix("    13→")
TAIL = "\n\n<system-reminder>\nbe careful\n</system-reminder>\n"


@pytest.mark.parametrize(
    ("twin", "old", "new", "expected"),
    [
        ("a", "a", "b", "b"),
        ("", "", "b", "b"),
        ("Error: a", "a", "b\nc", "Error: b\nc"),
        ("Error: a", "<tool_use_error>a</tool_use_error>", "<tool_use_error>b</tool_use_error>", "Error: b"),
        ("a", "<tool_use_error>a</tool_use_error>", "<tool_use_error>b</tool_use_error>", "b"),
        ("Error: a", "<tool_use_error>a</tool_use_error>", "b", None),
        ("\na\n\n", "a", "b", "\nb\n\n"),
        ("a", "a\n", "b\n", "b"),
        ("a", "a\n", "b", "b"),
        ("x", "a", "b", None),
        ("", "a", "b", None),
        # whole lines, once
        ("out\nput", "out\nput\nwarning", "out\nPUT\nwarning", "out\nPUT"),
        ("warning", "out\nput\nwarning", "out\nPUT\nwarning", "warning"),
        ("warning", "out\nput\nwarning", "0ut\nput\nwarn1ng", "warn1ng"),
        ("out\nput", "out\nput\nwarning", "out\nput\nmore\nwarning", "out\nput\nmore"),
        ("out\nput", "out\nput\nwarning", "first\nout\nput\nwarning", "first\nout\nput"),
        ("out\nput", "out\nput\nwarning", "out\nwarning", "out"),
        ("out\nput", "out\nput\nwarning", "all\nof it is\nsomething\nelse", None),
        ("a", "a\na", "b\na", None),
        ("ou", "out\nput", "0ut\nput", None),
        # numbered
        (FILE, NUMBERED, NUMBERED.replace("two", "2"), FILE.replace("two", "2")),
        (FILE, NUMBERED + TAIL, NUMBERED.replace("two", "2") + TAIL, FILE.replace("two", "2")),
        (FILE, NUMBERED + TAIL, NUMBERED.replace("two", "2\n    99→more") + TAIL, FILE.replace("two", "2\nmore")),
        (FILE, NUMBERED + TAIL, NUMBERED + TAIL.replace("careful", "brave"), FILE),
        (FILE, NUMBERED, NUMBERED.replace("two", "2\nmore"), None),
        (FILE, NUMBERED.replace("→", "\t"), NUMBERED.replace("→", "\t").replace("two", "2"), FILE.replace("two", "2")),
        (FILE, NUMBERED.replace("12→", "13→"), NUMBERED.replace("two", "2"), None),
        ("x", NUMBERED, NUMBERED.replace("two", "2"), None),
        # where the line that the last newline begins has no number
        (FILE, ENDED, ENDED.replace("two", "2"), FILE.replace("two", "2")),
        (FILE, ENDED + TAIL, ENDED.replace("two", "2\n    99→more") + TAIL, FILE.replace("two", "2\nmore")),
        (FILE, ENDED, ENDED.replace("two", "2\nmore"), None),
    ],
)
def test_a_change_is_carried_over_where_it_is_plain_how(twin: str, old: str, new: str, expected: str | None) -> None:
    assert carried(twin, old, new) == expected


def test_numbers_are_written_anew() -> None:
    assert carried_to_numbered(NUMBERED + TAIL, FILE, FILE.replace("two", "2")) == NUMBERED.replace("two", "2") + TAIL
    assert carried_to_numbered("9\ta\n10\tb", "a\nb", "a\nc\nd") == "9\ta\n10\tc\n11\td"
    assert carried_to_numbered("a\nb", "a\nb", "c") is None
    assert carried_to_numbered(ENDED + TAIL, FILE, FILE.replace("two", "2")) == ENDED.replace("two", "2") + TAIL
    assert carried_to_numbered(ENDED, FILE, FILE + "four\n") == ENDED + "    13→four\n"
    assert carried_to_numbered("a\n", "a\n", "c\n") is None


LINES = st.lists(st.text(st.sampled_from("ab "), max_size=3), min_size=1, max_size=6)


@given(LINES, LINES, st.integers(1, 120))
def test_there_and_back(old: list[str], new: list[str], first: int) -> None:
    def count(lines: list[str]) -> str:
        return "\n".join(f"{number:>6}→{line}" for number, line in enumerate(lines, first))

    assert unnumbered(count(old).split("\n")) == old
    assert carried_to_numbered(count(old) + TAIL, "\n".join(old), "\n".join(new)) == count(new) + TAIL
    if any(line.strip() for line in old):
        assert carried("\n".join(old), count(old), count(new)) == "\n".join(new)


@given(LINES, LINES, LINES, st.data())
def test_of_two_outputs_each_gets_its_own_changes(
    out: list[str], error: list[str], word: list[str], data: st.DataObject
) -> None:
    """One line for one, as a search and replace changes them."""
    out, error = ["o" + line for line in out], ["e" + line for line in error]
    old = out + error
    new = [data.draw(st.sampled_from([line, "".join(word)])) for line in old]
    for twin, expected in ((out, new[: len(out)]), (error, new[len(out) :])):
        carried_over = carried("\n".join(twin), "\n".join(old), "\n".join(new))
        assert carried_over == "\n".join(expected)


def test_long_outputs_take_no_longer_than_they_must() -> None:
    out, error = [f"line {at % 300}" for at in range(30_000)], [f"error {at % 300}" for at in range(30_000)]
    old = "\n".join(out + error)
    started = time.perf_counter()
    assert carried("\n".join(out), old, old.replace("line", "LINE")) == "\n".join(out).replace("line", "LINE")
    assert carried("\n".join(error), old, old.replace("line 7\n", "")) == "\n".join(error)
    assert carried("\n".join(out), old, "\n".join(reversed(out + error[1:]))) is None
    assert time.perf_counter() - started < 20

"""Whatever is read and edited in whatever order, what is known as a whole is what the file has."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from store.worktree.known import KnownText
from store.worktree.patches import Change

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "e f"]), min_size=1, max_size=12)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("see"), st.integers(0, 12), st.integers(1, 8), st.booleans()),
        st.tuples(st.just("edit"), st.integers(0, 12), st.integers(1, 3), LINES),
        st.tuples(st.just("elsewhere"), st.integers(0, 12), st.just(1), LINES),
        st.tuples(st.just("hunk"), st.integers(0, 12), st.integers(1, 3), LINES),
    ),
    max_size=12,
)


@given(LINES, STEPS)
def test_what_is_known_is_true(lines: list[str], steps: list[tuple[str, int, int, object]]) -> None:
    text = "\n".join(lines)
    known = KnownText()
    changed_behind = False
    for what, at, count, more in steps:
        now = text.split("\n")
        first = at % len(now)
        part = now[first : first + count]
        if what == "see":
            known.see("\n".join(part), first + 1, len(now) if more else 0)
            # of a file that something else changed too, parts may be of different times
            changed_behind = changed_behind and known.whole != text
        elif what == "elsewhere":
            assert isinstance(more, list)
            text = "\n".join(now[:first] + more + now[first:])
            changed_behind = True
        else:
            assert isinstance(more, list)
            old, new = "\n".join(part), "\n".join(more)
            if what == "edit" and (not old or text.count(old) != 1):
                continue
            if what == "hunk" and (not old or f"\n{text}\n".count(f"\n{old}\n") != 1):
                continue
            known.change([Change(old, new, hunk=what == "hunk")])
            if what == "hunk":
                text = f"\n{text}\n".replace(f"\n{old}\n", f"\n{new}\n", 1)[1:-1]
            else:
                text = text.replace(old, new)
        if not changed_behind:
            assert known.whole in (None, text)


def test_short_lines_take_no_more_than_their_text() -> None:
    text = "\n".join(map(str, range(100_000)))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        known = KnownText()
        for first in range(1, 100_001, 10_000):
            part = "\n".join(map(str, range(first - 1, first + 9_999)))
            known.see(part, first, 100_000)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert known.whole == text
    assert taken < 1.5 * len(text)


def test_parts_become_the_whole() -> None:
    known = KnownText()
    known.see("3\n4", 3, 5)
    assert known.whole is None
    known.change([Change("4", "4a\n4b")])
    known.see("1\n2", 1, 6)
    assert known.whole is None
    known.see("5", 6, 6)
    assert known.whole is None or known.whole == "1\n2\n3\n4a\n4b\n5"
    assert known.whole == "1\n2\n3\n4a\n4b\n5"


def test_what_contradicts_the_known_takes_its_place() -> None:
    known = KnownText()
    known.write("one\ntwo\nthree")
    known.see("two", 2, 3)
    assert known.whole == "one\ntwo\nthree"
    known.see("TWO", 2, 3)
    assert known.whole is None
    known.see("one\nTWO\nthree", 1, 3)
    assert known.whole == "one\nTWO\nthree"


def test_a_change_whose_place_is_in_doubt_leaves_nothing_known() -> None:
    for change in (Change("x", "y"), Change("a", "b"), Change("", "b"), Change("no", "b", hunk=True)):
        known = KnownText()
        known.write("a\na")
        known.change([change])
        assert known.whole is None
    known = KnownText()
    known.write("a\na")
    known.change([Change("a", "b", every=True)])
    assert known.whole == "b\nb"


def test_hunks_are_applied_from_top_to_bottom() -> None:
    known = KnownText()
    known.write("def f():\n    return 1\n\ndef g():\n    return 1\n")
    known.change([Change("    return 1", "    return 2", hunk=True, after="def g():")])
    assert known.whole == "def f():\n    return 1\n\ndef g():\n    return 2\n"
    known.write("ab\nx\nb\nx\n")
    known.change([Change("x", "y", hunk=True, after="b")])
    assert known.whole == "ab\nx\nb\ny\n"
    known.write("}\na\n}\nb\n}")
    known.change([Change("b", "B", hunk=True), Change("}", "};", hunk=True)])
    assert known.whole == "}\na\n}\nB\n};"

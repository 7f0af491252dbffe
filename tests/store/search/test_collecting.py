"""Words of blocks as they are collected: by the extension just as in Python."""

import random
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.search import collecting
from store.search.collecting import GROUP, Collected, InPython, Steps
from store.search.words import ALL_MARKS, END, mark_of

needs_extension = pytest.mark.skipif(
    not collecting.is_built, reason="store.search._words was not built: there was no compiler"
)
BLOCKS = st.lists(st.lists(st.text(alphabet="aBc9_ .-\n\0é\u0130東京ไ\U00020000", max_size=90), max_size=3), max_size=8)


def collected(into: Collected, blocks: list[list[str]]) -> Collected:
    for number, texts in enumerate(blocks):
        if number:
            into.next()
        for text in texts:
            into.add(text.encode())
    return into


def in_python(monkeypatch: pytest.MonkeyPatch) -> Collected:
    monkeypatch.setattr(collecting, "is_built", False)
    return Collected()


def read(words: bytes, parts: list[bytes]) -> dict[bytes, list[int]]:
    """Return the blocks of each word."""
    said = iter(words.split(END)[1:-1])
    found: dict[bytes, list[int]] = {}
    for part in parts:
        steps = Steps(part)
        for place, (some, marks) in enumerate(steps):
            assert steps.of(place) == some
            blocks = found[next(said)] = [*accumulate(some)]
            assert list(steps.blocks(place, 0)) == blocks
            # of the 32 marks others for each word: a few thousand words have them all often enough
            for mark in (1 << (place + more) % 32 for more in (0, 11, 22)):
                asked = [block for at, block in enumerate(blocks) if marks[at // GROUP] & mark]
                assert list(steps.blocks(place, mark)) == asked
    assert list(said) == []
    return found


@needs_extension
@given(BLOCKS, st.sampled_from([1, 3, 1024]))
def test_the_extension_collects_what_python_does(blocks: list[list[str]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        other = collected(in_python(patch), blocks).end(most)
    assert collected(Collected(), blocks).end(most) == other


@pytest.mark.parametrize("extension", [pytest.param(True, marks=needs_extension), False])
def test_every_word_has_its_blocks(extension: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    words = [f"word{number * 7919:x}" for number in range(9000)] + ["x" * 64]
    blocks = [chance.choices(words, k=40) for _ in range(5000)]
    into = Collected() if extension else in_python(monkeypatch)
    found = read(*collected(into, [[" ".join(some)] for some in blocks]).end(1024))
    right: dict[bytes, list[int]] = {}
    for number, some in enumerate(blocks):
        for word in sorted(set(some)):
            right.setdefault(word.encode(), []).append(number)
    assert found == right
    assert list(found) == sorted(found)


@pytest.mark.parametrize("extension", [pytest.param(True, marks=needs_extension), False])
def test_a_word_has_the_marks_of_those_that_follow_it(extension: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [["one, two"], ["one", "two one"], ["(One)\nthree one \u2014 four"], [f"one{'é'}"], [f"x {'y' * 65} one"]]
    into = Collected() if extension else in_python(monkeypatch)
    words, [part] = collected(into, blocks).end(1024)
    marks = dict(zip(words.split(END)[1:-1], (some for _steps, some in Steps(part)), strict=True))
    assert marks[b"one"] == (mark_of(b"two") | mark_of(b"three"),)
    assert marks[b"two"] == (mark_of(b"one"),)
    assert marks[b"four"] == marks[b"x"] == (0,)
    # any word may follow those that are not plain
    assert marks["oneé".encode()] == marks[b"y" * 64] == (ALL_MARKS,)


@needs_extension
def test_a_segment_has_room_for_so_many_blocks() -> None:
    into = Collected()
    for _ in range((1 << 16) - 1):
        into.next()
    into.add(b"last")
    assert read(*into.end(1)) == {b"last": [(1 << 16) - 1]}
    with pytest.raises(OverflowError):
        into.next()


@needs_extension
def test_what_is_no_text_is_refused() -> None:
    from store.search import _words

    words = _words.Collected()
    for wrong in (lambda: words.add("text"), lambda: words.put([1]), lambda: words.put(1), lambda: words.end("1")):
        with pytest.raises(TypeError):
            wrong()
    for most in (0, 1 << 16, -1):
        with pytest.raises((ValueError, OverflowError)):
            words.end(most)


def test_nothing_is_no_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_python(monkeypatch).end(1) == Collected().end(1) == (END, [])
    assert isinstance(InPython().add(b""), set)

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store.artifacts.sink import Sanitizer

SAID = [
    (b"plain\ttext\n", "plain\ttext\n"),
    (b"\x1b[1;31mred\x1b[0m\x1b[K", "red"),
    (b"\x1b]0;a title\x07and \x1b]8;;http://a\x1b\\a link\x1b]8;;\x1b\\", "and a link"),
    (b"\x1bPq#0;2;0\n#1\x1b\\an image", "an image"),
    ("\u009b1mC1\u009d0;x\u009c\u0085".encode(), "C1"),
    (b"\x1b(B\x1b=two\x1bM", "two"),
    (b"10%\r20%\r\ndone\r\n", "10%\n20%\ndone\n"),
    (b"a\x00b\x08c\x07\x7f", "abc"),
    (b"\xff\xc3\x28 \xe2\x82", "\ufffd\ufffd( \ufffd"),
    ("é€😀".encode(), "é€😀"),
    (b"never ends: \x1b]0;title\nnext line", "never ends: 0;title\nnext line"),
    (b"cut off \x1b[3", "cut off 3"),
]
PIECES = st.lists(
    st.sampled_from(
        [b"\x1b", b"[", b"]", b"P", b"3", b"m", b"\x07", b"\\", b"\n", b"\r", b"x", b"\xc2", b"\x9b", b"\xff"]
    )
)


@pytest.mark.parametrize(("data", "text"), SAID)
def test_what_becomes_of_output(data: bytes, text: str) -> None:
    sanitizer = Sanitizer()
    assert sanitizer.feed(data) + sanitizer.finish() == text


@example([b"\r", b"\x1b", b"[", b"\n"], [2])
@given(PIECES, st.lists(st.integers(0, 40)))
def test_however_it_is_cut_the_text_is_the_same(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    whole = Sanitizer()
    expected = whole.feed(data) + whole.finish()
    sanitizer, text, start = Sanitizer(), "", 0
    for end in sorted(cuts):
        text += sanitizer.feed(data[start:end])
        start = max(start, end)
    assert text + sanitizer.feed(data[start:]) + sanitizer.finish() == expected
    assert not set(expected) & {"\x1b", "\r", "\x00", "\x9b"}


def test_a_sequence_that_never_ends_takes_nothing_with_it() -> None:
    sanitizer = Sanitizer()
    text = sanitizer.feed(b"\x1bP")
    for _ in range(200):
        text += sanitizer.feed(b"x" * 1000)
    assert len(text + sanitizer.finish()) >= 200_000

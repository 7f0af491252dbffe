"""Words of texts, and the pieces of a query among them."""

from hypothesis import example, given
from hypothesis import strategies as st

from store.search.collecting import Collected
from store.search.folding import fold
from store.search.words import END, mark_of, pieces_of

ALPHABET = "aBc9_ .-\n\0é\u0130\u00df\u0301ガ東京都ไทย한글\U00020000\u2014ー"
TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet=ALPHABET, max_size=60),
    st.text(alphabet="aB3é", min_size=60, max_size=260),
    st.text(alphabet="aB3_-", min_size=60, max_size=260),
)


def words_of(text: str) -> set[bytes]:
    collected = Collected()
    collected.add(text.encode())
    return set(collected.end(1)[0].split(END)[1:-1])


@given(TEXTS, TEXTS, TEXTS)
@example("a" * 40, "b" * 17, "c" * 60)
@example("", "x" * 64, "")
@example("é" * 33, "é" * 33, "")
def test_a_text_has_the_pieces_of_all_its_parts(before: str, part: str, after: str) -> None:
    words = END.join((b"", *sorted(words_of(before + part + after)), b""))
    assert all(piece.text in words for piece in pieces_of(fold(part)))


@given(TEXTS)
def test_no_word_is_long(text: str) -> None:
    for word in words_of(text):
        assert 0 < len(word.decode()) <= 64
        assert not word.isspace()


def test_words() -> None:
    assert words_of("Über a_b-C9 (x)") == {"über".encode(), b"a_b", b"c9", b"x"}
    assert words_of("A_B-C9 (x)") == {b"a_b", b"c9", b"x"}
    assert words_of("abc東京都") == {b"abc", "東京".encode(), "京都".encode()}
    assert words_of("都") == {"都".encode()}
    digits = "0123456789" * 10
    assert words_of(digits) == {digits[:64].encode(), digits[48:].encode()}
    assert words_of("Ä" * 64) == {("ä" * 64).encode()}


def test_pieces() -> None:
    assert pieces_of("reset by peer") == [(b"reset\n", mark_of(b"by")), (b"\nby\n", 0), (b"\npeer", 0)]
    assert pieces_of("-a") == [(b"\na", 0)]
    assert pieces_of("ab") == [(b"ab", 0)]
    assert pieces_of("a") == pieces_of("->") == []
    assert pieces_of("東京都") == [("東京".encode(), 0), ("京都".encode(), 0)]
    assert pieces_of("0123456789" * 3) == [(b"01234567890123456", 0), (b"34567890123456789", 0)]


def test_a_mark_is_known_only_of_a_plain_word_that_follows_for_certain() -> None:
    two = mark_of(b"two")
    for text in ("one two.", "one, (two) three", "é one\ntwo\n"):
        assert dict(pieces_of(text)).keys() & {b"one\n", b"\none\n"}
        assert two in [piece.mark for piece in pieces_of(text)]
    for text in ("one two", "one \u2014 two.", "one two\u2014", "one twö.", f"one {'2' * 65}.", "one 東."):
        assert {piece.mark for piece in pieces_of(text)} == {0}

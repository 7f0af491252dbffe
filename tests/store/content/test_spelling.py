import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.content import cuts
from store.disk.skeleton_format import Spelling
from store.errors import DamageError
from tests.store.content.documents import STYLES, spell, texts


@given(texts, st.sampled_from(STYLES))
def test_reading_a_literal_is_lossless_or_nothing(text: str, style: str) -> None:
    literal = spell(text, style)
    read = cuts.read_literal(literal)
    if read is not None:
        assert bytes(cuts.write(*read)) == literal
        assert read[1].decode() == json.loads(literal)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["js", "python", "go"]))
def test_what_common_tools_write_is_read(text: str, style: str) -> None:
    read = cuts.read_literal(spell(text, style))
    assert read is not None
    assert read[1] == text.encode()


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        (b'"a\\nb"', Spelling.JS),
        ('"é\\n"'.encode(), Spelling.JS),
        (b'"\\u00e9"', Spelling.ASCII),
        (b'"\\ud83d\\ude00"', Spelling.ASCII),
        (b'"\\u003cb\\u003e"', Spelling.GO),
        ('"é\\u2028"'.encode(), Spelling.GO),
    ],
)
def test_the_spelling_is_recognised(literal: bytes, expected: Spelling) -> None:
    read = cuts.read_literal(literal)
    assert read is not None
    assert read[0] == expected


@pytest.mark.parametrize(
    "literal",
    [
        pytest.param(b'"a\\/b"', id="an escape that need not be"),
        pytest.param(b'"\\u00E9"', id="upper case"),
        pytest.param(b'"\\ud800"', id="a lone surrogate"),
        pytest.param(b'"a\nb\\n"', id="a raw control character"),
        pytest.param(b'"\xff\\n"', id="bad UTF-8"),
        pytest.param(b'"a" "b\\n"', id="two literals"),
        pytest.param(b'"\\x41"', id="no such escape"),
        pytest.param(b'"', id="no literal"),
    ],
)
def test_what_no_spelling_gives_back_is_not_read(literal: bytes) -> None:
    assert cuts.read_literal(literal) is None


@given(st.binary(min_size=1))
def test_base64_is_read_only_if_it_is_canonical(data: bytes) -> None:
    encoded = bytes(cuts.write(Spelling.BASE64, data))
    assert cuts.read_base64(encoded) == data
    assert cuts.read_base64(encoded.replace(b"=", b"")) is None or b"=" not in encoded
    assert cuts.read_base64(encoded + b"\n") is None


@pytest.mark.parametrize("encoded", [b"", b"YR==", b"YQ=a", b"YWJj*WJj", b"YWJj" * 30 + b"\nYWJ", b"===="])
def test_other_base64_is_not_read(encoded: bytes) -> None:
    assert cuts.read_base64(encoded) is None


@pytest.mark.parametrize("spelt", [Spelling.JS, Spelling.ASCII, Spelling.GO])
def test_content_that_is_no_text_cannot_be_a_string(spelt: Spelling) -> None:
    with pytest.raises(DamageError):
        cuts.write(spelt, b"\xff")
    with pytest.raises(DamageError):
        cuts.write(spelt, b"a" * (9 << 20) + b"\xff")


def test_an_unknown_spelling_is_damage() -> None:
    with pytest.raises(DamageError):
        cuts.write(99, b"a")


@pytest.mark.parametrize("style", ["js", "python", "go"])
@pytest.mark.parametrize("offset", range(3))
def test_a_large_literal_is_worked_on_in_pieces(style: str, offset: int) -> None:
    line = "a line of plain text with <é> and \U0001f600\ud7ff in it\n"
    text = "x" * offset + line * 200_000
    literal = b'"' + b"x" * offset + spell(line, style)[1:-1] * 200_000 + b'"'
    assert len(literal) > 8 << 20
    read = cuts.read_literal(literal)
    assert read is not None
    assert read[1] == text.encode()
    assert cuts.write(*read) == literal


def test_a_large_literal_without_plain_text_is_left_alone() -> None:
    assert cuts.read_literal(b'"' + b"\\u4e2d" * (3 << 20) + b'"') is None

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.content.cuts import write
from store.disk.skeleton_format import Spelling
from store.errors import UsageError
from store.formats.core.splices import encoded, spell, spell_base64

STYLES = st.sampled_from([Spelling.JS, Spelling.ASCII, Spelling.GO])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
TELLING = "é <b> \u2028 &"


def literal(style: Spelling, text: str) -> bytes:
    return bytes(write(style, text.encode()))


@given(STYLES, TEXTS)
def test_the_literal_that_is_replaced_decides(style: Spelling, text: str) -> None:
    others = [literal(other, TELLING) for other in (Spelling.JS, Spelling.ASCII, Spelling.GO) if other != style]
    assert spell(text, b"[%b]" % b",".join(others), literal(style, TELLING)) == literal(style, text)


@given(STYLES, TEXTS, st.sampled_from([b'"plain"', None, b'"odd \\/ \\u003C"', b"12"]))
def test_else_the_others_of_the_record_do(style: Spelling, text: str, replaced: bytes | None) -> None:
    payload = b'{"a":"plain","b":%b,"c":%b}' % (literal(style, TELLING), replaced or b"null")
    assert spell(text, payload, replaced) == literal(style, text)


@given(TEXTS)
def test_else_it_is_spelled_as_javascript_does(text: str) -> None:
    written = spell(text, b'{"a":"plain"}')
    assert written == literal(Spelling.JS, text)
    assert json.loads(written) == text


@given(TEXTS)
def test_base64(text: str) -> None:
    assert base64.b64decode(json.loads(spell_base64(text))).decode() == text


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_half_a_character_is_refused(text: str) -> None:
    for write_it in (encoded, spell_base64, lambda text: spell(text, b"{}")):
        with pytest.raises(UsageError, match="surrogate"):
            write_it(text)

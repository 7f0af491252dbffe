"""Spellings: how a payload writes a content down, and the content that some bytes of a payload spell.

Reading is lossless or nothing: a spelling is only chosen if writing the content in it gives back the same bytes. All
functions are pure. Contents beyond a few MB are worked on in pieces, since a decoded string may take four bytes a
character.
"""

import json
import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator

import msgspec

from store.disk.skeleton_format import Spelling
from store.errors import DamageError

_PIECE = 8 << 20
_LONGEST_ESCAPE = 12
_BOUNDARY = re.compile(rb"[ -!#-\[\]-~]{%d}" % (_LONGEST_ESCAPE + 1))
_BASE64_HEAD = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
_HEAD = 64

_js_bytes = msgspec.json.Encoder().encode
_js_text = msgspec.json.Decoder(str).decode

JSON_SPELLINGS = frozenset((Spelling.JS, Spelling.ASCII, Spelling.GO))


def write(spelling: int, content: bytes | memoryview) -> bytes | memoryview:
    """Return ``content`` as ``spelling`` writes it; DamageError where it cannot be (so it never was read from it)."""
    if spelling == Spelling.RAW:
        return content
    if spelling == Spelling.BASE64:
        return b2a_base64(content, newline=False)
    if spelling not in JSON_SPELLINGS:
        raise DamageError(f"unknown spelling {spelling}")
    try:
        if len(content) <= _PIECE:
            return _quoted(spelling, str(content, "utf-8"))
        inner = (_quoted(spelling, str(piece, "utf-8"))[1:-1] for piece in _character_pieces(content))
        return b"".join((b'"', *inner, b'"'))
    except UnicodeDecodeError as error:
        raise DamageError(f"content is not the text that its payload spells: {error}") from None


def read_literal(literal: bytes) -> tuple[Spelling, bytes] | None:
    """Return spelling and content of a JSON string literal, quotes included; None where no spelling gives it back."""
    try:
        if len(literal) > _PIECE:
            return _read_large(literal)
        text = _js_text(literal)
        content = text.encode()
    except (msgspec.DecodeError, UnicodeError):
        return None
    if _js_bytes(text) == literal:
        return Spelling.JS, content
    for spelling in (Spelling.ASCII, Spelling.GO):
        if _quoted(spelling, text) == literal:
            return spelling, content
    return None


def read_base64(encoded: bytes) -> bytes | None:
    """Return what canonical base64 decodes to; None for anything else, empty bytes too."""
    if len(encoded) % 4 or not _BASE64_HEAD.fullmatch(encoded[:_HEAD]):
        return None
    try:
        content = a2b_base64(encoded, strict_mode=True)
    except Base64Error:
        return None
    return content if b2a_base64(content, newline=False) == encoded else None


def _quoted(spelling: int, text: str) -> bytes:
    if spelling == Spelling.ASCII:
        return json.dumps(text).encode()
    quoted = _js_bytes(text)
    if spelling == Spelling.GO:
        for raw, escaped in _GO_ESCAPES:
            quoted = quoted.replace(raw, escaped)
    return quoted


_GO_ESCAPES = tuple((char.encode(), b"\\u%04x" % ord(char)) for char in "<>&\u2028\u2029")


def _character_pieces(content: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """Yield content in pieces that end where a character of UTF-8 ends."""
    start = 0
    while start < len(content):
        stop = min(start + _PIECE, len(content))
        while stop < len(content) and stop > start and content[stop] & 0xC0 == 0x80:
            stop -= 1
        yield content[start : stop if stop > start else len(content)]
        start = stop if stop > start else len(content)


def _read_large(literal: bytes) -> tuple[Spelling, bytes] | None:
    """As :func:`read_literal`, piece by piece; pieces end in plain characters, far from the end of any escape."""
    pieces = []
    start, end = 1, len(literal) - 1
    while start < end:
        stop = end
        if end - start > _PIECE:
            plain = _BOUNDARY.search(literal, start + _PIECE - _LONGEST_ESCAPE, end)
            if plain:
                stop = plain.end()
        if stop - start > 2 * _PIECE:
            return None
        pieces.append(_js_text(b'"%b"' % literal[start:stop]).encode())
        start = stop
    content = b"".join(pieces)
    for spelling in (Spelling.JS, Spelling.ASCII, Spelling.GO):
        if write(spelling, content) == literal:
            return spelling, content
    return None

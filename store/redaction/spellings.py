"""How a text may be spelt in bytes: each spelling is something to look for, and a way to write something else there.

A text stands for itself in UTF-8; in JSON, some of its characters as escapes, or all of them as ``\\u0041``, and where
JSON is a string of JSON, with more backslashes; percent-encoded in a URL; in UTF-16; and in base64, where what precedes
it decides on one of three spellings. Unicode has several ways to compose some characters: each is looked for.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode, urlsafe_b64encode
from binascii import a2b_base64, b2a_base64
from urllib.parse import quote_from_bytes

from store.content.spelling import JSON_SPELLINGS, write
from store.importing.redacted import MARK as MARK

_FILLING = b"*"
_ESCAPED = {0x08: b"b", 0x09: b"t", 0x0A: b"n", 0x0C: b"f", 0x0D: b"r"}
_DEEPEST = 2
_FEWEST_BASE64 = 6
"""So many characters of base64 are not the same by chance."""
_ALPHABET = re.compile(rb"[A-Za-z0-9+/_-]*={0,2}")
_CUT_ESCAPE = re.compile(rb"(\\+)(u[0-9a-fA-F]{0,3})?\Z")
_LONGEST_CUT_ESCAPE = 64
_BREAK = rb"(?:(?:\\+r)?\\+n|\r?\n)?"


def composed(literal: bytes) -> list[bytes]:
    """Return the ways in which a literal is composed in UTF-8, itself first; alone, if it is no text."""
    try:
        text = literal.decode()
    except UnicodeDecodeError:
        return [literal]
    forms = [text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)]
    return [form.encode() for form in dict.fromkeys(forms)]


def escaped(literal: bytes) -> bytes:
    """Return a pattern for a literal as it stands, or with any of its characters as escapes of JSON, however deep."""
    try:
        text = literal.decode()
    except UnicodeDecodeError:
        return re.escape(literal)
    return b"".join(map(_character, text))


def _character(character: str) -> bytes:
    code = ord(character)
    units = character.encode("utf-16-be")
    spelt = b"".join(rb"\\\\*u" + _either_case(units[at : at + 2].hex().encode()) for at in range(0, len(units), 2))
    if character == "\\":
        # two for one, where that comes out even: what follows may be an escape of its own
        return rb"(?:(?:\\\\)+|\\|" + spelt + rb")"
    if character in '"/':
        return rb"(?:\\*" + character.encode() + rb"|" + spelt + rb")"
    forms = [re.escape(character.encode()), spelt]
    if code in _ESCAPED:
        forms.append(rb"\\\\*" + _ESCAPED[code])
    return b"(?:" + b"|".join(forms) + b")"


def _either_case(digits: bytes) -> bytes:
    return b"".join(b"[%b%b]" % (d, d.upper()) if d.isalpha() else d for d in (bytes([b]) for b in digits))


def needs_escapes(literal: bytes) -> bool:
    """Say whether JSON can spell a literal otherwise than as it stands, but for ``\\u0041`` in the place of letters."""
    return any(byte < 0x20 or byte in b'"\\/' or byte >= 0x7F for byte in literal)


def percent_encoded(literal: bytes) -> list[bytes]:
    """Return the spellings of a literal in a URL that are not the literal itself."""
    forms = [quote_from_bytes(literal, safe=safe).encode() for safe in ("/", "", "/:@!$&'()*+,;=~")]
    forms += [form.lower() for form in forms if literal.lower() == literal]
    return [form for form in dict.fromkeys(forms) if form != literal]


def wide(literal: bytes) -> list[bytes]:
    """Return a literal in UTF-16, in both orders of bytes; nothing for what is no text."""
    try:
        text = literal.decode()
    except UnicodeDecodeError:
        return []
    return [text.encode("utf-16-le"), text.encode("utf-16-be")]


def base64(literal: bytes) -> list[tuple[int, bytes]]:
    """Return (phase, characters): what base64 has of a literal, by how many bytes precede it in a group of three.

    Only the characters that nothing beside the literal has a part in; in both alphabets. None where they are few.
    """
    found: dict[tuple[int, bytes], None] = {}
    for phase in range(3):
        first, end = _first(phase), (phase + len(literal)) * 8 // 6
        if end - first < _FEWEST_BASE64:
            continue
        for encode in (b64encode, urlsafe_b64encode):
            found[phase, encode(bytes(phase) + literal)[first:end]] = None
    return [*found]


def broken(characters: bytes) -> bytes:
    """Return a pattern for characters of base64 that may be broken into lines anywhere."""
    return _BREAK.join(re.escape(bytes([character])) for character in characters)


def _first(phase: int) -> int:
    return -(-phase * 8 // 6)


def as_written(literal: bytes) -> list[tuple[bytes, bytes]]:
    """Return a long literal as programs write it, each way with what is to stand instead."""
    found = {literal: MARK, b64encode(literal): b64encode(MARK)}
    try:
        text = literal.decode()
    except UnicodeDecodeError:
        return [*found.items()]
    todo = [literal]
    for _ in range(_DEEPEST):
        todo = [spelt[1:-1] for inner in todo for spelt in _in_json(inner)]
        found |= dict.fromkeys(todo, MARK)
    found |= {text.encode("utf-16-le"): MARK.decode().encode("utf-16-le")}
    return [*found.items()]


def _in_json(text: bytes) -> set[bytes]:
    return {bytes(write(spelling, text)) for spelling in JSON_SPELLINGS}


# -- writing something else --------------------------------------------------------------------------------------------


def whole_escapes(data: bytes, start: int) -> int:
    """Return where to begin instead of ``start``, so that no escape of JSON is cut in two."""
    cut = _CUT_ESCAPE.search(data[max(start - _LONGEST_CUT_ESCAPE, 0) : start])
    if cut is None:
        return start
    backslashes, rest = len(cut[1]), cut[2] or b""
    if backslashes % 2 == 0 and backslashes < _LONGEST_CUT_ESCAPE:
        # all of them are escaped themselves
        return start
    return start - len(rest) - 1


def filling(size: int) -> bytes:
    """Return what stands for ``size`` bytes where so many must stand."""
    return (MARK if size >= len(MARK) else b"").ljust(size, _FILLING)


def filling_as(mark: bytes, size: int) -> bytes:
    """Return what stands for ``size`` bytes that are spelt as ``mark`` is."""
    if mark == MARK or len(mark) > size:
        return filling(size)
    return mark[:-1].replace(b"=", b"A").ljust(size, b"A") if b"\0" not in mark else filling_wide(size, mark)


def filling_wide(size: int, first: bytes) -> bytes:
    """Return what stands for ``size`` bytes of UTF-16; ``first`` is what they begin with."""
    pair = _FILLING.decode().encode("utf-16-be" if first[:1] == b"\0" else "utf-16-le")
    return pair * (size // 2)


def filling_base64(data: bytes, start: int, end: int, phase: int, size: int) -> tuple[int, bytes]:
    """Return where to write, and what: base64 that has ``size`` bytes other than those that ``start`` to ``end`` tell.

    ``phase`` is as of :func:`base64`. As many characters; those around it go on to say what they said.
    """
    begin = start - _first(phase)
    stop = begin + -(-(phase + size) // 3) * 4
    around = data[begin:stop] if begin >= 0 else b""
    group = around.replace(b"-", b"+").replace(b"_", b"/")
    if around and len(around) == stop - begin and _ALPHABET.fullmatch(around):
        decoded = a2b_base64(group)
        if len(decoded) >= phase + size:
            kept = decoded[:phase] + filling(size) + decoded[phase + size :]
            encoded = b2a_base64(kept, newline=False)
            return begin, encoded.replace(b"+", b"-").replace(b"/", b"_") if group != around else encoded
    # it ends in the middle of a group, or is no base64 by itself
    return start, b2a_base64(_FILLING * (end - start), newline=False)[: end - start]

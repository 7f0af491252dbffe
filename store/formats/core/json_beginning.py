"""The beginning of a JSON document, completed: a record that is still being written, seen as far as it can be read.

Complete values are kept, and open ones are closed: of ``{"type":"answer","text":"Hel`` this makes
``{"type":"answer","text":"Hel"}``.
"""

import re
from typing import NamedTuple

from store.formats.core.json_view import is_strict_json

_WHOLE_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BEGUN_STRING = re.compile(rb'"(?:[^"\\]++|\\(?:[^u]|u[0-9a-fA-F]{4}))*+', re.DOTALL)
_HALF_OF_A_PAIR = re.compile(rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})\Z")
_SPACE = re.compile(rb"[ \t\r\n]*+")
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]++")
_PLAIN = rb'[ \t\r\n]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[-+.0-9A-Za-z]++)[ \t\r\n]*+'
_MEMBERS = re.compile(rb'(?:[ \t\r\n]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\r\n]*+:' + _PLAIN + rb",)++", re.DOTALL)
_ELEMENTS = re.compile(rb"(?:" + _PLAIN + rb",)++", re.DOTALL)
"""Values that are no containers, each with the comma after it: they are passed over at once."""
_CLOSING = {0x7B: 0x7D, 0x5B: 0x5D}
_KEY, _COLON, _VALUE, _COMMA = range(4)
_LONGEST_ESCAPE = 12
_WORTH = 4096
_OF_ITEMS = (b"]", b"]}")
_TRIED = 8
"""Where items of a list, or of one in an object, may end in a text of so many bytes: the last few places are tried."""
_DEEPEST = 1000
"""The most containers within each other: no parser goes deeper, and their ends are spelled out at every step."""


class Begun(NamedTuple):
    """Documents made of the beginning of one: ``whole`` has only the values that have ended.

    Where the beginning ends within a string that is a value, ``begun`` has the part of it that is there, and ``empty``
    an empty one in its place; elsewhere they are as ``whole``.
    """

    whole: bytes
    empty: bytes
    begun: bytes


def completed(text: bytes) -> Begun | None:
    """Complete the beginning of a JSON document. None where it is none or too deep, or nothing of it has begun."""
    at, closing, awaited = _well_in(text)
    safe = (at, _closed(closing)) if closing else None
    at = _end_of(_SPACE, text, at)
    while at < len(text):
        if awaited == _KEY or (awaited == _VALUE and closing[-1:] == b"]"):
            passed = (_MEMBERS if awaited == _KEY else _ELEMENTS).match(text, at)
            if passed is not None:
                safe = (passed.end() - 1, _closed(closing))
                at = _end_of(_SPACE, text, passed.end())
                continue
        first = text[at]
        if first == 0x22:
            if awaited not in (_KEY, _VALUE):
                return None
            whole = _WHOLE_STRING.match(text, at)
            if whole is None and awaited == _KEY and safe:
                return _with_no_string(text, safe)
            if whole is None:
                return _with_string(text, at, safe or (at, b'""'), closing)
            at = whole.end()
            awaited = _COLON if awaited == _KEY else _COMMA
            safe = (at, _closed(closing)) if awaited == _COMMA else safe
        elif first in _CLOSING:
            if awaited != _VALUE or len(closing) >= _DEEPEST:
                return None
            closing.append(_CLOSING[first])
            at += 1
            awaited = _KEY if first == 0x7B else _VALUE
            safe = (at, _closed(closing))
        elif closing and first == closing[-1]:
            closing.pop()
            at += 1
            awaited = _COMMA
            safe = (at, _closed(closing))
        elif first == 0x2C and awaited == _COMMA and closing:
            safe = (at, _closed(closing))
            at += 1
            awaited = _KEY if closing[-1] == 0x7D else _VALUE
        elif first == 0x3A and awaited == _COLON:
            at += 1
            awaited = _VALUE
        elif awaited == _VALUE and (end := _end_of(_SCALAR, text, at)) > at:
            # a number may go on: it is whole once something else has come
            at = end
            awaited = _COMMA
        else:
            return None
        at = _end_of(_SPACE, text, at)
    return _with_no_string(text, safe) if safe else None


def _well_in(text: bytes) -> tuple[int, bytearray, int]:
    """Return a place of a beginning, all before which is whole, what closes that, and what is awaited there.

    Where items of a list end, a parser tells in a hundredth of the time that going through them takes.
    """
    at = len(text)
    for _ in range(_TRIED):
        at = text.rfind(b"},", _WORTH, at)
        if at < 0:
            break
        for closing in _OF_ITEMS:
            if is_strict_json(text[: at + 1] + closing):
                return at + 1, bytearray(reversed(closing)), _COMMA
    return 0, bytearray(), _VALUE


def _with_no_string(text: bytes, safe: tuple[int, bytes]) -> Begun:
    whole = text[: safe[0]] + safe[1]
    return Begun(whole, whole, whole)


def _with_string(text: bytes, at: int, safe: tuple[int, bytes], closing: bytearray) -> Begun:
    """Complete a beginning that ends within the value at ``at``, a string."""
    begun = _BEGUN_STRING.match(text, at)
    assert begun is not None
    end = begun.end()
    half = _HALF_OF_A_PAIR.search(text, max(at, end - _LONGEST_ESCAPE), end)
    if half is not None:
        end = half.start(1)
    after = b'"' + _closed(closing)
    return Begun(text[: safe[0]] + safe[1], text[: at + 1] + after, text[:end] + after)


def _closed(closing: bytearray) -> bytes:
    return bytes(reversed(closing))


def _end_of(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def characters(text: bytes) -> bytes:
    """Return ``text`` without the beginning of a character of UTF-8 at its end."""
    for back in range(1, min(3, len(text)) + 1):
        byte = text[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return text[:-back] if needed > back else text
        if byte < 0x80:
            break
    return text

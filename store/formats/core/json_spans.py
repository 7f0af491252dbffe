"""The places of values in the bytes of a JSON document, found without parsing it.

It accepts everything that :mod:`store.formats.core.json_view` reads: blanks, a byte order mark and padding around the
document, bad UTF-8 and lone surrogates in its strings. Of a key that stands twice the last one counts, as for the
parsers.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from store.errors import UsageError
from store.events.event import ValuePath
from store.formats.core.json_view import BYTE_ORDER_MARK, PADDING, as_text, decode, is_strict_json

LITERAL = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_literal = re.compile(LITERAL, re.DOTALL)
_blanks = re.compile(rb"[ \t\r\n]*+")
_to_bracket = re.compile(rb'[^"\[\]{}]*+(?:' + LITERAL + rb'[^"\[\]{}]*+)*+(?:([\[{])|[\]}])', re.DOTALL)
_scalar = re.compile(rb'[^ \t\r\n,:\[\]{}"]++')
_OBJECT, _LIST, _COMMA, _COLON, _QUOTE = b'{[,:"'
_END_OF_OBJECT, _END_OF_LIST = b"}]"
_BLANK = b" \t\r\n"
_LARGE = 16 * 1024
"""An object of more bytes is read by a parser, which is faster by far."""
_MOST_MEMBERS = 200_000
"""The values of more commas are not held by a parser as values each: that takes a hundred bytes or more for one."""
_next_key = re.compile(rb"[{,]\s*+(" + LITERAL + rb")\s*+:\s*+|[{\s]*+\}", re.DOTALL).match
_separator = re.compile(rb"\s*+,?\s*+")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Member(NamedTuple):
    """A member of an object: its key, and where key, value and member begin and end."""

    key: str
    start: int
    key_end: int
    value: int
    end: int


def locate(payload: bytes, path: ValuePath) -> tuple[int, int]:
    """Return the span of the value at ``path`` (empty: of the whole document). Raises UsageError where none is."""
    # of an object, its members tell what it is
    start, end = (0, len(payload)) if path and payload[:1] == b"{" else _document(payload)
    for depth, step in enumerate(path):
        found: tuple[int, int] | None = None
        if isinstance(step, str) and payload[start] == _OBJECT:
            found = _value_of(payload, start, end, step)
        elif isinstance(step, int) and payload[start] == _LIST:
            found = next((span for at, span in enumerate(elements(payload, start)) if at == step), None)
        if found is None:
            where = spelled_path(path[: depth + 1])
            raise UsageError(f"the record holds nothing at {where}: it cannot be changed there")
        start, end = found
    return start, end


def _value_of(payload: bytes, start: int, end: int, key: str) -> tuple[int, int] | None:
    if end - start > _LARGE and payload.count(b",", start, end) < _MOST_MEMBERS:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if (spans := member_spans(memoryview(payload)[start:end])) is not None:
                return (start + spans[key][0], start + spans[key][1]) if key in spans else None
    # the last one of that key
    found: tuple[int, int] | None = None
    for member in members(payload, start):
        found = (member.value, member.end) if member.key == key else found
    return found


def member_spans(text: bytes | memoryview) -> dict[str, tuple[int, int]] | None:
    """Return the spans of an object's values, by key, at a parser's speed; None where a key stands twice.

    Raises what msgspec does for a text that strict parsers refuse.
    """
    spans: dict[str, tuple[int, int]] = {}
    end = 0
    for key, raw in _fields(text).items():
        named = _next_key(text, end)
        if named is None or named[1] is None or (named[1][1:-1] != key.encode() and text_of(named[1]) != key):
            return None
        start = named.end()
        end = start + len(memoryview(raw))
        spans[key] = start, end
        if text[end : end + 1] not in (b",", b"}"):
            end = _after_blanks(text, end)
    closed = _next_key(text, end)
    return spans if closed and closed[1] is None else None


def element_spans(text: bytes) -> list[tuple[int, int]]:
    """Return the spans of a list's elements, at a parser's speed. Raises what :func:`member_spans` does."""
    spans: list[tuple[int, int]] = []
    end = 1
    for raw in _items(text):
        start = _after(_separator, text, end)
        end = start + len(memoryview(raw))
        spans.append((start, end))
    return spans


def members(payload: bytes, start: int) -> Iterator[Member]:
    """Yield the members of the object that begins at ``start``, in order, with those whose key stands twice."""
    position = _after_blanks(payload, start + 1)
    if _byte(payload, position) == _END_OF_OBJECT:
        return
    while True:
        key = _literal.match(payload, position)
        if key is None:
            raise _damaged(position)
        colon = _after_blanks(payload, key.end())
        if _byte(payload, colon) != _COLON:
            raise _damaged(colon)
        value = _after_blanks(payload, colon + 1)
        end = value_end(payload, value)
        yield Member(text_of(key[0]), position, key.end(), value, end)
        position = _after_blanks(payload, end)
        if _byte(payload, position) == _END_OF_OBJECT:
            return
        if _byte(payload, position) != _COMMA:
            raise _damaged(position)
        position = _after_blanks(payload, position + 1)


def elements(payload: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of each element of the list that begins at ``start``, in order."""
    position = _after_blanks(payload, start + 1)
    if _byte(payload, position) == _END_OF_LIST:
        return
    while True:
        end = value_end(payload, position)
        yield position, end
        position = _after_blanks(payload, end)
        if _byte(payload, position) == _END_OF_LIST:
            return
        if _byte(payload, position) != _COMMA:
            raise _damaged(position)
        position = _after_blanks(payload, position + 1)


def literals(payload: bytes) -> Iterator[bytes]:
    """Yield every string literal of a document, keys too, quotes included."""
    return (found[0] for found in _literal.finditer(payload))


def text_of(literal: bytes) -> str:
    """Return the text of a string literal, as the parsed payload has it."""
    decoded = decode(literal)
    return as_text(decoded.value) if decoded else ""


def value_end(payload: bytes | memoryview, start: int) -> int:
    """Return the end of the value that begins at ``start``."""
    first = _byte(payload, start)
    if first not in (_OBJECT, _LIST):
        found = (_literal if first == _QUOTE else _scalar).match(payload, start)
        if found is None:
            raise _damaged(start)
        return found.end()
    depth, position = 0, start
    while bracket := _to_bracket.match(payload, position):
        position = bracket.end()
        depth += 1 if bracket.lastindex else -1
        if not depth:
            return position
    raise _damaged(start)


def spelled_path(path: ValuePath) -> str:
    """Return a path as people write it: ``message.content[0].text``."""
    spelled = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return spelled.removeprefix(".") or "its top"


def _document(payload: bytes) -> tuple[int, int]:
    if is_strict_json(payload):
        end = len(payload)
        while payload[end - 1] in _BLANK:
            end -= 1
        return _after_blanks(payload, 0), end
    start = len(BYTE_ORDER_MARK) if payload.startswith(BYTE_ORDER_MARK) else 0
    while start < len(payload) and payload[start] in PADDING:
        start += 1
    if start == len(payload):
        raise _damaged(start)
    return start, value_end(payload, start)


def _after_blanks(payload: bytes | memoryview, position: int) -> int:
    return _after(_blanks, payload, position)


def _after(run: re.Pattern[bytes], payload: bytes | memoryview, position: int) -> int:
    found = run.match(payload, position)
    return found.end() if found else position


def _byte(payload: bytes | memoryview, position: int) -> int:
    return payload[position] if position < len(payload) else -1


def _damaged(position: int) -> UsageError:
    return UsageError(f"the record is no JSON from byte {position} on: it can only be changed as a whole")

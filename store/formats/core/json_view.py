"""Parsed JSON as a view of a payload, which is never written back.

Producers' files hold things that strict parsers refuse: lone surrogates, bytes that are no UTF-8, a byte order mark,
NUL padding after a power loss, ``NaN``. :func:`decode` reads all of them; a value with no exact form in Unicode or in
JSON's numbers is marked as lossy.

What is parsed may take fifty times the memory of its bytes: a document of very many values, or with a very long string
of wide characters, is not parsed.
"""

import json
import math
import mmap
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import islice
from typing import TypeGuard

import msgspec
from msgspec import Struct

from store.events.event import ValuePath

JsonObject = dict[str, object]

_decode = msgspec.json.Decoder().decode
_skim = msgspec.json.Decoder(msgspec.Raw).decode
_encode = msgspec.json.Encoder().encode
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PADDING = b"\0 \t\r\n"
"""Bytes that may stand around a document: a power loss leaves NULs."""
MOST_VALUES = 1 << 19
"""The most values of a record that is parsed: each takes some hundred bytes of memory."""
MOST_OF_ALL = 1 << 20
"""The most values of a file that is parsed as a whole."""
MOST_TEXT = 64 << 20
"""The most bytes of memory that one string may take: Python has one, two or four a character, as the widest needs."""
_MOST_TOLERATED = 16 << 20
"""The most bytes of a document that only the tolerant parser reads: it holds several copies."""


class Decoded(Struct, frozen=True, gc=False):
    """A parsed payload; ``lossy``: ``value`` differs from the bytes (U+FFFD, NaN as a string)."""

    value: object
    lossy: bool


def decode(payload: bytes, most: int = MOST_VALUES) -> Decoded | None:
    """Return ``payload`` parsed as JSON, None where it is not one JSON document, or takes too much memory.

    That is one of ``most`` values, or with a string of very many characters. Never raises.
    """
    # one that msgspec has cut out of another, Raw, has no methods
    if len(payload) > most and _takes_much(bytes(payload), most):
        return None
    try:
        return Decoded(_decode(payload), False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    stripped = bytes(payload).removeprefix(BYTE_ORDER_MARK).strip(PADDING)
    if stripped[:1] not in b'{["-0123456789tfnNI' or not stripped:
        return None
    try:
        return Decoded(_decode(stripped), False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_tolerantly(stripped)


def is_json(payload: bytes | memoryview | mmap.mmap) -> bool:
    """Return whether ``payload`` is one JSON document, as :func:`decode` reads it; mostly without building it.

    It may have any number of values, if strict parsers read it.
    """
    return is_strict_json(payload) or (len(payload) <= _MOST_TOLERATED and decode(bytes(payload)) is not None)


def is_strict_json(payload: bytes | memoryview | mmap.mmap) -> bool:
    """Return whether ``payload`` is one JSON document for strict parsers, without building it."""
    try:
        _skim(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def is_json_line(payload: bytes) -> bool:
    """Return whether ``payload`` is an object or a list for strict parsers, on one line, with nothing before it."""
    return payload[:1] in (b"{", b"[") and b"\n" not in payload and b"\r" not in payload and is_strict_json(payload)


def pretty(value: object) -> str:
    """Return ``value`` as JSON with two spaces of indentation, text left as it is, no newline at the end."""
    try:
        return msgspec.json.format(_encode(value), indent=2).decode()
    except RecursionError:
        return '"(nested too deeply to show)"'


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Return whether a parsed value is a JSON object."""
    return isinstance(value, dict)


def as_object(value: object) -> JsonObject:
    """Return ``value`` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def object_in(payload: bytes | None, most: int = MOST_VALUES) -> JsonObject:
    """Return the JSON object that ``payload`` is, an empty one if it is none; ``most`` as of :func:`decode`."""
    decoded = decode(payload, most) if payload else None
    return as_object(decoded.value) if decoded else {}


def as_list(value: object) -> list[object]:
    """Return ``value`` if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return ``value`` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def scalar(value: object) -> str | int | float | bool | None:
    """Return ``value`` if it fits in an event's header (a number, a bool, one line of text), else None."""
    if isinstance(value, str):
        return value if value and value.isprintable() and len(value) <= 200 else None
    return value if isinstance(value, (bool, int, float)) else None


_MOST_TEXTS = 200
_LOOKED_AT = 400
"""Characters of a text."""
_words = re.compile(r"[^\W\d_]{2,}(?:[,;:]? [^\W\d_]{1,20}){3}").search
"""Four words in a row: so is every sentence, and hardly any path, id or line of code."""


def texts_in(value: object, path: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    """Yield every text in a parsed value that stands at ``path``, with its place, in order."""
    pending: list[tuple[ValuePath, object]] = [(path, value)]
    while pending:
        place, item = pending.pop()
        if isinstance(item, str):
            yield place, item
        elif isinstance(item, dict):
            pending += reversed([((*place, key), inner) for key, inner in item.items()])
        elif isinstance(item, list):
            pending += reversed([((*place, at), inner) for at, inner in enumerate(item)])


def first_texts(value: object) -> Iterator[str]:
    """Yield the first 200 texts in a parsed value."""
    return (text for _place, text in islice(texts_in(value), _MOST_TEXTS))


def sentence_in(text: str) -> str:
    """Return the first four words in a row near the beginning of a text, "" where it is no prose."""
    return words[0] if (words := _words(text, 0, _LOOKED_AT)) is not None else ""


def has_sentence(value: object) -> bool:
    """Return whether there is prose in a parsed value."""
    return any(map(sentence_in, first_texts(value)))


def value_at(value: object, path: ValuePath) -> object:
    """Return the value at a path of a parsed payload, None where there is none."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def value_in(document: bytes, path: ValuePath) -> object:
    """Return the value at a path of a document, None where there is none."""
    decoded = decode(document)
    return value_at(decoded.value, path) if decoded else None


@cache
def place(spelled: str) -> ValuePath:
    """Return a place as the path of a value: ``a.0.b`` is ``("a", 0, "b")``; "." or "" is the value itself."""
    return tuple(int(step) if step.isdecimal() else step for step in spelled.split(".") if step)


SEVERAL = ("[]", "{}")
"""The ends of a step that leads to all elements of a list, or all members of an object."""


def every(value: object, path: ValuePath, at: ValuePath = ()) -> Iterator[tuple[ValuePath, object]]:
    """Yield the value at a path, or those to which its steps lead, with where each stands below ``at``."""
    plain = _plain_steps(path)
    value, at = value_at(value, path[:plain]), (*at, *path[:plain])
    if plain is None:
        yield at, value
        return
    spelled, further = str(path[plain]), path[plain + 1 :]
    key, _equals, wanted = spelled.partition("=")
    found: Iterable[tuple[str | int, object]]
    if spelled.endswith(SEVERAL):
        at = (*at, *(holder := place(spelled[:-2])))
        held = value_at(value, holder)
        found = held.items() if is_object(held) else enumerate(as_list(held))
    elif key:
        found = [each for each in enumerate(as_list(value)) if as_object(each[1]).get(key) == wanted]
    else:
        found = [(name, name) for name, one in as_object(value).items() if one == wanted][:1]
    if _plain_steps(further) is None:
        for where, one in found:
            yield (*at, where, *further), value_at(one, further)
        return
    for where, one in found:
        yield from every(one, further, (*at, where))


@lru_cache(256)
def _plain_steps(path: ValuePath) -> int | None:
    """Return the number of steps before the first that leads to several values, or is chosen; None: none does."""
    return next((depth for depth, step in enumerate(path) if "=" in str(step) or str(step).endswith(SEVERAL)), None)


_literals = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL).finditer
_to_value = re.compile(rb'(?:[^",\[{]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+[,\[{]', re.DOTALL).match
_wide = re.compile(rb"[\xc4-\xff]|\\u(?!00)").search
_widest = re.compile(rb"[\xf0-\xff]|\\u[dD][89abAB]").search


def _takes_much(payload: bytes, most: int) -> bool:
    if _has_many_values(payload, most):
        return True
    is_plain = len(payload) <= MOST_TEXT // 4 or (payload.isascii() and b"\\u" not in payload)
    return not is_plain and any(map(_is_long, _literals(payload)))


def _has_many_values(payload: bytes, most: int) -> bool:
    # before each value but the first one there is one of these; in strings they tell nothing
    if sum(map(payload.count, (b",", b"[", b"{"))) < most:
        return False
    count, found = 0, _to_value(payload)
    while found is not None and count < most:
        count, found = count + 1, _to_value(payload, found.end())
    return count >= most


def _is_long(literal: re.Match[bytes]) -> bool:
    start, end = literal.span()
    if end - start <= MOST_TEXT // 4 or not _wide(literal.string, start, end):
        return False
    return (end - start) * (4 if _widest(literal.string, start, end) else 2) > MOST_TEXT


def _decode_tolerantly(text: bytes) -> Decoded | None:
    """Read documents that msgspec refuses; slower by an order of magnitude, and rare."""
    if len(text) > _MOST_TOLERATED:
        return None
    altered: list[bool] = []

    def not_a_number(literal: str) -> object:
        altered.append(True)
        return literal

    def number(literal: str) -> object:
        return value if math.isfinite(value := float(literal)) else not_a_number(literal)

    unicode = text.decode("utf-8", "replace")
    try:
        value = json.loads(unicode, strict=False, parse_constant=not_a_number, parse_float=number)
        clean = _without_surrogates(value)
    except (ValueError, RecursionError):
        return None
    return Decoded(clean, bool(altered) or clean != value or "\ufffd" in unicode)


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value

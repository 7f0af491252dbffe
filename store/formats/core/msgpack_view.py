"""Parsed MessagePack as a view in JSON's terms, which is never written back.

Maps whose keys are not text are shown as objects too, their keys spelled out (``7``, ``null``). A value that JSON lacks
is an object of one key:

* ``{"$bin": "<base64>"}``: bytes;
* ``{"$timestamp": "2026-03-05T19:31:54.356Z"}``: a point in time, in UTC;
* ``{"$ext": 5, "$bin": "<base64>"}``: an extension of another type;
* ``{"$float": "NaN"}``, ``"Infinity"``, ``"-Infinity"``;
* ``{"$map": [[key, value], …]}``: a map of which two keys would be spelled alike.

A :class:`Schema` gives names to numbered fields.

The module also finds the places of values in the bytes of a document, without parsing it.

https://github.com/msgpack/msgpack/blob/master/spec.md. Headers are not trusted: no memory is reserved for them, and a
size beyond the end is damage.
"""

from __future__ import annotations

import json
import math
import struct
from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import NamedTuple, NoReturn

import msgspec

from store.errors import UsageError
from store.formats.core.json_view import Decoded


class Family(IntEnum):
    """The kind of value that follows a header."""

    NIL = 0
    BOOL = 1
    INTEGER = 2
    FLOAT = 3
    STR = 4
    BIN = 5
    EXT = 6
    LIST = 7
    MAP = 8


class Token(NamedTuple):
    """A header; ``size`` counts bytes, items or pairs. An extension's type stands right before ``start``."""

    family: Family
    start: int
    size: int


class Member(NamedTuple):
    """A pair of a map: where its key, its value and all of it begins and ends."""

    key: int
    value: int
    end: int


class Layout(NamedTuple):
    """The layout of a header that begins with a certain byte: sizes stand in it or in the ``sized`` bytes after it.

    ``lead`` is the number of bytes between the size and the content (the type of an extension).
    """

    family: Family
    size: int
    sized: int = 0
    lead: int = 0


def _layouts() -> list[Layout | None]:
    found: list[Layout | None] = [Layout(Family.INTEGER, 0)] * 0x80
    found += [Layout(Family.MAP, size) for size in range(16)]
    found += [Layout(Family.LIST, size) for size in range(16)]
    found += [Layout(Family.STR, size) for size in range(32)]
    found += [Layout(Family.NIL, 0), None, Layout(Family.BOOL, 0), Layout(Family.BOOL, 0)]
    found += [Layout(Family.BIN, 0, sized) for sized in (1, 2, 4)]
    found += [Layout(Family.EXT, 0, sized, 1) for sized in (1, 2, 4)]
    found += [Layout(Family.FLOAT, size) for size in (4, 8)]
    found += [Layout(Family.INTEGER, size) for size in (1, 2, 4, 8) * 2]
    found += [Layout(Family.EXT, size, 0, 1) for size in (1, 2, 4, 8, 16)]
    found += [Layout(Family.STR, 0, sized) for sized in (1, 2, 4)]
    found += [Layout(Family.LIST, 0, sized) for sized in (2, 4)]
    found += [Layout(Family.MAP, 0, sized) for sized in (2, 4)]
    return [*found, *[Layout(Family.INTEGER, 0)] * 0x20]


_LAYOUTS = _layouts()


def token(payload: bytes, at: int) -> Token:
    """Return the header at ``at``. Raises UsageError where there is none, or its content is cut off."""
    layout = _LAYOUTS[payload[at]] if at < len(payload) else None
    if layout is None:
        raise damaged(at)
    family, size, sized, lead = layout
    start = at + 1 + sized + lead
    if sized:
        size = int.from_bytes(payload[at + 1 : at + 1 + sized], "big")
    least = size * 2 if family is Family.MAP else size
    if start + least > len(payload):
        raise damaged(at)
    return Token(family, start, size)


def value_end(payload: bytes, at: int) -> int:
    """Return the end of the value that begins at ``at``."""
    waiting = 1
    while waiting:
        family, start, size = token(payload, at)
        waiting -= 1
        if family is Family.LIST:
            waiting += size
            at = start
        elif family is Family.MAP:
            waiting += size * 2
            at = start
        else:
            at = start + size
    return at


def members(payload: bytes, at: int) -> Iterator[Member]:
    """Yield the pairs of the map that begins at ``at``, in order."""
    _, position, count = token(payload, at)
    for _ in range(count):
        value = value_end(payload, position)
        end = value_end(payload, value)
        yield Member(position, value, end)
        position = end


def elements(payload: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of each item of the list that begins at ``at``, in order."""
    _, position, count = token(payload, at)
    for _ in range(count):
        end = value_end(payload, position)
        yield position, end
        position = end


def damaged(at: int) -> UsageError:
    """Return the error for bytes that are no MessagePack from ``at`` on."""
    return UsageError(f"the record is no MessagePack from byte {at} on: it can only be changed as a whole")


MAP, BIN = "$map", "$bin"

DEEPEST = 100
"""Documents nested deeper than this are not read."""

_decode = msgspec.msgpack.Decoder().decode
_encode = msgspec.msgpack.Encoder().encode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = -1
_SIGNED_FROM = 0xD0
_DIGITS = 4
"""The numbers of fields have no more."""


class Field(NamedTuple):
    """A numbered field: its name, and the fields of the map, or of the maps in the list, that it holds."""

    name: str
    fields: Mapping[int, Field] = {}


Schema = Mapping[int, Field]
"""Fields by number. Writers spell the numbers as integers, or as texts of decimal digits."""


def decode(payload: bytes, schema: Schema | None = None) -> Decoded | None:
    """Return ``payload`` parsed, None where it is not one MessagePack document. Never raises.

    ``lossy`` says that some text in it is not valid Unicode, and is shown with U+FFFD.
    """
    try:
        value = _decode(payload)
        # a library keeps one of several equal keys (1, 1.0, true): only if it kept all does it write the same again
        if _encode(value) == payload:
            return Decoded(_plain(value, schema or {}, DEEPEST), False)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    return _decode_tolerantly(payload, schema or {})


def _decode_tolerantly(payload: bytes, schema: Schema) -> Decoded | None:
    """Read unusual spellings, and values that JSON lacks; slower by an order of magnitude."""
    reader = _Reader(payload)
    try:
        value, end = reader.value(0, schema, DEEPEST)
    except (UsageError, IndexError, struct.error):
        return None
    return Decoded(value, reader.lossy) if end == len(payload) else None


def members_shown(payload: bytes, at: int, schema: Schema) -> dict[str, Member] | None:
    """Return the pairs of the map at ``at`` by their keys as they are shown, None if two are shown alike."""
    present = list(members(payload, at))
    reader = _Reader(payload)
    found = {_spelled(reader.value(member.key, {}, DEEPEST)[0], schema): member for member in present}
    return found if len(found) == len(present) else None


def below(schema: Schema, name: str) -> Schema:
    """Return the fields of the value in the field ``name``."""
    return next((field.fields for field in schema.values() if field.name == name), {})


def _plain(value: object, schema: Schema, depth: int) -> object:
    """Return a parsed value as it is shown; ValueError for one that is not as plain as JSON."""
    kind = type(value)
    if kind is int or kind is bool or kind is str or value is None:
        return value
    match value:
        case dict():
            if not depth:
                _unusual()
            found: dict[str, object] = {}
            for key, item in value.items():
                fields: Schema = {}
                if schema and (field := _field(key, schema)):
                    key, fields = field
                elif type(key) is not str:
                    key = str(key) if type(key) is int else _unusual()
                found[key] = item if type(item) is str or item is None else _plain(item, fields, depth - 1)
            return found if len(found) == len(value) else _unusual()
        case list():
            if not depth:
                _unusual()
            return [_plain(item, schema, depth - 1) for item in value]
        case float() if math.isfinite(value):
            return value
    return _unusual()


def _unusual() -> NoReturn:
    raise ValueError


class _Reader:
    """Reads values out of a payload; each call returns the value and where it ends."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self.lossy = False

    def value(self, at: int, schema: Schema, depth: int) -> tuple[object, int]:
        payload = self._payload
        family, start, size = token(payload, at)
        first = payload[at]
        if family is Family.MAP:
            return self._map(at, start, size, schema, depth)
        if family is Family.LIST:
            return self._list(at, start, size, schema, depth)
        end = start + size
        match family:
            case Family.STR:
                return self._text(start, end), end
            case Family.NIL:
                return None, end
            case Family.INTEGER if not size:
                return first if first < 0x80 else first - 0x100, end
            case Family.INTEGER:
                return int.from_bytes(payload[start:end], "big", signed=first >= _SIGNED_FROM), end
            case Family.BOOL:
                return first == 0xC3, end
            case Family.FLOAT:
                number: float = struct.unpack_from(">f" if size == 4 else ">d", payload, start)[0]
                return number if math.isfinite(number) else {"$float": _spelled_number(number)}, end
            case Family.BIN:
                return {BIN: _base64(payload[start:end])}, end
        return _extension(payload[start - 1], payload[start:end]), end

    def _text(self, start: int, end: int) -> str:
        data = self._payload[start:end]
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.lossy = True
            return data.decode("utf-8", "replace")

    def _list(self, at: int, position: int, count: int, schema: Schema, depth: int) -> tuple[object, int]:
        if not depth:
            raise damaged(at)
        found: list[object] = []
        for _ in range(count):
            item, position = self.value(position, schema, depth - 1)
            found.append(item)
        return found, position

    def _map(self, at: int, position: int, count: int, schema: Schema, depth: int) -> tuple[object, int]:
        if not depth:
            raise damaged(at)
        found: dict[str, object] = {}
        for _ in range(count):
            key, position = self.value(position, {}, depth - 1)
            fields: Schema = {}
            if schema and (field := _field(key, schema)):
                key, fields = field
            elif not isinstance(key, str):
                key = _spelled(key, {})
            found[key], position = self.value(position, fields, depth - 1)
        if len(found) == count:
            return found, position
        return {MAP: self._pairs(at, depth)}, position

    def _pairs(self, at: int, depth: int) -> list[object]:
        return [
            [self.value(member.key, {}, depth - 1)[0], self.value(member.value, {}, depth - 1)[0]]
            for member in members(self._payload, at)
        ]


def _field(key: object, schema: Schema) -> Field | None:
    if type(key) is int:
        return schema.get(key)
    if type(key) is str and key.isascii() and key.isdecimal() and len(key) <= _DIGITS and key[0] != "0":
        return schema.get(int(key))
    return None


def _spelled(key: object, schema: Schema) -> str:
    if (field := _field(key, schema)) is not None:
        return field.name
    return key if isinstance(key, str) else json.dumps(key, ensure_ascii=False)


def _extension(kind: int, data: bytes) -> object:
    kind -= 0x100 if kind >= 0x80 else 0
    if kind == _TIMESTAMP and (time := _timestamp(data)):
        return {"$timestamp": time}
    return {"$ext": kind, BIN: _base64(data)}


def _timestamp(data: bytes) -> str | None:
    """Return a timestamp in ISO 8601, None where it is none, or none that can be spelled."""
    match len(data):
        case 4:
            seconds, nanoseconds = int.from_bytes(data, "big"), 0
        case 8:
            nanoseconds, seconds = divmod(int.from_bytes(data, "big"), 1 << 34)
        case 12:
            nanoseconds, seconds = struct.unpack(">Iq", data)
        case _:
            return None
    try:
        whole = (_EPOCH + timedelta(seconds=seconds)).isoformat().removesuffix("+00:00")
    except OverflowError:
        return None
    if nanoseconds >= 10**9:
        return None
    fraction = f".{nanoseconds:09}".rstrip("0").rstrip(".") if nanoseconds else ""
    return f"{whole}{fraction}Z"


def _spelled_number(number: float) -> str:
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


def _base64(data: bytes) -> str:
    return b64encode(data).decode()

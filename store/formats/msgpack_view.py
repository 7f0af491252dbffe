"""Parsed MessagePack as a view in JSON's terms: what a payload says, never what is written back.

Maps whose keys are not text are shown as objects too, their keys spelled out (``7``, ``null``). What JSON has no
value for is an object of one key:

* ``{"$bin": "<base64>"}``: bytes;
* ``{"$timestamp": "2026-03-05T19:31:54.356Z"}``: a point in time, in UTC;
* ``{"$ext": 5, "$bin": "<base64>"}``: an extension of another type;
* ``{"$float": "NaN"}``, ``"Infinity"``, ``"-Infinity"``;
* ``{"$map": [[key, value], …]}``: a map of which two keys would be spelled alike.

A :class:`Schema` gives names to numbered fields.
"""

from __future__ import annotations

import json
import math
import struct
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, NoReturn

import msgspec

from store.errors import UsageError
from store.events.event import Path
from store.formats.json_spans import spelled_path
from store.formats.json_view import Decoded
from store.formats.msgpack_spans import Family, Member, damaged, elements, members, token, value_end

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
    """Return what ``payload`` says, None where it is not one MessagePack document. Never raises.

    ``lossy`` says that some text in it is not valid Unicode, and is shown with U+FFFD.
    """
    try:
        value = _decode(payload)
        # a library keeps one of the keys that are equal to it (1, 1.0, true): what it kept all of, it writes again
        if _encode(value) == payload:
            return Decoded(_plain(value, schema or {}, DEEPEST), False)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    return _decode_tolerantly(payload, schema or {})


def _decode_tolerantly(payload: bytes, schema: Schema) -> Decoded | None:
    """Read what is spelled in an unusual way, or holds what JSON does not have; slower by an order of magnitude."""
    reader = _Reader(payload)
    try:
        value, end = reader.value(0, schema, DEEPEST)
    except (UsageError, IndexError, struct.error):
        return None
    return Decoded(value, reader.lossy) if end == len(payload) else None


def locate(payload: bytes, path: Path, schema: Schema | None = None) -> tuple[int, int]:
    """Return where the value at ``path`` begins and ends, the keys in it as they are shown.

    Raises UsageError where the payload holds nothing there, or is no MessagePack.
    """
    start, end = 0, value_end(payload, 0)
    fields = schema or {}
    for depth, step in enumerate(path):
        found: tuple[int, int] | None = None
        family = token(payload, start).family
        if family is Family.MAP and isinstance(step, str):
            named = members_shown(payload, start, fields)
            if named is not None and step in named:
                found = named[step].value, named[step].end
                fields = below(fields, step)
        elif family is Family.LIST and isinstance(step, int):
            found = next((span for at, span in enumerate(elements(payload, start)) if at == step), None)
        if found is None:
            where = spelled_path(path[: depth + 1])
            raise UsageError(f"the record holds nothing at {where}: it cannot be changed there")
        start, end = found
    return start, end


def members_shown(payload: bytes, at: int, schema: Schema) -> dict[str, Member] | None:
    """Return the pairs of the map at ``at`` by their keys as they are shown, None if two are shown alike."""
    present = list(members(payload, at))
    reader = _Reader(payload)
    found = {_spelled(reader.value(member.key, {}, DEEPEST)[0], schema): member for member in present}
    return found if len(found) == len(present) else None


def below(schema: Schema, name: str) -> Schema:
    """Return the fields of what the field ``name`` holds."""
    return next((field.fields for field in schema.values() if field.name == name), {})


def _plain(value: object, schema: Schema, depth: int) -> object:
    """Return a parsed value as it is shown; ValueError for what is not as plain as JSON."""
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
        first = payload[at]
        if first < 0x80:
            return first, at + 1
        if 0xA0 <= first < 0xC0:
            end = at + 1 + (first & 0x1F)
            return self._text(at + 1, end), end
        if first == 0xC0:
            return None, at + 1
        if first >= 0xE0:
            return first - 0x100, at + 1
        family, start, size = token(payload, at)
        if family is Family.MAP:
            return self._map(at, start, size, schema, depth)
        if family is Family.LIST:
            return self._list(at, start, size, schema, depth)
        end = start + size
        match family:
            case Family.STR:
                return self._text(start, end), end
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
        if end > len(self._payload):
            raise damaged(start)
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
    """Return the field that a key names by its number."""
    if type(key) is int:
        return schema.get(key)
    if type(key) is str and key.isascii() and key.isdecimal() and len(key) <= _DIGITS and key[0] != "0":
        return schema.get(int(key))
    return None


def _spelled(key: object, schema: Schema) -> str:
    """Return a key as it is shown."""
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

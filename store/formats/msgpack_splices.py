"""Values put into a MessagePack document by cutting its bytes, so that all others stay as they are.

A value that changes gets the shortest header. Maps and lists keep what they have: only what is in them changes.
"""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Iterator

import msgspec

from store.errors import UsageError
from store.events.event import Path
from store.formats.documents import Number, same
from store.formats.json_spans import spelled_path
from store.formats.msgpack_spans import Family, elements, token
from store.formats.msgpack_view import Schema, below, locate, members_shown
from store.formats.new_literals import encoded
from store.formats.splices import replaced

Scalar = str | int | float | bool

_encode = msgspec.msgpack.Encoder().encode
_LEAST, _BEYOND = -(1 << 63), 1 << 64
_DIGITS = 20
_SINGLE = struct.Struct(">f")


def put_text(payload: bytes, path: Path, text: str, schema: Schema) -> bytes:
    """Return ``payload`` with another text at ``path``. Raises UsageError where it holds none there."""
    start, end = locate(payload, path, schema)
    return payload[:start] + _new_text(payload, start, text, path) + payload[end:]


def put_scalar(payload: bytes, path: Path, value: Scalar, schema: Schema) -> bytes:
    """Return ``payload`` with another value at ``path``: a number for a number, true or false for one of these.

    Raises UsageError for what cannot stand there.
    """
    if isinstance(value, str):
        return put_text(payload, path, value, schema)
    start, end = locate(payload, path, schema)
    said = value if isinstance(value, bool) else Number(repr(value))
    return payload[:start] + _new_value(payload, start, said, path) + payload[end:]


def text_at(payload: bytes, path: Path, schema: Schema) -> bytes:
    """Return the bytes of the text at ``path``. Raises UsageError where there is none."""
    family, start, size = token(payload, locate(payload, path, schema)[0])
    if family is not Family.STR:
        raise _not_a_text(path)
    return payload[start : start + size]


def carried(payload: bytes, path: Path, old: object, new: object, schema: Schema) -> bytes:
    """Return ``payload``, whose value at ``path`` says ``old``, so that it says ``new``.

    Both are as :func:`store.formats.documents.parse` gives them, and may leave out members that the payload has.
    Raises UsageError for what is more than other values in the same places.
    """
    start, _end = locate(payload, path, schema)
    fields = schema
    for step in path:
        fields = below(fields, step) if isinstance(step, str) else fields
    changes = sorted(_Revision(payload).changes(start, old, new, fields, path))
    return replaced(payload, (0, len(payload)), changes)


class _Revision:
    """One comparison of documents."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def changes(
        self, at: int, old: object, new: object, schema: Schema, path: Path
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield what changes in the value at ``at``: where it begins and ends, and its new bytes."""
        if same(old, new):
            return
        family, start, size = token(self._payload, at)
        if family is Family.MAP:
            yield from self._map(at, old, new, schema, path)
        elif family is Family.LIST:
            if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new)):
                raise _other_shape(path)
            for index, (begin, _end) in enumerate(elements(self._payload, at)):
                yield from self.changes(begin, old[index], new[index], schema, (*path, index))
        else:
            value = _new_value(self._payload, at, new, path)
            yield at, start + size, value

    def _map(self, at: int, old: object, new: object, schema: Schema, path: Path) -> Iterator[tuple[int, int, bytes]]:
        present = members_shown(self._payload, at, schema)
        if present is None:
            raise UsageError(f"keys at {spelled_path(path)} look alike: what they hold can only be read")
        if not (isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys()):
            raise _other_shape(path)
        for key, item in old.items():
            if key not in present:
                raise UsageError(f"the record has no {key!r} at {spelled_path(path)}: read it again")
            yield from self.changes(present[key].value, item, new[key], below(schema, key), (*path, key))


def _new_value(payload: bytes, at: int, value: object, path: Path) -> bytes:
    """Return the bytes for a value in the place of the one at ``at``, which is neither map nor list."""
    family, start, size = token(payload, at)
    held = payload[start : start + size]
    match family, value:
        case ((Family.STR | Family.NIL), str()):
            return _new_text(payload, at, value, path)
        case ((Family.BOOL | Family.NIL), bool()):
            return _encode(value)
        case ((Family.INTEGER | Family.NIL), Number()) if value.text.lstrip("-").isdigit():
            return _new_integer(value.text, path)
        case ((Family.FLOAT | Family.NIL), Number()):
            return _new_float(value.text, held, path)
        case Family.BIN, {"$bin": str(text), **rest} if not rest:
            return _new_bin(text, path)
    told = {
        Family.BOOL: "true or false",
        Family.INTEGER: "a whole number",
        Family.FLOAT: "a number",
        Family.STR: "a text",
        Family.BIN: 'bytes, as {"$bin": "<base64>"}',
        Family.NIL: "null, or a text, a number, true or false",
        Family.EXT: "what only a program can write",
    }
    raise UsageError(f"{spelled_path(path)} is {told[family]} in this record: write back what stood there")


def _new_text(payload: bytes, at: int, text: str, path: Path) -> bytes:
    family, start, size = token(payload, at)
    if family not in (Family.STR, Family.NIL):
        raise _not_a_text(path)
    try:
        payload[start : start + size].decode()
    except UnicodeDecodeError:
        raise UsageError("the text is no valid Unicode in the record, so it can only be read") from None
    encoded(text)
    return _encode(text)


def _new_integer(text: str, path: Path) -> bytes:
    number = int(text) if len(text) <= _DIGITS else _BEYOND
    if not _LEAST <= number < _BEYOND:
        raise UsageError(f"{spelled_path(path)} is a whole number of 64 bits: {text[:_DIGITS]}… is too large")
    return _encode(number)


def _new_float(text: str, held: bytes, path: Path) -> bytes:
    number = float(text)
    if not math.isfinite(number):
        raise UsageError(f"{spelled_path(path)} is a number of 64 bits: {text[:_DIGITS]} is too large")
    if len(held) == _SINGLE.size:
        try:
            if _SINGLE.unpack(single := _SINGLE.pack(number))[0] == number:
                return b"\xca" + single
        except OverflowError:
            pass
    return _encode(number)


def _new_bin(text: str, path: Path) -> bytes:
    try:
        return _encode(binascii.a2b_base64(text, strict_mode=True))
    except ValueError:
        raise UsageError(f"{spelled_path(path)} is bytes in this record, and this is no base64") from None


def _not_a_text(path: Path) -> UsageError:
    return UsageError(f"{spelled_path(path)} is no text in this record: it cannot be changed here")


def _other_shape(path: Path) -> UsageError:
    where = spelled_path(path)
    return UsageError(f"at {where} something was added, taken out or moved: in this record only values can be changed")

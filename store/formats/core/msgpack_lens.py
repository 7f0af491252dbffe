"""Payloads in MessagePack: edits of their views, and the lens for unknown types.

Values put into a MessagePack document by cutting its bytes, so that all others stay as they are.

A value that changes gets the shortest header. Maps and lists keep their members: only the values in them change.
"""

import binascii
import math
import struct
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import structs

from store.errors import UsageError, told
from store.events.event import Block, Event, EventEdit, Kind, ValuePath
from store.formats.core import documents
from store.formats.core.composing import Particulars
from store.formats.core.documents import Number, same
from store.formats.core.editing import JsonLens, Lens
from store.formats.core.json_spans import spelled_path
from store.formats.core.json_view import JsonObject, pretty
from store.formats.core.lens import CODE_ERRORS, Before, Shown, is_utf8
from store.formats.core.msgpack_view import Family, Field, Schema, below, elements, members_shown, token
from store.formats.core.msgpack_view import decode as decode_msgpack
from store.formats.core.splices import encoded, replaced
from store.formats.core.unknown import UnknownLens

_encode = msgspec.msgpack.Encoder().encode
_encode_json = msgspec.json.Encoder().encode
_LEAST, _BEYOND = -(1 << 63), 1 << 64
_NO_NAMES: Mapping[int, Field] = {}
_DIGITS = 20
_SINGLE = struct.Struct(">f")


def carried(payload: bytes, old: object, new: object, schema: Schema) -> bytes:
    """Return ``payload``, which says ``old``, so that it says ``new``.

    Both are as :func:`store.formats.core.documents.parse` gives them. Raises UsageError for a change beyond other
    values in the same places.
    """
    return replaced(payload, (0, len(payload)), sorted(_changes(payload, 0, old, new, schema, ())))


_Change = tuple[int, int, bytes]
"""The beginning and end of a value, and its new bytes."""


def _changes(payload: bytes, at: int, old: object, new: object, schema: Schema, path: ValuePath) -> Iterator[_Change]:
    """Yield the changes in the value at ``at``."""
    if same(old, new):
        return
    family, start, size = token(payload, at)
    if family is Family.MAP:
        present = members_shown(payload, at, schema)
        if present is None:
            raise UsageError(f"keys at {spelled_path(path)} look alike: what they hold can only be read")
        if not (isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys()):
            raise _other_shape(path)
        for key, item in old.items():
            if key not in present:
                raise UsageError(f"the record has no {key!r} at {spelled_path(path)}: read it again")
            yield from _changes(payload, present[key].value, item, new[key], below(schema, key), (*path, key))
    elif family is Family.LIST:
        if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new)):
            raise _other_shape(path)
        for index, (begin, _end) in enumerate(elements(payload, at)):
            yield from _changes(payload, begin, old[index], new[index], schema, (*path, index))
    else:
        yield at, start + size, _new_value(payload, at, new, path)


def _new_value(payload: bytes, at: int, value: object, path: ValuePath) -> bytes:
    """Return the bytes for a value in the place of the one at ``at``, which is neither map nor list."""
    family, start, size = token(payload, at)
    held = payload[start : start + size]
    match family, value:
        case ((Family.STR | Family.NIL), str()):
            return _new_text(held, value)
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


def _new_text(held: bytes, text: str) -> bytes:
    if not is_utf8(held):
        raise UsageError("the text is no valid Unicode in the record, so it can only be read")
    encoded(text)
    return _encode(text)


def _new_integer(text: str, path: ValuePath) -> bytes:
    number = int(text) if len(text) <= _DIGITS else _BEYOND
    if not _LEAST <= number < _BEYOND:
        raise UsageError(f"{spelled_path(path)} is a whole number of 64 bits: {text[:_DIGITS]}… is too large")
    return _encode(number)


def _new_float(text: str, held: bytes, path: ValuePath) -> bytes:
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


def _new_bin(text: str, path: ValuePath) -> bytes:
    try:
        return _encode(binascii.a2b_base64(text, strict_mode=True))
    except ValueError:
        raise UsageError(f"{spelled_path(path)} is bytes in this record, and this is no base64") from None


def _other_shape(path: ValuePath) -> UsageError:
    where = spelled_path(path)
    return UsageError(f"at {where} something was added, taken out or moved: in this record only values can be changed")


_UNREADABLE = UnknownLens()


class MsgpackLens(Lens):
    """Sees payloads in MessagePack, by a lens for what they say in JSON; edits of that are carried into them.

    ``schema`` has names for their numbered fields. Those that are no MessagePack are seen and edited as the bytes that
    they are.
    """

    def __init__(self, said: JsonLens, schema: Schema = _NO_NAMES) -> None:
        self._said, self._schema = said, schema
        self.type_name = said.type_name
        self.writes, self.lacks = said.writes, said.lacks  # type: ignore[misc]  # those of the other

    def view(self, payload: bytes, before: Before) -> Event:
        try:
            decoded = decode_msgpack(payload, self._schema)
            event = self._said.seen(decoded, before) if decoded is not None else None
        except CODE_ERRORS as error:
            return structs.replace(_UNREADABLE.view(payload, before), fault=str(told(error)))
        return event if event is not None else _UNREADABLE.view(payload, before)

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        if (decoded := decode_msgpack(payload, self._schema)) is None:
            return _UNREADABLE.edit(payload, edit, before)
        if edit.order is not None:
            raise UsageError("in MessagePack only values can be changed: blocks stay as they are, in their order")
        said = _encode_json(decoded.value)
        return self._carried(payload, said, self._said.edit(said, edit, before))

    def edit_resource(self, payload: bytes, index: int, content: bytes, before: Before) -> bytes:
        return _UNREADABLE.edit_resource(payload, index, content, before)

    def revise(self, payload: bytes, old: object, new: object, before: Before) -> bytes:
        if (decoded := decode_msgpack(payload, self._schema)) is None:
            return _UNREADABLE.revise(payload, old, new, before)
        said = _encode_json(decoded.value)
        return self._carried(payload, said, self._said.revise(said, old, new, before))

    def _carried(self, payload: bytes, was: bytes, now: bytes) -> bytes:
        return carried(payload, documents.parse(was.decode()), documents.parse(now.decode()), self._schema)

    def written_out(self, value: object, like: bytes | None) -> bytes:
        return _encode(_numbered(value, self._schema, int if like and in_integers(like) else str))

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        said = self._said.new(kind, text, None, now_ms, more)
        return self.written_out(documents.parse(said.decode()), previous)


def in_integers(payload: bytes) -> bool:
    """Return whether the first field of a record is numbered by an integer."""
    try:
        start = token(payload, 0)
        return start.family is Family.MAP and token(payload, start.start).family is Family.INTEGER
    except UsageError:
        return False


def _numbered(value: object, schema: Schema, spell: type[int | str]) -> object:
    """Return a value as :func:`store.formats.core.documents.parse` gives it, with the numbers of its fields."""
    match value:
        case Number():
            return float(value.text) if set(value.text) & set(".eE") else int(value.text)
        case {"$bin": str(text), **rest} if not rest:
            return binascii.a2b_base64(text)
        case dict():
            numbers = {field.name: spell(number) for number, field in schema.items()}
            return {
                numbers.get(str(key), str(key)): _numbered(item, below(schema, str(key)), spell)
                for key, item in value.items()
            }
        case list():
            return [_numbered(item, schema, spell) for item in value]
    return value


class UnknownSaid(JsonLens):
    """Sees what MessagePack of a type says that nothing is registered for, as JSON."""

    type_name = ""

    def shown(self, record: JsonObject, before: Before) -> Shown:
        return self.shown_other(record, before)

    def shown_other(self, value: object, before: Before) -> Shown:
        block = Block("text", value) if isinstance(value, str) else Block("json", pretty(value))
        return Shown(Kind.NOTE, (block,), header={"shown_as": "msgpack"})

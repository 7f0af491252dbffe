"""Payloads in MessagePack: edits of their views, and the lens for unknown types.

Values put into a MessagePack document by cutting its bytes, so that all others stay as they are.

A value that changes gets the shortest header. Maps and lists keep their members: only the values in them change.
"""

import binascii
import math
import struct
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from store.errors import UsageError
from store.events.event import Block, BlockEdit, Event, EventEdit, FieldEdit, Kind, ValuePath
from store.formats.core import documents
from store.formats.core.blocks import argument_blocks, string_before
from store.formats.core.documents import Number, same
from store.formats.core.editing import Lens, begins, block_of, changed_texts, check_blocks, check_field, check_type
from store.formats.core.json_spans import spelled_path
from store.formats.core.json_view import Decoded, JsonObject, as_object, decode, pretty, value_at
from store.formats.core.lens import Before
from store.formats.core.msgpack_view import Family, Schema, below, elements, locate, members_shown, token
from store.formats.core.msgpack_view import decode as decode_msgpack
from store.formats.core.splices import encoded, replaced
from store.formats.core.unknown import UnknownLens

_encode = msgspec.msgpack.Encoder().encode
_LEAST, _BEYOND = -(1 << 63), 1 << 64
_DIGITS = 20
_SINGLE = struct.Struct(">f")


def put_text(payload: bytes, path: ValuePath, text: str, schema: Schema) -> bytes:
    """Return ``payload`` with another text at ``path``. Raises UsageError where it holds none there."""
    start, end = locate(payload, path, schema)
    return payload[:start] + _new_text(payload, start, text, path) + payload[end:]


def text_at(payload: bytes, path: ValuePath, schema: Schema) -> bytes:
    """Return the bytes of the text at ``path``. Raises UsageError where there is none."""
    family, start, size = token(payload, locate(payload, path, schema)[0])
    if family is not Family.STR:
        raise _not_a_text(path)
    return payload[start : start + size]


def carried(payload: bytes, path: ValuePath, old: object, new: object, schema: Schema) -> bytes:
    """Return ``payload``, whose value at ``path`` says ``old``, so that it says ``new``.

    Both are as :func:`store.formats.core.documents.parse` gives them, and may leave out members that the payload has.
    Raises UsageError for a change beyond other values in the same places.
    """
    start, _end = locate(payload, path, schema)
    fields = schema
    for step in path:
        fields = below(fields, step) if isinstance(step, str) else fields
    changes = sorted(_changes(payload, start, old, new, fields, path))
    return replaced(payload, (0, len(payload)), changes)


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


def _new_text(payload: bytes, at: int, text: str, path: ValuePath) -> bytes:
    family, start, size = token(payload, at)
    if family not in (Family.STR, Family.NIL):
        raise _not_a_text(path)
    try:
        payload[start : start + size].decode()
    except UnicodeDecodeError:
        raise UsageError("the text is no valid Unicode in the record, so it can only be read") from None
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


def _not_a_text(path: ValuePath) -> UsageError:
    return UsageError(f"{spelled_path(path)} is no text in this record: it cannot be changed here")


def _other_shape(path: ValuePath) -> UsageError:
    where = spelled_path(path)
    return UsageError(f"at {where} something was added, taken out or moved: in this record only values can be changed")


_UNREADABLE = UnknownLens()


class MsgpackLens(Lens):
    """A lens for payloads in MessagePack. Those that are none are seen and edited as the bytes that they are."""

    schema: ClassVar[Schema] = {}
    """Names for the numbered fields of a payload."""

    def view(self, payload: bytes, before: Before) -> Event:
        decoded = decode_msgpack(payload, self.schema)
        if decoded is None:
            return _UNREADABLE.view(payload, before)
        return self.shown(decoded, before)

    @abstractmethod
    def shown(self, decoded: Decoded, before: Before) -> Event:
        """Return the event that a payload tells of, which says ``decoded``; its ``native`` is that."""

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        decoded = decode_msgpack(payload, self.schema)
        if decoded is None:
            return _UNREADABLE.edit(payload, edit, before)
        if edit.order is not None:
            raise UsageError("in MessagePack only values can be changed: blocks stay as they are, in their order")
        event = self.shown(decoded, before)
        pairs = [(block_of(event, change), change) for change in edit.blocks]
        pairs = [(block, change) for block, change in pairs if block.text != change.text]
        edited, texts = payload, []
        inner: dict[ValuePath, list[BlockEdit]] = {}
        for block, change in pairs:
            if (holder := _holder(decoded.value, block)) is not None:
                part = BlockEdit(change.path[len(holder) :], change.text, change.name, change.type)
                inner.setdefault(holder, []).append(part)
            elif block.type == "json":
                old, new = documents.parse(block.text or ""), documents.parse(change.text)
                edited = carried(edited, block.path, old, new, self.schema)
            else:
                texts.append((block, change.text))
                edited = self._put(edited, as_object(decoded.value), block.path, block.text or "", change.text)
        for holder, changes in inner.items():
            document = text_at(edited, holder, self.schema)
            name = next(block.name for block in event.blocks if begins(block.path, holder))
            edited_document = _DocumentLens(name).edit(document, EventEdit(tuple(changes)), before)
            edited = put_text(edited, holder, edited_document.decode(), self.schema)
        if pairs:
            check_blocks(self.view(edited, before), texts, moved=len(pairs) != len(texts))
        for field in edit.fields:
            edited = self._put_field(edited, event, field, before)
        return edited

    def edit_resource(self, payload: bytes, index: int, content: bytes, before: Before) -> bytes:
        return _UNREADABLE.edit_resource(payload, index, content, before)

    def revise(self, payload: bytes, old: object, new: object, before: Before) -> bytes:
        decoded = decode_msgpack(payload, self.schema)
        if decoded is None:
            return _UNREADABLE.revise(payload, old, new, before)
        edited = carried(payload, (), old, new, self.schema)
        for path, was, now in changed_texts(old, new):
            for place, text in self.twins(as_object(decoded.value), path, was, now):
                if value_at(old, place) == value_at(new, place):
                    edited = put_text(edited, place, text, self.schema)
        return edited

    def written_out(self, value: object, like: bytes | None) -> bytes:
        return _encode(_numbered(value, self.schema, int if like and in_integers(like) else str))

    def _put(self, payload: bytes, record: JsonObject, path: ValuePath, old: str, new: str) -> bytes:
        edited = put_text(payload, path, new, self.schema)
        for place, text in self.twins(record, path, old, new):
            edited = put_text(edited, place, text, self.schema)
        return edited

    def _put_field(self, payload: bytes, event: Event, field: FieldEdit, before: Before) -> bytes:
        key, value = field.key, field.value
        record = as_object(event.native)
        place = self.place(record, key)
        if place is None or value_at(record, place.path) is None:
            raise UsageError(f"{key!r} is nothing that this record holds: it cannot be changed here")
        check_type(key, event.tool if key == "tool" else event.header.get(key), value)
        wanted = place.write(value)
        if isinstance(wanted, str):
            edited = put_text(payload, place.path, wanted, self.schema)
        else:
            said = wanted if isinstance(wanted, bool) else Number(repr(wanted))
            edited = carried(payload, place.path, None, said, self.schema)
        check_field(self.view(edited, before), key, value)
        return edited


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


class UnknownMsgpackLens(MsgpackLens):
    """Sees MessagePack of types that nothing is registered for, as JSON."""

    type_name = ""

    def shown(self, decoded: Decoded, before: Before) -> Event:
        value = decoded.value
        block = Block("text", value) if isinstance(value, str) else Block("json", pretty(value))
        return Event(Kind.NOTE, header={"shown_as": "msgpack"}, blocks=(block,), native=value, lossy=decoded.lossy)


def document_blocks(text: str, path: ValuePath, name: str) -> tuple[Block, ...]:
    """Return the blocks of a text that holds a JSON document, such as the arguments of a tool; if not, it is a text."""
    decoded = decode(text.encode())
    if decoded is None or decoded.lossy or not isinstance(decoded.value, (dict, list)):
        return (Block("text", text, name=name, path=path),) if text else ()
    return argument_blocks(decoded.value, path, name)


class _DocumentLens(Lens):
    def __init__(self, name: str) -> None:
        self._name = name

    def view(self, payload: bytes, before: Before) -> Event:
        decoded = decode(payload)
        value = decoded.value if decoded else None
        return Event(Kind.TOOL_CALL, blocks=argument_blocks(value, (), self._name), native=value)


def _holder(value: object, block: Block) -> ValuePath | None:
    """Return the place of the text with the document that a block is a part of, None if it is part of none."""
    if (steps := string_before(value, block.path)) is not None:
        return block.path[:steps]
    return block.path if isinstance(value_at(value, block.path), str) and block.type == "json" else None

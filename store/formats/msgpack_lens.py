"""Payloads in MessagePack: how their views are edited, and the lens for types that nothing is known of."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from store.errors import UsageError
from store.events.edit import BlockEdit, EventEdit, FieldEdit
from store.events.event import Block, Event, Kind, Path
from store.events.usage import Running, Usage
from store.formats import documents
from store.formats.blocks import argument_blocks
from store.formats.edit_checks import (
    begins,
    block_of,
    changed_texts,
    check_blocks,
    check_field,
    check_type,
    value_at,
)
from store.formats.editing import EditableLens, Place
from store.formats.json_view import Decoded, JsonObject, as_object, decode, pretty
from store.formats.lens import Before
from store.formats.msgpack_splices import carried, put_scalar, put_text, text_at
from store.formats.msgpack_view import Schema
from store.formats.msgpack_view import decode as decode_msgpack
from store.formats.unknown import UnknownLens

_UNREADABLE = UnknownLens()


class MsgpackLens(ABC):
    """A lens for payloads in MessagePack. Those that are none are seen and edited as the bytes that they are."""

    schema: ClassVar[Schema] = {}
    """Names for the numbered fields of a payload."""

    telling: tuple[bytes, ...] = ()
    """See :attr:`store.formats.lens.Lens.telling`: no type in MessagePack that is known tells of any."""

    counts_on = False
    """See :attr:`store.formats.lens.Lens.counts_on`."""

    def view(self, payload: bytes, before: Before) -> Event:
        """See :meth:`store.formats.lens.Lens.view`."""
        decoded = decode_msgpack(payload, self.schema)
        if decoded is None:
            return _UNREADABLE.view(payload, before)
        return self.shown(decoded, before)

    def usage(self, payload: bytes, running: Running) -> tuple[Usage | None, Running]:
        """See :meth:`store.formats.lens.Lens.usage`."""
        return None, running

    @abstractmethod
    def shown(self, decoded: Decoded, before: Before) -> Event:
        """Return the event that a payload tells of, which says ``decoded``; its ``native`` is that."""

    def place(self, record: JsonObject, key: str) -> Place | None:
        """See :meth:`store.formats.editing.EditableLens.place`."""
        return None

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """See :meth:`store.formats.editing.EditableLens.twins`."""
        return ()

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        """See :meth:`store.formats.lens.Lens.edit`."""
        decoded = decode_msgpack(payload, self.schema)
        if decoded is None:
            return _UNREADABLE.edit(payload, edit, before)
        event = self.shown(decoded, before)
        pairs = [(block_of(event, change), change) for change in edit.blocks]
        pairs = [(block, change) for block, change in pairs if block.text != change.text]
        edited, texts = payload, []
        inner: dict[Path, list[BlockEdit]] = {}
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
        """See :meth:`store.formats.lens.Lens.edit_resource`; these have none."""
        return _UNREADABLE.edit_resource(payload, index, content, before)

    def revise(self, payload: bytes, old: object, new: object, before: Before) -> bytes:
        """See :meth:`store.formats.lens.Lens.revise`."""
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
        """See :meth:`store.formats.lens.Lens.written_out`; here: nothing can be."""
        raise UsageError("records of this type are MessagePack: they are added by a program, and not as JSON")

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """See :meth:`store.formats.lens.Lens.compose`; here: nothing can be."""
        raise UsageError("records of this type cannot be written by hand: add them with the program that writes it")

    def _put(self, payload: bytes, record: JsonObject, path: Path, old: str, new: str) -> bytes:
        """Return ``payload`` with another text at ``path``, and at the places of its twins."""
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
        edited = put_scalar(payload, place.path, place.write(value), self.schema)
        check_field(self.view(edited, before), key, value)
        return edited


class UnknownMsgpackLens(MsgpackLens):
    """Sees MessagePack of types that nothing is registered for, as JSON."""

    type_name = ""

    def shown(self, decoded: Decoded, before: Before) -> Event:
        """Return a note that shows what a payload says."""
        value = decoded.value
        block = Block("text", value) if isinstance(value, str) else Block("json", pretty(value))
        return Event(Kind.NOTE, header={"shown_as": "msgpack"}, blocks=(block,), native=value, lossy=decoded.lossy)


def document_blocks(text: str, path: Path, name: str) -> tuple[Block, ...]:
    """Return the blocks of a text that holds a JSON document, such as the arguments of a tool; if not, it is a text."""
    decoded = decode(text.encode())
    if decoded is None or decoded.lossy or not isinstance(decoded.value, (dict, list)):
        return (Block("text", text, name=name, path=path),) if text else ()
    return argument_blocks(decoded.value, path, name)


class _DocumentLens(EditableLens):
    """Sees the JSON document in a text."""

    def __init__(self, name: str) -> None:
        self._name = name

    def view(self, payload: bytes, before: Before) -> Event:
        decoded = decode(payload)
        value = decoded.value if decoded else None
        return Event(Kind.TOOL_CALL, blocks=argument_blocks(value, (), self._name), native=value)


def _holder(value: object, block: Block) -> Path | None:
    """Return where the text stands that holds the document which a block is a part of, None if it is part of none."""
    for depth, step in enumerate(block.path):
        if isinstance(value, str):
            return block.path[:depth]
        value = value_at(value, (step,))
    return block.path if isinstance(value, str) and block.type == "json" else None

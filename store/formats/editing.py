"""Edits of an event carried into its payload; what formats differ in, their lenses say."""

import math
from abc import ABC, abstractmethod
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from store.errors import UsageError
from store.events.edit import BlockEdit, EventEdit, FieldEdit
from store.events.event import Block, Event, Kind, Path, Resource
from store.events.usage import Running, Usage
from store.formats import documents
from store.formats.edit_checks import (
    Value,
    begins,
    block_of,
    changed_texts,
    check_blocks,
    check_field,
    check_type,
    value_at,
)
from store.formats.json_spans import locate, spelled_path, text_of
from store.formats.json_view import JsonObject, as_object, decode, is_object
from store.formats.lens import Before
from store.formats.media import as_data_url
from store.formats.nested import string_before, within
from store.formats.new_literals import encoded, spell, spell_base64
from store.formats.new_records import new_record
from store.formats.splices import put, with_members


class Place(NamedTuple):
    """Where a payload holds a field of an event's head; ``may_add`` says that it may be missing there."""

    path: Path
    may_add: bool = False
    write: Callable[[Value], Value] = lambda value: value


class EditableLens(ABC):
    """A lens whose views can be edited. What has a default here says that its format has nothing special there."""

    one_line = False
    """Whether a record is one line of a file, so that even a damaged one must not be given a second."""

    reach = 0
    """How many records before and after an edited one are looked at for what repeats it; see :meth:`echoes`."""

    telling: tuple[bytes, ...] = ()
    """See :attr:`store.formats.lens.Lens.telling`."""

    counts_on = False
    """See :attr:`store.formats.lens.Lens.counts_on`."""

    @abstractmethod
    def view(self, payload: bytes, before: Before) -> Event:
        """See :meth:`store.formats.lens.Lens.view`."""

    def usage(self, payload: bytes, running: Running) -> tuple[Usage | None, Running]:
        """See :meth:`store.formats.lens.Lens.usage`."""
        if any(mark in payload for mark in self.telling):
            decoded = decode(payload)
            if decoded is not None and is_object(decoded.value):
                return self.usage_told(decoded.value, running)
        return None, running

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what :meth:`usage` does, of a record that may tell."""
        return None, running

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where field ``key`` of the head (or ``tool``) stands, None where nowhere.

        Raises UsageError where it comes from another record, to say from which.
        """
        return None

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield the other texts of a record to change, and to what, where the text at ``path`` changes."""
        return ()

    def echoes(
        self, old: bytes, new: bytes, before: Iterable[tuple[int, bytes]], after: Iterable[tuple[int, bytes]]
    ) -> Mapping[int, bytes]:
        """Return by number the records near one that was ``old`` and is ``new`` which are to say something else now.

        ``before`` and ``after`` are the bookkeeping records near it, the nearest first, each with its number.
        """
        return {}

    def decoder(self, record: JsonObject, path: Path) -> documents.Decode | None:
        """Return what the string at ``path``, or every one in the value there, is read through when it is shown."""
        return None

    def written(self, payload: bytes, path: Path, text: str) -> bytes:
        """Return ``payload`` with ``text`` as the content that a value other than a string names."""
        raise UsageError(f"{spelled_path(path)} is no text in this record: it cannot be changed here")

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        """See :meth:`store.formats.lens.Lens.edit`."""
        event = self.view(payload, before)
        pairs = [(block_of(event, change), change) for change in edit.blocks]
        pairs = [(block, change) for block, change in pairs if block.text != change.text]
        if any(not block.path and block.type != "json" for block, _ in pairs):
            return _whole(payload, event, pairs, edit.fields, one_line=self.one_line)
        texts = [(block, change.text) for block, change in pairs if block.type != "json"]
        edited = payload
        for block, text in texts:
            edited = _put_text(edited, block.path, block.encoding, block.text or "", text, self)
        for block, change in pairs:
            if block.type == "json":
                edited = _put_document(edited, event, block, change.text, self)
        if pairs:
            check_blocks(self.view(edited, before), texts, moved=len(pairs) != len(texts))
        for field in edit.fields:
            edited = _put_field(edited, event, field, before, self)
        return edited

    def edit_resource(self, payload: bytes, index: int, content: bytes, before: Before) -> bytes:
        """See :meth:`store.formats.lens.Lens.edit_resource`."""
        resources = self.view(payload, before).resources
        if not 0 <= index < len(resources):
            raise UsageError(f"the record has no resource {index}: it has {len(resources)}")
        resource = resources[index]
        if content == resource.data:
            return payload
        edited = self._with_content(payload, resource, content)
        shown = self.view(edited, before).resources
        if len(shown) != len(resources) or shown[index].data != content:
            raise UsageError(f"the record cannot hold this as the content of {resource.uri}: leave out NUL characters")
        return edited

    def _with_content(self, payload: bytes, resource: Resource, content: bytes) -> bytes:
        if not resource.path:
            raise UsageError(f"{resource.uri} is not within the record: it cannot be changed")
        if isinstance(resource.content, bytes):
            encoded_content = b2a_base64(content, newline=False)
            if resource.encoding != "base64":
                head = as_data_url(text_of(payload[slice(*locate(payload, resource.path))]))
                if head is None:
                    raise UsageError(f"{resource.uri} is no text within the record: it cannot be changed")
                url = head.beginning + encoded_content.decode()
                return put(payload, resource.path, spell(url, payload))
            return put(payload, resource.path, b'"%b"' % encoded_content)
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            told = f"{resource.uri} is text, and this is no UTF-8 at byte {error.start}"
            raise UsageError(f"{told}: save it in UTF-8") from None
        return _put_text(payload, resource.path, resource.encoding, resource.content, text, self)

    def revise(self, payload: bytes, old: object, new: object, before: Before) -> bytes:
        """See :meth:`store.formats.lens.Lens.revise`."""
        edited = documents.carried(payload, (), old, new)
        record = as_object(old)
        twins = [
            (path, *twin) for path, was, now in changed_texts(old, new) for twin in self.twins(record, path, was, now)
        ]
        if not twins:
            return edited
        shown = {block.path for block in self.view(payload, before).blocks if block.type == "text"}
        for path, place, text in twins:
            twin = value_at(old, place)
            if path in shown and isinstance(twin, str) and twin == value_at(new, place):
                edited = _put_text(edited, place, "json", twin, text, self, with_twins=False)
        return edited

    def written_out(self, value: object, like: bytes | None) -> bytes:
        """See :meth:`store.formats.lens.Lens.written_out`."""
        return new_record(value, like)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """See :meth:`store.formats.lens.Lens.compose`; here: nothing can be."""
        raise UsageError("records of this format cannot be written by hand: add them with the tool that writes it")


def _whole(
    payload: bytes,
    event: Event,
    pairs: list[tuple[Block, BlockEdit]],
    fields: tuple[FieldEdit, ...],
    *,
    one_line: bool,
) -> bytes:
    """Return the new bytes of a record that is shown as it is, damaged as it may be."""
    block, change = pairs[0]
    content = encoded(change.text)
    if event.native is not None or len(event.blocks) > 1 or fields:
        raise UsageError("this text is not in the record: it stands for content that is kept elsewhere")
    if encoded(block.text or "") != payload:
        raise UsageError("the record is no valid text, so it can only be read: export it to change its bytes")
    if one_line and b"\n" in content:
        raise UsageError("this record is one line of its file: keep it on one line")
    return content


def _put_text(
    payload: bytes, path: Path, encoding: str, old: str, new: str, lens: EditableLens, *, with_twins: bool = True
) -> bytes:
    """Return ``payload`` with another text at ``path``, and at the places of its twins."""
    record = _record(payload)
    if steps := string_before(record, path):
        inner = path[steps:]
        return within(payload, path[:steps], lambda text: _put_text(text, inner, encoding, old, new, lens))
    start, end = locate(payload, path)
    literal = payload[start:end]
    if not literal.startswith(b'"'):
        return lens.written(payload, path, new)
    if encoding == "json" and _is_lossy(literal):
        raise UsageError("the text is no valid Unicode in the record, so it can only be read")
    decoding = lens.decoder(record, path)
    in_base64 = encoding == "base64" or (decoding is not None and decoding(new) is not None)
    edited = put(payload, path, spell_base64(new) if in_base64 else spell(new, payload, literal))
    if with_twins:
        for place, text in lens.twins(record, path, old, new):
            twin = text_of(payload[slice(*locate(payload, place))])
            edited = _put_text(edited, place, "json", twin, text, lens, with_twins=False)
    return edited


def _put_document(payload: bytes, event: Event, block: Block, new: str, lens: EditableLens) -> bytes:
    old = block.text or ""
    lifted = {
        other.name: other.path
        for other in event.blocks
        if other.type == "text" and other.path != block.path and begins(other.path, block.path)
    }
    record = _record(payload)
    if isinstance(value_at(record, block.path), str):
        inside = {name: path[len(block.path) :] for name, path in lifted.items()}
        return within(payload, block.path, lambda text: documents.revised(text, (), old, new, inside))
    decoding = lens.decoder(record, block.path)
    return documents.revised(payload, block.path, old, new, lifted, decoding)


def _put_field(payload: bytes, event: Event, field: FieldEdit, before: Before, lens: EditableLens) -> bytes:
    key, value = field.key, field.value
    held: Value | None = event.tool if key == "tool" else event.header.get(key)
    if held == value and type(held) is type(value):
        return payload
    record = _record(payload)
    place = lens.place(record, key)
    if place is None:
        raise UsageError(f"{key!r} is nothing that this record holds: it cannot be changed here")
    if steps := string_before(record, place.path):
        inside = Place(place.path[steps:], place.may_add, place.write)
        edited = within(payload, place.path[:steps], lambda text: _with_value(text, key, inside, held, value))
    else:
        edited = _with_value(payload, key, place, held, value)
    check_field(lens.view(edited, before), key, value)
    return edited


def _with_value(payload: bytes, key: str, place: Place, held: Value | None, value: Value) -> bytes:
    """Return ``payload`` with the value of field ``key``, shown as ``held`` until now, at its place."""
    record = _record(payload)
    present = value_at(record, place.path)
    if present is None and not (place.may_add and isinstance(value_at(record, place.path[:-1]), dict)):
        raise UsageError(f"this record has no {key!r}: it cannot be given one here")
    wanted = place.write(value)
    check_type(key, present if present is not None else held, wanted)
    literal = spell(wanted, payload) if isinstance(wanted, str) else _scalar(wanted)
    if present is None:
        return with_members(payload, place.path[:-1], frozenset(), {str(place.path[-1]): literal})
    if isinstance(wanted, str):
        literal = spell(wanted, payload, payload[slice(*locate(payload, place.path))])
    return put(payload, place.path, literal)


def _scalar(value: int | float | bool) -> bytes:
    if not math.isfinite(value):
        raise UsageError(f"{value} is no number that a record can hold")
    return str(value).lower().encode() if isinstance(value, bool) else repr(value).encode()


def _record(payload: bytes) -> JsonObject:
    decoded = decode(payload)
    return as_object(decoded.value) if decoded else {}


def _is_lossy(literal: bytes) -> bool:
    decoded = decode(literal)
    return decoded is None or decoded.lossy

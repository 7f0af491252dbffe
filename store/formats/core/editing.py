"""The lens: how the payload of one type is seen as an event, and how an edit of the event becomes one of the payload.

Rendering, editing, search and resources see only events; they know no format. A lens sees one payload and, through
:class:`store.formats.core.lens.Before`, the little that it may ask about the records before it.
"""

import math
import re
from abc import abstractmethod
from binascii import b2a_base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import ClassVar

from store.errors import UsageError
from store.events.event import Block, BlockEdit, Event, EventEdit, FieldEdit, Kind, NewBlock, Resource, ValuePath
from store.events.usage import Running, Usage
from store.formats.core import documents
from store.formats.core.arranging import Arrangement, Holder, outline, wanted_blocks
from store.formats.core.blocks import MOST_BLOCKS, string_before, within
from store.formats.core.composing import NO_PARTICULARS, Particulars
from store.formats.core.documents import new_record
from store.formats.core.json_spans import locate, spelled_path, text_of
from store.formats.core.json_view import Decoded, JsonObject, as_text, decode, is_json, is_object, object_in, value_at
from store.formats.core.lens import (
    BOOKKEEPING,
    CODE_ERRORS,
    Before,
    CallLink,
    FieldPlace,
    Nothing,
    Places,
    Shown,
    Value,
    as_it_is,
    at_fault,
)
from store.formats.core.media import as_data_url, from_numbers
from store.formats.core.removal import Tree, without_calls
from store.formats.core.splices import check_text, encoded, is_spaced, put, spell, spell_base64, with_members
from store.formats.core.times import FIRST_MILLISECONDS, milliseconds, time_of

_MAY_BE_EMPTY = frozenset((Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.CONFIG))
_has_zone = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$").search


def block_of(event: Event, change: BlockEdit) -> Block:
    """Return the block that an edit changes. Raises UsageError where the event has none such."""
    for block in event.blocks:
        if block.path == change.path and (block.type == "json") == (change.type == "json") and block.text is not None:
            return block
    raise UsageError(f"the event has no {change.type} at {spelled_path(change.path)}: read it again, then edit")


OTHER = "other."
"""How the names of blocks begin that are shown only as there is a sentence in them."""


def spelled_kind(event: Event) -> str:
    """Return what an event is, for messages: ``record of a tool call``."""
    return f"record of this {event.kind.name.lower().replace('_', ' ')}"


def check_blocks(now: Event, texts: list[tuple[Block, str]], *, moved: bool) -> None:
    """Refuse an edit after which the event does not show the new text, in a block or within a JSON document."""
    if now.kind is Kind.RECORD:
        raise UsageError("the event would have nothing left to show: delete its file instead of emptying it")
    if moved:
        return
    for block, text in texts:
        shown = any(other.text == text and begins(other.path, block.path) for other in now.blocks)
        if shown or any(other.type == "json" and begins(block.path, other.path) for other in now.blocks):
            continue
        if block.name.startswith(OTHER):
            raise UsageError("this part is shown for the sentence in it: write at least four words, or edit its record")
        if not text:
            raise UsageError("an empty text would not be shown any more: write something, or delete the event")
        raise UsageError("the record cannot hold this text as it is written: leave out NUL characters")


def check_intact(payload: bytes, edited: bytes) -> None:
    """Refuse an edit that would leave a record no JSON, where it was, whatever made it so."""
    if not is_json(edited) and is_json(payload):
        raise UsageError("the record would be no JSON any more, so its tool could not read it: nothing is changed")


def begins(path: ValuePath, start: ValuePath) -> bool:
    """Return whether a path leads to a place, or into it."""
    return path[: len(start)] == start


def check_field(now: Event, key: str, value: Value) -> None:
    """Refuse an edit after which a field of the head does not show the new value."""
    if now.kind is Kind.RECORD:
        raise UsageError(f"with this {key!r} the event would have nothing to show: delete its file instead")
    if key == "timestamp":
        shown: Value = now.time_ms
        if not (value := milliseconds(value)):
            raise UsageError("'timestamp' is a time as 2026-03-05T19:31:54.356Z")
    else:
        shown = now.tool if key == "tool" else now.header.get(key, False if value is False else "")
    if shown != value:
        raise UsageError(f"{key!r} cannot be {value!r} in this record")


def as_spelled(time: Value, like: str) -> Value:
    """Return a time in ISO 8601 as a record spells it, which has ``like`` there: some have no zone."""
    return iso[:-1] if (iso := str(time)).endswith("Z") and like and not _has_zone(like) else time


def _respelled(present: object) -> Callable[[Value], Value]:
    """Return how a time is written where ``present`` stands now."""
    if isinstance(present, (int, float)) and not isinstance(present, bool):
        scale = 1 if present >= FIRST_MILLISECONDS else 1000
        whole = isinstance(present, int)

        def number(value: Value) -> Value:
            ms = milliseconds(value)
            return ms // scale if whole else ms / scale

        return number
    return lambda value: as_spelled(value, as_text(present))


def check_type(key: str, present: object, wanted: Value) -> None:
    """Refuse a value of another type than the one that a field has."""
    for kind, told in ((bool, "true or false"), (str, "a text: put it in double quotes"), ((int, float), "a number")):
        if isinstance(present, kind):
            if not isinstance(wanted, kind) or (isinstance(wanted, bool) and kind is not bool):
                raise UsageError(f"{key!r} is {told}")
            return


def changed_texts(old: object, new: object, path: ValuePath = ()) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield the texts that differ in the new document, each with its place, its old and its new form."""
    if isinstance(old, str) and isinstance(new, str):
        if old != new:
            yield path, old, new
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() & new.keys():
            yield from changed_texts(old[key], new[key], (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from changed_texts(one, other, (*path, at))


Twins = Iterable[tuple[ValuePath, str]]
"""Other texts of a record that change with an edited one, each with its place and its new form."""

Near = Iterable[tuple[int, bytes]]
"""Records near another one, the nearest first, each with its number."""


class Lens(Holder):
    """Sees payloads of one type as events. A default left as it is means that the format has nothing special there."""

    type_name: str
    """The payload type, such as ``jp.event.v1``."""

    one_line = False
    """True if a record is one line of a file, so that even a damaged one must not be given a second."""

    reach = 0
    """The number of records before and after an edited one that are searched for repetitions; see :meth:`echoes`."""

    telling: tuple[bytes, ...] = ()
    """The markers of a usage: a payload with one has one of these in it; empty: no payload has a usage."""

    counts_on = False
    """True if :meth:`usage` needs the running state; else that is always ``NOTHING_RUNNING``."""

    @abstractmethod
    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event in ``payload``; never raises: an unreadable payload is shown as it is."""

    def usage(self, payload: bytes, running: Running) -> tuple[Usage | None, Running]:
        """Return the usage of the answer in ``payload``, None where there is none, and the running state.

        ``running`` is the state returned for the record before, ``NOTHING_RUNNING`` for the first. Never raises.
        """
        if any(mark in payload for mark in self.telling):
            decoded = decode(payload)
            if decoded is not None and is_object(decoded.value):
                return self.usage_told(decoded.value, running)
        return None, running

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what :meth:`usage` does, for a record that may hold a usage."""
        return self.used(record), running

    def used(self, record: JsonObject) -> Usage | None:
        """Return the usage of the answer in a record, where that needs no earlier record."""
        return None

    def place(self, record: JsonObject, key: str) -> FieldPlace | None:
        """Return the place of a field of the head, or ``tool``; None: it has none. UsageError: another has it."""
        return None

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        """Yield the other texts of a record that change with the text at ``path``, each with its new form."""
        return ()

    def echoes(self, old: bytes, new: bytes, before: Near, after: Near) -> Mapping[int, bytes]:
        """Return by number the records near one that was ``old`` and is ``new`` which are to say something else now.

        ``before`` and ``after`` are the bookkeeping records near it.
        """
        return {}

    def written(self, payload: bytes, path: ValuePath, content: str | bytes) -> bytes:
        """Return ``payload`` with ``content`` in the place of a value, other than a string, that names content.

        Here, that is a list of the numbers of its bytes.
        """
        if isinstance(content, bytes) and from_numbers(value_at(object_in(payload), path)) is not None:
            comma = b", " if is_spaced(payload) else b","
            return put(payload, path, b"[%b]" % comma.join(b"%d" % one for one in content))
        raise UsageError(f"{spelled_path(path)} is no text in this record: it cannot be changed here")

    def calls(self, record: JsonObject) -> Iterator[CallLink]:
        """Yield the calls and results in a record, as far as their counterparts are in other records."""
        return iter(())

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> dict[int, bytes]:
        """Return the records of a conversation without those at positions ``deleted``, by their old positions.

        A call and its result go together.
        """
        return without_calls(records, deleted, self.calls)

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        """Return ``payload`` with just the changes of ``edit``, and all other bytes as they are.

        New strings are spelled as the payload's producer spells them. A text that the record holds twice is changed in
        both places where that is plain. Raises UsageError for a text that the payload does not hold or that cannot be
        changed there, for blocks that it cannot hold, and for text that is no valid Unicode.
        """
        event = self.view(payload, before)
        pairs = [(block_of(event, change), change) for change in edit.blocks]
        if edit.order is not None:
            edited = self._arranged(payload, event, edit.order, pairs, before)
            return self.edit(edited, EventEdit(fields=edit.fields), before) if edit.fields else edited
        pairs = [(block, change) for block, change in pairs if block.text != change.text]
        if any(not block.path and block.type != "json" for block, _ in pairs) and not isinstance(event.native, str):
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
        check_intact(payload, edited)
        return edited

    def _arranged(
        self,
        payload: bytes,
        event: Event,
        order: Sequence[int | NewBlock],
        pairs: Sequence[tuple[Block, BlockEdit]],
        before: Before,
    ) -> bytes:
        """Return ``payload`` with other blocks, of which ``pairs`` have other texts."""
        if not isinstance(event.native, (dict, list)):
            raise UsageError(f"the {spelled_kind(event)} is one text: it cannot be several blocks, or none")
        texts = {next(at for at, one in enumerate(event.blocks) if one is block): edit for block, edit in pairs}
        wanted = wanted_blocks(event.blocks, order, {at: edit.text for at, edit in texts.items()})
        arrangement = Arrangement(event.native, spelled_kind(event), event.blocks, wanted, self)
        rest = tuple(edit for at, edit in texts.items() if at not in arrangement.rewritten)
        edited = arrangement.made(self.edit(payload, EventEdit(rest), before) if rest else payload)
        check_intact(payload, edited)
        now = self.view(edited, before)
        if now.kind is Kind.RECORD:
            raise UsageError("the event would have nothing left to show: delete its file instead")
        shown, said = outline(now.blocks), arrangement.outline
        if shown != said:
            if sorted(map(repr, shown)) == sorted(map(repr, said)):
                raise UsageError(f"the {spelled_kind(event)} holds these apart, in an order of its own: take it back")
            if len(shown) > len(said):
                raise UsageError(f"the {spelled_kind(event)} always has a text there: write one, or delete the event")
            raise UsageError(f"the {spelled_kind(event)} cannot show just these blocks: take the change back")
        if edited == payload:
            reason = "has its JSON say where these texts stand: move their places in that"
            raise UsageError(f"the {spelled_kind(event)} {reason}")
        return edited

    def edit_resource(self, payload: bytes, index: int, content: bytes, before: Before) -> bytes:
        """Return ``payload`` with other content for the resource at ``index`` of its event, as :meth:`edit` does.

        Raises UsageError where it does not stand in the payload, and for content that is no text where text stands.
        """
        resources = self.view(payload, before).resources
        if not 0 <= index < len(resources):
            raise UsageError(f"the record has no resource {index}: it has {len(resources)}")
        resource = resources[index]
        if content == resource.data:
            return payload
        edited = self._with_content(payload, resource, content)
        check_intact(payload, edited)
        shown = self.view(edited, before).resources
        if len(shown) != len(resources) or shown[index].data != content:
            raise UsageError(f"the record cannot hold this as the content of {resource.uri}: leave out NUL characters")
        return edited

    def _with_content(self, payload: bytes, resource: Resource, content: bytes) -> bytes:
        if not resource.path:
            raise UsageError(f"{resource.uri} is not within the record: it cannot be changed")
        if isinstance(resource.content, bytes):
            literal = payload[slice(*locate(payload, resource.path))]
            if not literal.startswith(b'"'):
                return self.written(payload, resource.path, content)
            encoded_content = b2a_base64(content, newline=False)
            if resource.encoding != "base64":
                head = as_data_url(text_of(literal))
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
        """Return ``payload``, which says ``old`` in its event's ``native``, so that it says ``new``.

        Both are as :func:`store.formats.core.documents.parse` gives them. All other bytes stay as they are; twins are
        changed as in :meth:`edit`, where ``new`` says nothing else of them. Raises UsageError for a change that cannot
        be expressed.
        """
        edited = documents.carried(payload, (), old, new)
        record = old if is_object(old) else {}
        twins = [
            (path, *twin) for path, was, now in changed_texts(old, new) for twin in self.twins(record, path, was, now)
        ]
        check_intact(payload, edited)
        if not twins:
            return edited
        shown = {block.path for block in self.view(payload, before).blocks if block.type == "text"}
        for path, place, text in twins:
            twin = value_at(old, place)
            if path in shown and isinstance(twin, str) and twin == value_at(new, place):
                edited = _put_text(edited, place, "json", twin, text, self, with_twins=False)
        check_intact(payload, edited)
        return edited

    def written_out(self, value: object, like: bytes | None) -> bytes:
        """Return a new record that says ``value``, as :func:`store.formats.core.documents.parse` gives it.

        It is laid out as the record ``like`` is. Raises UsageError for a value that cannot be expressed.
        """
        return new_record(value, like)

    writes: ClassVar[Collection[Kind]] = ()
    """The kinds of events that :meth:`compose` makes records of."""

    lacks: ClassVar[Mapping[Kind, str]] = {}
    """Why it makes none of others, where that is not plain."""

    def check_new(self, kind: Kind, text: str) -> None:
        """Raise UsageError for a kind that a person cannot write here, and for a text that says nothing."""
        if kind not in self.writes:
            # the kinds that people write most come first
            allowed = [one.word for one in sorted(self.writes, key=lambda one: (one is Kind.SYSTEM, one))]
            others = " or ".join(filter(None, (", ".join(allowed[:-1]), *allowed[-1:])))
            what = f"write {others}" if others else "add it with the tool that writes these records"
            family = self.type_name.partition(".")[0] or "a format that convfs does not know"
            told = self.lacks.get(kind, "its tool writes none")
            raise UsageError(f"no {kind.word} can be written by hand in {family}: {told}; {what}")
        if text or kind not in _MAY_BE_EMPTY:
            check_text(text)

    def compose(
        self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars = NO_PARTICULARS
    ) -> bytes:
        """Return a new record, for the end of a conversation, that says ``text``.

        ``previous`` is the record that it follows (the last one that defines a key, where the format links records;
        else the last), None where it is the first. ``now_ms`` is its time in Unix milliseconds, ``more`` what it says
        beside the text. Raises UsageError for a kind that a person cannot write (here: for all), and for an empty text.
        """
        self.check_new(kind, text)
        return self.new(kind, text, previous, now_ms, more)

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        """Return what :meth:`compose` does, for a kind and a text that are checked."""
        raise UsageError(f"no {kind.word} can be written by hand here: add it with the tool that writes these records")

    def answered(self, payload: bytes, text: str, now_ms: int, more: Particulars) -> bytes | None:
        """Return the record of a call with its result in it; None where a result is a record of its own.

        Raises UsageError for a call that has its result.
        """
        return None


class JsonLens(Lens):
    """A lens for records that are JSON objects. A record that is not JSON is a note with its text."""

    places: ClassVar[Places] = {}
    """Places of the head's fields that are the same in all records; :attr:`Shown.places` has those that vary."""

    time_key = "timestamp"
    """The member that says when a record was, in ISO 8601."""

    times: tuple[ValuePath, ...] = ()
    """Further places that may say so: in ISO 8601, in Unix seconds or milliseconds."""

    key, follows, root = "", "", ""
    """The members with a record's own id and that of the one it follows, and the first record's value there."""

    links: tuple[str, ...] = ()
    """Further members that hold the id of a record."""

    keyless = ""
    """The type of records whose id is not their own."""

    objects_only = True
    """True if JSON that is no object is a note, too; else it is bookkeeping."""

    @abstractmethod
    def shown(self, record: JsonObject, before: Before) -> Shown:
        """Return the view of a record."""

    def shown_other(self, value: object, before: Before) -> Shown | None:
        """Return the view of JSON that is no object; None where it is a note."""
        return None if self.objects_only else BOOKKEEPING

    @staticmethod
    def parsed(payload: bytes) -> Decoded | None:
        """Return the parsed payload, None where it makes no sense."""
        return decode(payload)

    def time_ms(self, record: JsonObject) -> int:
        """Return the time of a record, in Unix milliseconds; 0 where it has none."""
        if time := milliseconds(record.get(self.time_key)):
            return time
        for at in self.times:
            if time := time_of(value_at(record, at)):
                return time
        return 0

    def view(self, payload: bytes, before: Before) -> Event:
        try:
            decoded = self.parsed(payload)
            event = self.seen(decoded, before) if decoded is not None else None
        except CODE_ERRORS as error:
            return at_fault(payload, error)
        return event if event is not None and len(event.blocks) <= MOST_BLOCKS else as_it_is(payload)

    def seen(self, decoded: Decoded, before: Before) -> Event | None:
        """Return the event in a parsed payload; None for one that is shown as it is."""
        record = decoded.value
        if not isinstance(record, dict):
            other = self.shown_other(record, before)
            if other is None:
                return None
            native, lossy = record, decoded.lossy
            return Event(
                other.kind, "", other.header, other.blocks, resources=other.resources, native=native, lossy=lossy
            )
        shown = self.shown(record, before)
        defines, parent = shown.defines, shown.parent
        if self.key and isinstance(own := record.get(self.key), str) and record.get("type") != self.keyless:
            defines = ((own, ""), *defines)
            if self.follows in record:
                named = record[self.follows]
                parent = before.parent(named if isinstance(named, str) and named != self.root else None)
        return Event(
            shown.kind,
            shown.tool,
            shown.header,
            shown.blocks,
            self.time_ms(record),
            parent,
            defines,
            shown.resources,
            record,
            decoded.lossy,
            shown.compaction,
        )

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> dict[int, bytes]:
        """Return the other records, linked past those that are gone."""
        if not self.follows:
            return super().without(records, deleted)
        return Tree(self.key, self.follows, (self.follows, *self.links), self.calls).without(records, deleted)

    def place(self, record: JsonObject, key: str) -> FieldPlace | None:
        place = self.places.get(key) or self.shown(record, Nothing()).places.get(key)
        if isinstance(place, str):
            raise UsageError(f"{key!r} {place}")
        if place is None and key == "timestamp":
            times = ((self.time_key,), *self.times) if self.time_key else self.times
            held = [at for at in times if value_at(record, at) is not None]
            return next((FieldPlace(at, write=_respelled(value_at(record, at))) for at in (*held, *times)), None)
        if isinstance(place, tuple):
            # calls that did not fail often say nothing of it
            return FieldPlace(place, may_add=key.startswith("is_error"))
        return place


def _whole(
    payload: bytes, event: Event, pairs: list[tuple[Block, BlockEdit]], fields: tuple[FieldEdit, ...], *, one_line: bool
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
    payload: bytes, path: ValuePath, encoding: str, old: str, new: str, lens: Lens, *, with_twins: bool = True
) -> bytes:
    """Return ``payload`` with another text at ``path``, and at the places of its twins."""
    record = object_in(payload)
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


def _put_document(payload: bytes, event: Event, block: Block, new: str, lens: Lens) -> bytes:
    before, after = documents.parse(block.text or ""), documents.parse(new)
    lifted = {
        other.name: other.path
        for other in event.blocks
        if other.type == "text" and other.path != block.path and begins(other.path, block.path)
    }
    record = object_in(payload)
    if isinstance(value_at(record, block.path), str):
        inside = {name: path[len(block.path) :] for name, path in lifted.items()}
        return within(payload, block.path, lambda text: documents.carried(text, (), before, after, inside))
    return documents.carried(payload, block.path, before, after, lifted, lens.decoder(record, block.path))


def _put_field(payload: bytes, event: Event, field: FieldEdit, before: Before, lens: Lens) -> bytes:
    key, value = field.key, field.value
    held: Value | None = event.tool if key == "tool" else event.header.get(key)
    if held == value and type(held) is type(value):
        return payload
    record = object_in(payload)
    place = lens.place(record, key)
    if place is None:
        raise UsageError(f"{key!r} is nothing that this record holds: it cannot be changed here")
    if steps := string_before(record, place.path):
        inside = FieldPlace(place.path[steps:], place.may_add, place.write)
        edited = within(payload, place.path[:steps], lambda text: _with_value(text, key, inside, held, value))
    else:
        edited = _with_value(payload, key, place, held, value)
    check_field(lens.view(edited, before), key, value)
    return edited


def _with_value(payload: bytes, key: str, place: FieldPlace, held: Value | None, value: Value) -> bytes:
    record = object_in(payload)
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


def _scalar(value: float | bool) -> bytes:
    if not math.isfinite(value):
        raise UsageError(f"{value} is no number that a record can hold")
    return str(value).lower().encode() if isinstance(value, bool) else repr(value).encode()


def _is_lossy(literal: bytes) -> bool:
    decoded = decode(literal)
    return decoded is None or decoded.lossy

"""An edited ``events.json``, carried into the records of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from fusefs.editing.contents import ConversationContents
from fusefs.editing.records import record_like
from fusefs.text import events_json
from fusefs.text.events_json_contents import Contents
from fusefs.text.events_json_match import NUMBER_KEY, Match, Shown, match
from fusefs.text.events_json_parse import split
from fusefs.text.parse import ParseError
from fusefs.tree.json_elements import draw_elements
from store.conversations.chain import Recorded
from store.conversations.viewer import LARGEST_VIEWED
from store.editing.plan import Changed, Item
from store.errors import ConvfsError, UsageError
from store.events.deletion import DELETED, Content
from store.formats.documents import same
from store.formats.editing import EditableLens
from store.formats.registry import FORMATS, lens_for
from store.store import Append

if TYPE_CHECKING:
    from store.events.conversation import EventRow
    from store.events.event import Event
    from store.store import Store

_RAW, _VALUE = "$raw", "$value"


class Rewrite(Struct, frozen=True):
    """What becomes of a conversation: records that change, by number, and those that are to follow its last one.

    ``items`` is the whole conversation to be, where that is not enough.
    """

    changes: dict[int, Content]
    added: tuple[Append, ...] = ()
    items: tuple[Item, ...] | None = None


class JsonChanges:
    """Compares a file with how the conversation ``context`` was drawn when it ended in turn ``head``."""

    def __init__(self, store: Store, context: int, head: int) -> None:
        self._store = store
        self._context = context
        self._contents = ConversationContents(store, context, head)
        self._rows: Sequence[EventRow] = store.rows(head) if head else ()

    def work_out(self, data: bytes) -> Rewrite | None:
        """Return what ``data`` changes, None if nothing. Raises ParseError for what cannot be."""
        elements = [element for _row, _event, element in draw_elements(self._store, self._shown_rows())]
        if data == b"".join(events_json.document(elements)):
            return None
        shown = [
            Shown(row.number, text, events_json.says_number(text))
            for row, text in zip(self._shown_rows(), map(events_json.text_of, elements), strict=True)
        ]
        matches = match(shown, split(data), len(self._rows))
        order = [one.number or self._added(matches, at) for at, one in enumerate(matches)]
        changes: dict[int, Content] = {one.number: DELETED for one in shown}
        for one in matches:
            changes.pop(one.number, None)
        texts = {one.number: one.text for one in shown}
        read = [one for one in matches if one.number and one.value is not None]
        rows = [self._rows[one.number - 1] for one in read]
        payloads = self._store.payloads([row.turn for row in rows])
        for one, (row, event), (_turn, payload) in zip(read, self._store.events(rows), payloads, strict=True):
            if isinstance(event, ConvfsError):
                raise event
            if isinstance(payload, ConvfsError):
                raise payload
            drawn = texts.get(one.number) or self._draw(row)
            edited = self._changed(one, row, event, payload, drawn)
            if edited is not None:
                changes[one.number] = edited
        return self._rewrite(order, changes)

    def _shown_rows(self) -> list[EventRow]:
        return [row for row in self._rows if not row.deleted]

    def _rewrite(self, order: Sequence[int | Append], changes: dict[int, Content]) -> Rewrite | None:
        """Return the shortest way to bring records into an order; those that are not in it keep their place."""
        numbers = [item for item in order if isinstance(item, int)]
        added = tuple(item for item in order[len(numbers) :] if not isinstance(item, int))
        in_place = numbers == sorted(numbers) and len(numbers) + len(added) == len(order)
        if in_place and not (changes and added):
            return Rewrite(changes, added) if changes or added else None
        present = set(numbers)
        items: list[Item] = []

        def place(number: int) -> None:
            # what is not shown any more follows what it followed
            while number <= len(self._rows):
                items.append(Changed(number, changes[number]) if number in changes else number)
                number += 1
                if number in present:
                    return

        if 1 not in present and self._rows:
            place(1)
        for item in order:
            if isinstance(item, int):
                place(item)
            else:
                items.append(item)
        return Rewrite(changes, items=tuple(items))

    # -- a record that changes -------------------------------------------------------------------------------------

    def _changed(self, one: Match, row: EventRow, event: Event, payload: bytes, drawn: bytes) -> bytes | None:
        """Return the payload that a record is to have, which was drawn as ``drawn``; None where it stays as it is."""
        store = self._store
        contents = Contents(one.element, f"record {row.number}", self._contents.find)
        lens = store.viewer.lens(store.turn(row.turn))
        before = Recorded(row.tool, row.parent, store.aliased)

        def revised(new: object) -> bytes:
            return payload if same(old, new) else lens.revise(payload, old, new, before)

        was_raw, old = _taken_apart(events_json.parsed(drawn), event.native)
        is_raw, new = _taken_apart(one.value, event.native)
        try:
            if is_raw:
                edited = payload if was_raw and same(old, new) else contents.bytes_of(new)
            elif was_raw:
                new = contents.edited(new, None)
                edited = self._settled(contents, new, lambda value: lens.written_out(value, None), lens.view, before)
            else:
                old = contents.drawn(old, event.native)
                new = contents.edited(new, old)
                edited = self._settled(contents, new, revised, lens.view, before)
        except ParseError:
            raise
        except UsageError as error:
            raise contents.error("", str(error)) from None
        _check(edited, lens, contents)
        return None if edited == payload and not row.deleted else edited

    def _draw(self, row: EventRow) -> bytes:
        return next(events_json.text_of(element) for _row, _event, element in draw_elements(self._store, [row]))

    # -- a record that is new --------------------------------------------------------------------------------------

    def _added(self, matches: Sequence[Match], at: int) -> Append:
        """Return the record that an element without a number is to be: of the type of those around it."""
        one = matches[at]
        contents = Contents(one.element, "a new record", self._contents.find)
        like, record = self._neighbour(matches, at)
        lens = lens_for(record.type_name, record.encoding)
        before = Recorded("", 0, self._store.aliased)
        is_raw, value = _taken_apart(one.value, None)
        try:
            if is_raw:
                payload = contents.bytes_of(value)
            else:
                new = contents.edited(value, None)
                payload = self._settled(contents, new, lambda value: lens.written_out(value, like), lens.view, before)
        except ParseError:
            raise
        except UsageError as error:
            raise contents.error("", str(error)) from None
        _check(payload, lens, contents)
        return msgspec.structs.replace(record, payload=payload)

    def _neighbour(self, matches: Sequence[Match], at: int) -> tuple[bytes | None, Append]:
        """Return a record near an element that is new, and one of the type which one between such records has."""
        store = self._store
        before = [one.number for one in matches[:at] if one.number]
        behind = [one.number for one in matches[at:] if one.number]
        number = before[-1] if before else behind[0] if behind else 0
        if not number:
            name = store.conversation(self._context).format
            format_ = next((one for one in FORMATS if one.name == name), FORMATS[0])
            return None, Append(b"", format_.main_type)
        turn = store.turn(self._rows[number - 1].turn)
        record = record_like(store, turn, b"")
        for format_ in FORMATS:
            if record.type_name == format_.first_type:
                # there is one such record, and it is the first
                later = [self._rows[number - 1] for number in behind]
                like = store.payload(later[0].turn) if later else None
                return like, Append(b"", format_.main_type)
        return store.payload(turn.turn_id), record

    # -- within ----------------------------------------------------------------------------------------------------

    def _settled(
        self,
        contents: Contents,
        value: object,
        make: Callable[[object], bytes],
        view: Callable[[bytes, Recorded], Event],
        before: Recorded,
    ) -> bytes:
        """Return the record that says ``value``.

        An object such as ``{"text": "…"}`` may be the record's own. It is, where the record then shows something of it;
        else it stands for its content.
        """
        payload = make(value)
        if contents.unsure:
            shown = [block.path for block in view(payload, before).blocks]
            for path in contents.unsure:
                if not any(place[: len(path)] == path for place in shown):
                    value = contents.inline(value, path)
            payload = make(value)
        return payload


def _taken_apart(value: object, native: object) -> tuple[bool, object]:
    """Return whether an element stands for bytes that are no JSON, and what it says without its number."""
    if not isinstance(value, dict):
        return False, value
    said = {key: item for key, item in value.items() if key != NUMBER_KEY}
    if said.keys() == {_RAW}:
        return True, said[_RAW]
    if said.keys() == {_VALUE} and (not isinstance(native, dict) or NUMBER_KEY in native):
        return False, said[_VALUE]
    return False, value if isinstance(native, dict) and NUMBER_KEY in native else said


def _check(payload: bytes, lens: object, contents: Contents) -> None:
    if isinstance(lens, EditableLens) and lens.one_line and b"\n" in payload:
        raise contents.error(_RAW, "a record is one line of its file: leave out the line breaks")
    if len(payload) > LARGEST_VIEWED:
        raise contents.error("", f"{len(payload)} bytes are too large for a record: {LARGEST_VIEWED} at most")

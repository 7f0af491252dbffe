"""The changes that an edited ``events.json`` makes to the records of a conversation."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fusefs.editing.records import out_of_order, record_like
from fusefs.editing.rewrites import Rewrite, rewrite
from fusefs.text import events_json
from fusefs.text.events_json_edit import (
    NUMBER_KEY,
    RAW_KEY,
    VALUE_KEY,
    DrawnElement,
    ElementContents,
    Match,
    match,
    split,
)
from fusefs.text.parse import ParseError
from fusefs.tree.view import draw_elements
from store.conversations.chain import Recorded
from store.conversations.contexts import Append
from store.conversations.viewer import LARGEST_VIEWED
from store.errors import ConvfsError, UsageError
from store.events.conversation import EventRow
from store.events.event import DELETED, Block, Event, Replacement, ValuePath
from store.formats.core.documents import same
from store.formats.core.editing import Lens, begins, check_intact
from store.formats.registry import FORMATS, lens_for
from store.store import Store


class JsonChanges:
    """Compares a file with the first ``seen`` records of ``context`` as they were drawn when it ended in ``head``."""

    def __init__(self, store: Store, context: int, head: int, seen: int) -> None:
        self._store = store
        self._context = context
        self._rows: Sequence[EventRow] = store.records.rows(head)[:seen] if head else ()

    def work_out(self, data: bytes) -> Rewrite | None:
        """Return the changes that ``data`` makes, None if there are none. Raises ParseError for impossible ones."""
        elements = [element for _row, _event, element in draw_elements(self._store, self._shown_rows())]
        if data == b"".join(events_json.document(elements)):
            return None
        shown = [
            DrawnElement(row.number, text, events_json.says_number(text))
            for row, text in zip(self._shown_rows(), map(events_json.text_of, elements), strict=True)
        ]
        matches = match(shown, split(data), len(self._rows))
        order = [one.number or self._added(matches, at) for at, one in enumerate(matches)]
        changes: dict[int, Replacement] = {one.number: DELETED for one in shown}
        for one in matches:
            changes.pop(one.number, None)
        texts = {one.number: one.text for one in shown}
        read = [one for one in matches if one.number and one.value is not None]
        rows = [self._rows[one.number - 1] for one in read]
        payloads = self._store.contents.payloads([row.turn for row in rows])
        times: dict[int, tuple[int, Match]] = {}
        for one, (row, event), (_turn, payload) in zip(read, self._store.viewer.events(rows), payloads, strict=True):
            if isinstance(event, ConvfsError):
                raise event
            if isinstance(payload, ConvfsError):
                raise payload
            drawn = texts.get(one.number)
            if drawn is None:
                drawn = next(events_json.text_of(element) for *_, element in draw_elements(self._store, [row]))
            edited = self._changed(one, row, event, payload, drawn)
            if edited is not None:
                changes[one.number] = edited
                if time_ms := self._new_time(row, payload, edited):
                    times[one.number] = (time_ms, one)
        self._check_times(times, order)
        return rewrite(self._store, self._rows, order, changes)

    def _shown_rows(self) -> list[EventRow]:
        return [row for row in self._rows if not row.deleted]

    def _changed(self, one: Match, row: EventRow, event: Event, payload: bytes, drawn: bytes) -> bytes | None:
        """Return the payload that a record is to have, which was drawn as ``drawn``; None where it stays as it is."""
        store = self._store
        contents = ElementContents(one.element, f"record {row.number}", self._store.addresses.content)
        lens = store.viewer.lens(store.turns.get(row.turn))
        before = Recorded(row.tool, row.parent, store.contents.aliased)

        def revised(new: object) -> bytes:
            return payload if same(old, new) else lens.revise(payload, old, new, before)

        was_raw, old = _taken_apart(events_json.parsed(drawn), event.native)
        is_raw, new = _taken_apart(one.value, event.native)
        try:
            if is_raw:
                edited = payload if was_raw and same(old, new) else contents.bytes_of(new)
            elif was_raw:
                new = contents.edited(new, None)
                edited = _settled(contents, new, lambda value: lens.written_out(value, None), lens, before)
            else:
                old = contents.drawn(old, event.native)
                new = contents.edited(new, old)
                edited = _settled(contents, new, revised, lens, before)
            check_intact(payload, edited)
        except ParseError:
            raise
        except UsageError as error:
            raise contents.error("", str(error)) from None
        _check(edited, lens, contents)
        return None if edited == payload and not row.deleted else edited

    def _new_time(self, row: EventRow, payload: bytes, edited: bytes) -> int:
        """Return the time that a record says now, 0 if that is what it said or none."""
        lens = self._store.viewer.lens(self._store.turns.get(row.turn))
        before = Recorded(row.tool, row.parent, self._store.contents.aliased)
        time_ms = lens.view(edited, before).time_ms
        return 0 if time_ms == lens.view(payload, before).time_ms else time_ms

    def _check_times(self, times: Mapping[int, tuple[int, Match]], order: Sequence[int | Append]) -> None:
        """Refuse times that are out of order among the records as they are to stand."""
        said = {row.number: row.time_ms for row in self._rows} if times else {}
        said |= {number: time_ms for number, (time_ms, _one) in times.items()}
        stand = [said.get(item, 0) if isinstance(item, int) else 0 for item in order]
        for place, item in enumerate(order, 1):
            if isinstance(item, int) and item in times:
                time_ms, one = times[item]
                if wrong := out_of_order(time_ms, place, len(stand), lambda at: stand[at - 1]):
                    contents = ElementContents(one.element, f"record {item}", self._store.addresses.content)
                    raise contents.error("", f"its time is out of order: {wrong}")

    def _added(self, matches: Sequence[Match], at: int) -> Append:
        """Return the record that an element without a number is to be: of the type of those around it."""
        one = matches[at]
        contents = ElementContents(one.element, "a new record", self._store.addresses.content)
        like, record = self._neighbour(matches, at)
        lens = lens_for(record.type_name, record.encoding)
        before = Recorded("", 0, self._store.contents.aliased)
        is_raw, value = _taken_apart(one.value, None)
        try:
            if is_raw:
                payload = contents.bytes_of(value)
            else:
                new = contents.edited(value, None)
                payload = _settled(contents, new, lambda value: lens.written_out(value, like), lens, before)
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
            name = store.library.conversation(self._context).format
            format_ = next((one for one in FORMATS if one.name == name), FORMATS[0])
            return None, Append(b"", format_.main_type)
        turn = store.turns.get(self._rows[number - 1].turn)
        record = record_like(store, turn, b"")
        for format_ in FORMATS:
            if record.type_name == format_.first_type:
                # there is one such record, and it is the first
                later = [self._rows[number - 1] for number in behind]
                like = store.contents.payload(later[0].turn) if later else None
                return like, Append(b"", format_.main_type)
        return store.contents.payload(turn.turn_id), record


def _settled(
    contents: ElementContents, value: object, make: Callable[[object], bytes], lens: Lens, before: Recorded
) -> bytes:
    """Return the record that says ``value``.

    An object such as ``{"text": "…"}`` may be the record's own. It is, where the record then shows something of it,
    unless that is some argument while the content in its place would be what is said; else it stands for its content.
    Whether content is held as text or in base64, the record shows.
    """

    def shown(payload: bytes) -> dict[ValuePath, Block]:
        return {block.path: block for block in lens.view(payload, before).blocks}

    blocks = shown(make(value)) if contents.unsure else {}
    for path in contents.unsure:
        own = [block for place, block in blocks.items() if begins(place, path)]
        if any(not block.name for block in own):
            continue
        said = shown(make(contents.with_text(value, path))).get(path) if own else None
        if not own or (said is not None and not said.name):
            value = contents.inline(value, path)
    payload = make(value)
    blocks = shown(payload)
    for path in contents.doubtful(blocks):
        other = contents.in_other_form(value, path)
        if contents.shown_as(path, shown(make(other))) > contents.shown_as(path, blocks):
            value, payload = other, make(other)
    contents.check(shown(payload))
    return payload


def _taken_apart(value: object, native: object) -> tuple[bool, object]:
    """Return whether an element stands for bytes that are no JSON, and its value without its number."""
    if not isinstance(value, dict):
        return False, value
    said = {key: item for key, item in value.items() if key != NUMBER_KEY}
    if said.keys() == {RAW_KEY}:
        return True, said[RAW_KEY]
    if said.keys() == {VALUE_KEY} and (not isinstance(native, dict) or NUMBER_KEY in native):
        return False, said[VALUE_KEY]
    return False, value if isinstance(native, dict) and NUMBER_KEY in native else said


def _check(payload: bytes, lens: Lens, contents: ElementContents) -> None:
    if lens.one_line and b"\n" in payload:
        raise contents.error(RAW_KEY, "a record is one line of its file: leave out the line breaks")
    if len(payload) > LARGEST_VIEWED:
        raise contents.error("", f"{len(payload)} bytes are too large for a record: {LARGEST_VIEWED} at most")

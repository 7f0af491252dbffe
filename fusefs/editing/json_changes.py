"""The changes that an edited ``events.json`` makes to the records of a conversation."""

import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from fusefs.editing.records import record_like
from fusefs.text import events_json
from fusefs.text.events_json_edit import NUMBER_KEY, DrawnElement, ElementContents, Found, Match, match, split
from fusefs.text.parse import ParseError
from fusefs.tree.view import draw_elements
from store.content.cuts import is_text
from store.conversations.chain import Recorded
from store.conversations.contexts import Append
from store.conversations.viewer import LARGEST_VIEWED
from store.editing.commit import Changed, Item
from store.errors import ConvfsError, UsageError
from store.events.conversation import EventRow
from store.events.event import DELETED, Event, Replacement
from store.formats.core.documents import same
from store.formats.core.editing import Lens, check_intact
from store.formats.core.json_view import decode
from store.formats.core.msgpack_view import decode as decode_msgpack
from store.formats.registry import FORMATS, lens_for
from store.ids import Hash, hash_bytes
from store.index.views import Run
from store.store import Store

_SHORTEST_BASE64 = 8


class ConversationContents:
    """Looks for content among all that a conversation has ever said, record by record, then in the store."""

    def __init__(self, store: Store, context: int, head: int) -> None:
        self._store = store
        self._context = context
        self._head = head
        self._present: dict[bytes, int] | None = None
        self._earlier: dict[bytes, int] | None = None

    def find(self, algorithm: str, digest: bytes) -> Found | None:
        """Return content by its digest, None where it is nowhere; the algorithm "" stands for BLAKE3, then SHA-256."""
        if algorithm != "sha256":
            if self._present is None:
                self._present = self._indexed(self._store.records.runs(self._head))
            if (found := self._held(self._present, digest) or self._in_store(digest)) is not None:
                return found
            if self._earlier is None:
                self._earlier = self._indexed(self._past())
            if (found := self._held(self._earlier, digest)) is not None:
                return found
        data = self._store.contents.aliased("sha256", digest) if algorithm != "blake3" else None
        return None if data is None else Found(data, encoded=not is_text(data))

    def _in_store(self, digest: bytes) -> Found | None:
        try:
            data = self._store.blobs.blob(Hash(digest))
        except ConvfsError:
            return None
        return Found(data, encoded=not is_text(data))

    def _past(self) -> Iterator[Run]:
        seen = [*self._store.records.runs(self._head)]
        for version in reversed(self._store.catalogue.versions(self._context)):
            for run in self._store.records.runs(version.head) if version.head else ():
                for part in _without(run, seen):
                    yield part
                    seen.append(part)

    def _indexed(self, runs: Iterable[Run]) -> dict[bytes, int]:
        turns = [turn for first, count in runs for turn in range(first, first + count)]
        return {
            digest: turn
            for turn, payload in self._store.contents.payloads(turns)
            if isinstance(payload, bytes)
            for digest, _content in _strings(payload)
        }

    def _held(self, turns: dict[bytes, int], digest: bytes) -> Found | None:
        turn = turns.get(digest)
        if turn is None:
            return None
        return next((found for named, found in _strings(self._store.contents.payload(turn)) if named == digest), None)


def _strings(payload: bytes) -> Iterator[tuple[bytes, Found]]:
    """Yield every string of a record, and then what those in base64 hold, each with its hash."""
    decoded = decode(payload) or decode_msgpack(payload)
    encoded: list[bytes] = []
    for text in _texts(decoded.value if decoded else None):
        try:
            data = text.encode()
        except UnicodeEncodeError:
            continue
        yield hash_bytes(data), Found(data, encoded=False)
        if (held := _from_base64(data)) is not None:
            encoded.append(held)
    yield from ((hash_bytes(held), Found(held, encoded=True)) for held in encoded)


def _without(run: Run, seen: Sequence[Run]) -> list[Run]:
    parts = [run]
    for first, count in seen:
        rest: list[Run] = []
        for start, length in parts:
            end, beyond = start + length, first + count
            if first < end and start < beyond:
                rest += [(start, first - start)] if start < first else []
                rest += [(beyond, end - beyond)] if beyond < end else []
            else:
                rest.append((start, length))
        parts = rest
    return parts


def _texts(value: object) -> Iterator[str]:
    pending = [value]
    while pending:
        match pending.pop():
            case str() as text:
                yield text
            case dict() as item:
                pending += item.values()
            case list() as item:
                pending += item


def _from_base64(data: bytes) -> bytes | None:
    if len(data) < _SHORTEST_BASE64 or len(data) % 4:
        return None
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except binascii.Error:
        return None


_RAW, _VALUE = "$raw", "$value"


class Rewrite(Struct, frozen=True):
    """Records that change, by number, and records to append; ``items``: the whole new conversation instead."""

    changes: dict[int, Replacement]
    added: tuple[Append, ...] = ()
    items: tuple[Item, ...] | None = None


class JsonChanges:
    """Compares a file with how the conversation ``context`` was drawn when it ended in turn ``head``."""

    def __init__(self, store: Store, context: int, head: int) -> None:
        self._store = store
        self._context = context
        self._contents = ConversationContents(store, context, head)
        self._rows: Sequence[EventRow] = store.records.rows(head) if head else ()

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
        return self._rewrite(order, changes)

    def _payloads(self, numbers: Iterable[int]) -> list[Hash]:
        return [self._store.turns.get(self._rows[number - 1].turn).payload_hash for number in numbers]

    def _shown_rows(self) -> list[EventRow]:
        return [row for row in self._rows if not row.deleted]

    def _rewrite(self, order: Sequence[int | Append], changes: dict[int, Replacement]) -> Rewrite | None:
        """Return the shortest way to bring records into an order; those that are not in it keep their place."""
        numbers = [item for item in order if isinstance(item, int)]
        added = tuple(item for item in order[len(numbers) :] if not isinstance(item, int))
        in_place = numbers == sorted(numbers) and len(numbers) + len(added) == len(order)
        if in_place and not (changes and added):
            return Rewrite(changes, added) if changes or added else None
        if not changes and len(numbers) == len(order) and self._payloads(numbers) == self._payloads(sorted(numbers)):
            # only records that are the same have changed their places
            return None
        present = set(numbers)
        items: list[Item] = []

        def place(number: int) -> None:
            # a record that is no longer shown keeps its place behind its predecessor
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

    def _changed(self, one: Match, row: EventRow, event: Event, payload: bytes, drawn: bytes) -> bytes | None:
        """Return the payload that a record is to have, which was drawn as ``drawn``; None where it stays as it is."""
        store = self._store
        contents = ElementContents(one.element, f"record {row.number}", self._contents.find)
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

    def _added(self, matches: Sequence[Match], at: int) -> Append:
        """Return the record that an element without a number is to be: of the type of those around it."""
        one = matches[at]
        contents = ElementContents(one.element, "a new record", self._contents.find)
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

    An object such as ``{"text": "…"}`` may be the record's own. It is, where the record then shows something of it;
    else it stands for its content.
    """
    payload = make(value)
    if contents.unsure:
        shown = [block.path for block in lens.view(payload, before).blocks]
        for path in contents.unsure:
            if not any(place[: len(path)] == path for place in shown):
                value = contents.inline(value, path)
        payload = make(value)
    return payload


def _taken_apart(value: object, native: object) -> tuple[bool, object]:
    """Return whether an element stands for bytes that are no JSON, and its value without its number."""
    if not isinstance(value, dict):
        return False, value
    said = {key: item for key, item in value.items() if key != NUMBER_KEY}
    if said.keys() == {_RAW}:
        return True, said[_RAW]
    if said.keys() == {_VALUE} and (not isinstance(native, dict) or NUMBER_KEY in native):
        return False, said[_VALUE]
    return False, value if isinstance(native, dict) and NUMBER_KEY in native else said


def _check(payload: bytes, lens: Lens, contents: ElementContents) -> None:
    if lens.one_line and b"\n" in payload:
        raise contents.error(_RAW, "a record is one line of its file: leave out the line breaks")
    if len(payload) > LARGEST_VIEWED:
        raise contents.error("", f"{len(payload)} bytes are too large for a record: {LARGEST_VIEWED} at most")

"""Blocks of an event added, taken out and put into another order: the same is done to what holds them in its record.

A block is held by an element of a list (a part of a message), by a member of a JSON document (a call's argument), or by
a text alone. An element goes with the last of its blocks, unless it is all that the event says: then it stays, empty.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import groupby
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from store.errors import UsageError
from store.events.event import Block, NewBlock, ValuePath
from store.formats.core import documents
from store.formats.core.blocks import Decode, document_in, document_of, stands_for, string_before, within
from store.formats.core.documents import on_one_line
from store.formats.core.json_spans import elements, locate, spelled_path
from store.formats.core.json_view import JsonObject, as_object, as_text, object_in, value_at, value_in
from store.formats.core.splices import joined, put, spell, with_members

_NEVER_EMPTY = frozenset(("tool_calls", "toolCalls"))
"""Lists that tools leave out rather than keep them empty."""


class Holder(Protocol):
    """A lens's answers on where its records hold blocks. A default left as it is means that they do so nowhere."""

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        """Return the element that holds a text, whose block is called ``name``, in the list at ``path``.

        A text at ``path`` may become such a list. None: no texts stand there. Raises UsageError where they do, but
        cannot be added.
        """
        return None

    def room(self, record: JsonObject) -> ValuePath | None:
        """Return the place for the content of a record that shows none; None: it has none."""
        return None

    def decoder(self, record: JsonObject, path: ValuePath) -> Decode | None:
        """Return the decoder for the string at ``path``, or for every one in the value there, when it is shown."""
        return None

    def mirrors(self, record: JsonObject) -> Iterable[tuple[ValuePath, ValuePath]]:
        """Yield the places of two values that stay the same where they are the same, the shown one first."""
        return ()

    def goes_along(self, record: JsonObject, path: ValuePath, at: int) -> Sequence[tuple[ValuePath, int]]:
        """Return the elements, each by its list and position, that repeat element ``at`` of the list at ``path``."""
        return ()


class Wanted(NamedTuple):
    """A block that an event is to have; ``old`` is its present position, or ``like`` that of the block it copies."""

    block: Block
    old: int = -1
    like: int = -1


def wanted_blocks(blocks: Sequence[Block], order: Sequence[int | NewBlock], texts: Mapping[int, str]) -> list[Wanted]:
    """Return the blocks that an event with ``blocks`` is to have; ``texts`` are new ones, by the old positions."""
    found: list[Wanted] = []
    for item in order:
        if isinstance(item, int):
            old = blocks[item]
            text = texts.get(item, old.text)
            found.append(Wanted(Block(old.type, text, old.data, old.name, old.uri, old.mime, old.path), item))
        elif item.text is None:
            found.append(Wanted(blocks[item.like], like=item.like))
        else:
            found.append(Wanted(Block(item.type, item.text, name=item.name)))
    return found


class _Document(NamedTuple):
    path: ValuePath
    name: str


def outline(blocks: Sequence[Block]) -> list[tuple[object, ...]]:
    """Return what blocks say, in their order, however JSON documents are spread over several of them."""
    return _outline(blocks, _documents(blocks), frozenset())


def _outline(
    blocks: Sequence[Block], documents_: Sequence[_Document | None], gone: Set[str]
) -> list[tuple[object, ...]]:
    said: list[tuple[object, ...]] = []
    for document, group in groupby(zip(documents_, blocks, strict=True), lambda pair: pair[0]):
        held = [block for _document, block in group]
        if document is None:
            said += ((block.type, block.text, block.data) for block in held)
        elif (value := _value(held, document, json.loads, gone)) not in ({}, None):
            said.append(("json", value))
    return said


class _Part(NamedTuple):
    """A new element of a list, as parsed JSON."""

    value: object


class _Copy(NamedTuple):
    """A new element of a list, with the bytes of another one."""

    at: int


class _Alone(NamedTuple):
    """A text where there is none."""

    text: str


_Token = int | _Part | _Copy | _Alone
"""An element that a list is to have: a number is the position of one that it has."""


def _documents(blocks: Sequence[Block]) -> list[_Document | None]:
    """Return the document that each block is a part of, None where it is part of none."""
    shown = {_Document(block.path, block.name) for block in blocks if block.type == "json"}

    def document(block: Block) -> _Document | None:
        if block.type == "json":
            return _Document(block.path, block.name)
        found = document_of(block, shown) if block.type == "text" else None
        return _Document(*found) if found else None

    return [document(block) for block in blocks]


def _value(
    blocks: Sequence[Block], document: _Document, parse: Callable[[str], object], gone: Set[str] = frozenset()
) -> object:
    """Return the document that blocks show: the JSON, with the texts that stand elsewhere in their places.

    The places of texts that are ``gone``, by the names of their blocks, are left out.
    """
    shown = next((block for block in blocks if block.type == "json"), None)
    texts = {block.name: block.text or "" for block in blocks if block.type == "text"}
    left = dict(texts)
    value = _filled(parse(shown.text or "") if shown is not None else {}, texts, left, gone)
    for name, text in left.items():
        if not isinstance(value, dict):
            raise UsageError(f"{name!r} has no place in the JSON {document.name!r}: write it into that")
        key = unquote(name.removeprefix(f"{document.name}."))
        if key in value:
            raise UsageError(f"{key!r} stands in the JSON {document.name!r} already: keep one of them")
        value[key] = text
    return value


def _filled(value: object, texts: Mapping[str, str], left: dict[str, str], gone: Set[str]) -> object:
    if name := stands_for(value):
        if name in texts:
            left.pop(name, None)
            return texts[name]
        return value
    if isinstance(value, dict):
        return {
            key: _filled(item, texts, left, gone) for key, item in value.items() if stands_for(item) not in gone
        }
    if isinstance(value, list):
        return [_filled(item, texts, left, gone) for item in value if stands_for(item) not in gone]
    return value


def _lists(path: ValuePath) -> list[tuple[ValuePath, int]]:
    """Return the elements of lists that a path leads through, the outermost first."""
    return [(path[:at], step) for at, step in enumerate(path) if isinstance(step, int)]


def _called(block: Block) -> str:
    return repr(block.name or block.uri or block.type)


def _put(payload: bytes, path: ValuePath, literal: bytes) -> bytes:
    """Return ``payload`` with a JSON value at ``path``, whether there is one or not."""
    record = object_in(payload)
    if (steps := string_before(record, path)) is not None:
        return within(payload, path[:steps], lambda text: _put(text, path[steps:], literal))
    holder = value_at(record, path[:-1])
    if path and isinstance(holder, dict) and path[-1] not in holder:
        return with_members(payload, path[:-1], frozenset(), {str(path[-1]): literal})
    return put(payload, path, literal)


class Arrangement:
    """A record whose event is to have the blocks ``wanted`` instead of ``blocks``.

    Raises UsageError for blocks that the record cannot hold; ``what`` it is, is said there.
    """

    def __init__(
        self, record: object, what: str, blocks: Sequence[Block], wanted: Sequence[Wanted], holder: Holder
    ) -> None:
        self._what = what
        self._record = record
        self._object = as_object(record)
        self._blocks = blocks
        self._wanted = wanted
        self._holder = holder
        self._documents = _documents(blocks)
        self._bases = [
            document.path if document else block.path for document, block in zip(self._documents, blocks, strict=True)
        ]
        self._kept = {one.old for one in wanted}
        gone = [block for at, block in enumerate(blocks) if at not in self._kept and self._documents[at]]
        self._gone = {block.name for block in gone if block.type == "text"}
        self._room = holder.room(self._object) if not blocks else None
        self._places = self._documents_wanted()
        self._dropped: dict[ValuePath, set[int]] = {}
        self._drop()
        self._anew = self._documents_written_anew()

    @property
    def outline(self) -> list[tuple[object, ...]]:
        """The event as it is to be, as :func:`outline` has it."""
        return _outline([one.block for one in self._wanted], self._places, self._gone)

    @property
    def rewritten(self) -> set[int]:
        """The positions of the blocks whose documents are written anew, with all their texts."""
        return {at for at, document in enumerate(self._documents) if document in self._anew}

    def made(self, payload: bytes) -> bytes:
        """Return ``payload``, in which other texts of blocks are edited already, with the blocks arranged."""
        for document in self._anew:
            payload = self._with_document(payload, document)
        for at, block in enumerate(self._blocks):
            base = self._bases[at]
            if at in self._kept or self._documents[at] or self._is_dropped(base):
                continue
            if block.text is None or not base:
                reason = f"follows from other parts of the {self._what}: it cannot be removed alone"
                raise UsageError(f"{_called(block)} {reason}")
            payload = _put(payload, base, b'""')
        tokens = self._tokens()
        for path in sorted({*tokens, *self._dropped}, key=len, reverse=True):
            if not self._is_dropped(path):
                payload = self._with_list(payload, path, tokens.get(path, []))
        for shown, other in self._holder.mirrors(self._object):
            if (was := value_at(self._record, shown)) is not None and was == value_at(self._record, other):
                payload = put(payload, other, payload[slice(*locate(payload, shown))])
        return payload

    # -- what is to be done ------------------------------------------------------------------------------------------

    def _documents_wanted(self) -> list[_Document | None]:
        """Return the document that each wanted block is to be a part of."""
        known = {document.name: document for document in self._documents if document}
        found = [
            self._documents[one.old] if one.old >= 0 else self._document_for(one.block, known) for one in self._wanted
        ]
        runs = [document for document, _group in groupby(found) if document]
        if len(runs) != len(set(runs)):
            raise UsageError("blocks of one JSON document stand together, as the record holds them: move all of them")
        for document, group in groupby(zip(found, self._wanted, strict=True), lambda pair: pair[0]):
            if document and "json" in [one.block.type for _document, one in group][1:]:
                raise UsageError(f"the JSON {document.name!r} stands once, before the texts that belong to it")
        return found

    def _document_for(self, block: Block, known: Mapping[str, _Document]) -> _Document | None:
        """Return the document for a new block, None where it is to be none's."""
        if block.type != "json" and "." not in block.name:
            return None
        name = block.name
        if block.type == "text":
            name = next((key for key in known if name.startswith(f"{key}.")), name.partition(".")[0])
        room = self._room
        if name not in known and (self._blocks or room is None or isinstance(value_at(self._record, room), list)):
            raise UsageError(f"the {self._what} holds no JSON {name!r}: a call more is an event of its own")
        return known.get(name) or _Document(room or (), name)

    def _documents_written_anew(self) -> list[_Document]:
        """Return the documents that are to have other blocks than now, or them in another order."""
        found: list[_Document] = []
        for document in dict.fromkeys([*self._documents, *self._places]):
            if document is None or self._is_dropped(document.path):
                continue
            old = [at for at, one in enumerate(self._documents) if one == document]
            new = [one.old for one, place in zip(self._wanted, self._places, strict=True) if place == document]
            found += [document] if old != new else []
        return found

    def _drop(self) -> None:
        """Work out which elements of lists go: those of which no block is left, the outermost first."""
        held: dict[tuple[ValuePath, int], list[int]] = {}
        for at, base in enumerate(self._bases):
            for element in _lists(base):
                held.setdefault(element, []).append(at)
        for (path, at), blocks in sorted(held.items(), key=lambda item: len(item[0][0])):
            if not self._kept.isdisjoint(blocks) or self._is_dropped(path):
                continue
            inner = any(other[: len(path) + 1] == (*path, at) for other, _at in held)
            if self._wanted or not (inner or any(self._documents[one] for one in blocks)):
                self._dropped.setdefault(path, set()).add(at)
                for along, position in self._holder.goes_along(self._object, path, at):
                    self._dropped.setdefault(along, set()).add(position)

    def _is_dropped(self, path: ValuePath) -> bool:
        return any(at in self._dropped.get(list_, ()) for list_, at in _lists(path))

    def _tokens(self) -> dict[ValuePath, list[_Token]]:
        """Return, for each list (or text that becomes one) with new elements, or another order of them, what it holds.

        Elements that show nothing are left out.
        """
        new = {
            at: self._place_for(at) for at, one in enumerate(self._wanted) if one.old < 0 and self._places[at] is None
        }
        found: dict[ValuePath, list[_Token]] = {}
        lists = {list_ for base in self._bases for list_, _at in _lists(base)}
        for path in lists | {list_ for list_, _token in new.values()}:
            order: list[_Token] = []
            for at, one in enumerate(self._wanted):
                if at in new:
                    order += [new[at][1]] if new[at][0] == path else []
                elif one.old >= 0 and (position := self._position(self._bases[one.old], path)) is not None:
                    order += [position] if position not in order else []
            numbers = [item for item in order if isinstance(item, int)]
            if len(numbers) != len(order) or numbers != sorted(numbers):
                found[path] = order
        return found

    def _position(self, base: ValuePath, path: ValuePath) -> int | None:
        """Return which element of the list at ``path`` something is in; a text that becomes one is its first."""
        if base == path:
            return 0 if isinstance(value_at(self._record, path), str) else None
        return next((at for list_, at in _lists(base) if list_ == path), None)

    def _place_for(self, at: int) -> tuple[ValuePath, _Token]:
        """Return the list, or the text that becomes one, for a new block, and the element that holds it there."""
        one = self._wanted[at]
        text = one.block.text
        if one.like >= 0:
            lists = _lists(self._bases[one.like])
            if not lists:
                reason = f"stands in no list of the {self._what}: it cannot be there twice"
                raise UsageError(f"{_called(one.block)} {reason}")
            return lists[-1][0], _Copy(lists[-1][1])
        if one.block.type != "text" or text is None:
            raise UsageError(f"a block of the type {one.block.type} cannot be added by hand: add it in events.json")
        for other in (*reversed(self._wanted[:at]), *self._wanted[at + 1 :]):
            base = self._bases[other.old] if other.old >= 0 else ()
            for path in (base, *(list_ for list_, _at in reversed(_lists(base)))) if base else ():
                if (part := self._holder.part(self._object, path, one.block.name, text)) is not None:
                    return path, _Part(part)
        room = self._room
        if room is None:
            reason = "has no list for another text: make it part of one, or an event of its own"
            raise UsageError(f"the {self._what} {reason}")
        part = self._holder.part(self._object, room, one.block.name, text)
        if part is not None and (len(self._wanted) > 1 or isinstance(value_at(self._record, room), list)):
            return room, _Part(part)
        if len(self._wanted) > 1:
            raise UsageError(f"the {self._what} has no list for several texts: make them one")
        return room, _Alone(text)

    # -- doing it ----------------------------------------------------------------------------------------------------

    def _with_document(self, payload: bytes, document: _Document) -> bytes:
        old = [block for block, one in zip(self._blocks, self._documents, strict=True) if one == document]
        new = [one.block for one, place in zip(self._wanted, self._places, strict=True) if place == document]
        before, after = _value(old, document, documents.parse), _value(new, document, documents.parse, self._gone)
        path = document.path
        if (steps := string_before(self._record, path)) is not None:
            return within(payload, path[:steps], lambda text: documents.carried(text, path[steps:], before, after))
        held = value_at(self._record, path)
        if isinstance(held, str):
            if document_in(held) is not None:
                return within(payload, path, lambda text: documents.carried(text, (), before, after))
            if held.strip():
                raise UsageError(f"{spelled_path(path)} is a text in the record, and no JSON: edit it as that")
            return put(payload, path, spell(on_one_line(after, payload).decode(), payload))
        if held is None:
            return _put(payload, path, on_one_line(after, payload))
        return documents.carried(payload, path, before, after, {}, self._holder.decoder(self._object, path))

    def _with_list(self, payload: bytes, path: ValuePath, order: Sequence[_Token]) -> bytes:
        steps = string_before(self._record, path)
        is_listed = any(list_ == path for base in self._bases for list_, _at in _lists(base))
        if is_listed and isinstance(value_at(self._record, path), str):
            steps = len(path)
        if steps is not None:
            return within(payload, path[:steps], lambda text: self._listed(text, path[steps:], path, order))
        return self._listed(payload, path, path, order)

    def _listed(self, payload: bytes, place: ValuePath, path: ValuePath, order: Sequence[_Token]) -> bytes:
        """Return a document with other elements in the list at ``place``, which is ``path`` of the record."""
        if not isinstance(value_in(payload, place), list):
            return self._as_list(payload, place, path, order)
        start, end = locate(payload, place)
        spans = list(elements(payload, start))
        gone = self._dropped.get(path, set())
        if len(gone) == len(spans) and not order and path[-1:] and path[-1] in _NEVER_EMPTY:
            return with_members(payload, place[:-1], {str(path[-1])}, {})
        pieces: list[bytes] = []
        for item in _with_silent(order, len(spans)):
            match item:
                case int():
                    pieces += [payload[slice(*spans[item])]] if item not in gone else []
                case _Copy(at):
                    pieces.append(payload[slice(*spans[at])])
                case _Part(value):
                    pieces.append(on_one_line(_numbered(value), payload))
        return payload[:start] + joined(payload, (start, end), spans, pieces) + payload[end:]

    def _as_list(self, payload: bytes, place: ValuePath, path: ValuePath, order: Sequence[_Token]) -> bytes:
        """Return a document in which a text, or nothing, has become a list of parts; a text alone stays a text."""
        parts: list[object] = []
        for item in order:
            if isinstance(item, _Alone):
                return _put(payload, place, spell(item.text, payload))
            if isinstance(item, _Part):
                parts.append(_numbered(item.value))
            else:
                text = as_text(value_in(payload, place))
                parts.append(_numbered(self._holder.part(self._object, path, "", text)))
        return _put(payload, place, on_one_line(parts, payload))


def _with_silent(order: Sequence[_Token], count: int) -> list[_Token]:
    """Return the order of ``count`` elements; those that it leaves out follow the one that they follow now."""
    result = list(order)
    if not order:
        return list(range(count))
    for at in range(count):
        if at not in order:
            result.insert(result.index(at - 1) + 1 if at else 0, at)
    return result


def _numbered(value: object) -> object:
    """Return parsed JSON with its numbers as documents have them."""
    return documents.parse(json.dumps(value, ensure_ascii=False))

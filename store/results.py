"""Results that are JSON in a text (reports of agents, fetched pages), shown as the JSON that they are.

A string that JSON has to escape becomes a text block, as those of arguments do, so that text is text, one line a line.
Only what is drawn is drawn so: a lens shows the text as its record holds it, and programs that read it get that.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import is_

from msgspec.structs import replace

from store.errors import UsageError
from store.events.event import Block, BlockEdit, Event, EventEdit, Kind, NewBlock
from store.formats.core import documents
from store.formats.core.blocks import argument_blocks, document_in, numbered
from store.formats.core.editing import begins
from store.formats.core.json_spans import locate
from store.formats.core.splices import put, spell

of_call = re.compile(r"(?:call(\d+)\.)?(?:error|output|result)(?=$|[.\[])").match
"""Matches the names of results, where one record holds both the call and its result."""

_WITH_RESULTS = frozenset((Kind.TOOL_CALL, Kind.TOOL_RESULT))
_unnamed = re.compile(r"(?:result\d+)?").fullmatch
_BLANKS = " \t\r\n"
_may_be_document = re.compile(rf"[{_BLANKS}]*[\[{{]").match


def with_documents(event: Event) -> Event:
    """Return an event as it is drawn: with the blocks of the documents in the texts of its results."""
    if event.kind not in _WITH_RESULTS:
        return event
    if not any(block.text and _may_be_document(block.text) for block in event.blocks):
        # as with most
        return event
    blocks = tuple(drawn_blocks(event.kind, event.blocks))
    is_same = len(blocks) == len(event.blocks) and all(map(is_, blocks, event.blocks))
    return event if is_same else replace(event, blocks=blocks)


def drawn_blocks(kind: Kind, blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks of an event of this kind as they are drawn."""
    for block in blocks:
        parts = _parts(kind, block)
        if parts:
            yield from drawn_blocks(kind, parts)
        else:
            yield block


def may_be_document(text: str) -> bool:
    """Return whether a text begins as a JSON object or list does."""
    return _may_be_document(text) is not None


def _parts(kind: Kind, block: Block) -> tuple[Block, ...]:
    """Return the blocks of the document that a text is; () where it is none, or none with a text to be shown."""
    text = block.text
    if kind not in _WITH_RESULTS or (kind is Kind.TOOL_CALL and not of_call(block.name)):
        return ()
    if text is None or block.type != "text" or not block.path or block.uri or not _may_be_document(text):
        return ()
    document = document_in(text.lstrip(_BLANKS))
    if document is None:
        return ()
    name = numbered(block.name or "result", block.path) if _unnamed(block.name) else block.name
    parts = argument_blocks(document, block.path, name)
    return parts if any(part.type == "text" for part in parts) else ()


def to_texts(event: Event, edit: EventEdit) -> EventEdit:
    """Return an edit of what :func:`with_documents` shows as one of the event itself.

    All other bytes of its texts stay as they are. Raises UsageError for a change that cannot be expressed there.
    """
    edits = list(edit.blocks)
    for block in event.blocks:
        inside = [change for change in edits if begins(change.path, block.path)] if _parts(event.kind, block) else []
        if inside and not _is_of(inside[0], block):
            at = edits.index(inside[0])
            edits = [change for change in edits if change not in inside]
            text = _edited(event.kind, block, inside)
            edits.insert(at, BlockEdit(block.path, text, block.name, "text", block.encoding))
    return replace(edit, blocks=tuple(edits), order=edit.order and _whole(event, edit.order))


def _whole(event: Event, order: Sequence[int | NewBlock]) -> tuple[int | NewBlock, ...]:
    """Return an order of the blocks that are shown as one of the event's own, each of which stays whole."""
    owners: list[int] = []
    for number, block in enumerate(event.blocks):
        owners += [number] * len(_parts(event.kind, block) or (block,))
    found: list[int | NewBlock] = []
    at = 0
    while at < len(order):
        if isinstance(one := order[at], NewBlock):
            found.append(one)
            at += 1
            continue
        parts = [place for place, owner in enumerate(owners) if owner == owners[one]]
        if [*order[at : at + len(parts)]] != parts:
            raise UsageError("this block is a part of a result that is JSON: change the JSON, or write all of it")
        found.append(owners[one])
        at += len(parts)
    return tuple(found)


def _is_of(change: BlockEdit, block: Block) -> bool:
    return (change.path, change.type) == (block.path, block.type)


def _edited(kind: Kind, block: Block, changes: Iterable[BlockEdit]) -> str:
    """Return the text of a block that is a document, with changes of the blocks that it is drawn as."""
    text = (block.text or "").encode()
    parts = _parts(kind, block)
    places = {part.path: part.path[len(block.path) :] for part in parts if part.type == "text"}
    for part in parts:
        place = places.get(part.path)
        own = [change for change in changes if begins(change.path, part.path)] if place else []
        if place and own:
            new = own[0].text if _is_of(own[0], part) else _edited(kind, part, own)
            start, end = locate(text, place)
            text = put(text, place, spell(new, text, text[start:end]))
    # last, because it may move the others
    for part, change in ((part, change) for part in parts for change in changes if part.type == "json"):
        if _is_of(change, part):
            lifted = {other.name: places[other.path] for other in parts if other.type == "text"}
            before, after = documents.parse(part.text or ""), documents.parse(change.text)
            text = documents.carried(text, (), before, after, lifted)
    return text.decode()

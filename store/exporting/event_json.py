"""Events as JSON objects, every content in its place: for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from store.conversations.viewer import LARGEST_VIEWED
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow
from store.events.event import Block, Event, Kind
from store.exporting.dialogue import DAMAGED, TOO_LARGE
from store.formats.core.times import iso
from store.store import Store

if TYPE_CHECKING:
    from store.exporting.target import ExportJob

_Shown = tuple[EventRow, Event | ConvfsError]


_HEAD = ("id", "name", "project", "title", "format", "source", "events")


def json_file(job: ExportJob) -> Iterator[bytes]:
    """Yield the pieces of one object with all events, as ``convfs show --json`` prints it; times are ISO 8601."""
    told = job.conversation
    head = {key: getattr(told, key) for key in _HEAD}
    head |= {"created": iso(told.created_ms), "updated": iso(told.updated_ms), "labels": told.labels}
    return map(str.encode, document(head, told_events(job)))


def json_lines(job: ExportJob) -> Iterator[bytes]:
    """Yield one line an event, each an object as in :func:`json_file`."""
    return (f"{encoded(event_object(row, event))}\n".encode() for row, event in told_events(job))


def shown_events(store: Store, conversation: Conversation, first: int = 1, last: int = 0) -> Iterator[_Shown]:
    """Yield the events of a conversation that have a file in ``events/``, and an error for each unreadable one.

    Only those numbered from ``first`` to ``last`` (0: to the end).
    """
    return store.viewer.events(shown_rows(store, conversation, first, last))


def shown_rows(store: Store, conversation: Conversation, first: int = 1, last: int = 0) -> list[EventRow]:
    """Return the rows of these events."""
    rows = store.records.rows(conversation.head) if conversation.head else ()
    return [row for row in rows[first - 1 : last or None] if row.kind is not Kind.RECORD]


def told_events(job: ExportJob) -> Iterator[_Shown]:
    """Yield the same for a conversation being exported, and record what they leave out as lost."""
    for row, event in shown_events(job.store, job.conversation, job.first, job.last):
        if isinstance(event, ConvfsError):
            job.losses.add(DAMAGED, row.number)
        elif row.payload_size > LARGEST_VIEWED:
            job.losses.add(TOO_LARGE, row.number)
        yield (row, event) if job.change is None or isinstance(event, ConvfsError) else job.change(row, event)


def document(head: object, events: Iterable[_Shown]) -> Iterator[str]:
    """Yield the pieces of one JSON object: the members of ``head``, and ``events``."""
    opening = msgspec.json.encode(head).decode().removesuffix("}") + ',"events":['
    return listed(opening, (event_object(row, event) for row, event in events))


def listed(opening: str, values: Iterable[object]) -> Iterator[str]:
    """Yield the pieces of a JSON object: its ``opening``, up to the list that it ends in, and that list's values."""
    yield opening
    separator = "\n"
    for value in values:
        yield separator + encoded(value)
        separator = ",\n"
    yield "\n]}\n"


def event_object(row: EventRow, event: Event | ConvfsError) -> dict[str, object]:
    """Return an event: ``event`` (its number), ``kind``, ``tool``, ``timestamp``, ``header``, ``blocks``."""
    head: dict[str, object] = {"event": row.number, "kind": row.kind.name.lower()}
    if isinstance(event, ConvfsError):
        return head | {"error": str(event)}
    if event.tool:
        head["tool"] = event.tool
    if event.time_ms:
        head["timestamp"] = iso(event.time_ms)
    head["header"] = event.header
    head["blocks"] = [block_object(block) for block in event.blocks]
    return head


def encoded(value: object) -> str:
    """Return a value as JSON on one line; bytes are base64, halves of surrogate pairs U+FFFD."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; JSON can spell it, but no reader of ours need see it.
        whole = with_strings(value, lambda text: text.encode("utf-8", "replace").decode(), keys=True)
        return msgspec.json.encode(whole).decode()


def block_object(block: Block) -> dict[str, object]:
    """Return a block as a JSON object: its type and what else it has; bytes under ``data``, text under ``text``."""
    fields: dict[str, object] = {"type": block.type, "name": block.name, "uri": block.uri, "mime": block.mime}
    shown = {key: value for key, value in fields.items() if value}
    return shown | ({"text": block.text} if block.data is None else {"data": block.data})


def with_strings(value: object, change: Callable[[str], str], *, keys: bool = False) -> object:
    """Return a JSON value with every string changed, those that are ``keys`` only if asked to."""
    match value:
        case str():
            return change(value)
        case dict():
            return {change(key) if keys else key: with_strings(item, change, keys=keys) for key, item in value.items()}
        case list():
            return [with_strings(item, change, keys=keys) for item in value]
        case _:
            return value

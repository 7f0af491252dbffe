"""Events as JSON objects, every content in its place: for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from store.conversations.viewer import LARGEST_VIEWED
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow
from store.events.event import Block, Event, Kind
from store.exporting.losses import DAMAGED, TOO_LARGE
from store.exporting.naming import file_name
from store.exporting.target import Job, Target
from store.formats.times import iso
from store.store import Store

_Shown = tuple[EventRow, Event | ConvfsError]


class _Head(Struct, frozen=True):
    """What is said of a conversation before its events; times are ISO 8601 in UTC."""

    id: int
    name: str
    project: str
    title: str
    format: str
    source: str
    events: int
    created: str
    updated: str
    labels: list[str]


class Json(Target):
    """One object with all events, as ``convfs show --json`` prints it."""

    name = "json"

    def write(self, job: Job) -> None:
        """Write one file."""
        events = told_events(job)
        pieces = document(_head(job.conversation), events)
        job.stage.write(file_name(job.conversation, ".json"), (piece.encode() for piece in pieces))


class JsonLines(Target):
    """One line an event, each an object as in :class:`Json`."""

    name = "jsonl"

    def write(self, job: Job) -> None:
        """Write one file."""
        events = told_events(job)
        lines = (encoded(event_object(row, event)) + "\n" for row, event in events)
        job.stage.write(file_name(job.conversation, ".jsonl"), (line.encode() for line in lines))


def shown_events(store: Store, conversation: Conversation) -> Iterator[_Shown]:
    """Yield the events of a conversation that have a file in ``events/``, an error for what cannot be read."""
    rows = store.rows(conversation.head) if conversation.head else ()
    return store.events([row for row in rows if row.kind is not Kind.RECORD])


def told_events(job: Job) -> Iterator[_Shown]:
    """Yield the same of a conversation on its way out; what they do not say is noted as lost."""
    for row, event in shown_events(job.store, job.conversation):
        if isinstance(event, ConvfsError):
            job.losses.add(DAMAGED, row.number)
        elif row.payload_size > LARGEST_VIEWED:
            job.losses.add(TOO_LARGE, row.number)
        yield row, event


def document(head: Struct, events: Iterable[_Shown]) -> Iterator[str]:
    """Yield the pieces of one JSON object: the members of ``head``, and ``events``."""
    yield msgspec.json.encode(head).decode().removesuffix("}") + ',"events":['
    separator = "\n"
    for row, event in events:
        yield separator + encoded(event_object(row, event))
        separator = ",\n"
    yield "\n]}\n"


def event_object(row: EventRow, event: Event | ConvfsError) -> dict[str, object]:
    """Return what an event says: ``event`` (its number), ``kind``, ``tool``, ``timestamp``, ``header``, ``blocks``."""
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
        return msgspec.json.encode(_without_surrogates(value)).decode()


def _head(conversation: Conversation) -> _Head:
    return _Head(
        conversation.id,
        conversation.name,
        conversation.project,
        conversation.title,
        conversation.format,
        conversation.source,
        conversation.events,
        iso(conversation.created_ms),
        iso(conversation.updated_ms),
        conversation.labels,
    )


def block_object(block: Block) -> dict[str, object]:
    fields: dict[str, object] = {"type": block.type, "name": block.name, "uri": block.uri, "mime": block.mime}
    shown = {key: value for key, value in fields.items() if value}
    return shown | ({"text": block.text} if block.data is None else {"data": block.data})


def _without_surrogates(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
        case list():
            return [_without_surrogates(item) for item in value]
        case _:
            return value

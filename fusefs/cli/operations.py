"""The operations that render conversations, beside those that need no more than the store."""

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from fusefs.text import names, transcript
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow
from store.events.event import Block, Event, Kind
from store.service.history import HISTORY
from store.service.operation import Holder, Nothing, Operation
from store.service.operations import OPERATIONS, iso, line_of

_CHUNK = 64 << 10


class ShowParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``as_json``: one JSON object instead of the transcript."""

    id: int
    as_json: bool = False


def _show(holder: Holder, params: ShowParams, emit: Callable[[str], None]) -> Nothing:
    conversation = holder.store.conversation(params.id)
    pieces: list[str] = []
    waiting = 0
    for piece in _as_json(holder, conversation) if params.as_json else _as_text(holder, conversation):
        pieces.append(piece)
        waiting += len(piece)
        if waiting >= _CHUNK:
            emit("".join(pieces))
            pieces, waiting = [], 0
    emit("".join(pieces))
    return Nothing()


def _events(holder: Holder, conversation: Conversation) -> Iterator[tuple[EventRow, Event | ConvfsError]]:
    rows = holder.store.rows(conversation.head) if conversation.head else ()
    return holder.store.events([row for row in rows if row.kind is not Kind.RECORD])


def _as_text(holder: Holder, conversation: Conversation) -> Iterator[str]:
    yield transcript.head(conversation).decode("utf-8", "replace")
    for row, event in _events(holder, conversation):
        if isinstance(event, ConvfsError):
            yield f"\n## {row.number} · {names.kind_word(row.kind)}\n\n[cannot be read: {event}]\n"
        else:
            yield transcript.section(row.number, event).decode("utf-8", "replace")


def _as_json(holder: Holder, conversation: Conversation) -> Iterator[str]:
    head = msgspec.json.encode(line_of(holder, conversation)).decode()
    yield head.removesuffix("}") + ',"events":['
    separator = "\n"
    for row, event in _events(holder, conversation):
        yield separator + _json(_event_object(row, event))
        separator = ",\n"
    yield "\n]}\n"


def _event_object(row: EventRow, event: Event | ConvfsError) -> dict[str, object]:
    head: dict[str, object] = {"event": row.number, "kind": row.kind.name.lower()}
    if isinstance(event, ConvfsError):
        return head | {"error": str(event)}
    if event.tool:
        head["tool"] = event.tool
    if event.time_ms:
        head["timestamp"] = iso(event.time_ms)
    head["header"] = event.header
    head["blocks"] = [_block_object(block) for block in event.blocks]
    return head


def _block_object(block: Block) -> dict[str, object]:
    fields: dict[str, object] = {"type": block.type, "name": block.name, "uri": block.uri, "mime": block.mime}
    shown = {key: value for key, value in fields.items() if value}
    # Bytes become base64 in JSON.
    return shown | ({"text": block.text} if block.data is None else {"data": block.data})


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; JSON can spell it, but no reader of ours need see it.
        return msgspec.json.encode(_without_surrogates(value)).decode()


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


SHOW = Operation(263, ShowParams, str, Nothing, _show)

ALL_OPERATIONS = (*OPERATIONS, *HISTORY, SHOW)

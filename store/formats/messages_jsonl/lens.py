"""A line of a conversation as an event: a message whose content stands in it, or beside it under an id."""

import json

from store.errors import UsageError
from store.events.event import Block, Event, Kind, Path, Resource
from store.formats.chat_messages import ROLES, message
from store.formats.composing import check_said
from store.formats.editing import EditableLens, Place
from store.formats.json_spans import locate
from store.formats.json_view import JsonObject, as_object, as_text, decode, is_object
from store.formats.lens import Before
from store.formats.media import sniffed
from store.formats.messages_jsonl.contents import ALGORITHM, digest_of, named_contents
from store.formats.new_literals import spell
from store.formats.new_records import new_record
from store.formats.shown import Shown
from store.formats.splices import with_members
from store.formats.times import milliseconds
from store.formats.unknown import as_it_is

_REFERENCE = "content_id"
_COMPOSED = {Kind.ASSISTANT: "assistant", Kind.SYSTEM: "supervisor", Kind.USER: "user"}


class MessageLineLens(EditableLens):
    """Sees messages; a supervisor is the system."""

    type_name = "messages-jsonl.line.v1"
    one_line = True

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the message of a line; a line that is no object is a note with its text."""
        decoded = decode(payload)
        if decoded is None or not is_object(decoded.value):
            return as_it_is(payload)
        line = decoded.value
        seen = _with_contents(line, before) if named_contents(line) else message(line, before)
        return seen.event(line, milliseconds(line.get("timestamp")), lossy=decoded.lossy)

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a line holds field ``key``."""
        return Place(("timestamp",)) if key == "timestamp" else None

    def written(self, payload: bytes, path: Path, text: str) -> bytes:
        """Return ``payload`` with ``text`` in the place of the id of content."""
        start, end = locate(payload, path)
        part = as_object(decoded.value) if (decoded := decode(payload[start:end])) else {}
        if _REFERENCE not in part:
            raise UsageError("this content is no text in the record: it cannot be changed here")
        return with_members(payload, path, frozenset((_REFERENCE,)), {"text": spell(text, payload)})

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a message in the layout of ``previous``: its content a list, one object, or a text."""
        check_said(text, kind, _COMPOSED)
        decoded = decode(previous) if previous else None
        like = as_object(decoded.value).get("content") if decoded else None
        part = {"type": "text", "text": text}
        content: object = text if isinstance(like, str) else part if isinstance(like, dict) else [part]
        line: JsonObject = {"role": _COMPOSED[kind], "content": content}
        return new_record(line, previous) if previous else json.dumps(line, ensure_ascii=False).encode()


def _with_contents(line: JsonObject, before: Before) -> Shown:
    """View a message, some of whose content is beside it."""
    content = line.get("content")
    listed = content if isinstance(content, list) else [content]
    blocks: list[Block] = []
    resources: list[Resource] = []
    for at, item in enumerate(listed):
        part = as_object(item)
        path: Path = ("content", at) if isinstance(content, list) else ("content",)
        identifier = as_text(part.get(_REFERENCE))
        if identifier in named_contents(line):
            _add(identifier, as_text(part.get("type")), path, before, blocks, resources)
            continue
        plain = message({"role": "user", "content": [item]}, before)
        for block in plain.blocks:
            blocks.append(_moved(block, path))
    kind = ROLES.get(as_text(line.get("role")), Kind.NOTE)
    return Shown(kind, tuple(blocks), resources=tuple(resources))


def _add(
    identifier: str, what: str, path: Path, before: Before, blocks: list[Block], resources: list[Resource]
) -> None:
    data = before.blob(ALGORITHM, digest_of(identifier))
    if data is None:
        told = identifier if identifier.isprintable() else repr(identifier)
        blocks.append(Block("text", f"[content {told[:100]}: not in the store]"))
        return
    uri = f"content:{identifier}"
    if what != "image" and b"\0" not in data:
        try:
            blocks.append(Block("text", data.decode(), path=path))
            return
        except UnicodeDecodeError:
            pass
    mime = sniffed(data)
    blocks.append(Block("image" if what == "image" else "resource", data=data, uri=uri, mime=mime))
    resources.append(Resource(uri, mime, data))


def _moved(block: Block, path: Path) -> Block:
    """Return a block of a content with a single part as that of the part at ``path``."""
    place = (*path, *block.path[2:])
    return Block(block.type, block.text, block.data, block.name, block.uri, block.mime, place, block.encoding)

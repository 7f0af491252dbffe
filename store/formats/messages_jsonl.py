"""Conversations as lines of messages whose content may lie beside them, by id.

``conversations/ID/messages.jsonl``, content beside that in ``content/ID/data``. A line is ``{"role": "user", "content":
[{"type": "text", "text": …}, {"type": "image", "content_id": …}]}``; a content of one part may stand without the list.
An id is whatever the tool made of it, ``sha256:<hex>`` or a uuid: nothing is concluded from it.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from msgspec import structs

from store.errors import DamageError, NotFound, UsageError
from store.events.event import Block, Kind, ValuePath
from store.formats.core.chat_messages import ROLES, first_request, message
from store.formats.core.documents import new_record
from store.formats.core.editing import JsonLens
from store.formats.core.format import About, ExternalBlob, Format, Source, first_line
from store.formats.core.json_spans import locate
from store.formats.core.json_view import JsonObject, as_object, as_text, decode, is_object, object_in
from store.formats.core.lens import Before, Gathered, Places, Shown, is_utf8
from store.formats.core.look import Look, open_regular
from store.formats.core.media import sniffed
from store.formats.core.splices import check_said, spell, with_members

ALGORITHM = "content-id"
_LARGEST = 256 * 1024 * 1024
"""The most bytes that content may have."""
_LONGEST_ID = 255


def _named_contents(message: object) -> list[str]:
    """Return the ids that a message names, each once."""
    content = as_object(message).get("content")
    parts = content if isinstance(content, list) else [content]
    ids = (as_text(as_object(part).get("content_id")) for part in parts)
    return [identifier for identifier in dict.fromkeys(ids) if 0 < len(_digest_of(identifier)) <= _LONGEST_ID]


def _digest_of(identifier: str) -> bytes:
    return identifier.encode("utf-8", "replace")


def _read_content(folder: Path, identifier: str) -> bytes:
    """Return the content named ``identifier``: of the conversation in ``folder``, or shared by those around it.

    Raises NotFound where there is none, DamageError where it cannot be read or is too large.
    """
    bare = identifier.rpartition(":")[2]
    for around in (folder, *folder.parents[:2]):
        for name in dict.fromkeys((identifier, bare)):
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                continue
            try:
                with open_regular(around / "content" / name / "data") as file:
                    content = file.read(_LARGEST + 1)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                told = f"content {identifier} of {folder} cannot be read: {error.strerror}"
                raise DamageError(f"{told}; restore it or drop the reference") from error
            if len(content) > _LARGEST:
                raise DamageError(f"content {identifier} of {folder} has more than {_LARGEST} bytes; it is not read")
            return content
    raise NotFound(f"there is no content {identifier} beside {folder}; the conversation refers to it")


_REFERENCE = "content_id"
_COMPOSED = {Kind.ASSISTANT: "assistant", Kind.SYSTEM: "supervisor", Kind.USER: "user"}


class MessageLineLens(JsonLens):
    """Sees messages; a supervisor is the system."""

    type_name = "messages-jsonl.line.v1"
    one_line = True
    places: ClassVar[Places] = {"timestamp": ("timestamp",)}

    def shown(self, record: JsonObject, before: Before) -> Shown:
        return _with_contents(record, before) if _named_contents(record) else message(record, before)

    def written(self, payload: bytes, path: ValuePath, text: str) -> bytes:
        start, end = locate(payload, path)
        if _REFERENCE not in object_in(payload[start:end]):
            raise UsageError("this content is no text in the record: it cannot be changed here")
        return with_members(payload, path, frozenset((_REFERENCE,)), {"text": spell(text, payload)})

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        check_said(text, kind, _COMPOSED)
        like = object_in(previous).get("content")
        part = {"type": "text", "text": text}
        content: object = text if isinstance(like, str) else part if isinstance(like, dict) else [part]
        line: JsonObject = {"role": _COMPOSED[kind], "content": content}
        return new_record(line, previous) if previous else json.dumps(line, ensure_ascii=False).encode()


def _with_contents(line: JsonObject, before: Before) -> Shown:
    content = line.get("content")
    listed = content if isinstance(content, list) else [content]
    into = Gathered()
    for at, item in enumerate(listed):
        part = as_object(item)
        path: ValuePath = ("content", at) if isinstance(content, list) else ("content",)
        identifier = as_text(part.get(_REFERENCE))
        if identifier in _named_contents(line):
            _add(identifier, as_text(part.get("type")), path, before, into)
            continue
        plain = message({"role": "user", "content": [item]}, before)
        # as a content with a single part has them
        into.blocks += (structs.replace(block, path=(*path, *block.path[2:])) for block in plain.blocks)
    return into.shown(ROLES.get(as_text(line.get("role")), Kind.NOTE))


def _add(identifier: str, what: str, path: ValuePath, before: Before, into: Gathered) -> None:
    data = before.blob(ALGORITHM, _digest_of(identifier))
    if data is None:
        told = identifier if identifier.isprintable() else repr(identifier)
        into.blocks.append(Block("text", f"[content {told[:100]}: not in the store]"))
        return
    if what != "image" and b"\0" not in data and is_utf8(data):
        into.blocks.append(Block("text", data.decode(), path=path))
        return
    into.attach(data, f"content:{identifier}", sniffed(data), shape="image" if what == "image" else "resource")


_ROLES = frozenset(("assistant", "supervisor", "system", "user"))
_USUAL = frozenset(("role", "content", "id", "name", "timestamp", "created", "created_at", "model", "metadata"))
_FILE = "messages.jsonl"
_LOOKED_AT = 20


class MessagesJsonl(Format):
    """Lines of messages, as tools write them that keep content by id."""

    name = "messages-jsonl"
    lenses = (MessageLineLens(),)
    main_type = MessageLineLens.type_name

    def claim(self, look: Look) -> Source | None:
        head = look.head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
        if not head.startswith(b"{"):
            return None
        found = look.objects(_LOOKED_AT)
        if not found or not all(map(_is_line, found)):
            return None
        return Source(self.name, look.path, look.path)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        folder = source.path.parent
        in_place = source.path.name == _FILE
        return About(
            title=first_line(first_request(records)),
            project=folder.parent.parent.name if in_place and folder.parent.name == "conversations" else "",
            session_id=folder.name if in_place else source.path.stem,
        )

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        if b'"content_id"' in payload and (decoded := decode(payload)) is not None:
            for identifier in _named_contents(decoded.value):
                read = partial(_read_content, source.path.parent, identifier)
                yield ExternalBlob(ALGORITHM, _digest_of(identifier), read)


def _is_line(line: object) -> bool:
    if not is_object(line) or not line.keys() <= _USUAL or as_text(line.get("role")) not in _ROLES:
        return False
    content = line.get("content")
    parts = content if isinstance(content, list) else [content]
    return all(isinstance(part, str) or _is_part(part) for part in parts)


def _is_part(part: object) -> bool:
    return is_object(part) and isinstance(part.get("type"), str) and bool({"text", "content_id"} & part.keys())

"""Conversations as lines of messages whose content may lie beside them, by id.

``conversations/ID/messages.jsonl``, content beside that in ``content/ID/data``. A line is ``{"role": "user", "content":
[{"type": "text", "text": …}, {"type": "image", "content_id": …}]}``; a content of one part may stand without the list.
An id is whatever the tool made of it, ``sha256:<hex>`` or a uuid: nothing is concluded from it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from store.errors import DamageError, NotFound
from store.events.event import Block, Kind, ValuePath, utf8
from store.formats.core.chat_messages import ROLES, ChatLens, first_request, gather, message
from store.formats.core.composing import Particulars
from store.formats.core.documents import new_record
from store.formats.core.format import About, ExternalBlob, Format, Source, first_line
from store.formats.core.json_spans import locate
from store.formats.core.json_view import JsonObject, as_object, as_text, decode, is_object, object_in
from store.formats.core.lens import Before, Gathered, Shown, is_utf8
from store.formats.core.look import Look, open_regular
from store.formats.core.media import sniffed
from store.formats.core.splices import put, spell, spell_bytes, with_members
from store.ids import sha256

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


LONGEST_INSIDE = 1024
"""Bytes of a new text in its message; a longer one lies beside, as all images do."""


def new_id(data: bytes) -> str:
    """Return the id of new content."""
    return sha256(data).hex()


def content_place(identifier: str) -> str:
    """Return the path of the file of some content, below a folder that is looked through for it."""
    return f"content/{identifier if '/' not in identifier else identifier.rpartition(':')[2]}/data"


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
_NAMED = frozenset((_REFERENCE,))
_COMPOSED = {Kind.ASSISTANT: "assistant", Kind.SYSTEM: "supervisor", Kind.USER: "user"}


class MessageLineLens(ChatLens):
    """Sees messages; a supervisor is the system."""

    type_name = "messages-jsonl.line.v1"
    one_line = True
    writes = tuple(_COMPOSED)
    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys(Kind, "its messages are texts and contents by id")

    def shown(self, record: JsonObject, before: Before) -> Shown:
        return _with_contents(record, before) if _named_contents(record) else message(record, before)

    def written(self, payload: bytes, path: ValuePath, content: str | bytes) -> bytes:
        start, end = locate(payload, path)
        if _REFERENCE not in object_in(payload[start:end]):
            return super().written(payload, path, content)
        if isinstance(content, str):
            return with_members(payload, path, _NAMED, {"text": spell(content, payload)})
        mime = spell(sniffed(content) or "application/octet-stream", payload)
        source = b'{"type":"base64","media_type":%b,"data":%b}' % (mime, spell_bytes(content))
        return with_members(payload, path, _NAMED, {"source": source})

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
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
        else:
            gather(item, path, "", into)
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
    into.attach(data, f"content:{identifier}", sniffed(data), path, shape="image" if what == "image" else "resource")


_ROLES = frozenset(("assistant", "supervisor", "system", "user"))
_USUAL = frozenset(("role", "content", "id", "name", "timestamp", "created", "created_at", "model", "metadata"))
FILE = "messages.jsonl"
_LOOKED_AT = 20


class MessagesJsonl(Format):
    """Lines of messages, as tools write them that keep content by id."""

    name = "messages-jsonl"
    lenses = (MessageLineLens(),)
    main_type = MessageLineLens.type_name

    def is_ours(self, look: Look) -> bool:
        is_object_first = look.head.lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith(b"{")
        found = look.objects(_LOOKED_AT) if is_object_first else []
        return bool(found) and all(map(_is_line, found))

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        folder = source.path.parent
        in_place = source.path.name == FILE
        return About(
            title=first_line(first_request(records)),
            project=folder.parent.parent.name if in_place and folder.parent.name == "conversations" else "",
            session_id=folder.name if in_place else source.path.stem,
        )

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        if b'"content_id"' in payload and (decoded := decode(payload)) is not None:
            for identifier in _named_contents(decoded.value):
                read = partial(_read_content, source.path.parent, identifier)
                yield ExternalBlob(ALGORITHM, _digest_of(identifier), read, content_place(identifier))

    def moved_outside(self, record: bytes, beginning: bytes) -> tuple[bytes, Mapping[str, bytes]]:
        """Return a message with references for long texts, and these."""
        content = object_in(record).get("content")
        parts: list[tuple[ValuePath, object]] = [(("content",), content)]
        if isinstance(content, list):
            parts = [(("content", at), one) for at, one in enumerate(content)]
        outside: dict[str, bytes] = {}
        for path, one in parts:
            text = one if isinstance(one, str) else as_text(as_object(one).get("text"))
            data = utf8(text)
            if len(data) <= LONGEST_INSIDE:
                continue
            outside[content_place(new_id(data))] = data
            reference = spell(new_id(data), record)
            if isinstance(one, str):
                record = put(record, path, b'{"type":"text","%b":%b}' % (_REFERENCE.encode(), reference))
            else:
                record = with_members(record, path, frozenset(("text",)), {_REFERENCE: reference})
        return record, outside


def _is_line(line: object) -> bool:
    if not is_object(line) or not line.keys() <= _USUAL or as_text(line.get("role")) not in _ROLES:
        return False
    content = line.get("content")
    parts = content if isinstance(content, list) else [content]
    return all(isinstance(part, str) or _is_part(part) for part in parts)


def _is_part(part: object) -> bool:
    return is_object(part) and isinstance(part.get("type"), str) and bool({"text", "content_id"} & part.keys())

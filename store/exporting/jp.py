"""JP's storage: ``.jp/conversations/<id>-<title>/`` with the contents beside it, in ``.jp/blobs/``.

Contents of JP's events as files of their own: ``blobs/a1/b2/<60 digits>.blob.gz``, by the SHA-256 of the content.

In the event stands ``{"$blob": "<64 digits>", "size": <bytes>}``. What is kept so: every text and every resource that a
tool returned, every attachment, however small.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path, PurePath

import msgspec

from store.conversations.chain import Recorded
from store.conversations.names import slug
from store.conversations.viewer import LARGEST_VIEWED
from store.errors import ConvfsError, UsageError
from store.events.conversation import EventRow
from store.events.event import Block, Event, Kind, utf8
from store.exporting.dialogue import DAMAGED, Dialogue, Losses, arguments_object, lost_kind
from store.exporting.event_json import with_strings
from store.exporting.sessions import started
from store.exporting.steps import Step
from store.exporting.target import ExportJob, Target
from store.formats.core.json_view import JsonObject, as_object, as_text, decode, is_object
from store.formats.core.media import plain_text
from store.formats.core.splices import put, spell, with_members
from store.formats.core.times import iso
from store.formats.jp import Jp as JpFormat
from store.formats.jp import JpConfigLens, blob_place, pair, read_content, stamp, zipped
from store.importing.assembly import batches
from store.importing.exporter import NOT_THERE
from store.importing.provenance import named_hash, read_files
from store.importing.snapshot import text_path

_STORAGE = PurePath(".jp")
_INLINE = frozenset(("$blob", "blob", "content", "size", "text"))


class JpBlobs:
    """Writes contents into ``blobs/`` of the storage, each once."""

    def __init__(self, job: ExportJob) -> None:
        self._job = job
        self._before = Recorded("", 0, job.store.contents.aliased)

    def reference(self, content: str | bytes) -> JsonObject:
        """Keep a content, and return the reference that stands for it."""
        data = utf8(content) if isinstance(content, str) else content
        digest = hashlib.sha256(data).hexdigest()
        self._job.stage.share(_STORAGE / blob_place(digest), map(zipped, (data,)))
        return {"$blob": digest, "size": len(data)}

    def moved_out(self, payload: bytes, event: Event, number: int) -> bytes:
        stored = event.native
        if not is_object(stored):
            return payload
        changes: dict[str, object] = {}
        if stored.get("type") == "tool_call_response" and "content" in stored:
            changes["content"] = self._result(stored["content"], number)
        elif stored.get("type") == "chat_request":
            if isinstance(content := stored.get("content"), list):
                changes["content"] = [self._part(part, number, texts=False) for part in content]
            if isinstance(attached := stored.get("resources"), list):
                changes["resources"] = [self._resource(resource, number) for resource in attached]
        for key, value in changes.items():
            if value != stored[key]:
                spelled = indented(value, 4) if b"\n" in payload else msgspec.json.encode(value)
                payload = put(payload, (key,), spelled)
        return payload

    def _result(self, content: object, number: int) -> object:
        if isinstance(content, str):
            plain = plain_text(content)
            return [{"type": "text", "content": self.reference(content if plain is None else plain)}]
        if isinstance(content, dict):
            part = self._with_reference({"type": "text", "content": content}, "text/plain", number)
            return content if part["content"] == content else [part]
        if isinstance(content, list):
            return [self._part(part, number) for part in content]
        return content

    def _part(self, part: object, number: int, *, texts: bool = True) -> object:
        if not is_object(part):
            return part
        if part.get("type") == "text" and texts:
            return self._with_reference(part, "text/plain", number)
        if part.get("type") == "resource" and "resource" in part:
            return part | {"resource": self._resource(part["resource"], number)}
        return part

    def _resource(self, resource: object, number: int) -> object:
        if not is_object(resource):
            return resource
        return self._with_reference(resource, as_text(resource.get("mimeType")), number)

    def _with_reference(self, holder: JsonObject, mime: str, number: int) -> JsonObject:
        read = read_content(holder, (), mime, self._before)
        if read is None:
            return holder
        if read.missing:
            self._job.losses.add(NOT_THERE, number)
            return holder
        kept = {key: value for key, value in holder.items() if key not in _INLINE}
        return kept | {"content": self.reference(read.value)}


def indented(value: object, spaces: int) -> bytes:
    """Return a value as JP lays out JSON, its lines but the first led by ``spaces``."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return text.replace(b"\n", b"\n" + b" " * spaces)


_BINARY = "application/octet-stream"


def _event(step: Step, contents: JpBlobs, losses: Losses, exchanges: int) -> JsonObject:
    match step.kind:
        case Kind.USER:
            event: JsonObject = {"type": "chat_request", "content": _texts(step)}
            attached = [_resource(block, contents) for block in step.blocks if _is_resource(block)]
            return event | {"resources": attached} if attached else event
        case Kind.ASSISTANT:
            if any(_is_resource(block) for block in step.blocks):
                losses.add("an image or a file that the model gave", step.number)
            return {"type": "chat_response", "message": _texts(step)} if _texts(step) else {}
        case Kind.REASONING:
            event = {"type": "chat_response", "reasoning": step.text}
            if step.signature:
                event["metadata"] = {"anthropic_thinking_signature": _base64(step.signature)}
            return event
        case Kind.TOOL_CALL:
            # in base64 JP keeps them out of searches
            arguments = with_strings(arguments_object(step.arguments), _base64)
            return {"type": "tool_call_request", "id": step.id, "name": step.tool, "arguments": arguments}
        case Kind.TOOL_RESULT:
            parts = [_part(block, contents) for block in step.blocks]
            return {"type": "tool_call_response", "id": step.id, "content": parts, "is_error": step.failed}
        case Kind.QUESTION:
            question: JsonObject = {"text": step.text, "answer_type": {"type": "text"}}
            source: JsonObject = {"source": "tool", "name": step.tool} if step.tool else {"source": "assistant"}
            return {"type": "inquiry_request", "id": step.id, "source": source, "question": question}
        case Kind.ANSWER:
            return {"type": "inquiry_response", "id": step.id, "answer": step.text}
        case Kind.SUMMARY if exchanges and step.text:
            summary = {"summary": step.text}
            return {"type": "compaction", "from_turn": 0, "to_turn": exchanges - 1, "summary": summary}
        case _:
            losses.add(lost_kind(step), step.number)
            return {}


def _is_resource(block: Block) -> bool:
    return block.data is not None or block.type == "resource"


def _texts(step: Step) -> str:
    return "\n\n".join(block.text for block in step.blocks if block.text and not _is_resource(block))


def _part(block: Block, contents: JpBlobs) -> JsonObject:
    if _is_resource(block):
        return {"type": "resource", "resource": _resource(block, contents)}
    return {"type": "text", "content": contents.reference(block.text or "")}


def _resource(block: Block, contents: JpBlobs) -> JsonObject:
    content = block.data if block.data is not None else block.text or ""
    mime = block.mime or ("text/plain" if block.data is None else _BINARY)
    return {"uri": block.uri, "mimeType": mime, "content": contents.reference(content)}


def _base64(text: str) -> str:
    return b64encode(utf8(text)).decode()


_CONFIG, _METADATA = "base_config.json", "metadata.json"
_identifier = re.compile(r"\d{8,}").fullmatch


class Jp(Target):
    """Conversations as JP reads them; attachments and the results of tools are files of their own."""

    name = "jp"

    def above(self, directory: Path) -> Path:
        return directory.parent if directory.name == _STORAGE.name else directory

    def write(self, job: ExportJob) -> None:
        folder = _STORAGE / "conversations" / _folder_name(job)
        own = job.conversation.format == self.name
        for name, content in _kept(job) if own else ((_METADATA, (_metadata(job),)),):
            job.stage.write(folder / name, content, unit=folder)
        contents = JpBlobs(job)
        events = _own_events(job, contents, folder) if own else _new_events(job, contents, folder)
        job.stage.write(folder / "events.json", _array(events), unit=folder)


def _folder_name(job: ExportJob) -> str:
    conversation = job.conversation
    if conversation.format == "jp" and _identifier(session := str(conversation.metadata.get("session", ""))):
        name = text_path(conversation.source).name
        return name if name.partition("-")[0] == session else session
    # JP counts tenths of seconds
    identifier = str(conversation.created_ms // 100)
    words = slug(conversation.title)
    return f"{identifier}-{words}" if words else identifier


def _array(elements: Iterable[bytes]) -> Iterator[bytes]:
    opening, separator, ending = JpFormat.joints
    empty = True
    for element in elements:
        yield opening if empty else separator
        yield element
        empty = False
    yield b"[]" if empty else ending


def _kept(job: ExportJob) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the files beside the events, as they were but for a title that was changed."""
    files = read_files(job.conversation.metadata)
    sidecars = dict(files.sidecars) if files else {}
    if _METADATA not in sidecars:
        yield _METADATA, (_metadata(job),)
    for name, digest in sidecars.items():
        if "/" in name or name in ("events.json", _CONFIG, "..", "."):
            raise UsageError(f"{name} is no name for a file within a session: see metadata.json of the conversation")
        blob = named_hash(digest)
        if name == _METADATA and job.conversation.metadata.get("own_title"):
            yield name, (_retitled(job, job.store.blobs.blob(blob)),)
        else:
            yield name, job.store.blobs.pieces(blob)


def _retitled(job: ExportJob, metadata: bytes) -> bytes:
    title = spell(job.conversation.title, metadata)
    try:
        return with_members(metadata, (), {"title"}, {"title": title})
    except UsageError:
        return _metadata(job)


def _own_events(job: ExportJob, contents: JpBlobs, folder: PurePath) -> Iterator[bytes]:
    rows = job.store.records.rows(job.conversation.head) if job.conversation.head else ()
    gone = _deleted(job, rows)
    for row, payload in _payloads(job, [row for row in rows if not row.deleted]):
        if isinstance(payload, ConvfsError):
            job.losses.add(DAMAGED, row.number)
            continue
        if job.store.contents.type_name(job.store.turns.get(row.turn).type_tag) == JpConfigLens.type_name:
            job.stage.write(folder / _CONFIG, (payload,), unit=folder)
        elif len(payload) > LARGEST_VIEWED:
            job.losses.add("a record too large to be looked into: its contents stay within it", row.number)
            yield payload
        else:
            event = job.store.viewer.event(row, payload)
            if event.native is None:
                job.losses.add("a damaged record", row.number)
            elif pair(as_object(event.native)) not in gone:
                yield contents.moved_out(payload, event, row.number)


def _deleted(job: ExportJob, rows: Iterable[EventRow]) -> set[tuple[str, str]]:
    """Return the keys that deleted events share with the events that belong to them, and go with them."""
    found = set()
    for _row, payload in _payloads(job, [row for row in rows if row.deleted]):
        decoded = decode(payload) if isinstance(payload, bytes) else None
        if decoded and (common := pair(as_object(decoded.value))):
            found.add(common)
    return found


def _payloads(job: ExportJob, rows: list[EventRow]) -> Iterator[tuple[EventRow, bytes | ConvfsError]]:
    for some in batches(rows, attrgetter("payload_size")):
        found = dict(job.store.contents.payloads([row.turn for row in some]))
        yield from ((row, found[row.turn]) for row in some)


def _new_events(job: ExportJob, contents: JpBlobs, folder: PurePath) -> Iterator[bytes]:
    dialogue = Dialogue(job.store.library, job.conversation, job.losses)
    if dialogue.prompt:
        config = indented({"assistant": {"system_prompt": dialogue.prompt}}, 0)
        job.stage.write(folder / _CONFIG, (config,), unit=folder)
    time = started(job.conversation)
    exchanges = 0
    for step in dialogue.steps():
        time = iso(step.time_ms) or time
        own = _event(step, contents, job.losses, exchanges)
        if step.kind is Kind.USER and own:
            exchanges += 1
            yield indented({"timestamp": stamp(time), "type": "turn_start"}, 2)
        if own:
            yield indented({"timestamp": stamp(time), **own}, 2)


def _metadata(job: ExportJob) -> bytes:
    said: dict[str, object] = {"title": job.conversation.title} if job.conversation.title else {}
    if updated := iso(job.conversation.updated_ms):
        said["last_activated_at"] = stamp(updated)
    return indented(said, 0)

"""Contents of JP's events as files of their own: ``blobs/a1/b2/<60 digits>.blob.gz``, by the SHA-256 of the content.

In the event stands ``{"$blob": "<64 digits>", "size": <bytes>}``. What is kept so: every text and every resource that a
tool returned, every attachment, however small.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import PurePath

import msgspec

from store.conversations.chain import Recorded
from store.events.event import Event, utf8
from store.exporting.target import Job
from store.formats.jp.content import read_content
from store.formats.jp.encoding import plain_text
from store.formats.json_view import JsonObject, as_text, is_object
from store.formats.splices import put

_LEVEL = 6
"""Of gzip: beyond it, time doubles for a hundredth of the size."""
_INLINE = frozenset(("$blob", "blob", "content", "size", "text"))


class Contents:
    """Writes contents into ``blobs/`` of the directory ``storage``, each once."""

    def __init__(self, job: Job, storage: PurePath) -> None:
        self._job = job
        self._storage = storage
        self._before = Recorded("", 0, job.store.aliased)

    def reference(self, content: str | bytes) -> JsonObject:
        """Keep a content, and return what stands for it."""
        data = utf8(content) if isinstance(content, str) else content
        digest = hashlib.sha256(data).hexdigest()
        name = self._storage / "blobs" / digest[:2] / digest[2:4] / f"{digest[4:]}.blob.gz"
        self._job.stage.share(name, lambda: gzip.compress(data, _LEVEL, mtime=0))
        return {"$blob": digest, "size": len(data)}

    def moved_out(self, payload: bytes, event: Event, number: int) -> bytes:
        """Return the record of an event of JP's own with references for its contents, all else as it is."""
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
                payload = put(payload, (key,), _literal(value, payload))
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
            self._job.losses.add("a content that the store does not have: its reference leads nowhere", number)
            return holder
        kept = {key: value for key, value in holder.items() if key not in _INLINE}
        return kept | {"content": self.reference(read.value)}


def indented(value: object, spaces: int) -> bytes:
    """Return a value as JP lays out JSON, its lines but the first led by ``spaces``."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return text.replace(b"\n", b"\n" + b" " * spaces)


def _literal(value: object, payload: bytes) -> bytes:
    return indented(value, 4) if b"\n" in payload else msgspec.json.encode(value)

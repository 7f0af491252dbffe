"""Content by its hash, for those who write a reference to it into ``events.json``."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fusefs.text.events_json_contents import Found
from store.content.text import is_text
from store.errors import ConvfsError
from store.formats.json_view import decode
from store.formats.msgpack_view import decode as decode_msgpack
from store.ids import Hash, hash_bytes

if TYPE_CHECKING:
    from store.index.views import Run
    from store.store import Store

_SHORTEST_BASE64 = 8


class ConversationContents:
    """Looks for content among all that a conversation says and has said, then in the store.

    What the store keeps within records has no name there, so the records are searched.
    """

    def __init__(self, store: Store, context: int, head: int) -> None:
        self._store = store
        self._context = context
        self._head = head
        self._present: dict[bytes, int] | None = None
        self._earlier: dict[bytes, int] | None = None

    def find(self, algorithm: str, digest: bytes) -> Found | None:
        """Return content by its digest, None where it is nowhere; the algorithm "" stands for BLAKE3, then SHA-256."""
        if algorithm != "sha256":
            if self._present is None:
                self._present = self._indexed(self._store.runs(self._head))
            if (found := self._held(self._present, digest) or self._in_store(digest)) is not None:
                return found
            if self._earlier is None:
                self._earlier = self._indexed(self._past())
            if (found := self._held(self._earlier, digest)) is not None:
                return found
        data = self._store.aliased("sha256", digest) if algorithm != "blake3" else None
        return None if data is None else Found(data, encoded=not is_text(data))

    def _in_store(self, digest: bytes) -> Found | None:
        try:
            data = self._store.blob(Hash(digest))
        except ConvfsError:
            return None
        return Found(data, encoded=not is_text(data))

    def _past(self) -> Iterator[Run]:
        """Yield the turns of earlier versions that are not in the present one."""
        seen = [*self._store.runs(self._head)]
        for version in reversed(self._store.versions(self._context)):
            for run in self._store.runs(version.head) if version.head else ():
                for part in _without(run, seen):
                    yield part
                    seen.append(part)

    def _indexed(self, runs: Iterable[Run]) -> dict[bytes, int]:
        """Return in which turn each string is, by its hash."""
        turns = [turn for first, count in runs for turn in range(first, first + count)]
        return {
            digest: turn
            for turn, payload in self._store.payloads(turns)
            if isinstance(payload, bytes)
            for digest, _content in _strings(payload)
        }

    def _held(self, turns: dict[bytes, int], digest: bytes) -> Found | None:
        turn = turns.get(digest)
        if turn is None:
            return None
        return next((found for named, found in _strings(self._store.payload(turn)) if named == digest), None)


def _strings(payload: bytes) -> Iterator[tuple[bytes, Found]]:
    """Yield every string of a record, and then what those in base64 hold, each with its hash."""
    decoded = decode(payload) or decode_msgpack(payload)
    encoded: list[bytes] = []
    for text in _texts(decoded.value if decoded else None):
        try:
            data = text.encode()
        except UnicodeEncodeError:
            continue
        yield hash_bytes(data), Found(data, encoded=False)
        if (held := _from_base64(data)) is not None:
            encoded.append(held)
    yield from ((hash_bytes(held), Found(held, encoded=True)) for held in encoded)


def _without(run: Run, seen: Sequence[Run]) -> list[Run]:
    """Return the parts of a run of turns that are in no other."""
    parts = [run]
    for first, count in seen:
        rest: list[Run] = []
        for start, length in parts:
            end, beyond = start + length, first + count
            if first < end and start < beyond:
                rest += [(start, first - start)] if start < first else []
                rest += [(beyond, end - beyond)] if beyond < end else []
            else:
                rest.append((start, length))
        parts = rest
    return parts


def _texts(value: object) -> Iterator[str]:
    pending = [value]
    while pending:
        match pending.pop():
            case str() as text:
                yield text
            case dict() as item:
                pending += item.values()
            case list() as item:
                pending += item


def _from_base64(data: bytes) -> bytes | None:
    if len(data) < _SHORTEST_BASE64 or len(data) % 4:
        return None
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except binascii.Error:
        return None

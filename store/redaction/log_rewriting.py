"""The logs without secrets: turns name the payloads that took the places of others, and frames keep their lengths.

Places in the logs are names: a turn's id, the offsets that the index and the COMMITs have. So nothing moves. A text
that gets shorter is followed by white space where that says nothing, and is filled up elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress

import msgspec
from msgspec import structs

from store.commit.open_texts import veiled
from store.disk import head_format as heads
from store.disk import turn_format
from store.disk.file_header import Damage
from store.disk.head_log import HeadLog
from store.disk.turn_format import RECORD_SIZE, REDACTED
from store.errors import DamageError, NotFound
from store.ids import HASH_SIZE, Hash, tip_of
from store.redaction.names import renamed
from store.redaction.replacements import Replacements
from store.redaction.secrets import Place, Secrets

_HASH_AT = 32
_NOTHING_SAID = b"{}"
_UNKNOWN_PREFIX = "0" * 2 * HASH_SIZE
_TIME_SIZE = 8


class TurnRewriting:
    """Changes the records of turns; ``changed`` are the ids of those whose payloads are others."""

    def __init__(self, new: Mapping[Hash, Hash]) -> None:
        self._new = new
        self.changed: list[int] = []

    def records(self, first: int, records: bytes) -> bytes:
        """Return some turns' records as they are to be."""
        new, changed = self._new, bytearray()
        done = 0
        for start in range(0, len(records), RECORD_SIZE):
            digest = records[start + _HASH_AT : start + _HASH_AT + HASH_SIZE]
            if digest in new:
                changed += records[done:start] + self._record(records[start : start + RECORD_SIZE], Hash(digest))
                done = start + RECORD_SIZE
                self.changed.append(first + start // RECORD_SIZE)
        return bytes(changed) + records[done:] if done else records

    def _record(self, record: bytes, digest: Hash) -> bytes:
        try:
            turn = turn_format.decode(record)
        except DamageError:
            # it stays damaged, and does not say any more what it was
            return record[:_HASH_AT] + bytes(HASH_SIZE) + record[_HASH_AT + HASH_SIZE :]
        turn = structs.replace(turn, payload_hash=self._new[digest], flags=turn.flags | REDACTED)
        return turn_format.encode(turn)


class FrameRewriting:
    """Changes the frames of the head log.

    ``new`` has the blobs that take the places of others; those of ``dictionaries`` nothing takes. ``forget`` are
    contexts whose imports are not to be told by the hash of what was imported, and ``begins`` what their beginnings are
    known by from now on.
    """

    def __init__(
        self,
        secrets: Secrets,
        new: Replacements,
        dictionaries: Set[Hash],
        forget: Set[int],
        begins: Mapping[str, str],
    ) -> None:
        self._secrets = secrets
        self._new = new
        self._dictionaries = dictionaries
        self._forget = forget
        self._begins = begins
        self._texts: dict[int, list[Place]] = {}
        self.patched: set[int] = set()
        """The turns, as they are seen through patches, whose payloads are others."""
        self.described: set[int] = set()
        """The contexts whose metadata is another."""

    def read_texts(self, log: HeadLog) -> None:
        """Find the secrets in what was written piece by piece: one may lie in several pieces."""
        growing: dict[int, bytearray] = {}
        for frame in log.frames():
            if isinstance(frame, Damage):
                continue
            body = frame.body
            if isinstance(body, heads.TextAdded):
                text = growing.setdefault(body.number, bytearray())
                if body.offset <= len(text):
                    text[body.offset :] = veiled(body.number, body.offset, body.text)
            elif isinstance(body, heads.Closed) and (found := growing.pop(body.number, None)):
                self._note(body.number, bytes(found))
        for number, found in growing.items():
            self._note(number, bytes(found))

    @property
    def texts(self) -> Mapping[int, list[Place]]:
        """By the numbers of turns that were written piece by piece: where secrets were in them."""
        return self._texts

    def body(self, frame: heads.Frame) -> heads.Body:
        """Return what a frame is to say."""
        body = frame.body
        match body:
            case heads.Metadata():
                return self._metadata(frame.context, body)
            case heads.Patched():
                return self._patched(body)
            case heads.HeadMoved():
                action = self._text(body.action)
                return body if action == body.action else structs.replace(body, action=action)
            case heads.Alias():
                return self._alias(body)
            case heads.Dictionary():
                return _nothing(HASH_SIZE + 8) if body.hash in self._dictionaries else body
            case heads.FsRoot():
                new = self._new.new(body.root)
                return body if new is None else structs.replace(body, root=new)
            case heads.Appended():
                key = self._secrets.blanked(body.key)
                return body if key == body.key else structs.replace(body, key=key)
            case heads.TextAdded():
                return self._added(body)
            case _:
                return body

    def blank(self, damaged: bytes) -> bytes:
        """Return bytes that are no frame as they are to be."""
        return renamed(self._secrets.blanked(damaged), self._new.name)

    def _metadata(self, context: int, body: heads.Metadata) -> heads.Metadata:
        changes = renamed(body.changes, self._new.name)
        if changes != body.changes and b'"size"' in changes:
            changes = self._with_sizes(changes)
        if self._secrets.hold(changes):
            shorter = self._secrets.removed(changes)
            changes = shorter if len(shorter) <= len(changes) else self._secrets.blanked(changes)
        if context in self._forget and (b'"prefix"' in changes or b'"begins"' in changes):
            changes = self._without_prefix(changes)
        if changes == body.changes:
            return body
        self.described.add(context)
        return structs.replace(body, changes=changes.ljust(len(body.changes)))

    def _with_sizes(self, changes: bytes) -> bytes:
        """Return metadata that says how large outputs are now; most are as large as before."""
        try:
            told = msgspec.json.decode(changes)
        except msgspec.DecodeError:
            return changes
        before = msgspec.json.encode(told)
        for value in told.values():
            if isinstance(value, dict) and isinstance(blob := value.get("blob"), str) and "size" in value:
                with suppress(ValueError, NotFound):
                    value["size"] = self._new.size(Hash(bytes.fromhex(blob)))
        now = msgspec.json.encode(told)
        return now if now != before and len(now) <= len(changes) else changes

    def _without_prefix(self, changes: bytes) -> bytes:
        """Return metadata of an import that does not say what the hash of the imported bytes was."""
        try:
            told = msgspec.json.decode(changes)
        except msgspec.DecodeError:
            return changes
        cursor, begins = told.get("cursor"), told.get("begins")
        if isinstance(cursor, dict) and isinstance(prefix := cursor.get("prefix"), str):
            changes = changes.replace(prefix.encode(), _UNKNOWN_PREFIX[: len(prefix)].encode())
        for key in begins if isinstance(begins, list) else ():
            if isinstance(key, str) and (now := self._begins.get(key)):
                changes = changes.replace(f'"{key}"'.encode(), f'"{now}"'.encode())
        return changes

    def _patched(self, body: heads.Patched) -> heads.Patched:
        turns = []
        for turn, digest, flags, created in body.turns:
            new = self._new.new(Hash(digest))
            if new is None:
                turns.append((turn, digest, flags, created))
            else:
                self.patched.add(tip_of(turn, body.number))
                turns.append((turn, new, flags | REDACTED, created))
        changed = structs.replace(body, turns=tuple(turns), action=self._text(body.action))
        return body if changed == body else changed

    def _alias(self, body: heads.Alias) -> heads.Body:
        new = self._new.new(body.hash)
        if new is None:
            return body
        digest = self._new.digest(body.algorithm, new)
        if digest is not None and len(digest) == len(body.digest):
            return structs.replace(body, hash=new, digest=digest)
        # what is known by another algorithm's digest is not known any more
        return _nothing(HASH_SIZE + 1 + len(body.algorithm) + len(body.digest))

    def _added(self, body: heads.TextAdded) -> heads.TextAdded:
        places = self._texts.get(body.number)
        if not places:
            return body
        text = bytearray(veiled(body.number, body.offset, body.text))
        for start, end, _mark, filling in places:
            first, last = max(start - body.offset, 0), min(end - body.offset, len(text))
            if first < last:
                text[first:last] = filling[first + body.offset - start : last + body.offset - start]
        return structs.replace(body, text=veiled(body.number, body.offset, bytes(text)))

    def _text(self, text: str) -> str:
        return self._secrets.blanked(text.encode()).decode(errors="replace")

    def _note(self, number: int, text: bytes) -> None:
        if places := self._secrets.places(text):
            self._texts[number] = places


def _nothing(length: int) -> heads.Metadata:
    """Return a body of a length that says nothing, of no context."""
    return heads.Metadata(0, _NOTHING_SAID.ljust(length - _TIME_SIZE))

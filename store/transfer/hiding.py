"""Hiding: conversations as they leave without what looks like a secret in them. In the store they stay as they are.

What looks like a secret in anything of a conversation, its records, outputs, files and metadata, is taken out of all of
them, in every spelling, as a redaction does. So a conversation has another state elsewhere, whose turns say that they
were redacted (REDACTED): by that, and by what is left of their texts, both states are known to be the same.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

import msgspec
from msgspec import structs

from store.disk.turn_format import NO_PAYLOAD, REDACTED
from store.errors import ConvfsError, NotFound
from store.events.conversation import CALLED
from store.events.event import utf8
from store.ids import Hash
from store.index.catalogue import ContextEntry
from store.index.frames import day_of
from store.redaction import containers
from store.redaction.replacements import Replacements
from store.redaction.secrets import LEAST_BYTES, Secrets
from store.redaction.wanted import built_in
from store.store import Store
from store.transfer import metadata as meta
from store.transfer.parcel import Row
from store.transfer.states import State

_OVERLAP = 20_000
"""More than the longest secret: what lies across the end of a piece is looked for once more."""
_IDS = ("session", "part", "parent_session")
_OF_FILES = ("original", "original_of")
"""The file itself, as an archive or a database: a conversation from it is exported from its records."""


class Hiding:
    """Hides the secrets of some conversations. For one thread; what it makes can be read after :meth:`sync`."""

    def __init__(
        self, store: Store, entries: Sequence[ContextEntry], named: Sequence[Hash] = (), tips: Iterable[int] = ()
    ) -> None:
        """Look for them in conversations that belong together: a file of many, with all that are in it.

        ``named`` are contents that records name otherwise than by their hashes, ``tips`` further states.
        """
        self._store = store
        ids = {utf8(name) for entry in entries for key in _IDS if isinstance(name := entry.metadata.get(key), str)}
        payloads = {Hash(row.payload) for entry in entries for row in _rows(store, entry)}
        payloads |= {Hash(row.payload) for tip in tips for row in State(store, tip).rows}
        payloads -= {NO_PAYLOAD}
        blobs = {*named, *(blob for entry in entries for blob in meta.blobs_of(entry.metadata))} - payloads
        told = [msgspec.json.encode(entry.metadata) for entry in entries]
        contents = (piece for digest in (*payloads, *blobs) for piece in self._pieces(digest))
        self._secrets = secrets_in(chain(told, contents), ids)
        held = [digest for digest in (*payloads, *blobs) if self._secrets and self._holds(digest)]
        self._new = Replacements(store, set(held), payloads, lambda _digest: self._secrets, {}, [])

    def __bool__(self) -> bool:
        """True if there is anything to hide."""
        return bool(self._secrets)

    def sync(self) -> None:
        """Make what takes the places of contents durable."""
        self._new.sync()

    def blob(self, digest: bytes) -> Hash:
        """Return what takes the place of a content: itself, if it has no secret."""
        return self._new.new(Hash(digest)) or Hash(digest)

    def row(self, row: Row) -> Row:
        """Return a turn as it leaves."""
        new = self._new.new(Hash(row.payload))
        return row if new is None else structs.replace(row, payload=new, flags=row.flags | REDACTED)

    def metadata(self, entry: ContextEntry) -> dict[str, object]:
        """Return metadata as it leaves; with another name, if the title had a secret."""
        if not self:
            return entry.metadata
        instead = {blob: self.blob(blob) for blob in meta.blobs_of(entry.metadata)}
        known = {key: value for key, value in entry.metadata.items() if not (entry.is_file and key in _OF_FILES)}
        found: dict[str, object] = msgspec.json.decode(self._secrets.removed(msgspec.json.encode(known)))
        found = meta.renamed(found, {old: new for old, new in instead.items() if old != new})
        if found.get("title") != entry.metadata.get("title"):
            # a name is made of the title, whose letters it has left
            found |= {"name": f"{day_of(entry.created_ms)}-redacted"}
            found.pop(CALLED, None)
        if entry.is_file and isinstance(cursor := found.get("cursor"), dict):
            # the hash of the file would reveal what is gone
            found["cursor"] = {**cursor, "prefix": ""}
        return found

    def text(self, text: bytes) -> bytes:
        """Return another text as it leaves."""
        return self._secrets.removed(text) if self else text

    def _holds(self, digest: Hash) -> bool:
        return any(self._secrets.hold(piece) for piece in self._pieces(digest))

    def _pieces(self, digest: Hash) -> Iterator[bytes]:
        """Yield a content in pieces that overlap, and what programs see in it; nothing for what is no blob."""
        before = b""
        try:
            for piece in self._store.blobs.pieces(digest):
                yield before + piece
                before = (before + piece)[-_OVERLAP:]
                if containers.is_one(piece):
                    yield from containers.texts(self._store.blobs.blob(digest), self._store.files.aside.scratch)
        except NotFound:
            return


def _rows(store: Store, entry: ContextEntry) -> Iterator[Row]:
    for tip in {entry.head, entry.imported_head} - {0}:
        try:
            yield from State(store, tip).rows
        except ConvfsError:
            if tip == entry.head:
                raise


def secrets_in(texts: Iterable[bytes], ids: Collection[bytes] = ()) -> Secrets:
    """Return what looks like a secret in texts, but for some ids."""
    found = {secret for text in texts for _kind, secret in built_in(text)}
    return Secrets(secret for secret in found if len(secret) >= LEAST_BYTES and secret not in ids)

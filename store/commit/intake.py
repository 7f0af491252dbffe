"""Blobs on their way in: cut, deduplicated, and for large amounts packed at once.

An append of ordinary size takes its blobs along in its journal entry (:meth:`Intake.prepare`). An import would push
every byte through the journal for nothing: :class:`Load` writes groups straight into the packs, and only the turns
are journalled, after the packs are synced.
"""

from __future__ import annotations

from collections.abc import Callable

from store.commit.writer import Writer
from store.content.chunking import chunk_list, chunks
from store.content.compression import Member, pack_records
from store.content.cutting import cut
from store.content.resolver import Resolver
from store.disk.blob_format import Compression, Form, encode_record
from store.errors import ConvfsError
from store.disk.journal_format import JournalBlob
from store.ids import Hash, hash_bytes
from store.index.index import Index, Place

GROUP_BYTES = 128 << 10
_REMEMBERED = 100_000


class Intake:
    """Decides for one store which blobs are new."""

    def __init__(self, writer: Writer, index: Index, resolver: Resolver, inline_limit: int) -> None:
        self._writer = writer
        self._index = index
        self._resolver = resolver
        self.inline_limit = inline_limit
        self._sound: dict[Hash, None] = {}

    def holds(self, digest: Hash) -> bool:
        """Whether the store has the blob, intact: a damaged one is not deduplicated onto, it is written anew."""
        if digest in self._sound or self._writer.pending.get(digest) is not None:
            return True
        if not self._index.locate([digest]):
            return False
        try:
            self._resolver.check(digest)
        except ConvfsError:
            return False
        self.remember(digest)
        return True

    def remember(self, digest: Hash) -> None:
        """Note that the blob was seen intact (for a while: the memory is bounded)."""
        if len(self._sound) >= _REMEMBERED:
            self._sound.clear()
        self._sound[digest] = None

    def take_apart(self, payload: bytes, missing: Callable[[Hash], bool]) -> tuple[Hash, list[JournalBlob]]:
        """Return the payload's hash and those blobs of it that are ``missing``."""
        digest = hash_bytes(payload)
        if not missing(digest):
            return digest, []
        taken = cut(payload, self.inline_limit)
        if taken is None:
            return digest, [JournalBlob(digest, Form.PLAIN, len(payload), payload)]
        blobs = [
            JournalBlob(content_hash, Form.PLAIN, len(content), content)
            for content_hash, content in taken.contents
            if missing(content_hash)
        ]
        blobs.append(JournalBlob(digest, Form.SKELETON, len(payload), taken.body))
        return digest, blobs

    def prepare(self, payload: bytes) -> tuple[Hash, list[JournalBlob]]:
        """Return the payload's hash and the blobs that an append of it must bring along."""
        return self.take_apart(payload, lambda digest: not self.holds(digest))


class Load:
    """Writes many blobs straight into the packs, in groups, in the order in which they are added.

    What was added can be read, and appended as turns, after :meth:`sync`.
    """

    def __init__(self, intake: Intake, writer: Writer, index: Index) -> None:
        self._intake = intake
        self._writer = writer
        self._index = index
        self._group: list[Member] = []
        self._group_bytes = 0
        self._new: set[Hash] = set()
        self._places: list[tuple[Hash, Place]] = []

    def _missing(self, digest: Hash) -> bool:
        return digest not in self._new and not self._intake.holds(digest)

    def payload(self, payload: bytes) -> Hash:
        """Add the payload of a turn."""
        digest, blobs = self._intake.take_apart(payload, self._missing)
        for blob in blobs:
            self.add(blob)
        return digest

    def blob(self, data: bytes) -> Hash:
        """Add a blob as it is."""
        digest = hash_bytes(data)
        if self._missing(digest):
            self.add(JournalBlob(digest, Form.PLAIN, len(data), data))
        return digest

    def huge(self, data: memoryview, passed: Callable[[int], None]) -> Hash:
        """Add a blob of any size without holding it: in chunks; ``passed`` is told how far reading has come."""
        digest, listed = chunk_list(data, passed)
        if not self._missing(digest):
            return digest
        for start, end in chunks(data):
            self.blob(bytes(data[start:end]))
            passed(end)
        self._flush()
        self._write([(encode_record(Compression.CHUNKS, len(data), digest, listed), [digest])])
        self._new.add(digest)
        return digest

    def add(self, blob: JournalBlob) -> None:
        """Add a blob that is known to be new."""
        self._new.add(blob.hash)
        self._group.append(Member(blob.hash, blob.form, blob.raw_len, blob.body))
        self._group_bytes += len(blob.body)
        if self._group_bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._group:
            group, self._group, self._group_bytes = self._group, [], 0
            self._write(pack_records(group, None))

    def _write(self, records: list[tuple[bytes, list[Hash]]]) -> None:
        with self._writer.pack_lock:
            at = self._writer.packs.append([record for record, _hashes in records])
        for (pack, offset), (_record, hashes) in zip(at, records, strict=True):
            self._places += [(digest, (pack, offset, member)) for member, digest in enumerate(hashes)]

    def sync(self) -> None:
        """Make what was added durable and readable."""
        self._flush()
        if not self._places:
            return
        self._writer.packs.sync()
        self._index.add_blobs(self._places)
        self._places = []
        for digest in self._new:
            self._intake.remember(digest)
        self._new.clear()



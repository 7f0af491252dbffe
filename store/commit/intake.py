"""Blobs on their way into the packs: cut, deduplicated, grouped.

An append takes its payload along in its journal entry, whole: cutting and looking for twins can wait for the
checkpoint. An import would push every byte through the journal for nothing, so it writes to the packs at once, and
only its turns are journalled, after the packs are synced. Both do it by a :class:`Load`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from store.commit.pending import Pending
from store.content.chunking import chunk_list, chunks
from store.content.compression import GROUP_BYTES, Member, pack_records
from store.content.cutting import cut
from store.content.resolver import Resolver
from store.disk.blob_format import Compression, Form, codec, encode_record
from store.disk.pack import PackSet
from store.errors import ConvfsError
from store.ids import Hash, hash_bytes
from store.index.index import Index, Place

_REMEMBERED = 100_000


class Intake:
    """Knows for one store which blobs it holds, and begins loads."""

    def __init__(
        self, packs: PackSet, index: Index, pending: Pending, resolver: Resolver, inline_limit: int
    ) -> None:
        self.packs = packs
        self.index = index
        self.inline_limit = inline_limit
        self._pending = pending
        self._resolver = resolver
        self._sound: dict[Hash, None] = {}

    def held(self, digests: Sequence[Hash]) -> set[Hash]:
        """Return those blobs that the store has, intact, in a pack or in the journal."""
        waiting = {digest for digest in digests if self._pending.get(digest) is not None}
        return waiting | self.packed([digest for digest in digests if digest not in waiting])

    def packed(self, digests: Sequence[Hash]) -> set[Hash]:
        """Return those blobs that a pack has, intact: a damaged one is not deduplicated onto, it is written anew."""
        sound = {digest for digest in digests if digest in self._sound}
        for digest in self.index.locate([digest for digest in digests if digest not in sound]):
            try:
                self._resolver.check(digest)
            except ConvfsError:
                continue
            self.remember(digest)
            sound.add(digest)
        return sound

    def remember(self, digest: Hash) -> None:
        """Note that the blob was seen intact in a pack (for a while: the memory is bounded)."""
        if len(self._sound) >= _REMEMBERED:
            self._sound.clear()
        self._sound[digest] = None

    def load(self) -> Load:
        """Begin to write blobs straight into the packs."""
        return Load(self, self.held)

    def repack(self) -> Load:
        """Begin to move blobs from the journal into the packs."""
        return Load(self, self.packed)


class Load:
    """Writes many blobs straight into the packs, in groups, in the order in which they are added.

    What was added can be read, and named by turns, after :meth:`sync`. For one thread.
    """

    def __init__(self, intake: Intake, held: Callable[[Sequence[Hash]], set[Hash]]) -> None:
        self._intake = intake
        self._held = held
        self._group: list[Member] = []
        self._group_bytes = 0
        self._new: set[Hash] = set()
        self._places: list[tuple[Hash, Place]] = []

    def payloads(self, payloads: Sequence[bytes]) -> list[Hash]:
        """Add payloads of turns, whose large strings become blobs of their own; return their hashes."""
        digests = [hash_bytes(payload) for payload in payloads]
        missing = self._missing(digests)
        cuts = {
            digest: (payload, cut(payload, self._intake.inline_limit))
            for digest, payload in zip(digests, payloads, strict=True)
            if digest in missing
        }
        missing = self._missing([name for _payload, taken in cuts.values() if taken for name, _ in taken.contents])
        for digest, (payload, taken) in cuts.items():
            if taken is None:
                self._add(Member(digest, Form.PLAIN, len(payload), payload))
                continue
            for name, content in taken.contents:
                if name in missing:
                    missing.remove(name)
                    self._add(Member(name, Form.PLAIN, len(content), content))
            self._add(Member(digest, Form.SKELETON, len(payload), taken.body))
        return digests

    def blob(self, data: bytes) -> Hash:
        """Add a blob as it is."""
        digest = hash_bytes(data)
        if self._missing([digest]):
            self._add(Member(digest, Form.PLAIN, len(data), data))
        return digest

    def huge(self, data: memoryview, passed: Callable[[int], None]) -> Hash:
        """Add a blob of any size without holding it: in chunks; ``passed`` is told how far reading has come."""
        digest, listed = chunk_list(data, passed)
        if not self._missing([digest]):
            return digest
        for start, end in chunks(data):
            self.blob(bytes(data[start:end]))
            passed(end)
        self._flush()
        self._write([(encode_record(codec(Compression.CHUNKS, Form.PLAIN), len(data), digest, listed), [digest])])
        self._new.add(digest)
        return digest

    def sync(self) -> None:
        """Make what was added durable and readable."""
        self._flush()
        if not self._places:
            return
        self._intake.packs.sync()
        self._intake.index.add_blobs(self._places)
        self._places = []
        for digest in self._new:
            self._intake.remember(digest)
        self._new.clear()

    def _missing(self, digests: Sequence[Hash]) -> set[Hash]:
        unknown = {digest for digest in digests if digest not in self._new}
        return unknown - self._held(list(unknown)) if unknown else unknown

    def _add(self, member: Member) -> None:
        self._new.add(member.hash)
        self._group.append(member)
        self._group_bytes += len(member.body)
        if self._group_bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._group:
            group, self._group, self._group_bytes = self._group, [], 0
            self._write(pack_records(group))

    def _write(self, records: list[tuple[bytes, list[Hash]]]) -> None:
        at = self._intake.packs.append([record for record, _hashes in records])
        for (pack, offset), (_record, hashes) in zip(at, records, strict=True):
            self._places += [(digest, (pack, offset, member)) for member, digest in enumerate(hashes)]

"""Many blobs on their way into the packs: cut, deduplicated, grouped, compressed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING

from blake3 import blake3

from store.commit.reliance import Region
from store.content.chunking import chunk_list, chunks, chunks_of
from store.content.compression import GROUP_BYTES, MAX_BODY_BYTES, SMALL_GROUP_BYTES, Member, pack_records
from store.content.cutting import cut
from store.disk.blob_format import Chunk, Compression, Form, codec, encode_chunks, encode_record
from store.ids import Hash, hash_bytes

if TYPE_CHECKING:
    from store.commit.intake import Intake

_NOTHING: Mapping[Hash, Hash] = {}
_CHUNKED_BYTES = MAX_BODY_BYTES // 2
_GROUPS_AHEAD = 4

_Packed = list[tuple[bytes, list[Hash]]]


class Load:
    """Writes many blobs straight into the packs, in groups, in the order in which they are added.

    What was added can be read, and named by turns, after :meth:`sync`. For one thread. A write that fails raises
    StoreFailed, and the store takes no more.
    """

    def __init__(
        self, intake: Intake, held: Callable[[Sequence[Hash], Region], set[Hash]], packer: Executor | None = None
    ) -> None:
        self._intake = intake
        self._region = region = intake.reliance.region()
        self._packer = packer
        self._held = held
        self._group: list[Member] = []
        self._group_bytes = 0
        self._new: set[Hash] = set()
        self._packing: deque[Future[_Packed]] = deque()
        """Groups that are being compressed, in order."""
        new = self._new
        self._versions = intake.versions(lambda digest: digest in new or bool(intake.packed([digest], region)))

    def payloads(self, payloads: Sequence[bytes], earlier: Mapping[Hash, Hash] = _NOTHING) -> list[Hash]:
        """Add payloads of turns, whose large strings become blobs of their own; return their hashes.

        ``earlier`` says of payloads, by their hashes, which one each takes the place of: what they have in common is
        not stored again.
        """
        digests = [hash_bytes(payload) for payload in payloads]
        missing = self._missing(digests)
        cuts = {
            digest: (payload, cut(payload, self._intake.inline_limit))
            for digest, payload in zip(digests, payloads, strict=True)
            if digest in missing
        }
        missing = self._missing([name for _payload, taken in cuts.values() if taken for name, _ in taken.contents])
        for digest, (payload, taken) in cuts.items():
            before = earlier.get(digest)
            if taken is None:
                self._add(Member(digest, Form.PLAIN, len(payload), payload), before)
                continue
            for name, content in taken.contents:
                if name in missing:
                    missing.remove(name)
                    self._add(Member(name, Form.PLAIN, len(content), content), before)
            self._add(Member(digest, Form.SKELETON, len(payload), taken.body), before)
        return digests

    def blob(self, data: bytes) -> Hash:
        """Add a blob as it is; a very large one in chunks."""
        if len(data) > _CHUNKED_BYTES:
            return self.huge(memoryview(data))
        return self._plain(data)

    def huge(self, data: memoryview, passed: Callable[[int], None] = lambda _position: None) -> Hash:
        """Add a blob of any size without holding it: in chunks; ``passed`` is told how far reading has come."""
        digest, listed = chunk_list(data, passed)
        if not self._missing([digest]):
            return digest
        for start, end in chunks(data):
            self._plain(bytes(data[start:end]))
            passed(end)
        self._list(digest, len(data), listed)
        return digest

    def stream(self, pieces: Iterable[bytes]) -> tuple[Hash, int]:
        """Add a blob that comes in pieces, of any size and in chunks, and return its hash and its size."""
        whole, size = blake3(), 0
        listed: list[Chunk] = []
        for chunk in chunks_of(pieces):
            whole.update(chunk)
            size += len(chunk)
            listed.append(Chunk(self._plain(chunk), len(chunk)))
        if len(listed) < 2:
            return (listed[0].hash if listed else self._plain(b"")), size
        digest = Hash(whole.digest())
        if self._missing([digest]):
            self._list(digest, size, encode_chunks(listed))
        return digest, size

    def _list(self, digest: Hash, size: int, listed: bytes) -> None:
        """Add a blob whose chunks have been added."""
        self._flush()
        # or a power failure might leave a list of what is not there
        self._intake.sync()
        record = encode_record(codec(Compression.CHUNKS, Form.PLAIN), size, digest, listed)
        self._intake.write([(record, [digest])], self._region)
        self._new.add(digest)

    def sync(self) -> None:
        """Make what was added durable and readable."""
        self._flush()
        self._intake.sync()
        self._new.clear()

    def _plain(self, data: bytes) -> Hash:
        digest = hash_bytes(data)
        if self._missing([digest]):
            self._add(Member(digest, Form.PLAIN, len(data), data))
        return digest

    def _missing(self, digests: Sequence[Hash]) -> set[Hash]:
        unknown = {digest for digest in digests if digest not in self._new}
        return unknown - self._held(list(unknown), self._region) if unknown else unknown

    def _add(self, member: Member, earlier: Hash | None = None) -> None:
        record = self._versions.record(member, earlier) if earlier is not None else None
        self._new.add(member.hash)
        if record is not None:
            self._intake.write([(record, [member.hash])], self._region)
            return
        self._group.append(member)
        self._group_bytes += len(member.body)
        if self._group_bytes >= GROUP_BYTES:
            self._pass_on()

    def _flush(self) -> None:
        """Write what was added."""
        self._pass_on()
        while self._packing:
            self._intake.write(self._packing.popleft().result(), self._region)

    def _pass_on(self) -> None:
        """Have a group compressed, and write what has been."""
        if self._group:
            dictionary = self._intake.dictionary() if self._group_bytes < SMALL_GROUP_BYTES else None
            group, self._group, self._group_bytes = self._group, [], 0
            if self._packer is None:
                self._intake.write(pack_records(group, dictionary), self._region)
            else:
                self._packing.append(self._packer.submit(pack_records, group, dictionary))
        while self._packing and (len(self._packing) > _GROUPS_AHEAD or self._packing[0].done()):
            self._intake.write(self._packing.popleft().result(), self._region)

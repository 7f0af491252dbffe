"""A blob source over real packs, with its index in a dictionary."""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from store.content.compression import Member, pack_records
from store.content.cuts import cut
from store.content.resolver import Resolver
from store.disk.blob_format import Form, Record
from store.disk.pack import PackSet, RecordPlace
from store.errors import ConvfsError
from store.ids import Hash, hash_bytes


class Packed:
    """Stands in for StoredBlobs. ``where`` and ``waiting`` may be changed by tests; ``asked`` notes the look-ups."""

    def __init__(self, directory: Path) -> None:
        self.packs = PackSet(directory, bytes(16))
        self.where: dict[Hash, list[tuple[int, int, int]]] = {}
        self.waiting: dict[Hash, tuple[Form, bytes]] = {}
        self.asked: list[Hash] = []
        self.reads = 0

    def pending(self, digest: Hash) -> tuple[Form, bytes] | None:
        return self.waiting.get(digest)

    def locations(self, digests: Sequence[Hash]) -> dict[Hash, list[tuple[int, int, int]]]:
        self.asked += digests
        return {digest: self.where[digest] for digest in digests if digest in self.where}

    def read(self, pack: int, offset: int, *, damaged: bool = False) -> Record:
        self.reads += 1
        return self.packs.read(pack, offset, damaged=damaged)

    def read_many(self, places: Sequence[RecordPlace]) -> Iterator[tuple[RecordPlace, Record | ConvfsError]]:
        self.reads += len(places)
        return self.packs.read_many(places)

    def add(self, members: list[Member], dictionary: tuple[Hash, bytes] | None = None) -> None:
        """Pack blobs."""
        for record, hashes in pack_records(members, dictionary):
            self.add_record(record, hashes)

    def add_record(self, record: bytes, hashes: list[Hash]) -> None:
        [(pack, offset)] = self.packs.append([record])
        for member, digest in enumerate(hashes):
            self.where.setdefault(digest, []).append((pack, offset, member))

    def add_payloads(self, payloads: list[bytes], limit: int = 1024) -> list[Hash]:
        """Cut and pack payloads in one go, without those blobs that are there; return their hashes."""
        members: dict[Hash, Member] = {}
        for payload in payloads:
            for member in taken_apart(payload, limit):
                if member.hash not in self.where:
                    members.setdefault(member.hash, member)
        self.add(list(members.values()))
        return [hash_bytes(payload) for payload in payloads]


def plain(data: bytes) -> Member:
    return Member(hash_bytes(data), Form.PLAIN, len(data), data)


def taken_apart(payload: bytes, limit: int = 1024) -> list[Member]:
    """Return the blobs of a payload, its own last."""
    taken = cut(payload, limit)
    if taken is None:
        return [plain(payload)]
    contents = [plain(content) for _, content in taken.contents]
    return [*contents, Member(hash_bytes(payload), Form.SKELETON, len(payload), taken.body)]


def error_of(resolver: Resolver, digest: Hash) -> ConvfsError:
    """Return why a blob cannot be read, asked for alone as with others."""
    with pytest.raises(ConvfsError) as caught:
        resolver.blob(digest)
    found = resolver.blobs([digest])[digest]
    assert type(found) is type(caught.value)
    return caught.value


def check_flipped_bits(packed: Packed, expected: Mapping[Hash, bytes], step: int) -> None:
    """Flip a bit in every ``step``th byte of the pack, each by itself: what is read is right, or an error."""
    generator = random.Random(3)
    digests = list(expected)
    path = packed.packs.path(1)
    sound = path.read_bytes()
    wrong = 0
    for position in range(32, len(sound), step):
        with path.open("r+b") as file:
            file.seek(position)
            file.write(bytes([sound[position] ^ 1 << generator.randrange(8)]))
            file.flush()
            for digest, found in Resolver(packed, 0).blobs(digests).items():
                assert isinstance(found, ConvfsError) or found == expected[digest]
                wrong += isinstance(found, ConvfsError)
            file.seek(position)
            file.write(sound[position : position + 1])
    assert wrong
    assert Resolver(packed, 0).blobs(digests) == expected

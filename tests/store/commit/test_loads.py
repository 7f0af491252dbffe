"""Blobs that are written straight into the packs: what must be durable before what."""

from pathlib import Path

import pytest

from store.content.compression import Member, pack_records
from store.content.delta import chunks
from store.content.sealed import names_of
from store.disk.blob_format import Compression, Form, Record
from store.disk.file_header import Damage
from store.ids import hash_bytes
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.content.noise import noise

MIB = 1 << 20


def lists(store: Store) -> int:
    """Return how many records list the chunks of a blob."""
    records = (record for _pack, _at, record in store.files.packs.scan())
    return sum(not isinstance(record, Damage) and record.compression == Compression.CHUNKS for record in records)


def test_lists_of_chunks_are_written_once_the_chunks_of_all_are_durable(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [noise(MIB, seed) for seed in range(1, 5)]
    with Store.open(memory_path / "store") as store:
        sync = store.files.packs.sync
        found: list[int] = []

        def noted() -> None:
            found.append(lists(store))
            sync()

        monkeypatch.setattr(store.files.packs, "sync", noted)
        load = store.intake.load()
        streamed = (contents[1][: MIB // 2], contents[1][MIB // 2 :])
        digests = [load.huge(memoryview(contents[0])), load.stream(streamed)[0]]
        digests += [load.huge(memoryview(content)) for content in contents[2:]]
        # one that comes again is not written again
        digests.append(load.huge(memoryview(contents[0])))
        load.sync()
        assert found == [0, 4]
        assert [store.blobs.blob(digest) for digest in digests] == [*contents, contents[0]]
    with Store.open(memory_path / "store", create=False) as store:
        assert [store.blobs.blob(digest) for digest in digests[:4]] == contents
        assert fsck(store) == []


def test_of_what_was_packed_elsewhere_only_what_is_not_here_is_stored(memory_path: Path) -> None:
    def member(content: bytes) -> Member:
        return Member(hash_bytes(content), Form.PLAIN, len(content), content)

    known, *fresh, rest = (member(b"%d " % number * 2000) for number in range(6))
    with Store.open(memory_path / "store") as store:
        store.intake.put(known.body)
        load = store.intake.load()
        # of the first group one is here, the second is as the first but for that, and the third is new
        packed = [record for group in ([known, *fresh[:2]], fresh[:2], fresh[2:]) for record in pack_records(group)]
        load.prepared(packed, [rest, known, fresh[0]])
        load.sync()
        stored = [
            name
            for _pack, _at, record in store.files.packs.scan()
            for name in names_of(record if isinstance(record, Record) else pytest.fail("a pack is damaged"))
        ]
        assert sorted(stored) == sorted(one.hash for one in (known, *fresh, rest))
        assert all(store.blobs.blob(one.hash) == one.body for one in (known, *fresh, rest))
        assert fsck(store) == []


def test_what_is_one_chunk_is_no_list(memory_path: Path) -> None:
    content = noise(8 << 10)
    assert len(list(chunks(content))) == 1
    with Store.open(memory_path / "store") as store:
        load = store.intake.load()
        assert load.huge(memoryview(content)) == hash_bytes(content)
        load.sync()
        assert store.blobs.blob(hash_bytes(content)) == content
        assert lists(store) == 0
        assert len(store.files.index.locate([hash_bytes(content)])[hash_bytes(content)]) == 1

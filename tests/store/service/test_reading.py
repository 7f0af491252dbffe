"""All that is derived from contents reads them together: each about once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store import paths
from store.content.sparing import sparing
from store.disk.blob_format import Record
from store.disk.pack import PackSet, RecordPlace
from store.errors import ConvfsError
from store.importing.importer import Importer
from store.service.background import reading
from store.store import Store
from tests.bench import corpus


def test_a_lone_store_reads_its_packs_once(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.write_corpus(memory_path / "corpus", sessions=12, events=80, projects=3)
    root = memory_path / "store"
    with Store.open(root, renderer=FileRenderer()) as store:
        Importer(store).run([memory_path / "corpus" / "projects"])
    for name in (paths.SEARCH, paths.TEXTS, paths.WORKTREE, paths.INSIGHT):
        (root / name).unlink(missing_ok=True)
    read: Counter[RecordPlace] = Counter()
    one, many = PackSet.read, PackSet.read_many

    def counting_one(packs: PackSet, pack: int, offset: int, *, damaged: bool = False) -> Record:
        read[pack, offset] += 1
        return one(packs, pack, offset, damaged=damaged)

    def counting_many(
        packs: PackSet, places: Sequence[RecordPlace]
    ) -> Iterator[tuple[RecordPlace, Record | ConvfsError]]:
        read.update(places)
        return many(packs, places)

    monkeypatch.setattr(PackSet, "read", counting_one)
    monkeypatch.setattr(PackSet, "read_many", counting_many)
    with Store.open(root, renderer=FileRenderer()) as store:
        job = reading(store)
        with sparing():
            while job.step():
                pass
        assert store.search.unfiled_turns() == []
        assert store.insight.counted == store.files.turns.count
    assert len(read) > 10
    assert read.total() < 1.5 * len(read)

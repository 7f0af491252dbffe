"""Who relies on blobs while others sweep."""

import os
import threading
from pathlib import Path

import pytest

from store.commit.reliance import Reliance
from store.ids import Hash, hash_bytes, hash_key
from store.store import Store


@pytest.fixture
def reliance() -> Reliance:
    return Reliance()


def digests(*names: str) -> list[Hash]:
    return [hash_bytes(name.encode()) for name in names]


A, B, C = digests("a", "b", "c")


class Garbage(set[int]):
    def __init__(self, *names: Hash) -> None:
        super().__init__(map(hash_key, names))


def test_what_is_relied_on_is_spared(reliance: Reliance) -> None:
    region = reliance.region()
    assert reliance.note(region, [A], reliance.epoch) == {A}
    garbage = Garbage(A, B)
    with reliance.watching():
        reliance.doom(garbage, garbage.difference_update)
        assert garbage == Garbage(B)
        # the other is not there any more for whoever asks now
        assert reliance.note(region, [A, B, C], reliance.epoch) == {A, C}
    assert reliance.note(region, [A, B, C], reliance.epoch) == {A, B, C}


def test_a_region_that_ends_while_somebody_watches_counts(reliance: Reliance) -> None:
    before, during = reliance.region(), reliance.region()
    reliance.note(before, [A])
    reliance.note(during, [B])
    del before
    garbage = Garbage(A, B, C)
    with reliance.watching():
        del during
        reliance.doom(garbage, garbage.difference_update)
        assert garbage == Garbage(A, C)
    garbage = Garbage(A, B, C)
    with reliance.watching():
        reliance.doom(garbage, garbage.difference_update)
        assert garbage == Garbage(A, B, C)


def test_who_looked_before_a_sweep_ended_looks_again(reliance: Reliance) -> None:
    region = reliance.region()
    epoch = reliance.epoch
    with reliance.watching():
        reliance.doom(Garbage(A), lambda _keys: None)
        assert reliance.note(region, [A], epoch) == set()
    assert reliance.note(region, [A], epoch) is None
    assert reliance.note(region, [A], reliance.epoch) == {A}


def test_what_is_noted_while_some_is_spared_is_spared_too(reliance: Reliance) -> None:
    region = reliance.region()
    reliance.note(region, [A])
    garbage = Garbage(A, B, C)

    def spare(keys: set[int]) -> None:
        garbage.difference_update(keys)
        if hash_key(A) in keys:
            reliance.note(region, [B])

    with reliance.watching():
        reliance.doom(garbage, spare)
        assert garbage == Garbage(C)


def test_nested_work_is_one_region(reliance: Reliance) -> None:
    with reliance.relying():
        outer = reliance.region()
        with reliance.relying():
            assert reliance.region() is outer
        assert reliance.region() is outer
        others: list[object] = []
        thread = threading.Thread(target=lambda: others.append(reliance.region()))
        thread.start()
        thread.join()
        assert others != [outer]
    assert reliance.region() is not outer


def test_what_is_written_is_relied_on(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        load = store.intake.load()
        digest = load.blob(b"written")
        load.sync()
        garbage = Garbage(digest)
        with store.intake.reliance.watching():
            del load
            store.intake.reliance.doom(garbage, garbage.difference_update)
        assert not garbage


def test_what_was_put_without_a_name_lasts(reliance: Reliance, monkeypatch: pytest.MonkeyPatch) -> None:
    reliance.last(A)
    garbage = Garbage(A)
    with reliance.watching():
        reliance.doom(garbage, garbage.difference_update)
    assert not garbage
    monkeypatch.setattr("store.commit.reliance._LASTING_SECONDS", -1.0)
    garbage = Garbage(A)
    with reliance.watching():
        reliance.doom(garbage, garbage.difference_update)
    assert garbage


def test_doomed_blobs_are_written_anew(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        data = b"nobody names this " * 200
        digest = hash_bytes(data)
        load = store.intake.load()
        assert load.blob(data) == digest
        load.sync()
        del load
        reliance, garbage = store.intake.reliance, Garbage(digest)
        store.intake.cold(roll=True)
        with reliance.watching():
            reliance.doom(garbage, garbage.difference_update)
            assert garbage
            load = store.intake.load()
            load.blob(data)
            load.sync()
            store.rewriting.switch([], {}, [1], dropped={digest})
        assert store.blobs.blob(digest) == data
        assert [place[0] for place in store.files.index.locate([digest])[digest]] == [2]


def test_a_blob_that_is_put_once_more_counts_as_new(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        digest = store.intake.put(b"part of a tree")
        store.intake.cold(roll=True)
        packs = store.files.packs
        os.utime(packs.path(1), ns=(0, 0))
        assert store.intake.put(b"part of a tree") == digest
        assert packs.modified_ns(1) > 0
        assert packs.end[0] == 2

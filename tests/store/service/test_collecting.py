"""Collecting in the background of a daemon."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.conversations.contexts import Append
from store.retention.pruner import delete
from store.service.background import in_background
from store.service.jobs import Collecting
from store.store import Store
from store.upkeep.idle import Idle

DAY = 24 * 3600.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as store:
        for number in range(3):
            context = store.contexts.create(metadata={"project": "p", "name": f"c{number}"}).context
            store.contexts.append_many(
                context, [Append(b'{"text": "%s"}' % os.urandom(500).hex().encode(), "test")] * 3
            )
        store.checkpointer.flush()
        yield store


class Clock:
    def __init__(self) -> None:
        self.now = 100 * DAY

    def __call__(self) -> float:
        return self.now


def age(store: Store) -> None:
    """Have everything that was written be old, and nothing be written to it any more."""
    store.checkpointer.flush()
    store.intake.cold(roll=True)
    for path in (store.root / "blobs").iterdir():
        os.utime(path, ns=(0, 0))


def finish(job: Collecting) -> int:
    slices = 1
    while job.step():
        slices += 1
    return slices


def test_it_collects_once_a_day_where_something_has_changed(store: Store) -> None:
    clock = Clock()
    job = Collecting(store, clock)
    delete(store, 1, store.writer.head(1).tip)
    age(store)
    finish(job)
    assert store.turns.get(1).reclaimed
    before = store.files.packs.numbers()
    delete(store, 2, store.writer.head(2).tip)
    age(store)
    finish(job)
    assert not store.turns.get(4).reclaimed
    clock.now += DAY + 1
    # another daemon remembers when it was done last
    finish(Collecting(store, clock))
    assert store.turns.get(4).reclaimed
    assert before != store.files.packs.numbers()
    state = store.files.index.db.state("collected")
    clock.now += DAY + 1
    finish(job)
    finish(job)
    assert store.files.index.db.state("collected") != state
    clock.now += DAY + 1
    state = store.files.index.db.state("collected")
    finish(job)
    assert store.files.index.db.state("collected") == state


def test_what_was_written_lately_has_its_time(store: Store) -> None:
    store.intake.put(b"named by nothing")
    store.checkpointer.flush()
    store.intake.cold(roll=True)
    numbers = store.files.packs.numbers()
    finish(Collecting(store))
    assert store.files.packs.numbers() == numbers


def test_it_can_be_turned_off(store: Store) -> None:
    root = store.root
    store.close()
    (root / "convfs.toml").write_text("[gc]\nbackground = false\n")
    with Store.open(root) as again:
        delete(again, 1, again.writer.head(1).tip)
        age(again)
        finish(Collecting(again))
        assert not again.turns.get(1).reclaimed


def test_it_gives_way_to_who_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.service.jobs.SLICE_SECONDS", 0.0)
    job = Collecting(store)
    assert job.step()
    alone = store.rewriting.alone
    assert job._steps is not None
    next(job._steps)
    assert not alone.acquire(blocking=False)
    monkeypatch.setattr(type(alone), "wanted", property(lambda _self: True))
    monkeypatch.setattr("store.service.jobs.SLICE_SECONDS", 10.0)
    assert not job.step()
    with alone:
        pass


@pytest.mark.logs("nothing was collected")
@pytest.mark.of_one_machine("it writes to the log")
def test_what_cannot_be_known_is_told(store: Store) -> None:
    root = store.root
    delete(store, 1, store.writer.head(1).tip)
    store.close()
    data = bytearray((root / "turns" / "heads.log").read_bytes())
    data[60] ^= 1
    (root / "turns" / "heads.log").write_bytes(data)
    with Store.open(root) as again:
        finish(Collecting(again))
        assert not again.turns.get(1).reclaimed


def test_what_was_deleted_for_good_is_collected_without_waiting_for_a_day(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    job = Collecting(store, clock)
    age(store)
    finish(job)
    woken: list[object] = []
    monkeypatch.setattr(Idle, "wake", lambda _self, job: woken.append(job))
    with in_background(store):
        store.contexts.append(1, b"{}", "test")
        assert woken == []
        delete(store, 2, store.writer.head(2).tip)
    assert [type(one) for one in woken] == [Collecting]
    age(store)
    finish(job)
    assert not store.turns.get(4).reclaimed
    job.let_go()
    finish(job)
    assert store.turns.get(4).reclaimed

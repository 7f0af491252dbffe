"""The rules that a user has set: what they find, and that a daemon follows them."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.ids import now_ms
from store.retention.plan import oldest
from store.retention.pruner import RuleJob, found_by_rules
from store.settings import Retention
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.content.noise import noise
from tests.store.retention.test_collecting import collect

SIZE = 20_000


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


def fill(store: Store, count: int) -> None:
    """Make conversations that take about as much each, the oldest first."""
    for number in range(count):
        metadata: dict[str, object] = {"project": "p", "name": f"talk-{number}"}
        context = store.contexts.create(metadata=metadata).context
        text = b'{"type":"user","content":"%s"}' % noise(SIZE, number + 1).replace(b"\n", b" ")
        store.contexts.append_many(context, [Append(text, "jp.event.v1")])
        store.contexts.set_metadata(context, {"updated_ms": 1_772_739_114_356 + number})


def keep(store: Store, **rules: object) -> None:
    retention = Retention(**rules)  # type: ignore[arg-type]
    store.settings = msgspec.structs.replace(store.settings, retention=retention)


def names(store: Store) -> list[str]:
    return [conversation.name for conversation in store.library.conversations()]


def packed(store: Store) -> int:
    store.checkpointer.flush()
    return sum(map(store.files.packs.length, store.files.packs.numbers()))


def follow(store: Store) -> int:
    """Have the rules followed, and return in how many slices."""
    job, slices = RuleJob(store), 1
    while job.step():
        slices += 1
    return slices


def test_without_rules_nothing_is_deleted(store: Store) -> None:
    fill(store, 3)
    seq = store.writer.seq
    assert follow(store) == 1
    assert len(names(store)) == 3
    assert store.writer.seq == seq


def test_what_is_old(store: Store) -> None:
    fill(store, 3)
    store.contexts.set_metadata(2, {"updated_ms": now_ms()})
    keep(store, conversations_days=1.0)
    follow(store)
    assert names(store) == ["talk-1"]
    follow(store)
    assert names(store) == ["talk-1"]


def test_no_more_than_so_much(store: Store) -> None:
    fill(store, 10)
    store.contexts.set_metadata(3, {"pinned": True})
    one = packed(store) // 10
    keep(store, max_bytes=20 * one)
    follow(store)
    assert len(names(store)) == 10
    keep(store, max_bytes=6 * one + one // 2)
    follow(store)
    left = names(store)
    assert left == [f"talk-{number}" for number in (2, 5, 6, 7, 8, 9)]
    # what has been deleted and not been collected yet takes no more to be deleted
    follow(store)
    assert names(store) == left
    collect(store)
    assert packed(store) <= 7 * one
    follow(store)
    assert names(store) == left


def test_what_is_found_anyway_counts(store: Store) -> None:
    fill(store, 4)
    found = [one for one in oldest(store, 50, 100, (), {1, 2}) if one is not None]
    assert found == []
    found = [one for one in oldest(store, 50, 100, (), {1}) if one is not None]
    assert [one.name for one in found] == ["talk-1"]
    assert [one for one in oldest(store, 100, 100, (), ()) if one is not None] == []
    keep(store, conversations_days=1.0, max_bytes=packed(store) * 3 // 5)
    store.contexts.set_metadata(4, {"updated_ms": now_ms()})
    found = [one for one in found_by_rules(store) if one is not None]
    assert sorted(one.name for one in found) == ["talk-0", "talk-1", "talk-2"]

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.store import Store
from tests.conftest import scratch as memory
from tests.crash_mount.harness import Bench, benches
from tests.crash_mount.ways import Way
from tests.fusefs.editing.talk import LINES
from tests.fusefs.tree.mounting import add, can_mount, keep_each_save, new_store
from tests.model import instead

SIDE_BY_SIDE = 2
"""Runs at once: each waits for the kernel most of the time."""


@pytest.fixture(scope="module")
def shared_benches() -> Iterator[list[Bench]]:
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    with benches(SIDE_BY_SIDE) as made:
        yield made


@pytest.fixture
def all_here(shared_benches: list[Bench]) -> Iterator[list[Bench]]:
    """Some benches on which nothing is mounted, for what can be tried side by side."""
    yield shared_benches
    for one in shared_benches:
        one.clean()


@pytest.fixture
def here(all_here: list[Bench]) -> Bench:
    """One bench."""
    return all_here[0]


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A store of one conversation, to be copied."""
    base = memory()
    with new_store(base / "store") as store:
        add(store, LINES)
        measure_all(store)
    keep_each_save(base / "store")
    yield base / "store"
    shutil.rmtree(base)


def measure_all(store: Store) -> None:
    """Have the sizes of all events worked out, as they are once somebody has listed them."""
    for conversation in store.library.conversations():
        list(store.records.rows(conversation.head))


@pytest.fixture
def prepared(template: Path, way: Way) -> Iterator[Path]:
    """The store, prepared for a way to save."""
    base = memory()
    shutil.copytree(template, base / "store")
    instead(base / "store")
    with new_store(base / "store") as store:
        way.prepare(store)
    yield base / "store"
    shutil.rmtree(base)

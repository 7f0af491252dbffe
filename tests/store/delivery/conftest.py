from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.delivery.talk import Talk


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a store of the test's own."""
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


@pytest.fixture
def talk(store: Store) -> Talk:
    """Return a conversation in which nothing was said yet."""
    return Talk(store)

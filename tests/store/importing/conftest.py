from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.store import Store
from store.upkeep.fsck import fsck


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a store of the test's own; whatever the test did to it, it must be sound afterwards."""
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store for all the examples of a module's property tests."""
    with Store.open(tmp_path_factory.mktemp("shared") / "store", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.store import Store
from store.upkeep.fsck import fsck


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Store]:
    """Yield a store, which must be sound afterwards."""
    with Store.open(tmp_path / "laptop", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


@pytest.fixture
def desktop(tmp_path: Path) -> Iterator[Store]:
    """Yield another one."""
    with Store.open(tmp_path / "desktop", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.store import Store
from store.upkeep.fsck import fsck
from tests.editing.measured import check_measures


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a store of the test's own; whatever the test did to it, it must be sound afterwards."""
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        yield store
        check_measures(store)
        assert fsck(store) == []


@pytest.fixture
def editor(store: Store) -> Editor:
    return Editor(store)

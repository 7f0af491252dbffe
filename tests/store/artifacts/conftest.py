from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.store import Store


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as opened:
        yield opened


@pytest.fixture
def context(store: Store) -> int:
    """A conversation without outputs."""
    return store.contexts.create(metadata={"project": "project", "name": "talk"}).context

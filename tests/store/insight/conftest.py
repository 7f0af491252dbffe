from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.store import Store


@pytest.fixture
def root(memory_path: Path) -> Path:
    return memory_path / "store"


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    with Store.open(root, renderer=FileRenderer()) as opened:
        yield opened

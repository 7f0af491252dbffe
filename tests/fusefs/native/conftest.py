from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.tree.conftest import store_path
from tests.fusefs.tree.mounting import Mounted, mounted, new_store

__all__ = ["store_path"]


@pytest.fixture
def mount(store_path: Path) -> Iterator[Mounted]:
    """An empty store, mounted."""
    with new_store(store_path):
        pass
    with mounted(store_path) as mount:
        yield mount

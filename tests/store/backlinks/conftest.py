from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.store import Store
from tests.model import findings


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as opened:
        yield opened
        assert findings(opened) == []

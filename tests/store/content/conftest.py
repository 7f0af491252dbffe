from pathlib import Path

import pytest

from store.content.resolver import Resolver
from tests.store.content.packed import Packed


@pytest.fixture
def packed(tmp_path: Path) -> Packed:
    return Packed(tmp_path / "blobs")


@pytest.fixture(params=[0, 1 << 20], ids=["no cache", "cache"])
def resolver(packed: Packed, request: pytest.FixtureRequest) -> Resolver:
    return Resolver(packed, request.param)

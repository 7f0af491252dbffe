from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.user import User


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    return User(tmp_path)

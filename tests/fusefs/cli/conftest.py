from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons import wrote
from tests.fusefs.cli.user import User


@pytest.fixture
def user(memory_path: Path) -> Iterator[User]:
    user = User(memory_path)
    yield user
    wrote(user.store / "log")

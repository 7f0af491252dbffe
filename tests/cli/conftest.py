from pathlib import Path

import pytest

from tests.cli.user import User


@pytest.fixture
def user(memory_path: Path) -> User:
    return User(memory_path)

"""Fixtures of the tests of ``store.disk``."""

from collections.abc import Callable
from pathlib import Path

import pytest

STORE_ID = bytes(range(16))


@pytest.fixture
def store_id() -> bytes:
    return STORE_ID


@pytest.fixture
def flip() -> Callable[[Path, int, int], None]:
    """Return what flips one bit of a file: path, offset, bit."""

    def flip(path: Path, offset: int, bit: int) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1 << bit]))

    return flip

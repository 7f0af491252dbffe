from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import LINES, Talk
from tests.fusefs.tree.conftest import store_path
from tests.fusefs.tree.mounting import add, keep_each_save, mounted, new_store

__all__ = ["store_path"]


@pytest.fixture
def lines() -> list[str]:
    """The lines of the conversation that :func:`talk` has."""
    return LINES


@pytest.fixture
def talk(store_path: Path, lines: list[str]) -> Iterator[Talk]:
    """A mounted store with one conversation to be changed; afterwards no file has another size than it says."""
    with new_store(store_path) as store:
        add(store, lines)
    keep_each_save(store_path)
    with mounted(store_path) as mount:
        talk = Talk(mount)
        yield talk
        talk.check()

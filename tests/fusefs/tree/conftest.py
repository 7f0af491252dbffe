import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.mount_table import mount_at
from tests.fusefs.tree.mounting import (
    PATIENCE,
    Mounted,
    add,
    assistant,
    can_mount,
    mounted,
    new_store,
    user,
    work_directory,
)


@pytest.fixture
def store_path(memory_path: Path) -> Path:
    """A place for a store that is to be mounted. Those of ``tests/editors`` are on a disk."""
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    return memory_path / "store"


@pytest.fixture
def mountpoint() -> Iterator[Path]:
    """A directory to mount at; nothing is mounted there in the end."""
    path = Path(tempfile.mkdtemp(prefix="mount-", dir=work_directory()))
    yield path
    if mount_at(path) is not None:
        subprocess.run(["fusermount3", "-uz", str(path)], timeout=PATIENCE, check=False)
    path.rmdir()


@pytest.fixture
def mount(store_path: Path) -> Iterator[Mounted]:
    """A mount of one conversation, ``TALK``, in which three things are said."""
    with new_store(store_path) as store:
        add(store, [user("first", 1), assistant("second", 2), user("third", 3)])
    with mounted(store_path) as here:
        yield here

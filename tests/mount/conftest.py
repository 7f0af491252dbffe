import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.mounting import can_mount, work_directory


@pytest.fixture
def store_path() -> Iterator[Path]:
    """A place for a store on the disk that mounts are on too."""
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    directory = Path(tempfile.mkdtemp(prefix="store-", dir=work_directory()))
    yield directory / "store"
    shutil.rmtree(directory)

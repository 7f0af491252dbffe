"""A user's store as a daemon holds it, or nobody."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.user import User
from tests.mount.mounting import can_mount, work_directory


@contextmanager
def mounted_if(user: User, mounted: bool) -> Iterator[None]:
    """Have the user's store mounted while the block runs, at ``MOUNTED`` in the user's environment; or leave it."""
    if not mounted:
        yield
        return
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    mountpoint = Path(f"{work_directory()}/cli-{user.home.parent.name}")
    mountpoint.mkdir()
    user.convfs("mount", mountpoint)
    user.environment["MOUNTED"] = str(mountpoint)
    yield
    user.run("umount", mountpoint)
    mountpoint.rmdir()

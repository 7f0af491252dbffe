"""A user's store as a daemon holds it, or nobody."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusefs.mount_table import mounts
from store.service import address
from tests.daemons import wrote
from tests.fusefs.cli.user import User
from tests.fusefs.tree.mounting import can_mount, work_directory
from tests.waiting import until


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


SECONDS = 20


@contextmanager
def user_on_disk() -> Iterator[User]:
    """Somebody whose home is on a disk; what is mounted in it in the end is unmounted."""
    # Not in /tmp, where some programs behave differently.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="convfs-test-", dir=cache) as directory:
        user = User(Path(directory))
        try:
            yield user
        finally:
            for mount in reversed(list(mounts())):
                if mount.path.is_relative_to(directory):
                    # only root has mounted directories elsewhere
                    command = ["fusermount3", "-uz"] if os.geteuid() else ["umount", "-l"]
                    subprocess.run([*command, mount.path], check=False)
            until(lambda: holder(user) is None)
            wrote(user.store / "log")


def holder(user: User, root: Path | None = None) -> int | None:
    """Return the daemon that a store, the user's own unless another is named, is held by."""
    root = root or user.store
    process = address.noted_process(root)
    return process if address.noted_socket(root) and runs(process) else None


def runs(process: int) -> bool:
    try:
        # One that has ended stays as a zombie until whoever has to takes note.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False

"""Mounted stores, as commands need to know them."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fusefs.mount_table import FSTYPE, Mount, mount_at, mounts
from store.errors import Conflict, ConvfsError

_SECONDS = 10
_ANSWER_SECONDS = 3
_NAMED = 3


def convfs_above(path: Path) -> Mount | None:
    """Return the mounted store that ``path`` (absolute) lies in, None if it lies in none."""
    above = [mount for mount in mounts() if path.is_relative_to(mount.path)]
    nearest = max(above, key=lambda mount: len(mount.path.parts), default=None)
    return nearest if nearest and nearest.fstype == FSTYPE else None


def root_of(mount: Mount) -> Path | None:
    """Return the directory of the store that is mounted, None where the mount does not say."""
    return Path(mount.source) if os.path.isabs(mount.source) else None


def mountpoint(directory: Path) -> Path:
    """Return a directory's absolute path without links, and without looking at what is mounted there: it may hang."""
    path = Path(os.path.abspath(directory))
    path = Path(os.path.realpath(path.parent)) / path.name
    if mount_at(path) or not path.is_symlink():
        return path
    return mountpoint(path.parent / path.readlink())


def answers(path: Path) -> bool:
    """Say whether what is mounted at ``path`` answers; asked by another process, which may hang in our place."""
    try:
        return not subprocess.run(["stat", "--", path], capture_output=True, timeout=_ANSWER_SECONDS).returncode
    except subprocess.TimeoutExpired:
        return False


def unmount(path: Path, *, lazy: bool = False) -> None:
    """Unmount what is mounted at ``path``; ``lazy`` also where it is in use or its daemon is dead.

    Raises Conflict, naming who uses it, where it is in use.
    """
    command = ["fusermount3", "-uz" if lazy else "-u", "--", path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except FileNotFoundError as error:
        raise ConvfsError("fusermount3 is not installed: `sudo apt-get install fuse3`") from error
    except subprocess.TimeoutExpired as error:
        raise ConvfsError(
            f"{path} cannot be unmounted, fusermount3 hangs: end its daemon, see `convfs doctor`"
        ) from error
    if not done.returncode or not mount_at(path):
        return
    if found := list(_users(path)):
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise Conflict(f"{path} is in use by {', '.join(found[:_NAMED])}{more}: leave it, or end these, and try again")
    reason = done.stderr.strip() or f"fusermount3 ends with {done.returncode}"
    raise ConvfsError(f"{path} cannot be unmounted ({reason}): try `sudo umount {path}`")


def _users(path: Path) -> Iterator[str]:
    """Yield the processes that have ``path`` or something in it open, as ``name (pid)``; only reads links of /proc."""
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            links = [process / "cwd", process / "root", *(process / "fd").iterdir()]
            if any(Path(target).is_relative_to(path) for target in map(os.readlink, links)):
                yield f"{(process / 'comm').read_text().strip()} ({process.name})"
        except OSError:
            continue

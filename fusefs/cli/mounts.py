"""What is mounted on this machine, read from the kernel's table without touching any mount (a dead one hangs)."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from store.errors import Conflict, ConvfsError

FSTYPE = "fuse.convfs"
_ESCAPED = re.compile(r"\\([0-7]{3})")
_MAX_USERS = 3


class Mount(Struct, frozen=True):
    """One line of the mount table."""

    path: Path
    fstype: str
    source: str


def mounts(table: Path = Path("/proc/self/mountinfo")) -> Iterator[Mount]:
    """Yield what is mounted, in the order in which it was."""
    for line in os.fsdecode(table.read_bytes()).splitlines():
        left, _, right = line.partition(" - ")
        kind = right.split(" ")
        yield Mount(Path(_unescape(left.split(" ")[4])), kind[0], _unescape(kind[1]))


def mount_at(path: Path) -> Mount | None:
    """Return what is mounted exactly at ``path`` (absolute), None if nothing is."""
    return next((mount for mount in reversed(list(mounts())) if mount.path == path), None)


def convfs_above(path: Path) -> Mount | None:
    """Return the mounted store that ``path`` (absolute) lies in, None if it lies in none."""
    above = [mount for mount in mounts() if path.is_relative_to(mount.path)]
    nearest = max(above, key=lambda mount: len(mount.path.parts), default=None)
    return nearest if nearest and nearest.fstype == FSTYPE else None


def unmount(path: Path, *, lazy: bool = False) -> None:
    """Unmount what is mounted at ``path``; ``lazy`` also where it is in use or its daemon is dead.

    Raises Conflict, naming the processes, where it is in use.
    """
    command = ["fusermount3", "-u", *(["-z"] if lazy else []), "--", os.fspath(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise ConvfsError("fusermount3 is not installed: `sudo apt-get install fuse3`") from error
    if done.returncode and mount_at(path):
        if "busy" in done.stderr:
            raise Conflict(f"{path} is in use{_named_users(path)}: leave it, or end these, and try again")
        raise ConvfsError(f"{path} cannot be unmounted: {done.stderr.strip() or 'fusermount3 does not say why'}")


def _named_users(path: Path) -> str:
    users = list(_users(path))
    if not users:
        return ""
    more = f" and {len(users) - _MAX_USERS} more" if len(users) > _MAX_USERS else ""
    return f" by {', '.join(users[:_MAX_USERS])}{more}"


def _users(path: Path) -> Iterator[str]:
    """Yield the processes that have ``path`` or something in it open, as ``name (pid)``; only reads links of /proc."""
    inside = (os.fspath(path), f"{path}/")
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            links = [process / "cwd", process / "root", *(process / "fd").iterdir()]
            if any(target == inside[0] or target.startswith(inside[1]) for target in map(os.readlink, links)):
                yield f"{(process / 'comm').read_text().strip()} ({process.name})"
        except OSError:
            continue


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: os.fsdecode(bytes([int(match[1], 8)])), text)

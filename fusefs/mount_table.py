"""What is mounted on this machine, read from the kernel's table without touching any mount (a dead one hangs)."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

FSTYPE = "fuse.convfs"
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(Struct, frozen=True):
    """One line of the mount table. ``device`` is the number that names a FUSE connection in sysfs (minor)."""

    path: Path
    fstype: str
    source: str
    device: int


def mounts(table: Path = Path("/proc/self/mountinfo")) -> Iterator[Mount]:
    """Yield what is mounted, in the order in which it was."""
    for line in os.fsdecode(table.read_bytes()).splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        yield Mount(Path(_unescape(fields[4])), kind[0], _unescape(kind[1]), int(fields[2].partition(":")[2]))


def mount_at(path: Path) -> Mount | None:
    """Return what is mounted exactly at ``path`` (absolute), None if nothing is."""
    return next((mount for mount in reversed(list(mounts())) if mount.path == path), None)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: os.fsdecode(bytes([int(match[1], 8)])), text)

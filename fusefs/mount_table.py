"""The mounts of this machine, read from the kernel's table without touching any of them (a dead one hangs).

While a store is mounted, a note under ``mounts/`` in its directory tells the mountpoint, the process, and the number
of the FUSE connection, so that what a killed daemon left is cleaned at the next start.
"""

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path

import msgspec
from msgspec import Struct

from store import typed
from store.disk.identity import directory_key
from store.paths import MOUNTS

FSTYPE = "fuse.convfs"
ANSWER_SECONDS = 3.0
_DEAD = (errno.ENOTCONN, errno.ECONNABORTED)
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(Struct, frozen=True):
    """One line of the mount table. ``device`` is the number that names a FUSE connection in sysfs (minor).

    ``root`` is the directory of the file system that is mounted, absolute within that: not ``/`` for a bind.
    """

    path: Path
    fstype: str
    source: str
    device: int
    root: Path = Path("/")


def mounts(table: Path = Path("/proc/self/mountinfo")) -> Iterator[Mount]:
    """Yield the mounts, in the order in which they were made."""
    for line in os.fsdecode(table.read_bytes()).splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        device = int(fields[2].partition(":")[2])
        yield Mount(Path(_unescape(fields[4])), kind[0], _unescape(kind[1]), device, Path(_unescape(fields[3])))


def mount_at(path: Path) -> Mount | None:
    """Return the mount exactly at ``path`` (absolute), None if there is none."""
    return next((mount for mount in reversed(list(mounts())) if mount.path == path), None)


class Condition(Enum):
    """The condition of a mount: it ANSWERS; it HANGS, and blocks its callers; its daemon is DEAD."""

    ANSWERS = auto()
    HANGS = auto()
    DEAD = auto()


def condition(path: Path, seconds: float = ANSWER_SECONDS) -> Condition:
    """Return the condition of the mount at ``path``; another process asks, which may hang in our place.

    The question is one that the kernel has no answer to by itself: what it knows of a file may outlive the daemon.
    """
    command, plain = ["stat", "-f", "--", os.fspath(path)], {**os.environ, "LC_ALL": "C"}
    try:
        said = subprocess.run(command, capture_output=True, env=plain, timeout=seconds).stderr
    except subprocess.TimeoutExpired:
        return Condition.HANGS
    # another error is an answer, too
    return Condition.DEAD if any(os.strerror(number).encode() in said for number in _DEAD) else Condition.ANSWERS


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: os.fsdecode(bytes([int(match[1], 8)])), text)


class MountNote(Struct, frozen=True):
    """A note of a mount. ``started`` is the process's start time in clock ticks since boot.

    ``directory`` is the key of the store's (``store.disk.identity``); "" in a note of version 0.5.
    """

    mountpoint: str
    pid: int
    started: int
    connection: int
    directory: str = ""


def notes(root: Path) -> Iterator[tuple[Path, MountNote]]:
    """Yield the notes of mounts of the store at ``root``, each with its path.

    A note that was copied with the store is not of its mounts.
    """
    try:
        key = directory_key(root)
    except OSError:
        return
    for path in sorted((root / MOUNTS).glob("*.json")):
        try:
            note = typed.decode(path.read_bytes(), MountNote)
        except (OSError, msgspec.DecodeError):
            continue
        if note.directory in ("", key):
            yield path, note


def alive(note: MountNote) -> bool:
    """Return whether the process that a note names still runs."""
    return started(note.pid) == note.started


def started(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if there is none or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])

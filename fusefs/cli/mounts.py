"""Mounted stores: where they are, whether they answer, and how to unmount them."""

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from fusefs.mount_table import FSTYPE, Mount, MountNote, mount_at, mounts, notes
from store import visible
from store.errors import Conflict, ConvfsError

DEVICE = Path("/dev/fuse")


def problems() -> Iterator[str]:
    """Yield the reasons why nothing can be mounted on this machine, one line each, with a remedy."""
    try:
        is_device = stat.S_ISCHR(DEVICE.stat().st_mode)
    except OSError:
        is_device = False
    if not is_device:
        yield (
            f"{DEVICE} does not exist, so nothing can be mounted: load the kernel's fuse module (`modprobe fuse`), or "
            f"give the container the device (`docker run --device {DEVICE} --cap-add SYS_ADMIN`)"
        )
    elif not os.access(DEVICE, os.R_OK | os.W_OK):
        yield f"{DEVICE} cannot be opened by this user: have root run `chmod 666 {DEVICE}`"
    if not any(os.access(os.path.join(folder, "fusermount3"), os.X_OK) for folder in os.get_exec_path()):
        yield "fusermount3 is not installed: `sudo apt-get install fuse3` (or your system's fuse3 package)"


_SECONDS = 10
_NAMED = 3
_PAUSES = (0.05, 0.2, 0.75)
"""The seconds between attempts to unmount what is busy, although nobody is seen to use it."""


def convfs_above(path: Path) -> Mount | None:
    """Return the mounted store that ``path`` (absolute) lies in, None if it lies in none."""
    above = [mount for mount in mounts() if path.is_relative_to(mount.path)]
    nearest = max(above, key=lambda mount: len(mount.path.parts), default=None)
    return nearest if nearest and nearest.fstype == FSTYPE else None


def root_of(mount: Mount) -> Path:
    """Return the directory of the mounted store. Raises Conflict if another store has replaced it since."""
    root = Path(mount.source)
    if note_of(mount) is None:
        raise Conflict(
            f"{mount.path} shows a store that is no longer at {root}, where it was when it was mounted: name one "
            "with --store"
        )
    return root


def note_of(mount: Mount) -> MountNote | None:
    """Return the store's note of a mount; None if another store, or none, is now at the mount's source."""
    if not os.path.isabs(mount.source):
        return None
    return next((note for _path, note in notes(Path(mount.source)) if note.connection == mount.device), None)


def hanging(mount: Mount) -> str:
    """Return the message about a mount that does not answer although its daemon is not known to be dead."""
    note = note_of(mount)
    who, how = (f", process {note.pid},", f"`kill {note.pid}`") if note else ("", "end it")
    return f"the daemon{who} that mounts {mount.path} does not answer: wait, or {how} and try again"


def mountpoint(directory: Path) -> Path:
    """Return a directory's absolute path without links, without touching a mount at it, which may hang."""
    path = Path(os.path.abspath(directory))
    path = Path(os.path.realpath(path.parent)) / path.name
    if mount_at(path) or not path.is_symlink():
        return path
    return mountpoint(path.parent / path.readlink())


def unmount(path: Path, *, lazy: bool = False) -> None:
    """Unmount ``path``; if ``lazy``, even if it is in use or its daemon is dead.

    Raises Conflict, with the processes that use it, if it is in use. Who cannot be named is waited for, a second long.
    """
    for pause in (*_PAUSES, None):
        refused = _refused(path, lazy=lazy)
        if refused is None or not mount_at(path):
            return
        if found := list(_users(path)):
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            raise Conflict(
                f"{path} is in use by {', '.join(found[:_NAMED])}{more}: leave it, or end these, and try again"
            )
        if "busy" not in refused or pause is None:
            break
        # who used it has left since, or holds a mapping only
        time.sleep(pause)
    raise ConvfsError(f"{path} cannot be unmounted ({refused}): try `{visible.command('sudo', 'umount', path)}`")


def _refused(path: Path, *, lazy: bool) -> str | None:
    """Unmount with fusermount3; return the reason that it gives for not doing so, None if it does."""
    command = ["fusermount3", "-uz" if lazy else "-u", "--", path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except FileNotFoundError as error:
        raise ConvfsError("fusermount3 is not installed: `sudo apt-get install fuse3`") from error
    except subprocess.TimeoutExpired as error:
        raise ConvfsError(
            f"{path} cannot be unmounted, fusermount3 hangs: end its daemon, see `convfs doctor`"
        ) from error
    if not done.returncode:
        return None
    return done.stderr.strip() or f"fusermount3 exits with {done.returncode}"


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

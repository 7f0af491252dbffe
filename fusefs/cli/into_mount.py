"""Files written where they stay: into the directory of a tool, which may be linked into a mount.

Nothing can be moved into a mount, and what is written there becomes sessions by the mount's own way. This process
writes, since the one that mounts a store must not wait for its own mount.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from fusefs.cli.mounts import convfs_above
from fusefs.mount_table import mounts
from store.disk.beneath import Beneath

_NATIVE = Path("/.convfs/native")


def leads_into_native(directory: Path) -> bool:
    """Return whether a directory is in the ``native/`` of a mount, or whether something right in it leads there."""
    places = [directory, *(mount.path for mount in mounts() if mount.path.parent == directory)]
    with suppress(OSError), os.scandir(directory) as entries:
        places += [Path(entry) for entry in entries if entry.is_symlink()]
    return any(map(is_native, places))


def is_native(path: Path) -> bool:
    """Return whether a path leads into the ``native/`` of a mount, or to what another one shows of it."""
    real = Path(os.path.realpath(path))
    mount = convfs_above(real)
    return mount is not None and (mount.root / real.relative_to(mount.path)).is_relative_to(_NATIVE)


def is_same(there: Path, here: Path, *, but_for_first: bool = False) -> bool:
    """Return whether two files are the same; ``but_for_first``: but for the first line, which may have the time."""
    with there.open("rb") as one, here.open("rb") as other:
        if but_for_first:
            one.readline()
            other.readline()
        while piece := one.read(1 << 20):
            if piece != other.read(1 << 20):
                return False
        return not other.read(1)


def put(folder: Path, home: Path, files: Mapping[Path, str]) -> None:
    """Write the files of a session from ``folder`` into ``home``: the main one, which is first, last.

    A file that is there is replaced if it has the given hash, and stays if it is the same. Raises ClickException if it
    is neither, before anything is written.
    """
    left = [name for name in files if not ((home / name).is_file() and is_same(home / name, folder / name))]
    for name in left:
        if os.path.lexists(home / name) and (not files[name] or _hash_of(home / name) != files[name]):
            raise click.ClickException(f"{home / name} is there already, and says something else: move it away")
    for name in reversed(left):
        path = home / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.path.lexists(path):
            _fill(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC), folder / name)
            continue
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _fill(fd, folder / name)
        except BaseException:
            with suppress(OSError):
                path.unlink()
            raise


def _fill(fd: int, source: Path) -> None:
    with os.fdopen(fd, "wb") as stream, source.open("rb") as content:
        while piece := content.read(1 << 20):
            stream.write(piece)
        stream.flush()
        os.fsync(stream.fileno())


def _hash_of(path: Path) -> str | None:
    with Beneath.opened(path.parent) as directory:
        return directory.hash_of(Path(path.name))

"""``convfs umount``."""

import os
import select
from pathlib import Path

import click

from store import visible

_PATIENCE_SECONDS = 60


@click.command(short_help="Unmount DIR and wait until everything is written.")
@click.argument("directory", metavar="DIR", type=Path)
@click.pass_obj
def umount(store: Path | None, directory: Path) -> None:
    """Unmount DIR, and return when the daemon has written everything and ended."""
    from fusefs.cli.mounts import mountpoint, note_of, unmount
    from fusefs.mount_table import FSTYPE, Condition, condition, mount_at
    from store.disk import durable
    from store.errors import ConvfsError, UsageError
    from store.paths import LOCK

    path = mountpoint(directory)
    mount = mount_at(path)
    if mount is None:
        raise UsageError(f"nothing is mounted at {path}: `convfs stats` says where the store is mounted")
    if mount.fstype != FSTYPE:
        instead = visible.command("umount", path)
        raise UsageError(f"the mount at {path} is {mount.fstype}, not convfs: use `{instead}`")
    if condition(path) is Condition.DEAD:
        # nothing in it can be lost
        unmount(path, lazy=True)
        return
    note = note_of(mount)
    if note is None:
        unmount(path)
        if os.path.isdir(mount.source) and durable.unwritable((Path(mount.source), Path(mount.source, LOCK))):
            # a read-only store has no notes and no writes
            return
        raise ConvfsError(
            f"{path} is unmounted, but its store is no longer at {mount.source}: its daemon, which is unknown, "
            "may still be writing"
        )
    try:
        daemon = os.pidfd_open(note.pid)
    except ProcessLookupError:
        unmount(path, lazy=True)
        return
    try:
        unmount(path)
        if not select.select([daemon], [], [], _PATIENCE_SECONDS)[0]:
            raise ConvfsError(f"{path} is unmounted, but process {note.pid} is still writing: wait until it has ended")
    finally:
        os.close(daemon)

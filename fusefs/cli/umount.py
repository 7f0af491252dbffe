"""``convfs umount``."""

import os
import select
from pathlib import Path

import click

_PATIENCE_SECONDS = 60


@click.command(short_help="Unmount DIR and wait until everything is written.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.pass_obj
def umount(store: Path | None, directory: Path) -> None:
    """Unmount DIR, and return when the daemon has written everything and ended."""
    from fusefs.cli.backend import running, store_root
    from fusefs.cli.mounts import mountpoint, root_of, unmount
    from fusefs.mount_table import FSTYPE, mount_at
    from store.errors import ConvfsError, UsageError

    path = mountpoint(directory)
    mount = mount_at(path)
    if mount is None:
        raise UsageError(f"nothing is mounted at {path}: `convfs stats` says where the store is mounted")
    if mount.fstype != FSTYPE:
        raise UsageError(f"what is mounted at {path} is not convfs but {mount.fstype}: `umount {path}` is for that")
    client = running(root_of(mount) or store_root(store))
    if client is None:
        # Its daemon is dead, so nobody has anything to lose in it.
        unmount(path, lazy=True)
        return
    with client:
        daemon = os.pidfd_open(client.pid)
    try:
        unmount(path)
        if not select.select([daemon], [], [], _PATIENCE_SECONDS)[0]:
            raise ConvfsError(
                f"{path} is unmounted, but process {client.pid} is still writing: wait until it has ended"
            )
    finally:
        os.close(daemon)

"""``convfs umount``."""

import os
import select
from pathlib import Path

import click

_PATIENCE_SECONDS = 120


@click.command(short_help="Unmount DIR and wait until everything is written.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.pass_obj
def umount(store: Path | None, directory: Path) -> None:
    """Unmount DIR, and return when the daemon has written everything and ended."""
    from fusefs.cli.backend import running, store_root
    from fusefs.cli.mounts import FSTYPE, mount_at, unmount
    from store.errors import ConvfsError, UsageError

    path = Path(os.path.abspath(directory))
    # The parent only: looking at a mount whose daemon hangs would hang, too.
    path = Path(os.path.realpath(path.parent)) / path.name
    mount = mount_at(path)
    if mount is None:
        raise UsageError(f"nothing is mounted at {path}: `convfs stats` says where the store is mounted")
    if mount.fstype != FSTYPE:
        raise UsageError(f"what is mounted at {path} is not convfs but {mount.fstype}: `umount {path}` is for that")
    root = Path(mount.source) if os.path.isabs(mount.source) else store_root(store)
    client = running(root)
    if client is None:
        # Its daemon is dead, so nobody can have it in use to any good.
        unmount(path, lazy=True)
        return
    with client:
        daemon = os.pidfd_open(client.pid)
    try:
        unmount(path)
        if not select.select([daemon], [], [], _PATIENCE_SECONDS)[0]:
            raise ConvfsError(
                f"{path} is unmounted, but its daemon (process {client.pid}) has not ended: look at its log"
            )
    finally:
        os.close(daemon)

"""Files whose bytes are to be gone from the disk: removed, or with another one put in their places.

The new one is written under another name, synced, and renamed. The old one has kept a name of its own meanwhile,
``NAME.erased``, under which it is overwritten and removed; who is killed before that leaves it to :func:`clean`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from store.disk import durable

NEW = ".new"
ERASED = ".erased"


def erase(path: Path) -> None:
    """Remove a file so that its blocks on the disk are zeros before they are free.

    That is as much as a file system which writes in place can promise; of one that writes elsewhere, or of a disk that
    does, the blocks are discarded. A file that has another name, too, stays under that: it may be the very one that
    was to be replaced, or somebody's copy.
    """
    fd = durable.open_file(path)
    try:
        if os.fstat(fd).st_nlink == 1:
            durable.overwrite(fd)
            durable.fdatasync(fd)
            durable.discard(fd)
    finally:
        os.close(fd)
    durable.remove(path)
    durable.sync_directory(path.parent)


def replace(path: Path, fd: int, pieces: Iterable[bytes]) -> None:
    """Let the file ``path``, open as ``fd``, hold ``pieces`` durably; ``fd`` is the new file's from then on.

    Who reads meanwhile through ``fd`` gets the old bytes or the new ones. :func:`erase_replaced` then finishes it.
    """
    temporary, erased = path.with_name(path.name + NEW), path.with_name(path.name + ERASED)
    with suppress(FileNotFoundError):
        durable.remove(temporary)
    new = durable.open_file(temporary, create=True)
    try:
        offset = 0
        for piece in pieces:
            durable.pwrite_all(new, piece, offset)
            offset += len(piece)
        durable.fdatasync(new)
        if erased.exists():
            # of an earlier time, which was killed here
            erase(erased)
        durable.link(path, erased)
        durable.replace(temporary, path)
        durable.sync_directory(path.parent)
        os.dup2(new, fd, inheritable=False)
    finally:
        os.close(new)


def erase_replaced(path: Path) -> None:
    """Erase what :func:`replace` has put something else in the place of."""
    with suppress(FileNotFoundError):
        erase(path.with_name(path.name + ERASED))


def clean(directory: Path) -> None:
    """Finish what a process that was killed has left in a directory: files that it was writing, or erasing."""
    for name in os.listdir(directory):
        if name.endswith(NEW):
            durable.remove(directory / name)
        elif name.endswith(ERASED):
            erase(directory / name)

"""The one place that opens for writing, writes, syncs, renames, cuts and locks.

Callers write ``durable.fdatasync(...)``, never a bare import of the function, so that tests can put a failing disk
in the module's place. All functions raise OSError as the system gives it; whoever commits turns that into
``StoreFailed``. Nothing here is ever retried: after a failed sync the state of the disk is unknown.
"""

import ctypes
import fcntl
import os
from pathlib import Path

from store.errors import StoreBusy

_ZEROS = bytes(1 << 20)
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of ``<linux/falloc.h>``."""


def open_file(path: Path, *, create: bool = False, read_only: bool = False) -> int:
    """Open ``path`` and return its descriptor; ``create`` makes a missing file, for its owner alone (0600)."""
    flags = os.O_RDONLY if read_only else os.O_RDWR
    if create:
        flags |= os.O_CREAT
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def pwrite_all(fd: int, data: bytes | bytearray | memoryview, offset: int) -> None:
    """Write all of ``data`` at ``offset``; one system call unless the system writes less than it was given."""
    written = os.pwrite(fd, data, offset)
    if written == len(data):
        return
    view = memoryview(data)
    while written < len(view):
        written += os.pwrite(fd, view[written:], offset + written)


def fdatasync(fd: int) -> None:
    """Return when the file's bytes, and its length, are on disk."""
    os.fdatasync(fd)


def sync_directory(path: Path) -> None:
    """Return when the names in the directory ``path`` are on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Make the directory ``path`` (0700) durably if it is missing; its parent must exist."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    sync_directory(path.parent)


def replace(src: Path, dst: Path) -> None:
    """Give ``src`` the name ``dst``, taking it from what had it; durable once the directory is synced."""
    os.replace(src, dst)


def link(src: Path, dst: Path) -> None:
    """Give the file ``src`` one more name, ``dst``; FileExistsError if something has that."""
    os.link(src, dst)


def remove(path: Path) -> None:
    """Remove the file ``path``; durable once the directory is synced."""
    os.unlink(path)


def truncate(fd: int, length: int) -> None:
    """Make the file exactly ``length`` bytes long; what it grows by reads as zeros."""
    os.ftruncate(fd, length)


def fill_zeros(fd: int, size: int) -> None:
    """Write zeros from the end of the file up to ``size`` bytes.

    The zeros are really written: overwriting them later needs no change to the file's metadata, which is what makes
    a sync of them cheap.
    """
    offset = os.fstat(fd).st_size
    while offset < size:
        step = min(size - offset, len(_ZEROS))
        pwrite_all(fd, memoryview(_ZEROS)[:step], offset)
        offset += step


def overwrite(fd: int, start: int = 0) -> None:
    """Write zeros over all that the file holds, from ``start`` on."""
    size = os.fstat(fd).st_size
    for offset in range(start, size, len(_ZEROS)):
        pwrite_all(fd, memoryview(_ZEROS)[: size - offset], offset)


def discard(fd: int) -> None:
    """Give the blocks of a file back to the system, which may then tell the disk; where it cannot, nothing happens."""
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    # whole blocks only, however large they are: so beyond the end
    fallocate(fd, _KEEP_SIZE | _PUNCH_HOLE, 0, os.fstat(fd).st_size + len(_ZEROS))


def free_bytes(fd: int) -> int:
    """Return how many bytes there is room for on the disk that a file is on."""
    disk = os.fstatvfs(fd)
    return disk.f_bavail * disk.f_frsize


def lock_exclusive(path: Path) -> int:
    """Lock the file ``path`` (made if missing) and return its descriptor; closing that, or dying, unlocks.

    Raises StoreBusy at once if another process, or another descriptor of this one, holds the lock.
    """
    fd = open_file(path, create=True)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise StoreBusy(f"{path.parent}: another convfs process is using this store: stop it or talk to it") from None
    except BaseException:
        os.close(fd)
        raise
    return fd

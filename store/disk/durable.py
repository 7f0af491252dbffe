"""The one place that opens for writing, writes, syncs, renames, cuts and locks.

Callers write ``durable.fdatasync(...)``, never a bare import of the function, so that tests can put a failing disk in
the module's place. All functions raise OSError as the system gives it; the writer turns that into
``StoreFailed``. Nothing here is ever retried: after a failed sync the state of the disk is unknown.

After a power failure, a file that was written and not synced may have its full length and end in zeros, or in old
contents of its blocks. A file that was last changed before the machine was started is one of these, unless it was
synced; of any other, the kernel has all that was written.

A file may be *erased*, so that its bytes are gone from the disk, and have another put in its place. The new one is
written under another name, synced, and renamed. The old one has kept a name of its own meanwhile, ``NAME.erased``,
under which it is overwritten and removed. If the process is killed before that, :func:`clean` does it.
"""

import codecs
import errno
import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from store.errors import StoreBusy
from store.paths import ERASED, NEW

_STAT = Path("/proc/stat")
_SYNCED = "user.convfs.synced"
_AT_ONCE = 1 << 20


def before_start(status: os.stat_result) -> bool:
    """Return whether a file was last changed before the machine was started, by its ctime: programs cannot set it."""
    return status.st_ctime < _started()


def _started() -> float:
    for line in _STAT.read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == "btime":
            return float(value)
    return 0.0


def note_synced(fd: int) -> None:
    """Record the length of a file that was just synced; durable with the next sync of its directory."""
    with suppress(OSError):
        os.setxattr(fd, _SYNCED, str(os.fstat(fd).st_size).encode())


def written_end(fd: int) -> int:
    """Return the end of the written part of a file: before zeros at its end, but not before the synced part."""
    size, synced = os.fstat(fd).st_size, 0
    with suppress(OSError, ValueError):
        synced = int(os.getxattr(fd, _SYNCED))
    end = size
    while end > synced:
        start = max(end - _AT_ONCE, synced)
        left = os.pread(fd, end - start, start).rstrip(b"\0")
        if left:
            return start + len(left)
        end = start
    return min(synced, size)


def text_end(fd: int, start: int = 0) -> int:
    """Return the end of the text that begins at ``start`` of a file: before the first NUL or invalid UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    at = start
    while piece := os.pread(fd, _AT_ONCE, at):
        text, found, _rest = piece.partition(b"\0")
        waiting = len(decoder.getstate()[0])
        try:
            decoder.decode(text)
        except UnicodeDecodeError as error:
            return at - waiting + error.start
        if found:
            return at + len(text) - len(decoder.getstate()[0])
        at += len(piece)
    return at


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The system's errors for "no room": on the disk, in a quota, below the largest size that a file may have."""

_ZEROS = bytes(1 << 20)
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def open_file(path: Path, *, create: bool = False, read_only: bool = False, bits: int = 0) -> int:
    """Open ``path`` and return its descriptor; ``create`` makes a missing file, for its owner alone (0600).

    A file that is made has other ``bits`` of the mode besides.
    """
    flags = os.O_RDONLY if read_only else os.O_RDWR
    if create:
        flags |= os.O_CREAT
    return os.open(path, flags | os.O_CLOEXEC, 0o600 | bits)


def pwrite_all(fd: int, data: bytes | bytearray | memoryview, offset: int) -> None:
    """Write all of ``data`` at ``offset``; one system call unless the system writes less than it was given."""
    written = os.pwrite(fd, data, offset)
    if written == len(data):
        return
    view = memoryview(data)
    while written < len(view):
        written += os.pwrite(fd, view[written:], offset + written)


def fdatasync(fd: int) -> None:
    """Return when the file's bytes, and its length, are on disk. That there was no room for them is EIO here.

    It comes too late to be helped by room: what of them is on the disk, nobody knows.
    """
    try:
        os.fdatasync(fd)
    except OSError as error:
        if error.errno in FULL:
            raise OSError(errno.EIO, f"{error.strerror}, too late") from error
        raise


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


def make_directories(path: Path) -> None:
    """Make the directory ``path``, and those above it that are missing, for their owner alone (0700)."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directories(path.parent)
        make_directories(path)


def make_file(path: Path) -> None:
    """Make an empty file ``path``, for its owner alone (0600), if there is none.

    Opening it for writing keeps that mode, and SQLite gives it to the files that it puts beside a database.
    """
    os.close(open_file(path, create=True))


def replace(src: Path, dst: Path) -> None:
    """Rename ``src`` to ``dst``, replacing any file of that name; durable once the directory is synced."""
    os.replace(src, dst)


def link(src: Path, dst: Path) -> None:
    """Give the file ``src`` one more name, ``dst``; FileExistsError if something has that."""
    os.link(src, dst)


def remove(path: Path) -> None:
    """Remove the file ``path``; durable once the directory is synced."""
    os.unlink(path)


def truncate(fd: int, length: int) -> None:
    """Make the file exactly ``length`` bytes long; added bytes read as zeros."""
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
    # whole blocks only, however large they are: so beyond the end
    _fallocate(fd, _KEEP_SIZE | _PUNCH_HOLE, 0, os.fstat(fd).st_size + len(_ZEROS))


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to the file ``path``, durably and atomically: after a crash it is the new file or the old one."""
    temporary = path.with_name(path.name + NEW)
    fd = open_file(temporary, create=True)
    try:
        truncate(fd, 0)
        pwrite_all(fd, data, 0)
        fdatasync(fd)
    finally:
        os.close(fd)
    replace(temporary, path)
    sync_directory(path.parent)


def free_bytes(place: int | Path) -> int:
    """Return how many bytes there is room for on the disk that a file or directory is on."""
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def reserve(fd: int, size: int) -> None:
    """Reserve ``size`` bytes on the disk behind the end of a file, without changing its length.

    Does nothing if the file system cannot do that. Raises OSError if there is no room.
    """
    if (code := _fallocate(fd, _KEEP_SIZE, os.fstat(fd).st_size, size)) in FULL:
        raise OSError(code, os.strerror(code))


def _fallocate(fd: int, mode: int, start: int, size: int) -> int:
    """Return the errno with which the system refuses, 0 if it does it."""
    # imported here, as few commands come here
    import ctypes

    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return ctypes.get_errno() if fallocate(fd, mode, start, size) else 0


def unwritable(paths: Iterable[Path]) -> Path | None:
    """Return the first of some files and directories that is there and cannot be written, None if all can be.

    Of a disk that an error has made read-only access() does not know, but no file of it can be opened to be written.
    """
    for path in paths:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.EISDIR or not os.access(path, os.W_OK):
                return path
    return None


def lock_shared(path: Path) -> int:
    """Lock a directory as :func:`lock_directory` does, but shared with other read-only processes."""
    return _locked(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path, fcntl.LOCK_SH)


def lock_exclusive(path: Path) -> int:
    """Lock the file ``path`` (made if missing) and return its descriptor; closing that, or dying, unlocks.

    Raises StoreBusy at once if another process, or another descriptor of this one, holds the lock.
    """
    return _locked(open_file(path, create=True), path.parent)


def lock_directory(path: Path) -> int:
    """As :func:`lock_exclusive`, for the directory ``path``, which cannot be lost while somebody uses it."""
    fd = _locked(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path)
    try:
        same = os.path.samestat(os.stat(path), os.fstat(fd))
    except OSError:
        same = False
    if not same:
        os.close(fd)
        raise StoreBusy(f"{path}: another directory took the place of the store just now: try again")
    return fd


def _locked(fd: int, store: Path, how: int = fcntl.LOCK_EX) -> int:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise StoreBusy(f"{store}: another convfs process is using this store: stop it or talk to it") from None
    except OSError:
        # not every file system can lock what is only read
        if how != fcntl.LOCK_SH:
            os.close(fd)
            raise
    return fd


def erase(path: Path) -> None:
    """Remove a file so that its blocks on the disk are zeros before they are free.

    That is as much as a file system which writes in place can promise; of one that writes elsewhere, or of a disk that
    does, the blocks are discarded. A file that has another name, too, stays under that: it may be the very one that
    was to be replaced, or somebody's copy.
    """
    fd = open_file(path)
    try:
        if os.fstat(fd).st_nlink == 1:
            overwrite(fd)
            fdatasync(fd)
            discard(fd)
    finally:
        os.close(fd)
    remove(path)
    sync_directory(path.parent)


def swap_contents(path: Path, fd: int, pieces: Iterable[bytes]) -> None:
    """Replace the contents of the file ``path``, open as ``fd``, with ``pieces``, durably.

    Afterwards ``fd`` refers to the new file. A concurrent read through it gets the old bytes or the new ones.
    :func:`erase_replaced` finishes the erasure.
    """
    temporary, erased = path.with_name(path.name + NEW), path.with_name(path.name + ERASED)
    with suppress(FileNotFoundError):
        remove(temporary)
    new = open_file(temporary, create=True)
    try:
        offset = 0
        for piece in pieces:
            pwrite_all(new, piece, offset)
            offset += len(piece)
        fdatasync(new)
        if erased.exists():
            # of an earlier time, which was killed here
            erase(erased)
        link(path, erased)
        replace(temporary, path)
        sync_directory(path.parent)
        os.dup2(new, fd, inheritable=False)
    except OSError:
        # it may be the very room that it takes which is missing
        with suppress(OSError):
            remove(temporary)
        raise
    finally:
        os.close(new)


def erase_replaced(path: Path) -> None:
    """Erase what :func:`replace` has put something else in the place of."""
    with suppress(FileNotFoundError):
        erase(path.with_name(path.name + ERASED))


def clean(directory: Path) -> None:
    """Clean up after a killed process in a directory: files that it was writing, or erasing."""
    for name in os.listdir(directory):
        if name.endswith(NEW):
            remove(directory / name)
        elif name.endswith(ERASED):
            erase(directory / name)

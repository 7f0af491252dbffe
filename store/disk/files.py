"""Files of the system: how many may stay open, reads by offset, and temporary folders.

A program keeps descriptors open for as long as it likes, but some are always left for the store itself, which must be
able to open a pack, a log or its index when there are too many, or a commit would fail for what some program does. The
system gives the lowest number that is free, so that a number tells how many there are.

Reading is by pread: no shared file position, so any number of threads may read beside the one that writes. Never mmap:
a page that the disk cannot read would be a SIGBUS, not an error.

A temporary folder is gone afterwards, even if the process is killed, which cleans up nothing. So a shell waits beside
it, as long as the folder is there, for the end of a pipe whose other end the process alone holds, and removes the
folder then. Where even that was ended, as in a power loss, :func:`sweep` removes what is left.
"""

import errno
import os
import re
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from store.errors import DamageError

_RESERVED = 256
"""Descriptors that are for nobody but the store, or a half of all where there are few."""


def lend(fd: int) -> int:
    """Return ``fd``, which a program asked for. Raises EMFILE, and closes it, where the store needs the rest."""
    if fd < _most():
        return fd
    os.close(fd)
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def check() -> None:
    """Raise EMFILE where the next descriptor would not be for a program: before something is made that it is of."""
    os.close(lend(os.open("/", os.O_PATH | os.O_CLOEXEC)))


def _most() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 1 << 30
    return limit - _RESERVED if limit > 2 * _RESERVED else limit // 2


BLOCK = 4096
"""The least that a disk fails to read."""


def pread(fd: int, length: int, offset: int) -> bytes:
    """Read ``length`` bytes at ``offset``; fewer only where the file ends. DamageError if the disk cannot."""
    try:
        data = os.pread(fd, length, offset)
        if len(data) in (length, 0):
            return data
        parts = [data]
        have = len(data)
        while have < length:
            data = os.pread(fd, length - have, offset + have)
            if not data:
                break
            parts.append(data)
            have += len(data)
        return b"".join(parts)
    except OSError as error:
        raise DamageError(f"the disk cannot read {length} bytes at offset {offset}: {error.strerror}") from error


def pread_around(fd: int, length: int, offset: int) -> bytes:
    """Read as :func:`pread`, but have zeros for every block of 4096 bytes that the disk cannot read."""
    try:
        return pread(fd, length, offset)
    except DamageError:
        pass
    parts = []
    end = min(offset + length, os.fstat(fd).st_size)
    while offset < end:
        size = min(BLOCK - offset % BLOCK, end - offset)
        try:
            parts.append(pread(fd, size, offset))
        except DamageError:
            parts.append(bytes(size))
        offset += size
    return b"".join(parts)


class Window:
    """A file read mostly forwards, through one buffer of at least ``size`` bytes. For one thread."""

    __slots__ = ("_data", "_read", "_size", "_start")

    def __init__(self, file: int | Callable[[int, int], bytes], size: int = 1 << 20) -> None:
        """Read a descriptor, or by a function that reads as :func:`pread` does."""
        self._read = partial(pread, file) if isinstance(file, int) else file
        self._size = size
        self._start = 0
        self._data = memoryview(b"")

    def covers(self, offset: int, length: int) -> bool:
        """Return whether these bytes are in the buffer, so that :meth:`view` will not read."""
        begin = offset - self._start
        return begin >= 0 and begin + length <= len(self._data)

    def view(self, offset: int, length: int, ahead: int | None = None) -> memoryview:
        """Return ``length`` bytes at ``offset``, or as many as there are; DamageError if the disk cannot read them.

        If they must be read, ``ahead`` bytes (None: the window's size) are, so that what follows is at hand.
        """
        begin = offset - self._start
        if begin < 0 or begin + length > len(self._data):
            want = max(length, self._size if ahead is None else ahead)
            try:
                self._data = memoryview(self._read(want, offset))
            except DamageError:
                # perhaps it is only further on that the disk cannot read
                self._data = memoryview(self._read(length, offset))
            self._start, begin = offset, 0
        return self._data[begin : begin + length]


def next_sound(
    read: Callable[[int, int], bytes],
    start: int,
    end: int,
    size: int,
    places: Callable[[bytes], Iterable[int]],
    sound: Callable[[int], bool],
) -> int:
    """Return where the first sound record from ``start`` on begins, or ``end``; none is of fewer bytes than ``size``.

    Not by the length of a damaged one, which may be what is damaged: ``places`` are those in a part of the file at
    which a record may begin.
    """
    while start + size <= end:
        data = read(min(_SEARCHED, end - start), start)
        for place in places(data):
            if sound(start + place):
                return start + place
        # one may begin in the last bytes, too few to tell
        start += max(len(data) - size, 1)
    return end


_SEARCHED = 1 << 20
_PREFIX = ".convfs-"
_left_behind = re.compile(r"(?:\.convfs|rendition|restored|redacted)-[a-z0-9_]{8}").fullmatch
"""Names of such folders, those of earlier versions too."""
_GUARD = 'read -r _; rm -rf -- "$0"'
_guarded_now: set[Path] = set()


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Make a folder in ``parent``, which is made if it is missing; both for their owner alone (0700)."""
    parent.mkdir(mode=0o700, exist_ok=True)
    # only here: a command that needs none starts earlier
    import tempfile

    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent) as name, _guarded(Path(name)):
        yield Path(name)


def sweep(parent: Path) -> None:
    """Remove the folders in ``parent`` that a killed process left. Only while nobody else uses it."""
    with suppress(OSError):
        for path in parent.iterdir():
            if _left_behind(path.name):
                # here, as there is seldom one
                import shutil

                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    """Have a process remove a folder if this one is killed, unless it lies in one for which that is seen to."""
    if not _guarded_now.isdisjoint(folder.parents):
        yield
        return
    # imported here, as few processes make such folders and all of them start
    import subprocess

    try:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        # without one the folder stays where the process is killed, until it is swept
        yield
        return
    with guard:
        _guarded_now.add(folder)
        try:
            yield
        finally:
            _guarded_now.discard(folder)

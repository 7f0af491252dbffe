"""A directory that is written to, and nothing outside of it.

The names, and the contents of the directory, may be hostile: ``..``, an absolute path, a link that somebody put
there before or puts there at this very moment. So paths are not given to the system. They are walked from a descriptor
of the directory, one name at a time, and no link is followed; what was opened so lies beneath, whatever is renamed
meanwhile. The system call ``openat2`` would do the same in one step, but older kernels lack it, some containers forbid
it, and making directories and links takes the walk all the same.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO

from blake3 import blake3

from store.disk import durable

_NO_LINKS = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS))
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 1 << 20
_RANDOM_BYTES = 8
_FOLLOWED = "it is a link, and none is followed: name the directory that it leads to"


class Beneath:
    """An open directory. Names are paths relative to it; OSError for one that leads out, or has a link in it."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = path
        """The path at which it was opened, for messages."""

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Beneath]:
        """Open the directory ``path``, made if it is missing; links on the way to it are followed."""
        path.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield cls(fd, path)
        finally:
            os.close(fd)

    @contextmanager
    def temporary(self, prefix: str) -> Iterator[Beneath]:
        """Make a directory in this one, and open it; it is gone afterwards, with all that is in it.

        Directories of the same ``prefix`` that killed processes left are removed first. Live processes lock theirs.
        """
        self._sweep(prefix)
        name, fd = self._locked(prefix)
        try:
            yield Beneath(fd, self.path / name)
        finally:
            shutil.rmtree(name, ignore_errors=True, dir_fd=self._fd)
            os.close(fd)

    def _locked(self, prefix: str) -> tuple[str, int]:
        """Make a directory with a name that nothing else has, and lock it; return its name, and a descriptor of it."""
        while True:
            name = prefix + os.urandom(_RANDOM_BYTES).hex()
            os.mkdir(name, 0o700, dir_fd=self._fd)
            try:
                fd = os.open(name, _DIRECTORY, dir_fd=self._fd)
            except FileNotFoundError:
                # another process swept it before it was locked, as if it were a leftover
                continue
            # where a file system knows no locks, nothing is swept either
            if _lock(fd) is not False and self._leads_to(name, fd):
                return name, fd
            os.close(fd)

    def _leads_to(self, name: str, fd: int) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(name, dir_fd=self._fd, follow_symlinks=False), os.fstat(fd))
        return False

    def _sweep(self, prefix: str) -> None:
        """Remove directories of :meth:`temporary` that nobody has locked."""
        left_behind = re.compile(rf"{re.escape(prefix)}[0-9a-f]{{{2 * _RANDOM_BYTES}}}").fullmatch
        for name in filter(left_behind, self.names()):
            # others may sweep as well; what cannot be looked at, or is no directory, is not ours
            with suppress(OSError):
                fd = os.open(name, _DIRECTORY, dir_fd=self._fd)
                try:
                    if _lock(fd):
                        shutil.rmtree(name, ignore_errors=True, dir_fd=self._fd)
                finally:
                    os.close(fd)

    def write(self, name: PurePath, pieces: Iterable[bytes]) -> None:
        """Write a new file, given in pieces, to disk; the directories that it lies in are made."""
        with self._parent(name, make=True) as fd:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(name.name, flags, 0o666, dir_fd=fd), "wb") as file:
                file.writelines(pieces)
                file.flush()
                durable.fdatasync(file.fileno())

    def has(self, name: PurePath) -> bool:
        """Return whether a name is taken; a link that leads nowhere counts, too."""
        with suppress(FileNotFoundError), self._parent(name) as fd:
            os.stat(name.name, dir_fd=fd, follow_symlinks=False)
            return True
        return False

    def has_file(self, name: PurePath) -> bool:
        """Return whether a name is that of a regular file, not of a link to one."""
        with suppress(FileNotFoundError), self._parent(name) as fd:
            return stat.S_ISREG(os.stat(name.name, dir_fd=fd, follow_symlinks=False).st_mode)
        return False

    def hash_of(self, name: PurePath) -> str | None:
        """Return the BLAKE3 of a regular file in hex; None where there is none that can be read."""
        whole = blake3()
        try:
            with self._reading(name) as file:
                while piece := file.read(_AT_ONCE):
                    whole.update(piece)
        except OSError:
            return None
        return whole.hexdigest()

    def names(self) -> list[str]:
        """Return the names of its direct entries, in order."""
        return sorted(os.listdir(self._fd))

    def take(self, source: Beneath, name: PurePath, target: PurePath) -> None:
        """Move the entry ``name`` of ``source`` here, under the name ``target``; FileExistsError for one taken."""
        with source._parent(name) as old, self._parent(target, make=True) as new:
            if stat.S_ISDIR(os.stat(name.name, dir_fd=old, follow_symlinks=False).st_mode):
                os.rename(name.name, target.name, src_dir_fd=old, dst_dir_fd=new)
                return
            try:
                os.link(name.name, target.name, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                # a file system without links; here a name that is taken in this very moment is lost
                os.rename(name.name, target.name, src_dir_fd=old, dst_dir_fd=new)

    def replace(self, source: Beneath, name: PurePath, target: PurePath) -> None:
        """Move the file ``name`` of ``source`` into the place of the file ``target`` here."""
        with source._parent(name) as old, self._parent(target) as new:
            os.rename(name.name, target.name, src_dir_fd=old, dst_dir_fd=new)

    def discard(self, name: PurePath, digest: str) -> None:
        """Remove a file if it has this hash, and the directories that it leaves empty."""
        if self.hash_of(name) == digest:
            self.remove(name)
            for folder in [*name.parents][:-1]:
                try:
                    with self._parent(folder) as fd:
                        os.rmdir(folder.name, dir_fd=fd)
                except OSError:
                    return

    def remove(self, name: PurePath) -> None:
        """Remove a file, or a directory with all that is in it."""
        with self._parent(name) as fd:
            if stat.S_ISDIR(os.stat(name.name, dir_fd=fd, follow_symlinks=False).st_mode):
                shutil.rmtree(name.name, dir_fd=fd)
            else:
                os.unlink(name.name, dir_fd=fd)

    def sync(self, folder: PurePath) -> None:
        """Return when the names in a directory are on disk."""
        with self._directory(folder) as fd:
            os.fsync(fd)

    @contextmanager
    def _reading(self, name: PurePath) -> Iterator[BinaryIO]:
        with self._parent(name) as fd:
            opened = os.open(name.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            with open(opened, "rb") as file:
                if not stat.S_ISREG(os.fstat(opened).st_mode):
                    raise OSError(errno.EINVAL, "it is no regular file", str(self.path / name))
                yield file

    @contextmanager
    def _parent(self, name: PurePath, *, make: bool = False) -> Iterator[int]:
        if not name.parts:
            raise OSError(errno.EINVAL, "no name for a file", str(self.path))
        with self._directory(name.parent, make=make) as fd:
            try:
                yield fd
            except OSError as error:
                if error.filename != name.name:
                    raise
                # the system was told no more than a name
                raise OSError(error.errno, error.strerror, str(self.path / name)) from error

    @contextmanager
    def _directory(self, name: PurePath, *, make: bool = False) -> Iterator[int]:
        """Open a directory beneath, walking from one to the next."""
        if name.is_absolute() or ".." in name.parts:
            raise OSError(errno.EXDEV, "the name leads out of the directory", str(name))
        fd = os.dup(self._fd)
        try:
            for at, part in enumerate(name.parts, 1):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                try:
                    inner = os.open(part, _DIRECTORY, dir_fd=fd)
                except OSError as error:
                    reason = _FOLLOWED if _is_link(part, fd) else error.strerror
                    raise OSError(error.errno, reason, str(self.path.joinpath(*name.parts[:at]))) from error
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


def _lock(fd: int) -> bool | None:
    """Lock an open directory; return whether nobody else has, None where there are no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_link(name: str, fd: int) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    return False

"""A disk that loses what was not synced: puts itself in the place of ``store.disk.durable``'s functions.

What the program under test does really happens, in its own directory. Beside that, this notes what each sync made
certain. :meth:`LossyDisk.after_power_loss` then writes what a disk may hold after the power failed: of everything that
was not certain, any part. Sectors of 512 bytes are written whole or not at all, in any order; of the last write, also
any number of bytes.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from store.disk import durable

_SECTOR = 512
KEPT, DROPPED, MIXED, TORN = "kept", "dropped", "mixed", "torn"
"""Uncertain writes that are on the disk after all: all of them, none, some, or all but a part of the last."""


class PowerLoss(BaseException):
    """The power fails: this operation does not happen, and none after it."""


class LossyDisk:
    """Watches what happens to the files below ``root``; ``fail_at`` is the number of the operation that fails."""

    def __init__(self, root: Path, fail_at: int = -1) -> None:
        self.root = root
        self.fail_at = fail_at
        self.operations = 0
        self._certain: dict[int, bytes] = {}
        self._certain_names: dict[Path, int | None] = {root: None}
        self._names: dict[Path, int | None] = {root: None}
        self._kept: list[int] = []
        self._last: tuple[int, int, int, bytes] | None = None
        """The last write, until it is certain: inode, offset, length, and the file as it was before."""
        for path in sorted(root.rglob("*")):
            inode = None if path.is_dir() else path.stat().st_ino
            self._names[path] = self._certain_names[path] = inode
            if inode is not None:
                self._keep(path)
                self._certain[inode] = path.read_bytes()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Take the place of the functions that write."""
        for name in ("open_file", "pwrite_all", "fdatasync", "sync_directory", "make_directory", "replace", "remove"):
            patch.setattr(durable, name, getattr(self, "_" + name)(getattr(durable, name)))
        patch.setattr(durable, "truncate", self._truncate(durable.truncate))

    def close(self) -> None:
        """Let go of the files."""
        for fd in self._kept:
            os.close(fd)

    def after_power_loss(self, target: Path, seed: int, how: str = MIXED) -> None:
        """Write into the empty directory ``target`` what the disk may hold now."""
        source = random.Random(seed)
        now = {os.fstat(fd).st_ino: os.pread(fd, os.fstat(fd).st_size, 0) for fd in self._kept}
        if how == TORN and self._last is not None:
            inode, offset, length, before = self._last
            now[inode] = _torn(now[inode], offset, length, before, source)
        names = {}
        for path in sorted({*self._certain_names, *self._names}):
            sides = [side[path] for side in (self._certain_names, self._names) if path in side]
            if how == MIXED:
                # one file that was renamed to the name of another: there is one of them
                if len(sides) == 2 or source.random() < 0.5:
                    names[path] = source.choice(sides)
            elif path in (side := self._certain_names if how == DROPPED else self._names):
                names[path] = side[path]
        for path, inode in names.items():
            if path != self.root and path.parent not in names:
                continue
            place = target / path.relative_to(self.root)
            if inode is None:
                place.mkdir(exist_ok=True)
            else:
                certain = self._certain.get(inode, b"")
                if how == MIXED:
                    place.write_bytes(mixture(certain, now[inode], source))
                else:
                    place.write_bytes(certain if how == DROPPED else now[inode])

    def _ours(self, place: int | Path) -> bool:
        """Whether a file is one below ``root``: others, as those of a space, are another machine's."""
        path = Path(os.readlink(f"/proc/self/fd/{place}")) if isinstance(place, int) else place
        return path.is_relative_to(self.root)

    def _step(self) -> None:
        if 0 <= self.fail_at <= self.operations:
            raise PowerLoss
        self.operations += 1

    def _keep(self, path: Path) -> int:
        fd = os.open(path, os.O_RDONLY)
        self._kept.append(fd)
        return os.fstat(fd).st_ino

    @staticmethod
    def _read(fd: int, size: int) -> bytes:
        readable = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        try:
            return os.pread(readable, size, 0)
        finally:
            os.close(readable)

    def _open_file(self, real: Callable[..., int]) -> Callable[..., int]:
        def open_file(path: Path, *, create: bool = False, read_only: bool = False) -> int:
            new = create and self._ours(path) and not path.exists()
            if new:
                self._step()
            fd = real(path, create=create, read_only=read_only)
            if new:
                self._names[path] = self._keep(path)
            return fd

        return open_file

    def _pwrite_all(self, real: Callable[..., None]) -> Callable[..., None]:
        def pwrite_all(fd: int, data: bytes, offset: int) -> None:
            if self._ours(fd):
                self._step()
                status = os.fstat(fd)
                self._last = (status.st_ino, offset, len(data), self._read(fd, status.st_size))
            real(fd, data, offset)

        return pwrite_all

    def _truncate(self, real: Callable[..., None]) -> Callable[..., None]:
        def truncate(fd: int, length: int) -> None:
            if self._ours(fd):
                self._step()
            real(fd, length)

        return truncate

    def _fdatasync(self, real: Callable[..., None]) -> Callable[..., None]:
        def fdatasync(fd: int) -> None:
            if not self._ours(fd):
                return
            self._step()
            status = os.fstat(fd)
            self._certain[status.st_ino] = self._read(fd, status.st_size)
            if self._last is not None and self._last[0] == status.st_ino:
                self._last = None

        return fdatasync

    def _sync_directory(self, real: Callable[..., None]) -> Callable[..., None]:
        def sync_directory(path: Path) -> None:
            if not self._ours(path):
                return
            self._step()
            for side in (self._certain_names, self._names):
                for name in [name for name in side if name.parent == path and name != self.root]:
                    if name in self._names:
                        self._certain_names[name] = self._names[name]
                    else:
                        self._certain_names.pop(name, None)

        return sync_directory

    def _make_directory(self, real: Callable[..., None]) -> Callable[..., None]:
        def make_directory(path: Path) -> None:
            if self._ours(path) and not path.exists():
                self._step()
                self._names[path] = None
            real(path)

        return make_directory

    def _replace(self, real: Callable[..., None]) -> Callable[..., None]:
        def replace(src: Path, dst: Path) -> None:
            if not self._ours(dst):
                real(src, dst)
                return
            self._step()
            real(src, dst)
            self._names[dst] = self._names.pop(src)

        return replace

    def _remove(self, real: Callable[..., None]) -> Callable[..., None]:
        def remove(path: Path) -> None:
            if not self._ours(path):
                real(path)
                return
            self._step()
            real(path)
            del self._names[path]

        return remove


def mixture(certain: bytes, now: bytes, source: random.Random) -> bytes:
    """Return what a file may hold of which ``certain`` was synced, and the rest of ``now`` was not."""
    share = source.choice((0.0, 0.5, 1.0))
    length = len(now) if source.random() < share else len(certain)
    parts = []
    for start in range(0, length, _SECTOR):
        side = now if source.random() < share else certain
        parts.append(side[start : start + _SECTOR].ljust(_SECTOR, b"\0"))
    return b"".join(parts)[:length]


def _torn(now: bytes, offset: int, length: int, before: bytes, source: random.Random) -> bytes:
    """Return a file of whose last write only a first part was done; where the file grew, it may have its length."""
    done = offset + source.randrange(length + 1)
    torn = now[:done] + before[done:]
    return torn.ljust(len(now), b"\0") if source.random() < 0.5 else torn

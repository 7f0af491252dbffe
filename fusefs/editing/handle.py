"""What an open file can be asked, whatever it is."""

from __future__ import annotations

import errno
import os
from typing import Protocol

from pyfuse3 import FUSEError

LARGEST_SCRATCH = 1 << 40
"""Bytes that a scratch file may have."""


class Handle(Protocol):
    """A file that is open for writing. ``ino`` is the inode that it was opened as, or became since."""

    ino: int

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""

    def write(self, offset: int, data: bytes) -> int:
        """Write, and return how much was written."""

    def truncate(self, size: int) -> None:
        """Make it ``size`` bytes long."""

    def flush(self) -> None:
        """Take note that a descriptor was closed: the last chance to say what is wrong."""

    def sync(self, *, data_only: bool) -> None:
        """Make what was written durable."""

    def release(self) -> None:
        """Take note that the last descriptor is closed."""


class ScratchHandle:
    """A scratch file that is open for writing; ``appends``: it was opened for whatever is written to go to its end."""

    __slots__ = ("appends", "fd", "ino")

    def __init__(self, ino: int, fd: int, *, appends: bool = False) -> None:
        self.ino = ino
        self.fd = fd
        self.appends = appends

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        return os.pread(self.fd, size, offset)

    def write(self, offset: int, data: bytes) -> int:
        """Write all of ``data``."""
        if offset + len(data) > LARGEST_SCRATCH:
            raise FUSEError(errno.EFBIG)
        return os.pwrite(self.fd, data, offset)

    def truncate(self, size: int) -> None:
        """Make it ``size`` bytes long."""
        if size > LARGEST_SCRATCH:
            raise FUSEError(errno.EFBIG)
        os.ftruncate(self.fd, size)

    def flush(self) -> None:
        """Nothing waits here: what was written is in the file."""

    def sync(self, *, data_only: bool) -> None:
        """Make what was written durable."""
        (os.fdatasync if data_only else os.fsync)(self.fd)

    def release(self) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Let go of the descriptor."""
        os.close(self.fd)

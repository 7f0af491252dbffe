"""Limits of unpacking: bytes, entries and room on the disk, for every container that is read.

A few megabytes of archive may hold gigabytes of zeros, a database a view without end, a file of no length on the disk a
petabyte of holes. The limit follows from the container's own size, so that a real one of many gigabytes passes: JSON
that people and programs write shrinks to a tenth or a thirtieth, and to a hundredth never in such amounts.
"""

import os
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import IO, BinaryIO

from store.errors import DamageError

LEAST_BYTES = 64 << 20
"""As much may be in anything, however small it is."""
RATIO = 100
"""The most that a container may hold beyond that, as a multiple of its own size."""
LARGEST_WHOLE = 256 << 20
"""The most bytes of one file, or one cell, that is held in memory."""
MOST_RECORDS = 1 << 20
"""The most records that a file of many conversations may have: some facts on each are held in memory."""
LEAST_BETWEEN, BETWEEN = 32 << 20, 4
"""Bytes of such a file that may stand between the records, or a fourth of it: they are held in memory, too."""
MOST_DIRECTORY = 16 << 20
"""The most bytes that the list of an archive's members may have, some hundred thousand members."""
LEFT_FREE = 64 << 20
"""Bytes of the disk that unpacking leaves to others."""

_PIECE = 1 << 20


class Budget:
    """The bytes that a container of ``packed`` bytes, called ``what``, may hold, and those spent of it.

    Where it is unpacked into the directory ``folder``, no more than fits there. More raises DamageError.
    """

    def __init__(self, what: object, packed: int, folder: Path | None = None) -> None:
        self._what = what
        self._most = max(LEAST_BYTES, packed * RATIO)
        self._free = free_bytes(folder) - LEFT_FREE if folder else None
        self._spent = 0

    def spend(self, size: int) -> None:
        """Spend ``size`` bytes."""
        self._spent += size
        if self._spent > self._most:
            raise DamageError(
                f"{self._what} unpacks to more than {self._most} bytes, which is too much for its size; it is not read"
            )
        if self._free is not None and self._spent > self._free:
            raise DamageError(f"{self._what} unpacks to more bytes than are free on the disk: make room and try again")

    def pieces(self, file: IO[bytes] | BufferedIOBase) -> Iterator[bytes]:
        """Yield the rest of a file in pieces, each one spent before it is given."""
        while piece := file.read(_PIECE):
            self.spend(len(piece))
            yield piece

    def whole(self, file: IO[bytes] | BufferedIOBase) -> bytes:
        """Return the rest of a file. More than 256 MiB raise DamageError, too."""
        self._most = min(self._most, LARGEST_WHOLE)
        return b"".join(self.pieces(file))


def check_file(file: BinaryIO, path: Path, folder: Path) -> None:
    """Check that a file can be copied into ``folder``: one with holes may say that it is larger than any disk."""
    size = os.fstat(file.fileno()).st_size
    if size > LEAST_BYTES:
        Budget(path, size_on_disk(file), folder).spend(size)


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk that ``folder`` is on."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def size_on_disk(file: BinaryIO) -> int:
    """Return the bytes that a file takes on the disk."""
    status = os.fstat(file.fileno())
    if status.st_blocks:
        return status.st_blocks * 512
    try:
        os.lseek(file.fileno(), 0, os.SEEK_DATA)
    except OSError:
        # one single hole
        return 0
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    # a file system that counts no blocks
    return status.st_size

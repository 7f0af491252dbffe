"""Opening what other programs write: regular files only, and never waiting for anyone."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

HEAD_SIZE = 64 * 1024
"""How much of a file is read, in bytes, to tell whose it is."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, unbuffered. Raises OSError for anything else; a FIFO is never waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "it is no regular file", path)
        return open(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def read_head(path: Path, size: int = HEAD_SIZE) -> bytes | None:
    """Return the first ``size`` bytes of a regular file; None if it is not one or cannot be read.

    A FIFO is never waited for.
    """
    try:
        with open_regular(path) as file:
            return file.read(size)
    except OSError:
        return None


def head_lines(head: bytes, limit: int = 50) -> list[bytes]:
    """Return the first lines of a head that are not blank; the last may be cut off where the head ends."""
    lines = head.split(b"\n", 2 * limit)[: 2 * limit]
    return [line for line in lines if line.strip()][:limit]

"""Opening what other programs write: regular files only, and never waiting for anyone."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


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

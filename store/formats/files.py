"""Opening what other programs write: regular files only, and never waiting for anyone."""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

HEAD_SIZE = 64 * 1024
"""How much of a file is read, in bytes, to tell whose it is."""
_MOST_COMPANIONS = 10_000


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


def companions(session: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files in the folder called as a session's file without its suffix, as a ``Source`` has its sidecars.

    Files of the session's own suffix are left out: these are sessions themselves.
    """
    folder = session.with_suffix("")
    if not folder.is_dir():
        return
    found = (Path(at, name) for at, _, names in os.walk(folder) for name in sorted(names))
    for file in islice(found, _MOST_COMPANIONS):
        if file.suffix != session.suffix and file.is_file() and not file.is_symlink():
            yield str(file.relative_to(session.parent)), file

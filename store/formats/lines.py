"""Files of one record a line (JSONL and its kin): cut them, and look at their beginning."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from store.formats.format import Span

HEAD_SIZE = 64 * 1024
"""How much of a file is read, in bytes, to tell whose it is."""

_line = re.compile(rb"[^\n]++").finditer


def line_spans(data: memoryview, start: int) -> Iterator[Span]:
    """Yield every line of ``data`` that is not empty, without its newline; a carriage return stays in it."""
    for match in _line(data, start):
        yield Span(match.start(), match.end())


def read_head(path: Path, size: int = HEAD_SIZE) -> bytes | None:
    """Return the first ``size`` bytes of a regular file; None if it is not one or cannot be read.

    A FIFO is never waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.pread(descriptor, size, 0) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def head_lines(head: bytes, limit: int = 50) -> list[bytes]:
    """Return the first lines of a head that are not blank; the last may be cut off where the head ends."""
    lines = head.split(b"\n", 2 * limit)[: 2 * limit]
    return [line for line in lines if line.strip()][:limit]

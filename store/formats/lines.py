"""Files of one record a line (JSONL and its kin): cut them, and look at their beginning."""

import mmap
import re
from collections.abc import Iterator
from pathlib import Path

from store.formats.files import open_regular
from store.formats.format import Span

HEAD_SIZE = 64 * 1024
"""How much of a file is read, in bytes, to tell whose it is."""

_WINDOW = 1 << 20
_not_newline = re.compile(rb"[^\n]").search


def line_spans(data: memoryview, start: int) -> Iterator[Span]:
    """Yield every line of ``data`` that is not empty, without its newline; a carriage return stays in it."""
    begin = start
    for at in range(start, len(data), _WINDOW):
        # a copy: searching bytes is many times faster than searching a view
        window = bytes(data[at : at + _WINDOW])
        _let_go(data, at, at + len(window))
        newline = window.find(b"\n")
        while newline >= 0:
            if at + newline > begin:
                yield Span(begin, at + newline)
                after = newline + 1
            else:
                # of empty lines there may be many
                found = _not_newline(window, newline)
                after = found.start() if found else len(window)
            begin = at + after
            newline = window.find(b"\n", after)
    if begin < len(data):
        yield Span(begin, len(data))


def _let_go(data: memoryview, start: int, end: int) -> None:
    """Let pages of a mapped file go, so that they take no memory: a line may be larger than that is."""
    whole = data.obj
    if isinstance(whole, mmap.mmap):
        start -= start % mmap.PAGESIZE
        whole.madvise(mmap.MADV_DONTNEED, start, min(end, len(whole)) - start)


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

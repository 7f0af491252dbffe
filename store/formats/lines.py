"""Files of one record a line (JSONL and its kin), and how they are cut."""

import mmap
import re
from collections.abc import Iterator

from store.formats.format import Span

_WINDOW = 1 << 20
_not_newline = re.compile(rb"[^\n]").search


def line_spans(data: memoryview, start: int) -> Iterator[Span]:
    """Yield every line of ``data`` that is not empty, without its newline; a carriage return stays in it."""
    begin = start
    for at in range(start, len(data), _WINDOW):
        # a copy: searching bytes is many times faster than searching a view
        window = bytes(data[at : at + _WINDOW])
        let_go(data, at, at + len(window))
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


def let_go(data: memoryview, start: int, end: int) -> None:
    """Let pages of a mapped file go, so that they take no memory: a line may be larger than that is."""
    whole = data.obj
    if isinstance(whole, mmap.mmap):
        start -= start % mmap.PAGESIZE
        whole.madvise(mmap.MADV_DONTNEED, start, min(end, len(whole)) - start)

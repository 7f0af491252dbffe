"""A file as it was at one moment, safe to read while its owner goes on writing.

A mapped file that is cut short under the reader ends the process with SIGBUS. So small files are read whole, and
large ones are copied first and the copy, which nobody else can touch, is mapped.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from types import TracebackType

from store.errors import UsageError

_MAPPED_FROM = 32 << 20
_COPY_AT_ONCE = 8 << 20


class Snapshot:
    """The bytes of ``path`` as a memoryview (``data``). Copies of large files go to ``scratch``, unlinked."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self._map: mmap.mmap | None = None
        self._released = 0
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < _MAPPED_FROM:
                    self.data = memoryview(file.read(_MAPPED_FROM))
                else:
                    self._map = _private_copy(file.fileno(), size, scratch)
                    self.data = memoryview(self._map)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error

    def passed(self, offset: int) -> None:
        """Say that nothing before ``offset`` is needed for now, so that it takes no memory."""
        if self._map is not None and offset - self._released >= _COPY_AT_ONCE:
            start = self._released - self._released % mmap.PAGESIZE
            end = offset - offset % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, start, end - start)
            self._released = end

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.data.release()
        if self._map is not None:
            self._map.close()


def _private_copy(source: int, size: int, scratch: Path) -> mmap.mmap:
    scratch.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryFile(dir=scratch) as copy:
        done = 0
        while done < size:
            count = os.copy_file_range(source, copy.fileno(), min(_COPY_AT_ONCE, size - done), done, done)
            if count == 0:
                break
            done += count
        return mmap.mmap(copy.fileno(), done, access=mmap.ACCESS_READ)

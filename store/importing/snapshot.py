"""A file as it was at one moment, safe to read while its owner goes on writing.

A mapped file that is cut short under the reader ends the process with SIGBUS. So small files are read whole, and
large ones are copied first and the copy, which nobody else can touch, is mapped.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from blake3 import blake3

from store.errors import UsageError
from store.formats.files import open_regular

_MAPPED_FROM = 32 << 20
_COPIED_AT_ONCE = 1 << 20
_RELEASED_AT_ONCE = 8 << 20
_HASHED_AT_ONCE = 4 << 20


class Snapshot:
    """The bytes of ``path`` as a memoryview (``data``). Copies of large files go to ``scratch``, unlinked.

    Raises UsageError if there is no regular file that could be read. What the file grows by meanwhile is left out.
    """

    def __init__(self, path: Path, scratch: Path) -> None:
        self._map: mmap.mmap | None = None
        self._released = 0
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                if size < _MAPPED_FROM:
                    self.data = memoryview(_read(file, size))
                else:
                    self._map = _private_copy(file, size, scratch)
                    self.data = memoryview(self._map or b"")
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error

    def passed(self, offset: int) -> None:
        """Say that reading, forwards, has come to ``offset``: what lies before takes no memory until it is read again.

        An offset before the last one begins another pass.
        """
        if self._map is None:
            return
        if offset < self._released:
            self._released = offset - offset % mmap.PAGESIZE
        elif offset - self._released >= _RELEASED_AT_ONCE:
            end = offset - offset % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, self._released, end - self._released)
            self._released = end

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        # after an error something may still look at it: then it goes with whatever looks
        with suppress(BufferError):
            self.data.release()
            if self._map is not None:
                self._map.close()


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _private_copy(source: BinaryIO, size: int, scratch: Path) -> mmap.mmap | None:
    """Copy up to ``size`` bytes and return them mapped; None if the file has none left."""
    scratch.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryFile(dir=scratch) as copy:
        done = 0
        while done < size and (piece := source.read(min(_COPIED_AT_ONCE, size - done))):
            done += len(piece)
            copy.write(piece)
        copy.flush()
        return mmap.mmap(copy.fileno(), done, access=mmap.ACCESS_READ) if done else None


class Prefix:
    """The hash of a snapshot from its beginning to a point that moves on; what has been passed takes no memory."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.restart()

    def restart(self) -> None:
        """Go back to the beginning."""
        self._hash = blake3()
        self._offset = 0

    def follow(self, offset: int) -> None:
        """Move on to ``offset`` if it is far away."""
        if offset - self._offset >= _HASHED_AT_ONCE:
            self.at(offset)

    def at(self, offset: int) -> str:
        """Move on to ``offset`` and return the hash of what lies before it, in hex."""
        while self._offset < offset:
            end = min(offset, self._offset + _HASHED_AT_ONCE)
            self._hash.update(self._snapshot.data[self._offset : end])
            self._snapshot.passed(end)
            self._offset = end
        return self._hash.hexdigest()

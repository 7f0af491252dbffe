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
from typing import BinaryIO, NamedTuple

from blake3 import blake3

from store.errors import UsageError
from store.formats.files import open_regular

_MAPPED_FROM = 32 << 20
_COPIED_AT_ONCE = 1 << 20
_RELEASED_AT_ONCE = 8 << 20
_HASHED_AT_ONCE = 4 << 20
_LOOK_BACK = 4096
"""How much before the new part formats may look at, to tell how records are laid out."""


class Known(NamedTuple):
    """The beginning of a file as it was: ``prefix`` is the BLAKE3, in hex, of all from ``since`` to ``offset``."""

    offset: int
    prefix: str
    since: int = 0


class Snapshot:
    """The bytes of ``path`` as a memoryview (``data``). Copies of large files go to ``scratch``, unlinked.

    If the file has more than the beginning ``known``, and still begins so, ``data`` has what follows, and a little
    before that; then ``base`` is where in the file it begins, and ``start`` where in ``data`` the new part does. Else
    both are 0.

    Raises UsageError if there is no regular file that could be read. What the file grows by meanwhile is left out.
    """

    since = 0
    """Where in the file that begins which :attr:`before` is the hash of."""

    def __init__(self, path: Path, scratch: Path, known: Known | None = None) -> None:
        self.base = self.start = 0
        self.before = blake3()
        """The hash of what is before the new part."""
        self._map: mmap.mmap | None = None
        self._released = 0
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                if known and 0 < known.offset < size:
                    file.seek(known.since)
                    before = _hash_of(file, known.offset - known.since)
                    if before.hexdigest() == known.prefix:
                        self.before, self.since = before, known.since
                        self.base = max(known.offset - _LOOK_BACK, 0)
                        self.start = known.offset - self.base
                file.seek(self.base)
                if size - self.base < _MAPPED_FROM:
                    self.data = memoryview(_read(file, size - self.base))
                else:
                    self._map = _private_copy(file, size - self.base, scratch)
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
        self.close()

    def close(self) -> None:
        """Let go of the bytes."""
        # after an error something may still look at them: then they go with whatever looks
        with suppress(BufferError):
            self.data.release()
            if self._map is not None:
                self._map.close()


def _hash_of(file: BinaryIO, size: int) -> blake3:
    """Return the hash of the next ``size`` bytes of a file, or of as many as it has."""
    whole = blake3()
    while size > 0 and (piece := file.read(min(_COPIED_AT_ONCE, size))):
        whole.update(piece)
        size -= len(piece)
    return whole


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
    """The hash of a file from its beginning to a point of a snapshot that moves on, in the positions of its ``data``.

    What has been passed takes no memory.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.since = snapshot.since
        """Where in the file that begins which this is the hash of."""
        self._hash = snapshot.before
        self._position = snapshot.start

    def leave_out(self, position: int) -> None:
        """Let it be the hash of what follows ``position``, and of nothing before."""
        self.since = self._snapshot.base + position
        self._hash = blake3()
        self._position = position

    def follow(self, position: int) -> None:
        """Move on to ``position`` if it is far away."""
        if position - self._position >= _HASHED_AT_ONCE:
            self.at(position)

    def at(self, position: int) -> str:
        """Move on to ``position`` and return the hash of what lies before it, in hex."""
        while self._position < position:
            end = min(position, self._position + _HASHED_AT_ONCE)
            self._hash.update(self._snapshot.data[self._position : end])
            self._snapshot.passed(end)
            self._position = end
        return self._hash.hexdigest()

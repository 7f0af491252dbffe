"""Reading with pread: no shared file position, so any number of threads may read beside the one that writes.

Never mmap: a page that the disk cannot read would be a SIGBUS, not an error.
"""

import os

from store.errors import DamageError

BLOCK = 4096
"""The least that a disk fails to read."""


def pread(fd: int, length: int, offset: int) -> bytes:
    """Read ``length`` bytes at ``offset``; fewer only where the file ends. DamageError if the disk cannot."""
    try:
        data = os.pread(fd, length, offset)
        if len(data) in (length, 0):
            return data
        parts = [data]
        have = len(data)
        while have < length:
            data = os.pread(fd, length - have, offset + have)
            if not data:
                break
            parts.append(data)
            have += len(data)
        return b"".join(parts)
    except OSError as error:
        raise DamageError(f"the disk cannot read {length} bytes at offset {offset}: {error.strerror}") from error


def pread_around(fd: int, length: int, offset: int) -> bytes:
    """Read as :func:`pread`, but have zeros for every block of 4096 bytes that the disk cannot read."""
    try:
        return pread(fd, length, offset)
    except DamageError:
        pass
    parts = []
    end = min(offset + length, os.fstat(fd).st_size)
    while offset < end:
        size = min(BLOCK - offset % BLOCK, end - offset)
        try:
            parts.append(pread(fd, size, offset))
        except DamageError:
            parts.append(bytes(size))
        offset += size
    return b"".join(parts)


class Window:
    """A file read mostly forwards, through one buffer of at least ``size`` bytes. For one thread."""

    __slots__ = ("_data", "_fd", "_size", "_start")

    def __init__(self, fd: int, size: int = 1 << 20) -> None:
        self._fd = fd
        self._size = size
        self._start = 0
        self._data = memoryview(b"")

    def covers(self, offset: int, length: int) -> bool:
        """Whether these bytes are in the buffer, so that :meth:`view` will not read."""
        begin = offset - self._start
        return begin >= 0 and begin + length <= len(self._data)

    def view(self, offset: int, length: int, ahead: int | None = None) -> memoryview:
        """Return ``length`` bytes at ``offset``, or what there is of them; DamageError if the disk cannot read them.

        If they must be read, ``ahead`` bytes (None: the window's size) are, so that what follows is at hand.
        """
        begin = offset - self._start
        if begin < 0 or begin + length > len(self._data):
            want = max(length, self._size if ahead is None else ahead)
            try:
                self._data = memoryview(pread(self._fd, want, offset))
            except DamageError:
                # perhaps it is only further on that the disk cannot read
                self._data = memoryview(pread(self._fd, length, offset))
            self._start, begin = offset, 0
        return self._data[begin : begin + length]

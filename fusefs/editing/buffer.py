"""What a program has written so far, in memory."""

import errno

from pyfuse3 import FUSEError

LARGEST = 64 << 20
"""Bytes that what is edited may have: a record has no more."""


class Buffer:
    """A file that grows and shrinks as files do."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes = b"") -> None:
        self._data = bytearray(data)

    def __len__(self) -> int:
        return len(self._data)

    def __bytes__(self) -> bytes:
        return bytes(self._data)

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of it."""
        return bytes(self._data[offset : offset + size])

    def write(self, offset: int, data: bytes) -> None:
        """Write at ``offset``; what lies between the end and there becomes NULs. Raises EFBIG."""
        end = offset + len(data)
        check_size(end)
        if offset > len(self._data):
            self._data.extend(bytes(offset - len(self._data)))
        self._data[offset:end] = data

    def truncate(self, size: int) -> None:
        """Make it ``size`` bytes long. Raises EFBIG."""
        check_size(size)
        if size < len(self._data):
            del self._data[size:]
        else:
            self._data.extend(bytes(size - len(self._data)))


def check_size(size: int) -> None:
    """Raise EFBIG for what is too large to be edited."""
    if size > LARGEST:
        raise FUSEError(errno.EFBIG)

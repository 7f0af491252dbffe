"""A log: a file that only grows, whose end is kept in memory as long as the disk is full.

The caller has made the same bytes durable elsewhere, or can compute them again. So a full disk is no error to it: the
bytes that did not fit are read, and written over, in memory, and written to the file with the next append, or by
:meth:`LogFile.sync`. If the file may only be read, all that is appended stays in memory, and so does where it is cut.
"""

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from store.disk import durable, file_header
from store.disk.file_header import FileKind
from store.disk.files import pread, pread_around

_Reading = Callable[[int, int, int], bytes]


class LogFile:
    """An open log. One thread appends; any number read meanwhile, without locks."""

    def __init__(self, path: Path, kind: FileKind, store_id: bytes, *, read_only: bool = False) -> None:
        """Open the log, or make an empty one. Raises FormatTooNew, and DamageError for another store's file."""
        if not path.exists() and not read_only:
            file_header.create(path, kind, store_id)
        self._path = path
        self._fd = durable.open_file(path, read_only=read_only)
        try:
            self.damage = file_header.check(self._fd, kind, store_id, path)
            """The fault in the file header, if there is one; what is behind it is readable in spite of that."""
        except BaseException:
            self.close()
            raise
        self._read_only = read_only
        self._tail: tuple[int, bytes] | None = None
        """The bytes that are not in the file yet, and their offset: the end of the file."""
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name of the file."""
        return self._path.name

    def _write(self, data: bytes, offset: int) -> None:
        """Append, unsynced. Raises the error of the disk, unless it is full."""
        with self._lock:
            before = self._tail
            try:
                if before is None and not self._read_only:
                    durable.pwrite_all(self._fd, data, offset)
                    return
                self._tail = (offset, data) if before is None else (before[0], before[1][: offset - before[0]] + data)
                self._flush()
            except OSError as error:
                if error.errno not in durable.FULL:
                    self._tail = before
                    raise
                self._tail = self._tail or (offset, data)

    def _overwrite(self, data: bytes, offset: int) -> None:
        """Write over bytes of the log, unsynced. Raises the error of the disk, unless it is full."""
        with self._lock:
            start, tail = self._tail or (self._size, b"")
            behind, end = offset + len(data), start + len(tail)
            if self._tail is None or behind <= start:
                try:
                    durable.pwrite_all(self._fd, data, offset)
                    return
                except OSError as error:
                    # where there is a limit to the size of files, or a file system that never writes in place
                    if error.errno not in durable.FULL:
                        raise
            first = min(offset, start)
            before = self._read_around(offset - first, first).ljust(offset - first, b"\0")
            self._tail = (first, before + data + self._read_around(max(end - behind, 0), behind))

    def _read(self, length: int, offset: int) -> bytes:
        """Read ``length`` bytes at ``offset``; fewer only where the file ends. DamageError if the disk cannot."""
        tail = self._tail
        return pread(self._fd, length, offset) if tail is None else self._joined(pread, tail, length, offset)

    def _read_around(self, length: int, offset: int) -> bytes:
        """Read as :meth:`_read` does, but return zeros for unreadable bytes."""
        tail = self._tail
        if tail is None:
            return pread_around(self._fd, length, offset)
        return self._joined(pread_around, tail, length, offset)

    def _joined(self, reading: _Reading, tail: tuple[int, bytes], length: int, offset: int) -> bytes:
        start, data = tail
        if offset >= start:
            return data[offset - start : offset - start + length]
        before = reading(self._fd, min(length, start - offset), offset)
        if len(before) < start - offset:
            # the end of what was asked for, or a file that is shorter than it should be
            return before
        return before + data[: length - len(before)]

    def sync(self) -> None:
        """Return when all of it is on disk. Raises OSError, also where the disk is full: then all is as before."""
        with self._lock:
            self._flush()
        durable.fdatasync(self._fd)

    def _cut(self, length: int) -> int:
        """Make the file end at ``length``; return how many bytes went (negative: how many were missing).

        Nobody reads or appends meanwhile. Missing bytes read as zeros.
        """
        size = self._size
        if self._read_only or self._tail is not None:
            start = min(size if self._tail is None else self._tail[0], length)
            self._tail = (start, self._read_around(length - start, start).ljust(length - start, b"\0"))
        elif size != length:
            durable.truncate(self._fd, length)
        return size - length

    @property
    def _size(self) -> int:
        return os.fstat(self._fd).st_size

    def _flush(self) -> None:
        if self._tail is not None and not self._read_only:
            start, tail = self._tail
            durable.pwrite_all(self._fd, tail, start)
            self._tail = None

    def _replace(self, pieces: Iterable[bytes]) -> None:
        """Replace all of the file, durably; the old one stays on the disk until :meth:`erase_old`."""
        durable.swap_contents(self._path, self._fd, pieces)
        with self._lock:
            # it was among the pieces
            self._tail = None

    def erase_old(self) -> None:
        """Erase what a rewrite has replaced from the disk."""
        durable.erase_replaced(self._path)

    def close(self) -> None:
        """Close the file; nothing may read afterwards."""
        os.close(self._fd)

"""One pack as it is read: its open file, and the records in it, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from store.disk import blob_format, durable, file_header
from store.disk.blob_format import HEAD_SIZE, MAGIC, OVERHEAD, Record
from store.disk.file_header import PACK, Damage
from store.disk.reading import Window, pread_around
from store.errors import DamageError, FormatTooNew

LONGEST_READ = 1 << 20


class Segment:
    """The open file of one pack; closed with the last reference to it."""

    __slots__ = ("_size", "damage", "fd", "number")

    def __init__(self, number: int, path: Path, store_id: bytes, *, read_only: bool) -> None:
        """Open the file. Raises DamageError where it cannot be, or belongs to another store; FormatTooNew."""
        self.number = number
        self.fd = -1
        try:
            self.fd = durable.open_file(path, read_only=read_only)
        except FileNotFoundError:
            raise DamageError(f"{path}: the pack is missing") from None
        except OSError as error:
            raise DamageError(f"{path}: the pack cannot be opened: {error.strerror}") from error
        self.damage = file_header.check(self.fd, PACK, store_id, path)
        self._size = os.fstat(self.fd).st_size

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def check_end(self, end: int) -> None:
        """Raise DamageError where the file has no bytes up to ``end``; asks the system only if it had not before."""
        # before memory is taken: a damaged length must not cost more than the file has
        if end > self._size:
            self._size = os.fstat(self.fd).st_size
            if end > self._size:
                raise DamageError("a blob record reaches beyond the end of its pack")

    def record(self, window: Window, offset: int, ahead: int | None = None) -> Record:
        """Return the record at ``offset``, read through ``window``. Raises DamageError, FormatTooNew."""
        size = OVERHEAD + blob_format.stored_length(window.view(offset, HEAD_SIZE, ahead))
        self.check_end(offset + size)
        # copied, so that a record that is kept does not keep the whole window
        return blob_format.decode_record(memoryview(bytes(window.view(offset, size, ahead))))

    def scan(self, offset: int, end: int) -> Iterator[tuple[int, Record | Damage]]:
        """Yield every record from ``offset`` on, and where it is; what is damaged is one Damage up to the next."""
        window = Window(self.fd, LONGEST_READ)
        while offset < end:
            try:
                record = self.record(window, offset)
            except FormatTooNew as error:
                # it is whole, so its length is true
                size = OVERHEAD + blob_format.stored_length(window.view(offset, HEAD_SIZE))
                yield offset, Damage(offset, size, str(error))
                offset += size
                continue
            except DamageError as error:
                behind = self._next_record(offset, end)
                yield offset, Damage(offset, behind - offset, str(error))
                offset = behind
                continue
            yield offset, record
            offset += OVERHEAD + len(record.stored)

    def _next_record(self, damaged: int, end: int) -> int:
        """Return where the first sound record after the one at ``damaged`` begins, or ``end``."""
        # not by its length, which may be what is damaged
        start = damaged + 1
        while start + OVERHEAD <= end:
            data = pread_around(self.fd, min(LONGEST_READ, end - start), start)
            found = data.find(MAGIC)
            while found >= 0:
                if self._sound(start + found):
                    return start + found
                found = data.find(MAGIC, found + 1)
            start += max(len(data) - len(MAGIC) + 1, 1)
        return end

    def _sound(self, offset: int) -> bool:
        try:
            self.record(Window(self.fd, HEAD_SIZE), offset)
        except FormatTooNew:
            return True
        except DamageError:
            return False
        return True

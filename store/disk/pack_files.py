"""The files of packs: what they are called, how a rewritten one is made, and how one is removed for good.

Packs that are appended to have the numbers 1, 2 …; those that were rewritten from others have numbers from REWRITTEN
on, so that nothing about the end of what is appended changes with them. Gaps are normal: what was rewritten is removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from store.disk import durable, file_header
from store.disk.file_header import HEADER_SIZE, PACK
from store.disk.replacing import ERASED, NEW, erase

REWRITTEN = 1 << 32
"""What the numbers of rewritten packs are counted from."""

_NAME = re.compile(r"(r?)([0-9]{8,})\.pack")
_BUFFERED_BYTES = 1 << 20

Place = tuple[int, int]
"""A record's place: the number of its pack, and its offset in the pack's file."""


def file_name(number: int) -> str:
    """Return the name of a pack's file."""
    return f"r{number - REWRITTEN:08}.pack" if number >= REWRITTEN else f"{number:08}.pack"


def numbers_in(directory: Path) -> list[int]:
    """Return the numbers of the packs in a directory, rising: rewritten ones come last."""
    matches = map(_NAME.fullmatch, os.listdir(directory))
    return sorted(int(match[2]) + (REWRITTEN if match[1] else 0) for match in matches if match)


def remove(paths: Iterable[Path], *, overwrite: bool) -> None:
    """Remove packs, durably. With ``overwrite``, their blocks on the disk are zeros before they are free.

    That is as much as a file system which writes in place can promise; of one that writes elsewhere, or of a disk that
    does, the blocks are discarded.
    """
    for path in paths:
        if overwrite:
            # under another name first: a pack that is half erased would be a damaged one
            erased = path.with_name(path.name + ERASED)
            durable.replace(path, erased)
            durable.sync_directory(path.parent)
            erase(erased)
        else:
            durable.remove(path)
        durable.sync_directory(path.parent)


class PackWriter:
    """Writes one rewritten pack, which nobody sees before :meth:`finish`. For one thread."""

    def __init__(self, directory: Path, number: int, store_id: bytes) -> None:
        self.number = number
        self.length = HEADER_SIZE
        """How long the pack is with all that was appended."""
        self._path = directory / file_name(number)
        self._temporary = directory / (file_name(number) + NEW)
        self._buffer: list[bytes] = []
        self._written = 0
        self._fd = durable.open_file(self._temporary, create=True)
        self._buffer.append(file_header.encode(PACK, store_id))

    def append(self, record: bytes) -> Place:
        """Write an encoded record; return the place that it will have."""
        place = (self.number, self.length)
        self._buffer.append(record)
        self.length += len(record)
        if self.length - self._written >= _BUFFERED_BYTES:
            self._write()
        return place

    def finish(self, modified_ns: int = 0) -> None:
        """Bring the pack to disk, and give it its name. ``modified_ns``: when what it holds was last written (0: now).

        The index does not know of it yet.
        """
        try:
            self._write()
            if modified_ns:
                os.utime(self._fd, ns=(modified_ns, modified_ns))
            durable.fdatasync(self._fd)
        finally:
            self._close()
        durable.replace(self._temporary, self._path)
        durable.sync_directory(self._path.parent)

    def abandon(self) -> None:
        """Remove what was written so far."""
        self._close()
        durable.remove(self._temporary)

    def _write(self) -> None:
        data = b"".join(self._buffer)
        self._buffer.clear()
        durable.pwrite_all(self._fd, data, self._written)
        self._written += len(data)

    def _close(self) -> None:
        os.close(self._fd)
        self._fd = -1

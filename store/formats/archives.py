"""Zip archives that tools hand their files out in: looked into, joined to one text, written anew with that edited.

Of an archive's members some hold conversations. Their texts one after another, with a separator that JSON cannot hold
between them, are what is cut into records.
"""

import mmap
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from pathlib import Path

from store.errors import DamageError, NotFound, UsageError
from store.formats.files import HEAD_SIZE, open_regular

SEPARATOR = b"\x1e\n"
"""What stands between the texts of two members: JSON has it in no string, and not between values."""

LARGEST = 256 << 20
"""The most bytes of a member that is read whole."""

LARGEST_TEXT = 16 << 30
"""The most bytes that the members with conversations may have together."""

_LOCAL_HEADER = 30
_MAGIC = b"PK\x03\x04"
_COPIED_AT_ONCE = 1 << 20


class Archive:
    """The members of a zip archive, by name. Raises DamageError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with zipfile.ZipFile(path) as archive:
                listed = archive.infolist()
        except (OSError, zipfile.BadZipFile, ValueError, RuntimeError, EOFError) as error:
            raise _damaged(path, error) from error
        self.members = {info.filename: info for info in listed if not info.is_dir()}

    def read(self, name: str, limit: int = LARGEST) -> bytes:
        """Return a member's content, of one that has more than ``limit`` bytes only these."""
        info = self.members.get(name)
        if info is None:
            raise NotFound(f"there is no {name} in {self._path}")
        try:
            with open_regular(self._path) as file:
                file.seek(info.header_offset)
                header = file.read(_LOCAL_HEADER)
                if not header.startswith(_MAGIC) or len(header) < _LOCAL_HEADER:
                    raise DamageError(f"{name} is not where the directory of {self._path} says")
                skipped = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
                file.seek(info.header_offset + _LOCAL_HEADER + skipped)
                if info.compress_type == zipfile.ZIP_STORED:
                    content = file.read(min(info.file_size, limit))
                elif info.compress_type == zipfile.ZIP_DEFLATED and not info.flag_bits & 1:
                    content = zlib.decompressobj(-15).decompress(file.read(info.compress_size), limit)
                else:
                    raise DamageError(f"{name} in {self._path} is encrypted, or compressed in a way that is not read")
        except (OSError, zlib.error, ValueError) as error:
            raise _damaged(self._path, error) from error
        if len(content) == info.file_size and zlib.crc32(content) != info.CRC:
            raise DamageError(f"{name} in {self._path} is not what its checksum says")
        return content


def is_archive(head: bytes) -> bool:
    """Say whether a file that begins so is a zip archive."""
    return head.startswith(_MAGIC)


def archive_at(path: Path) -> Archive:
    """Return the archive at ``path``; its directory is read once. Raises DamageError where it cannot be read."""
    try:
        status = path.stat()
    except OSError as error:
        raise _damaged(path, error) from error
    return _archive(path, status.st_size, status.st_mtime_ns)


@lru_cache(4)
def _archive(path: Path, _size: int, _changed: int) -> Archive:
    return Archive(path)


def beginning(path: Path, name: str) -> bytes:
    """Return the first 64 KB of a member. Raises NotFound and DamageError."""
    return archive_at(path).read(name, HEAD_SIZE)


def join_members(path: Path, names: Sequence[str], target: Path) -> None:
    """Write the members ``names`` of the archive at ``path`` into one file. Raises DamageError."""
    try:
        with zipfile.ZipFile(path) as archive, target.open("wb") as joined:
            if sum(archive.getinfo(name).file_size for name in names) > LARGEST_TEXT:
                raise DamageError(f"{path} says that it unpacks to more than {LARGEST_TEXT} bytes; it is not unpacked")
            for at, name in enumerate(names):
                if at:
                    joined.write(SEPARATOR)
                with archive.open(name) as member:
                    shutil.copyfileobj(member, joined, _COPIED_AT_ONCE)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, KeyError) as error:
        raise _damaged(path, error) from error


def replace_members(original: Path, names: Sequence[str], joined: Path, target: Path) -> None:
    """Write the archive ``original`` anew, with what the file ``joined`` has now as its members ``names``.

    All other members, their order, times and attributes stay as they were. Raises UsageError where the texts of the
    members cannot be told apart any more.
    """
    texts = dict(zip(names, _texts(joined, len(names)), strict=True))
    try:
        with zipfile.ZipFile(original) as old, zipfile.ZipFile(target, "w") as written, joined.open("rb") as new:
            written.comment = old.comment
            for info in old.infolist():
                with old.open(info) as source, written.open(copy(info), "w", force_zip64=True) as copied:
                    if info.filename not in texts:
                        shutil.copyfileobj(source, copied, _COPIED_AT_ONCE)
                        continue
                    start, end = texts[info.filename]
                    new.seek(start)
                    while start < end and (piece := new.read(min(_COPIED_AT_ONCE, end - start))):
                        copied.write(piece)
                        start += len(piece)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
        raise _damaged(original, error) from error


def _texts(joined: Path, count: int) -> list[tuple[int, int]]:
    """Return where each of ``count`` texts begins and ends in a file that has them one after another."""
    size = joined.stat().st_size
    if count == 1 or not size:
        return [(0, size)]
    found: list[tuple[int, int]] = []
    with joined.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = 0
        while (end := data.find(SEPARATOR, start)) >= 0:
            found.append((start, end))
            start = end + len(SEPARATOR)
    found.append((start, size))
    if len(found) != count:
        raise UsageError("the texts hold a control character where JSON has none: their edits cannot be exported")
    return found


def _damaged(path: Path, error: Exception) -> DamageError:
    return DamageError(f"the archive {path} cannot be read: {error}; unpack it and import its files")

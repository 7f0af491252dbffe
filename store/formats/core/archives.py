"""Zip archives of exports: reading them, joining them to one text, and writing them anew with that text edited.

Some of an archive's members hold conversations. Their texts one after another, with a separator that JSON cannot hold
between them, are cut into records.
"""

import mmap
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from store.disk import durable
from store.errors import DamageError, NotFound, UsageError
from store.formats.core.budget import LARGEST_WHOLE, MOST_DIRECTORY, Budget
from store.formats.core.json_cuts import places

SEPARATOR = b"\x1e\n"
"""The separator between the texts of two members: JSON has it in no string, and not between values."""

_DIRECTORY_END = struct.Struct("<12xI6x")
_DIRECTORY_END_64 = struct.Struct("<40xQ8x20x")
"""The Zip64 end of directory, with the record that points to it."""
_SAID_BEFORE = 0xFFFFFFFF
_LONGEST_COMMENT = 0xFFFF
_MAGIC = b"PK\x03\x04"
ENCRYPTED = 1
"""The bit of a member's flags that says so."""
_READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FAULTS = (OSError, zipfile.BadZipFile, zlib.error, ValueError, RuntimeError, EOFError, KeyError, struct.error)
_COPIED_AT_ONCE = 1 << 20


class Archive:
    """The members of a zip archive, by name. Raises DamageError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                if _directory_size(file, file.seek(0, os.SEEK_END)) > MOST_DIRECTORY:
                    raise DamageError(f"the archive {path} has too many members; unpack it and import its files")
            # it stays open: the list of members is read once, however many are asked for
            self._file = zipfile.ZipFile(path)
        except _FAULTS as error:
            raise _damaged(path, error) from error
        self.members = {info.filename: info for info in self._file.infolist() if not info.is_dir()}

    def read(self, name: str, limit: int = LARGEST_WHOLE) -> bytes:
        """Return a member's content, or its first ``limit`` bytes. Raises NotFound and DamageError."""
        info = self.members.get(name)
        if info is None:
            raise NotFound(f"there is no {name} in {self._path}")
        if info.compress_type not in _READ or info.flag_bits & ENCRYPTED:
            raise DamageError(f"{name} in {self._path} is encrypted, or compressed in a way that is not read")
        # no more is read than the archive says that there is
        Budget(name, info.compress_size).spend(min(info.file_size, limit))
        try:
            with self._file.open(info) as member:
                return member.read(limit)
        except _FAULTS as error:
            raise _damaged(self._path, error) from error


def _directory_size(file: BinaryIO, size: int) -> int:
    """Return the bytes that an archive's list of members claims to have, 0 without one: all of it will be read."""
    file.seek(max(0, size - _DIRECTORY_END.size - _LONGEST_COMMENT - _DIRECTORY_END_64.size))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _DIRECTORY_END.size:
        return 0
    found = int(_DIRECTORY_END.unpack_from(tail, at)[0])
    before = at - _DIRECTORY_END_64.size
    # that of a large archive says more, right before it
    if before >= 0 and tail.startswith(b"PK\6\6", before):
        found = max(0 if found == _SAID_BEFORE else found, int(_DIRECTORY_END_64.unpack_from(tail, before)[0]))
    return found


def is_archive(head: bytes) -> bool:
    """Return whether a file with this beginning is a zip archive."""
    return head.startswith(_MAGIC)


def archive_at(path: Path) -> Archive:
    """Return the archive at ``path``; its directory is read once. Raises DamageError where it cannot be read."""
    try:
        status = path.stat()
    except OSError as error:
        raise _damaged(path, error) from error
    return _archive(path, status.st_size, status.st_mtime_ns)


@lru_cache(2)
def _archive(path: Path, _size: int, _changed: int) -> Archive:
    return Archive(path)


def join_members(path: Path, names: Sequence[str], target: Path) -> None:
    """Write the members ``names`` of the archive at ``path`` into one file. Raises DamageError."""
    try:
        durable.make_file(target)
        with zipfile.ZipFile(path) as archive, target.open("wb") as joined:
            size = path.stat().st_size
            # before anything is written; the sizes that an archive gives may be wrong
            Budget(path, size, target.parent).spend(sum(archive.getinfo(name).file_size for name in names))
            budget = Budget(path, size, target.parent)
            for at, name in enumerate(names):
                if at:
                    joined.write(SEPARATOR)
                with archive.open(name) as member:
                    joined.writelines(budget.pieces(member))
    except _FAULTS as error:
        raise _damaged(path, error) from error


def replace_members(original: Path, names: Sequence[str], joined: Path, target: Path) -> None:
    """Write the archive ``original`` anew, its members ``names`` replaced by their texts in the file ``joined``.

    All other members, their order, times and attributes stay as they were. Raises UsageError where the texts of the
    members cannot be told apart any more.
    """
    texts = dict(zip(names, _texts(joined, len(names)), strict=True))
    try:
        durable.make_file(target)
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
    except _FAULTS as error:
        raise _damaged(original, error) from error


def _texts(joined: Path, count: int) -> list[tuple[int, int]]:
    """Return the beginning and end of each of ``count`` texts in a file that has them one after another."""
    size = joined.stat().st_size
    if count == 1 or not size:
        return [(0, size)]
    with joined.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        ends = [*places(re.compile(re.escape(SEPARATOR)), memoryview(data), 0, size), size]
    found = list(zip((0, *(end + len(SEPARATOR) for end in ends)), ends, strict=False))
    if len(found) != count:
        raise UsageError("the texts hold a control character where JSON has none: their edits cannot be exported")
    return found


def _damaged(path: Path, error: Exception) -> DamageError:
    return DamageError(f"the archive {path} cannot be read: {error}; unpack it and import its files")

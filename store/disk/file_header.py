"""The first 32 bytes of every file of a store, and how such a file comes to be.

Layout, little-endian: ``magic[8] | version u16 | flags u16 = 0 | store_id[16] | crc32 u32`` of all before it.
"""

import os
import zlib
from pathlib import Path
from struct import Struct as Layout
from typing import NamedTuple

from msgspec import Struct

from store.disk import durable
from store.disk.reading import pread
from store.errors import DamageError, FormatTooNew
from store.ids import STORE_ID_SIZE

HEADER_SIZE = 32
_FIELDS = Layout("<8sHH16s")
_CRC = Layout("<I")


class FileKind(NamedTuple):
    """A kind of file: its magic, and the newest version of its format that this code knows."""

    magic: bytes
    version: int


TURN_LOG = FileKind(b"CVFSTURN", 1)
HEAD_LOG = FileKind(b"CVFSHEAD", 1)
PACK = FileKind(b"CVFSPACK", 1)
JOURNAL = FileKind(b"CVFSJRNL", 1)
CHECKPOINT = FileKind(b"CVFSCKPT", 1)
JUMPS = FileKind(b"CVFSJUMP", 1)


class FileHeader(Struct, frozen=True, gc=False):
    """What a header says: the version of the file's format and the store that the file belongs to."""

    version: int
    store_id: bytes


class Damage(Struct, frozen=True, gc=False):
    """Bytes of a file that are not what was written: ``length`` of them from ``offset``, and what is wrong."""

    offset: int
    length: int
    reason: str


def encode(kind: FileKind, store_id: bytes) -> bytes:
    """Return the header of a new file of the store ``store_id`` (16 bytes)."""
    if len(store_id) != STORE_ID_SIZE:
        raise ValueError(f"a store id has {STORE_ID_SIZE} bytes, not {len(store_id)}")
    fields = _FIELDS.pack(kind.magic, kind.version, 0, store_id)
    return fields + _CRC.pack(zlib.crc32(fields))


def decode(data: bytes, kind: FileKind, path: Path) -> FileHeader:
    """Read a header. DamageError if it is not one of ``kind``; FormatTooNew if this code is too old for it."""
    if len(data) < HEADER_SIZE:
        raise DamageError(f"{path}: the file header is cut off after {len(data)} bytes")
    magic, version, flags, store_id = _FIELDS.unpack_from(data)
    if magic != kind.magic:
        raise DamageError(f"{path}: the file begins with {magic!r} instead of {kind.magic!r}")
    if _CRC.unpack_from(data, _FIELDS.size)[0] != zlib.crc32(data[: _FIELDS.size]):
        raise DamageError(f"{path}: the checksum of the file header does not hold")
    if version > kind.version or flags:
        raise FormatTooNew(
            f"{path}: format version {version}, flags {flags}; this convfs reads version {kind.version}: update it"
        )
    return FileHeader(version, store_id)


def read(path: Path, kind: FileKind) -> FileHeader:
    """Read the header of the file ``path``; errors as of :func:`decode`, and OSError if it cannot be opened."""
    fd = durable.open_file(path, read_only=True)
    try:
        return decode(pread(fd, HEADER_SIZE, 0), kind, path)
    finally:
        os.close(fd)


def check(fd: int, kind: FileKind, store_id: bytes, path: Path) -> DamageError | None:
    """Check the header of an open file; return what is wrong if the rest of the file can be read in spite of it.

    Records carry checksums of their own, so a damaged header costs nothing but a report. Raises FormatTooNew, and
    DamageError for a file that is whole but belongs to another store.
    """
    try:
        header = decode(pread(fd, HEADER_SIZE, 0), kind, path)
    except DamageError as error:
        return error
    if header.store_id != store_id:
        raise DamageError(f"{path}: the file belongs to the store {header.store_id.hex()}, not to {store_id.hex()}")
    return None


def create(path: Path, kind: FileKind, store_id: bytes) -> None:
    """Make the file ``path`` with nothing but its header, durably: after a crash it is there whole or not at all."""
    temporary = path.with_name(path.name + ".new")
    fd = durable.open_file(temporary, create=True)
    try:
        durable.truncate(fd, 0)
        durable.pwrite_all(fd, encode(kind, store_id), 0)
        durable.fdatasync(fd)
    finally:
        os.close(fd)
    durable.replace(temporary, path)
    durable.sync_directory(path.parent)

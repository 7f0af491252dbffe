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
from store.disk.files import pread
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
IDENTITY = FileKind(b"CVFSIDNT", 1)


class Damage(Struct, frozen=True, gc=False):
    """A damaged part of a file: ``length`` bytes from ``offset``, and the fault."""

    offset: int
    length: int
    reason: str


def encode(kind: FileKind, store_id: bytes) -> bytes:
    """Return the header of a new file of the store ``store_id`` (16 bytes)."""
    if len(store_id) != STORE_ID_SIZE:
        raise ValueError(f"a store id has {STORE_ID_SIZE} bytes, not {len(store_id)}")
    fields = _FIELDS.pack(kind.magic, kind.version, 0, store_id)
    return fields + _CRC.pack(zlib.crc32(fields))


def decode(data: bytes, kind: FileKind, path: Path) -> bytes:
    """Return the store id in a header. DamageError if it is none of ``kind``; FormatTooNew if this code is too old."""
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
    return bytes(store_id)


def read(path: Path, kind: FileKind) -> bytes:
    """Return the store id of the file ``path``; errors as of :func:`decode`, and OSError if it cannot be opened."""
    fd = durable.open_file(path, read_only=True)
    try:
        return decode(pread(fd, HEADER_SIZE, 0), kind, path)
    finally:
        os.close(fd)


def check(fd: int, kind: FileKind, store_id: bytes, path: Path) -> DamageError | None:
    """Check the header of an open file; return its fault if the rest of the file can still be read.

    Records carry checksums of their own, so a damaged header costs nothing but a report. Raises FormatTooNew, and
    DamageError for a file that is whole but belongs to another store.
    """
    try:
        found = decode(pread(fd, HEADER_SIZE, 0), kind, path)
    except DamageError as error:
        return error
    if found != store_id:
        raise DamageError(f"{path}: the file belongs to the store {found.hex()}, not to {store_id.hex()}")
    return None


def create(path: Path, kind: FileKind, store_id: bytes) -> None:
    """Make the file ``path`` with nothing but its header, durably: after a crash it is there whole or not at all."""
    durable.write_whole(path, encode(kind, store_id))

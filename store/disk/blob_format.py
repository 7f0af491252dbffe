"""BlobRecords: how blobs lie in a pack.

A record, little-endian: ``magic u32 'BSLB' | version u16 = 1 | codec u16 | raw_len u32 | stored_len u32 | hash[32] |
stored[stored_len] | crc32 u32`` of all before it. The low byte of ``codec`` is a Compression, the high byte a Form.

The top bit of the low byte, VEILED, says that the last part of the stored bytes (all that is not a hash or a table in
front) has been combined with a stream of bytes that follows from ``hash``.

``hash`` names the blob and ``raw_len`` is its length, whatever its form; a group, sealed or not, has those of its
uncompressed bodies, one after another. Where a record needs other blobs, its stored bytes begin with their hashes:

* ZSTD_DICT: ``dictionary[32] | frame``
* GROUP: ``count u32 | count x (hash[32] | form u16 | raw_len u32 | body_len u32) | frame`` of all bodies
* GROUP_DICT: ``dictionary[32]``, then as GROUP
* CHUNKS: ``count u32 | count x (hash[32] | length u32)``
* SEALED, SEALED_APART: as ``store.disk.sealed_format`` says; what it needs is named in its head
* DELTA: ``base[32] | count u32 | count x (fresh u32 | offset u32 | length u32) | frame`` of all fresh bytes. So many
  fresh bytes, then ``length`` bytes of the blob ``base`` from ``offset`` on, and so forth; what is left of the fresh
  bytes is the end.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from struct import Struct as Layout
from typing import NamedTuple

from isal.isal_zlib import crc32
from msgspec import Struct

from store.errors import DamageError, FormatTooNew, UsageError
from store.ids import HASH_SIZE, Hash

MAGIC = b"BLSB"
VERSION = 1
MAX_STORED = 128 << 20
MAX_STRETCHES = 1 << 17
_HEAD = Layout("<4sHHII32s")
_CRC = Layout("<I")
HEAD_SIZE = _HEAD.size
OVERHEAD = HEAD_SIZE + _CRC.size

_COUNT = Layout("<I")
_MEMBER = Layout("<32sHII")
_CHUNK = Layout("<32sI")
_STRETCH = Layout("<III")
_FORM_SHIFT = 8
_VEILED = 0x80


class Compression(IntEnum):
    """The compression of a record's stored bytes."""

    RAW = 0
    ZSTD = 1
    ZSTD_DICT = 2
    GROUP = 3
    GROUP_DICT = 4
    CHUNKS = 5
    DELTA = 6
    SEALED_APART = 7
    SEALED = 8


class Form(IntEnum):
    """The form of a blob's uncompressed bytes: the blob itself, or its skeleton (``store.disk.skeleton_format``)."""

    PLAIN = 0
    SKELETON = 1


_COMPRESSIONS = tuple(Compression)
_SEALED = (Compression.SEALED, Compression.SEALED_APART)
_FORMS = tuple(Form)


class Record(Struct, frozen=True, gc=False):
    """One record as read: its checksum holds, its hash has not been compared. ``stored`` is still compressed."""

    codec: int
    raw_len: int
    hash: Hash
    stored: memoryview

    @property
    def compression(self) -> Compression:
        """The compression of ``stored``."""
        return _COMPRESSIONS[self.codec & 0xFF & ~_VEILED]

    @property
    def sealed(self) -> bool:
        """True for a sealed group, old or new."""
        return self.compression in _SEALED

    @property
    def veiled(self) -> bool:
        """True if the last part of ``stored`` is combined with a stream of bytes (``store.content.zstd``)."""
        return bool(self.codec & _VEILED)

    @property
    def form(self) -> Form:
        """The form of the uncompressed bytes (PLAIN for a group, whose members have forms of their own)."""
        return _FORMS[self.codec >> _FORM_SHIFT]


class Member(NamedTuple):
    """One blob in a group: its hash, its form, its own length, and that of its body in the group."""

    hash: Hash
    form: Form
    raw_len: int
    body_len: int


class GroupTable(NamedTuple):
    """The head of a group: the dictionary it needs, its members, and where in the stored bytes the frame begins."""

    dictionary: Hash | None
    members: list[Member]
    frame_offset: int


class Chunk(NamedTuple):
    """One piece of a blob that is stored in pieces: the hash of the blob that holds it, and its length."""

    hash: Hash
    length: int


class Stretch(NamedTuple):
    """A piece of a delta: ``fresh`` new bytes, then ``length`` bytes of the base, from ``offset`` on."""

    fresh: int
    offset: int
    length: int


class DeltaTable(NamedTuple):
    """The head of a delta: its base, the stretches that it takes from it, and the start of the frame."""

    base: Hash
    stretches: list[Stretch]
    frame_offset: int


def codec(compression: Compression, form: Form, *, veiled: bool = False) -> int:
    """Return the codec field of a record."""
    return compression | form << _FORM_SHIFT | veiled * _VEILED


def record_size(stored_len: int) -> int:
    """Return the size in a pack of a record with ``stored_len`` stored bytes, in bytes."""
    return OVERHEAD + stored_len


def encode_record(codec: int, raw_len: int, digest: bytes, stored: bytes | memoryview) -> bytes:
    """Return the bytes of one record. UsageError if ``stored`` (128 MiB) or ``raw_len`` (4 GiB) is too large."""
    if len(stored) > MAX_STORED or raw_len > 0xFFFF_FFFF:
        raise UsageError(f"a blob of {raw_len} bytes, stored in {len(stored)}, is too large for one record: chunk it")
    head = _HEAD.pack(MAGIC, VERSION, codec, raw_len, len(stored), digest)
    return b"".join((head, stored, _CRC.pack(crc32(stored, crc32(head)))))


def stored_length(head: bytes | memoryview) -> int:
    """Return how many stored bytes the record that begins with ``head`` says it has.

    DamageError if ``head`` is no head of a record or the length is beyond 128 MiB; the checksum is not looked at.
    """
    if len(head) < HEAD_SIZE:
        raise DamageError(f"a blob record is cut off after {len(head)} bytes")
    magic, _, _, _, stored_len, _ = _HEAD.unpack_from(head)
    if magic != MAGIC:
        raise DamageError("no blob record begins here")
    if stored_len > MAX_STORED:
        raise DamageError(f"a blob record says that it stores {stored_len} bytes, more than any does")
    return int(stored_len)


def decode_record(data: memoryview, *, damaged: bool = False) -> Record:
    """Read a record from exactly its own bytes, without copying what it stores.

    DamageError if the checksum does not hold and ``damaged`` records are not wanted as well, FormatTooNew if this code
    does not know such records.
    """
    stored_len = stored_length(data)
    if len(data) != OVERHEAD + stored_len:
        raise DamageError(f"a blob record of {OVERHEAD + stored_len} bytes is cut off after {len(data)}")
    end = HEAD_SIZE + stored_len
    if not damaged and _CRC.unpack_from(data, end)[0] != crc32(data[:end]):
        raise DamageError("the checksum of a blob record does not hold")
    _, version, codec, raw_len, _, digest = _HEAD.unpack_from(data)
    if version != VERSION or codec & 0xFF & ~_VEILED >= len(_COMPRESSIONS) or codec >> _FORM_SHIFT >= len(_FORMS):
        raise FormatTooNew(f"a blob record has version {version} and codec {codec:#x}: update convfs to read it")
    return Record(codec, raw_len, digest, data[HEAD_SIZE:end])


def encode_group_table(members: Iterable[tuple[Hash, Form, int, int]], dictionary: Hash | None = None) -> bytes:
    """Return the head of the stored bytes of a group; its zstd frame follows.

    ``members`` need only be shaped as :class:`Member`.
    """
    rows = [_MEMBER.pack(*member) for member in members]
    return b"".join((dictionary or b"", _COUNT.pack(len(rows)), *rows))


def decode_group_table(compression: Compression, stored: bytes | memoryview) -> GroupTable:
    """Read the head of a group (GROUP or GROUP_DICT); DamageError if it makes no sense."""
    start = HASH_SIZE if compression == Compression.GROUP_DICT else 0
    if len(stored) < start + _COUNT.size:
        raise DamageError(f"a group of blobs is cut off after {len(stored)} bytes")
    dictionary = Hash(bytes(stored[:start])) if start else None
    (count,) = _COUNT.unpack_from(stored, start)
    start += _COUNT.size
    end = start + count * _MEMBER.size
    if end > len(stored):
        raise DamageError(f"a group of {count} blobs does not fit in {len(stored)} bytes")
    try:
        members = [
            Member(digest, _FORMS[form], raw_len, body_len)
            for digest, form, raw_len, body_len in _MEMBER.iter_unpack(stored[start:end])
        ]
    except IndexError:
        raise DamageError("a member of a group of blobs has an unknown form") from None
    return GroupTable(dictionary, members, end)


def encode_chunks(chunks: Sequence[Chunk]) -> bytes:
    """Return the stored bytes of a blob that is kept in pieces."""
    return b"".join((_COUNT.pack(len(chunks)), *(_CHUNK.pack(*chunk) for chunk in chunks)))


def decode_chunks(stored: bytes | memoryview) -> list[Chunk]:
    """Read the stored bytes of a CHUNKS record; DamageError if their length is not that of a table."""
    count = _COUNT.unpack_from(stored)[0] if len(stored) >= _COUNT.size else 0
    if not count or len(stored) != _COUNT.size + count * _CHUNK.size:
        raise DamageError(f"a table of {count} chunks cannot have {len(stored)} bytes")
    return [Chunk(digest, length) for digest, length in _CHUNK.iter_unpack(stored[_COUNT.size :])]


def encode_delta_table(base: Hash, stretches: Sequence[Stretch]) -> bytes:
    """Return the head of the stored bytes of a delta; the zstd frame of its fresh bytes follows.

    UsageError if there are more than 131,072 stretches.
    """
    if len(stretches) > MAX_STRETCHES:
        raise UsageError(f"a delta of {len(stretches)} stretches is too large for one record")
    return b"".join((base, _COUNT.pack(len(stretches)), *(_STRETCH.pack(*stretch) for stretch in stretches)))


def decode_delta_table(stored: bytes | memoryview) -> DeltaTable:
    """Read the head of a delta; DamageError if it makes no sense, or takes bytes of its base twice or out of order."""
    start = HASH_SIZE + _COUNT.size
    if len(stored) < start:
        raise DamageError(f"a delta is cut off after {len(stored)} bytes")
    (count,) = _COUNT.unpack_from(stored, HASH_SIZE)
    end = start + count * _STRETCH.size
    if end > len(stored) or count > MAX_STRETCHES:
        raise DamageError(f"a delta with {count} stretches does not fit in {len(stored)} bytes")
    stretches = [Stretch(*row) for row in _STRETCH.iter_unpack(stored[start:end])]
    position = 0
    for _fresh, offset, length in stretches:
        if offset < position:
            raise DamageError("the stretches of a delta overlap")
        position = offset + length
    return DeltaTable(Hash(bytes(stored[:HASH_SIZE])), stretches, end)

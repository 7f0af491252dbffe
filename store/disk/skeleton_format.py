"""The stored form of a payload whose large strings have been moved out into blobs of their own.

Layout, little-endian::

    version u16 =1 | cut count u32 | payload length u32
    count x ( offset u32 | length u32 | spelling u8 | hash [32] )
    rest [payload length - sum of lengths]
    crc32 u32 (over all before it)

A cut says that ``length`` bytes of the payload, from ``offset`` on, are the content of blob ``hash`` as ``spelling``
writes it. Cuts rise and do not overlap; ``rest`` is the payload without them. No I/O happens here.
"""

from collections.abc import Sequence
from enum import IntEnum
from itertools import chain
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from store.errors import DamageError, FormatTooNew
from store.ids import Hash

VERSION = 1

_HEADER = Struct("<HII")
_CUT = Struct("<IIB32s")
_CRC = Struct("<I")

_TAIL = _CRC.size
_CUT_SIZE = _CUT.size


class Spelling(IntEnum):
    """The spelling of a blob's content in a payload. JS, ASCII and GO include the quotes, the others have none."""

    RAW = 0
    """The content itself."""
    JS = 1
    """A JSON string as JavaScript's JSON.stringify, serde and Python's ``ensure_ascii=False`` write it."""
    ASCII = 2
    """A JSON string as Python's ``json.dumps`` writes it: everything beyond ASCII as ``\\uxxxx``."""
    GO = 3
    """A JSON string as Go's encoding/json writes it: JS, and ``< > &``, U+2028 and U+2029 as ``\\uxxxx``."""
    BASE64 = 4
    """Standard base64 with padding, on one line."""


class Skeleton(NamedTuple):
    """A decoded body: ``cuts`` in rising order, and ``rest``, the payload without them.

    A cut is (offset, length, spelling, hash): ``length`` bytes of the payload, from ``offset`` on, spell the blob
    ``hash``.
    """

    payload_length: int
    cuts: list[tuple[int, int, int, Hash]]
    rest: memoryview


def encode(payload_length: int, cuts: Sequence[tuple[int, int, int, Hash]], rest: Sequence[bytes]) -> bytes:
    """Return the body that keeps ``cuts`` and the remaining bytes, given in pieces."""
    head = _HEADER.pack(VERSION, len(cuts), payload_length)
    body = b"".join(chain((head,), (_CUT.pack(*cut) for cut in cuts), rest))
    return body + _CRC.pack(crc32(body))


def decode(body: bytes | memoryview) -> Skeleton:
    """Read a body. Raises DamageError where it contradicts itself, FormatTooNew where its version is unknown.

    Needs no more memory than the body itself, whatever the body claims.
    """
    view = memoryview(body)
    end = len(view) - _TAIL
    if end < _HEADER.size:
        raise DamageError(f"skeleton of {len(view)} bytes is too short")
    if crc32(view[:end]) != _CRC.unpack_from(view, end)[0]:
        raise DamageError("skeleton does not match its checksum")
    version, count, payload_length = _HEADER.unpack_from(view)
    if version != VERSION:
        raise FormatTooNew(f"skeleton of version {version}; this convfs reads version {VERSION}")
    table_end = _HEADER.size + count * _CUT_SIZE
    if table_end > end:
        raise DamageError(f"skeleton claims {count} cuts in {len(view)} bytes")
    cuts = list(_CUT.iter_unpack(view[_HEADER.size : table_end]))
    position = moved = 0
    for offset, length, _spelling, _digest in cuts:
        if offset < position:
            raise DamageError("skeleton's cuts overlap")
        position = offset + length
        moved += length
    if position > payload_length or moved + end - table_end != payload_length:
        raise DamageError("skeleton's cuts and rest do not add up to its payload")
    return Skeleton(payload_length, cuts, view[table_end:end])


def references(body: bytes | memoryview) -> list[Hash]:
    """Return the hashes that a body needs, in payload order, each as often as it is used; raises as :func:`decode`."""
    return [cut[3] for cut in decode(body).cuts]

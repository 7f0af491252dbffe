"""Checksums of rows: SQLite keeps none, and would hand out a flipped bit as if it had been written."""

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

_encode = msgspec.msgpack.Encoder().encode


def sum_of(values: Sequence[object]) -> int:
    """Return the checksum of a row: the CRC-32 of its values as msgpack."""
    return zlib.crc32(_encode(values))


def numbered_sum(values: Sequence[object]) -> int:
    """Return the checksum of a row that begins with a number: that number plus the checksum of the rest.

    So SQLite itself can file what was measured of one turn for another: what it adds to the one it adds to the other.
    """
    number = values[0]
    assert isinstance(number, int)
    return number + zlib.crc32(_encode(values[1:]))


def numbered_holds(row: Sequence[Any]) -> bool:
    """As :func:`holds`, for a row with a :func:`numbered_sum`."""
    try:
        return bool(row[-1] - row[0] == zlib.crc32(_encode(row[1:-1])))
    except (OverflowError, TypeError, UnicodeEncodeError):
        return False


def holds(row: Sequence[object]) -> bool:
    """Say whether a row that ends in its checksum is what was written."""
    try:
        return row[-1] == zlib.crc32(_encode(row[:-1]))
    except (OverflowError, TypeError, UnicodeEncodeError):
        return False

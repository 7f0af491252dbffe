"""Checksums of rows: SQLite keeps none, and would hand out a flipped bit as if it had been written."""

import zlib
from collections.abc import Sequence

import msgspec

_encode = msgspec.msgpack.Encoder().encode


def sum_of(values: Sequence[object]) -> int:
    """Return the checksum of a row: the CRC-32 of its values as msgpack."""
    return zlib.crc32(_encode(values))


def moved_sum(to: object, *row: object) -> int | None:
    """Return the checksum of ``row`` (which ends in its own) with ``to`` in its first place; None if it is damaged."""
    return sum_of((to, *row[1:-1])) if holds(row) else None


def holds(row: Sequence[object]) -> bool:
    """Say whether a row that ends in its checksum is what was written."""
    try:
        return row[-1] == zlib.crc32(_encode(row[:-1]))
    except (OverflowError, TypeError, UnicodeEncodeError):
        return False

"""Identifiers: BLAKE3 hashes, type tags, store ids, and the clock that stamps records."""

import os
import time
from functools import lru_cache
from typing import NewType

from blake3 import blake3

Hash = NewType("Hash", bytes)
"""BLAKE3-256 of some bytes: 32 bytes, the name of a blob."""

HASH_SIZE = 32
STORE_ID_SIZE = 16


def hash_bytes(data: bytes | bytearray | memoryview) -> Hash:
    """Return the name of the blob that holds exactly ``data``."""
    return Hash(blake3(data).digest())


@lru_cache(maxsize=1024)
def type_tag(name: str) -> int:
    """Return the tag of a payload type: the first 8 bytes, little-endian, of the BLAKE3 of its name."""
    return int.from_bytes(blake3(name.encode()).digest()[:8], "little")


def hash_key(digest: bytes) -> int:
    """Return the first 8 bytes of a hash as the signed integer under which the index files it."""
    return int.from_bytes(digest[:8], "little", signed=True)


def new_store_id() -> bytes:
    """Return 16 random bytes that tie the files of one store together."""
    return os.urandom(STORE_ID_SIZE)


def now_ms() -> int:
    """Return the wall clock in milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000

"""Identifiers: BLAKE3 hashes, type tags, store ids, turns and tips, and the clock that stamps records.

A *tip* is a state of a context in one number: the turn that its branch ends in, in the low 40 bits, and from there on
the number of the last patch that was made to it. Where nothing was patched, that is the turn's id. A turn that is seen
through a patch is named in the same way.
"""

import importlib
import os
import re
import sys
import time
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, lru_cache
from struct import Struct
from typing import Any, NewType

from blake3 import blake3

Hash = NewType("Hash", bytes)
"""BLAKE3-256 of some bytes: 32 bytes, the name of a blob."""

HASH_SIZE = 32
HEX = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
"""A hash in hex, as metadata and payloads name blobs."""
_KEY = Struct("<q")
_KEYS_A_HASH = HASH_SIZE // _KEY.size
STORE_ID_SIZE = 16

_TURN_BITS = 40
TURNS_BEYOND = 1 << _TURN_BITS
"""Ids of turns are below this."""
PATCHES_BEYOND = 1 << 22
"""Numbers of patches are below this: tips, and checksums counted on from them, are signed numbers of 64 bits."""
_TURN_MASK = TURNS_BEYOND - 1


def hash_bytes(data: bytes | bytearray | memoryview) -> Hash:
    """Return the name of the blob that holds exactly ``data``."""
    return Hash(blake3(data).digest())


_SHA256_AT_ONCE = 1 << 16


def sha256(data: bytes | memoryview) -> bytes:
    """Return the SHA-256 of ``data``."""
    whole, view = _begun_sha256()(), memoryview(data)
    # some versions of Python let no other thread run during an update
    for start in range(0, len(view), _SHA256_AT_ONCE):
        whole.update(view[start : start + _SHA256_AT_ONCE])
    digest: bytes = whole.digest()
    return digest


@cache
def _begun_sha256() -> Callable[[], Any]:
    """Return what begins one: as ``random`` does, without ``hashlib``, which takes 3 MB with OpenSSL."""
    for module in ("_sha2", "_sha256"):
        with suppress(ImportError):
            begin: Callable[[], Any] = importlib.import_module(module).sha256
            return begin
    import hashlib

    return hashlib.sha256


@lru_cache(maxsize=1024)
def type_tag(name: str) -> int:
    """Return the tag of a payload type: the first 8 bytes, little-endian, of the BLAKE3 of its name."""
    return int.from_bytes(blake3(name.encode()).digest()[:8], "little")


def hash_key(digest: bytes) -> int:
    """Return the first 8 bytes of a hash as the signed integer under which the index files it."""
    key: int = _KEY.unpack_from(digest)[0]
    return key


def hash_keys(digests: Iterable[bytes]) -> "array[int]":
    """Return the keys of many hashes, in order, as :func:`hash_key` does: at a tenth of its cost."""
    keys = array("q", b"".join(digests))
    if sys.byteorder == "big":
        keys.byteswap()
    return keys[::_KEYS_A_HASH]


def tip_of(turn: int, patch: int) -> int:
    """Return the tip of a branch that ends in ``turn``, seen through ``patch`` and those before it (0: none)."""
    return turn | patch << _TURN_BITS


def turn_of(tip: int) -> int:
    """Return the turn that a tip names."""
    return tip & _TURN_MASK


def patch_of(tip: int) -> int:
    """Return the number of the last patch of a tip, 0 for none."""
    return tip >> _TURN_BITS


def new_store_id() -> bytes:
    """Return 16 random bytes that tie the files of one store together."""
    return os.urandom(STORE_ID_SIZE)


def now_ms() -> int:
    """Return the wall clock in milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000

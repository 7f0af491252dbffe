"""Names of blobs where they are written down: in hex, in texts and metadata, and as bytes, in trees of files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from store.ids import hash_key

_HEX = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_BINARY = re.compile(rb"(\xc4\x20)(.{32})", re.DOTALL)
"""32 bytes as MessagePack writes them."""

Renamed = Callable[[bytes], bytes | None]
"""Returns what a digest, of any algorithm, is to be called from now on; None if it stays what it is."""


def keys_in(data: bytes) -> Iterator[int]:
    """Yield the keys of all digests that some bytes may name."""
    for match in _HEX.finditer(data):
        yield hash_key(bytes.fromhex(match[0].decode()))
    for match in _BINARY.finditer(data):
        yield hash_key(match[2])


def renamed(data: bytes, new: Renamed) -> bytes:
    """Return bytes, as many, with new names in the places of old ones."""

    def in_hex(match: re.Match[bytes]) -> bytes:
        name = new(bytes.fromhex(match[0].decode()))
        return match[0] if name is None else name.hex().encode()

    def binary(match: re.Match[bytes]) -> bytes:
        name = new(match[2])
        return match[0] if name is None else match[1] + name

    return _BINARY.sub(binary, _HEX.sub(in_hex, data))

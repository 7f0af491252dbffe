"""Veiling: what zstd stores as it is, a search over the store's own files must not find.

zstd leaves little text, or what does not shrink, readable. Such frames are combined with a stream of bytes that
follows from the record's hash. This keeps nothing secret from anyone who reads the format's description.
"""

from blake3 import blake3

from store.ids import Hash

# Types of blocks; of literals in a block, 0 is raw, too.
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2

_PERIOD = 4096


def veil(data: bytes | memoryview, digest: Hash) -> bytes:
    """Return ``data`` exclusive-or BLAKE3's extended output for ``digest``; done twice, it is the data again."""
    return _combined(data, blake3(digest).digest(length=len(data)))


def veil_much(data: bytes | memoryview, digest: Hash) -> bytes:
    """As :func:`veil`, with the first 4096 bytes of the output again and again: that takes no time to make."""
    size = len(data)
    return _combined(data, (blake3(digest).digest(length=_PERIOD) * (size // _PERIOD + 1))[:size])


def _combined(data: bytes | memoryview, stream: bytes) -> bytes:
    size = len(data)
    return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(size, "little")


def shows(frame: bytes) -> bool:
    """Say whether a zstd frame (RFC 8878) holds anything as it was: blocks that are not compressed, or literals."""
    descriptor = frame[4]
    single = descriptor >> 5 & 1
    content_size = (single, 2, 4, 8)[descriptor >> 6]
    place = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + content_size
    last = False
    while not last:
        header = int.from_bytes(frame[place : place + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        place += 3
        if (kind == _RAW and size) or (kind == _COMPRESSED and frame[place] & 3 == _RAW):
            return True
        place += 1 if kind == _REPEATED else size
    return False

"""Entries: commits as a space keeps them, and the chain that they make.

The *chain* of an entry is BLAKE3 of the chain before it, the turn records and the head frames; before the first entry
it is 32 zeros. Every machine can work it out from its own logs, so two of the same chain have the same history, byte
by byte, up to that entry. What is in the entry beside these, blobs, has its names in them.

Encoded, little-endian: ``magic u32 'CVSE' | prev u64 | seq u64 | token[16] | machine u32 | generation u32 | packs u64 |
chain[32] | body_length u32 | body | crc32 u32`` of the space's id and all before it.
"""

import os
import zlib
from struct import Struct as Layout

from blake3 import blake3
from msgspec import Struct

from store.disk.journal_format import chained_part, entry_seq, unframe
from store.errors import DamageError

BEGINNING = bytes(32)
"""The chain before the first entry."""
UNTOLD = (1 << 64) - 1
"""``packs`` of an entry that does not say on which it relies."""

TOKEN_BYTES = 16

_MAGIC = b"CVSE"
_HEAD = Layout("<4sQQ16sIIQ32sI")
_CRC = Layout("<I")


class Entry(Struct, frozen=True, gc=False):
    """One commit in a space."""

    prev: int
    """The ``seq`` of the entry that it follows, 0 for the first."""
    seq: int
    """The number of its last frame."""
    token: bytes
    """16 random bytes: which append it was. Who has had no answer knows its own entry by that."""
    machine: int
    """The number of the replica that appended it."""
    generation: int
    """Which of the space's keys its body is encrypted with; 0: it is not."""
    packs: int
    """The last pack of the space that it may name something in: its reader fetches packs up to that."""
    chain: bytes
    body: bytes
    """The entry of the journal (``encode_entry``), encrypted or not."""


def new_token() -> bytes:
    """Return a name for one append."""
    return os.urandom(TOKEN_BYTES)


def chained(before: bytes, entry: bytes) -> bytes:
    """Return the chain of an encoded, plain entry of the journal that follows one with the chain ``before``."""
    return link(before, chained_part(entry))


def link(before: bytes, logged: bytes | memoryview) -> bytes:
    """Return the chain of an entry whose turn records and head frames are ``logged``."""
    return blake3(before).update(logged).digest()


def encode(entry: Entry, space: bytes) -> bytes:
    """Return an entry as it lies in the space with this id."""
    head = _HEAD.pack(
        _MAGIC,
        entry.prev,
        entry.seq,
        entry.token,
        entry.machine,
        entry.generation,
        entry.packs,
        entry.chain,
        len(entry.body),
    )
    return b"".join((head, entry.body, _CRC.pack(_checksum(space, head, entry.body))))


def decode(data: bytes, prev: int, space: bytes) -> Entry:
    """Read the entry that follows ``prev``; DamageError if it is none. One of format 1 has no token and no chain."""
    if data[:4] == _MAGIC and len(data) >= _HEAD.size + _CRC.size:
        _magic, before, seq, token, machine, generation, packs, chain, length = _HEAD.unpack_from(data)
        end = _HEAD.size + length
        body = data[_HEAD.size : end]
        sound = len(data) == end + _CRC.size and before == prev
        if sound and _CRC.unpack_from(data, end)[0] == _checksum(space, data[: _HEAD.size], body):
            return Entry(prev, seq, token, machine, generation, packs, chain, body)
    elif (framed := unframe(memoryview(data), 0, zlib.crc32(space))) is not None and framed.length == len(data):
        body = bytes(framed.body)
        return Entry(prev, entry_seq(body), b"", 0, 0, UNTOLD, b"", body)
    raise DamageError("this entry of the space is damaged: put it back from a backup of the space")


def decode_all(data: bytes, prev: int, space: bytes) -> list[Entry]:
    """Read entries that lie one behind the other, the first of which follows ``prev``. DamageError."""
    found: list[Entry] = []
    view, at = memoryview(data), 0
    while at < len(view):
        if len(view) - at < _HEAD.size:
            raise DamageError(f"an entry of the space is cut off, behind commit {prev}")
        end = at + _HEAD.size + _HEAD.unpack_from(view, at)[-1] + _CRC.size
        found.append(decode(bytes(view[at:end]), prev, space))
        prev, at = found[-1].seq, end
    return found


def _checksum(space: bytes, head: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(head, zlib.crc32(space)))

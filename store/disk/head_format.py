"""Frames of the head log: what happened to contexts, and what the store has learnt of types, aliases, dictionaries.

A frame, little-endian: ``len u32 (of the whole frame) | kind u16 | seq u64 | context u64 (0: of no context) | body |
crc32 u32`` of all before it. The layout of each body stands with its class.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from struct import Struct as Layout

from msgspec import Struct

from store.disk import note_format, retention_format
from store.disk.note_format import Appended as Appended
from store.disk.note_format import Closed as Closed
from store.disk.note_format import FsRoot as FsRoot
from store.disk.note_format import Note
from store.disk.note_format import Opened as Opened
from store.disk.note_format import TextAdded as TextAdded
from store.disk.retention_format import Deleted as Deleted
from store.disk.retention_format import Gone
from store.disk.retention_format import Reclaimed as Reclaimed
from store.disk.retention_format import VersionsPruned as VersionsPruned
from store.errors import DamageError, UsageError
from store.ids import Hash

MAX_FRAME = 64 << 20
_HEAD = Layout("<IHQQ")
_CRC = Layout("<I")
MIN_FRAME = _HEAD.size + _CRC.size

_CREATED = Layout("<QQI")
_MOVED = Layout("<QIQ")
_TIME = Layout("<Q")
_TYPE = Layout("<QI")
_ALIAS = Layout("<32sB")
_DICTIONARY = Layout("<Q32s")
_COMMIT = Layout("<QIQQ")
COMMIT_SIZE = MIN_FRAME + _COMMIT.size
_SUPERSEDED = Layout("<QQI")
_PATCHED = Layout("<QQQI")
_TARGET = Layout("<Q32sIQ")


class ContextCreated(Struct, frozen=True, gc=False):
    """Kind 1: ``base_turn u64 | created_ms u64 | flags u32``. A context came to be, its head at ``base_turn`` or 0."""

    base_turn: int
    created_ms: int
    flags: int


class HeadMoved(Struct, frozen=True, gc=False):
    """Kind 2: ``tip u64 | depth u32 | time_ms u64 | action utf-8``. The state of a context is now ``tip``.

    Its turn (``store.ids``) is the head, whose depth this is.
    """

    tip: int
    depth: int
    time_ms: int
    action: str


class Metadata(Struct, frozen=True, gc=False):
    """Kind 3: ``time_ms u64 | changes``: a JSON object whose values replace those of their keys; null removes a key."""

    time_ms: int
    changes: bytes


class TypeRegistered(Struct, frozen=True, gc=False):
    """Kind 4: ``tag u64 | version u32 | name utf-8``. Turns with this ``tag`` are of the type ``name``."""

    name: str
    version: int
    tag: int


class Alias(Struct, frozen=True, gc=False):
    """Kind 5: ``hash[32] | length u8 | algorithm | digest``. Another algorithm's digest of the blob ``hash``.

    ``length`` is that of the ASCII name ``algorithm`` (``sha256``).
    """

    algorithm: str
    digest: bytes
    hash: Hash


class Dictionary(Struct, frozen=True, gc=False):
    """Kind 6: ``tag u64 | hash[32]``. The blob ``hash`` is the zstd dictionary for what has type ``tag`` (0: all)."""

    tag: int
    hash: Hash


class Commit(Struct, frozen=True, gc=False):
    """Kind 7: ``turn_count u64 | pack_number u32 | pack_length u64 | heads_length u64``. The end of a group.

    ``turn_count`` is how many turns the log then held, ``heads_length`` how long the head log was before the group's
    first frame; packs up to ``pack_number``, ``pack_length`` were on disk.
    """

    turn_count: int
    pack_number: int
    pack_length: int
    heads_length: int


class Superseded(Struct, frozen=True, gc=False):
    """Kind 8: for each of ``turns`` ``old u64 | new u64 | count u32``. What took the place of turns in a context.

    The turns ``old``, ``old + 1`` … are no longer in the branch; ``new``, ``new + 1`` … are what became of them, each
    of its own. Where ``new`` is 0, nothing did: they were taken out.
    """

    turns: tuple[tuple[int, int, int], ...]


class Patched(Struct, frozen=True, gc=False):
    """Kind 9: ``number u64 | previous u64 | time_ms u64 | count u32``, so many times ``turn u64 | payload_hash[32] |
    flags u32 | created_ms u64``, then ``action utf-8``. Turns of a context are now seen with this in their records.

    ``number`` is the patch's own, in the whole store; ``previous`` is the one before it that holds for the context, 0
    if there is none.
    """

    number: int
    previous: int
    time_ms: int
    turns: tuple[tuple[int, Hash, int, int], ...]
    action: str


Body = (
    ContextCreated
    | HeadMoved
    | Metadata
    | TypeRegistered
    | Alias
    | Dictionary
    | Commit
    | Superseded
    | Patched
    | Note
    | Gone
)


class Frame(Struct, frozen=True, gc=False):
    """One frame: ``offset`` in the log's file (0 where it is not in one), ``seq``, ``context`` and its body."""

    offset: int
    seq: int
    context: int
    body: Body


def encode(seq: int, context: int, body: Body) -> bytes:
    """Return the bytes of one frame. UsageError if a part of ``body`` is too long for its place."""
    match body:
        case HeadMoved():
            kind = 2
            data = _MOVED.pack(body.tip, body.depth, body.time_ms) + body.action.encode()
        case Commit():
            kind = 7
            data = _COMMIT.pack(body.turn_count, body.pack_number, body.pack_length, body.heads_length)
        case ContextCreated():
            kind = 1
            data = _CREATED.pack(body.base_turn, body.created_ms, body.flags)
        case Metadata():
            kind = 3
            data = _TIME.pack(body.time_ms) + body.changes
        case TypeRegistered():
            kind = 4
            data = _TYPE.pack(body.tag, body.version) + body.name.encode()
        case Alias():
            kind = 5
            algorithm = body.algorithm.encode("ascii")
            if len(algorithm) > 0xFF:
                raise UsageError(f"the name of a hash algorithm has {len(algorithm)} bytes; at most 255 fit")
            data = _ALIAS.pack(body.hash, len(algorithm)) + algorithm + body.digest
        case Dictionary():
            kind = 6
            data = _DICTIONARY.pack(body.tag, body.hash)
        case Superseded():
            kind = 8
            data = b"".join(_SUPERSEDED.pack(*turns) for turns in body.turns)
        case Patched():
            kind = 9
            data = _PATCHED.pack(body.number, body.previous, body.time_ms, len(body.turns))
            data += b"".join(_TARGET.pack(*target) for target in body.turns) + body.action.encode()
        case Deleted() | VersionsPruned() | Reclaimed():
            kind, data = retention_format.encode(body)
        case _:
            kind, data = note_format.encode(body)
    size = MIN_FRAME + len(data)
    if size > MAX_FRAME:
        raise UsageError(f"a record of {size} bytes is too large for the head log; at most {MAX_FRAME} fit")
    frame = _HEAD.pack(size, kind, seq, context) + data
    return frame + _CRC.pack(zlib.crc32(frame))


def frame_length(buf: bytes | memoryview, start: int = 0) -> int:
    """Return how long the frame that begins at ``start`` says it is; 0 if that cannot be true."""
    size = int.from_bytes(buf[start : start + 4], "little")
    return size if MIN_FRAME <= size <= MAX_FRAME else 0


def decode(buf: bytes | memoryview, offset: int = 0) -> Frame:
    """Read a frame from exactly its own bytes; ``offset`` is noted as its place. DamageError says what is wrong."""
    if len(buf) < MIN_FRAME:
        raise DamageError(f"a frame is cut off after {len(buf)} bytes")
    size, kind, seq, context = _HEAD.unpack_from(buf)
    if size != len(buf):
        raise DamageError(f"a frame of {size} bytes is cut off after {len(buf)}")
    end = size - _CRC.size
    if _CRC.unpack_from(buf, end)[0] != zlib.crc32(buf[:end]):
        raise DamageError("the checksum of a frame does not hold")
    decoder, data = _DECODERS.get(kind), bytes(buf[_HEAD.size : end])
    try:
        decoded = decoder(data) if decoder else note_format.decode(kind, data) or retention_format.decode(kind, data)
    except (ValueError, TypeError, IndexError) as error:
        raise DamageError(f"a frame of kind {kind} makes no sense: {error}") from None
    if decoded is None:
        raise DamageError(f"a frame is of the unknown kind {kind}")
    return Frame(offset, seq, context, decoded)


def possible_frames(data: bytes | memoryview) -> Iterator[int]:
    """Yield where in ``data`` a frame may begin, judged by its length, kind and seq (below 2 ** 48); few are wrong."""
    return (match.start() for match in _POSSIBLE.finditer(data))


def _exactly(layout: Layout, data: bytes) -> tuple[int, ...]:
    if len(data) != layout.size:
        raise ValueError(f"its body has {len(data)} bytes instead of {layout.size}")
    return layout.unpack(data)


def _leading(layout: Layout, data: bytes) -> tuple[int, ...]:
    if len(data) < layout.size:
        raise ValueError(f"its body has {len(data)} bytes, fewer than {layout.size}")
    return layout.unpack_from(data)


def _moved(data: bytes) -> HeadMoved:
    tip, depth, time_ms = _leading(_MOVED, data)
    return HeadMoved(tip, depth, time_ms, data[_MOVED.size :].decode())


def _metadata(data: bytes) -> Metadata:
    return Metadata(_leading(_TIME, data)[0], data[_TIME.size :])


def _type(data: bytes) -> TypeRegistered:
    tag, version = _leading(_TYPE, data)
    return TypeRegistered(data[_TYPE.size :].decode(), version, tag)


def _alias(data: bytes) -> Alias:
    if len(data) < _ALIAS.size or len(data) < _ALIAS.size + data[32]:
        raise ValueError(f"its body ends after {len(data)} bytes")
    end = _ALIAS.size + data[32]
    return Alias(data[_ALIAS.size : end].decode("ascii"), data[end:], Hash(data[:32]))


def _dictionary(data: bytes) -> Dictionary:
    if len(data) != _DICTIONARY.size:
        raise ValueError(f"its body has {len(data)} bytes instead of {_DICTIONARY.size}")
    return Dictionary(int.from_bytes(data[:8], "little"), Hash(data[8:]))


def _superseded(data: bytes) -> Superseded:
    if len(data) % _SUPERSEDED.size:
        raise ValueError(f"its body has {len(data)} bytes")
    return Superseded(tuple(_SUPERSEDED.iter_unpack(data)))


def _patched(data: bytes) -> Patched:
    number, previous, time_ms, count = _leading(_PATCHED, data)
    end = _PATCHED.size + count * _TARGET.size
    if len(data) < end:
        raise ValueError(f"its body ends after {len(data)} bytes")
    turns = tuple(_TARGET.iter_unpack(data[_PATCHED.size : end]))
    return Patched(number, previous, time_ms, turns, data[end:].decode())


_DECODERS: dict[int, Callable[[bytes], Body]] = {
    1: lambda data: ContextCreated(*_exactly(_CREATED, data)),
    2: _moved,
    3: _metadata,
    4: _type,
    5: _alias,
    6: _dictionary,
    7: lambda data: Commit(*_exactly(_COMMIT, data)),
    8: _superseded,
    9: _patched,
}

# len < 2 ** 27, kind 1 to 17, seq < 2 ** 48; within a lookahead, so that places may overlap
_POSSIBLE = re.compile(rb"(?s)(?=...[\x00-\x04][\x01-\x11]\x00.{6}\x00\x00)")

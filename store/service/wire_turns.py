"""The messages that read turns, as values and bytes; no I/O. See ``store.service.wire``."""

import struct
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

from msgspec import Struct

from store.disk import turn_format
from store.disk.turn_format import Turn
from store.errors import UsageError
from store.ids import Hash
from store.service.wire import NONE, WHOLE
from store.service.wire_fields import Buffer, allowed, ended, piece, start, text, whole

LATEST = 4
"""Flag of a request: turns as they now are, with edits and patches applied, not as they were appended."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_LAST = struct.Struct("<QII")
_BEFORE = struct.Struct("<QQII")
_RANGE = struct.Struct("<QIII")
_ITEM = struct.Struct("<QQII")
_ITEM_PAYLOAD = struct.Struct("<IIII32sI")
_COPIED_BYTES = 2048

ITEM_SIZE = _ITEM.size + _ITEM_PAYLOAD.size
"""The bytes of one turn in an answer, beside the name of its type and its payload."""


class GetLast(Struct, frozen=True):
    """GET_LAST: ``context u64 | limit u32 | include payloads u32``."""

    context: int
    limit: int
    include: bool
    latest: bool = False
    whole: bool = False

    number: ClassVar[int] = 6

    @property
    def flags(self) -> int:
        """The flags that its frame must have."""
        return LATEST * self.latest | WHOLE * self.whole

    def encode(self) -> bytes:
        """Return the payload."""
        return _LAST.pack(self.context, self.limit, self.include)

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read a payload."""
        allowed(flags, LATEST | WHOLE, "GET_LAST")
        context, limit, include = whole(_LAST, payload, "GET_LAST")
        return cls(context, limit, bool(include), bool(flags & LATEST), bool(flags & WHOLE))


class GetBefore(Struct, frozen=True):
    """GET_BEFORE: ``context u64 | before u64 | limit u32 | include payloads u32``; without the turn ``before``."""

    context: int
    before: int
    limit: int
    include: bool
    latest: bool = False
    whole: bool = False

    number: ClassVar[int] = 7

    @property
    def flags(self) -> int:
        """The flags that its frame must have."""
        return LATEST * self.latest | WHOLE * self.whole

    def encode(self) -> bytes:
        """Return the payload."""
        return _BEFORE.pack(self.context, self.before, self.limit, self.include)

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read a payload."""
        allowed(flags, LATEST | WHOLE, "GET_BEFORE")
        context, before, limit, include = whole(_BEFORE, payload, "GET_BEFORE")
        return cls(context, before, limit, bool(include), bool(flags & LATEST), bool(flags & WHOLE))


class GetRange(Struct, frozen=True):
    """GET_RANGE_BY_DEPTH: ``context u64 | start u32 | limit u32 | include payloads u32``; the root's depth is 0."""

    context: int
    start: int
    limit: int
    include: bool
    latest: bool = False
    whole: bool = False

    number: ClassVar[int] = 8

    @property
    def flags(self) -> int:
        """The flags that its frame must have."""
        return LATEST * self.latest | WHOLE * self.whole

    def encode(self) -> bytes:
        """Return the payload."""
        return _RANGE.pack(self.context, self.start, self.limit, self.include)

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read a payload."""
        allowed(flags, LATEST | WHOLE, "GET_RANGE_BY_DEPTH")
        context, first, limit, include = whole(_RANGE, payload, "GET_RANGE_BY_DEPTH")
        return cls(context, first, limit, bool(include), bool(flags & LATEST), bool(flags & WHOLE))


class TurnItem(Struct, frozen=True, gc=False):
    """A turn in an answer: ``turn u64 | parent u64 | depth u32 | size u32 | type | type version u32 | encoding u32
    | compression u32 | raw size u32 | hash[32] | size u32 | payload``.

    The payload is never compressed, and empty where none was asked for; ``raw_size`` is its size either way. In a
    large answer that came in it is a view of that.
    """

    turn: int
    parent: int
    depth: int
    type_name: str
    type_version: int
    encoding: int
    raw_size: int
    hash: Hash
    payload: Buffer = b""
    compression: int = NONE


def item_pieces(items: Sequence[TurnItem], before: bytes = b"", after: bytes = b"") -> list[Buffer]:
    """Return ``count u32`` and the turns, with what is to stand before and after, in pieces.

    Payloads are most of it, and large ones are pieces of their own: they are not copied.
    """
    pieces: list[Buffer] = []
    small: list[Buffer] = [before, _U32.pack(len(items))]
    for item in items:
        name = item.type_name.encode()
        small += (
            _ITEM.pack(item.turn, item.parent, item.depth, len(name)),
            name,
            _ITEM_PAYLOAD.pack(
                item.type_version, item.encoding, item.compression, item.raw_size, item.hash, len(item.payload)
            ),
        )
        if len(item.payload) < _COPIED_BYTES:
            small.append(item.payload)
        else:
            pieces += (b"".join(small), item.payload)
            small = []
    pieces.append(b"".join((*small, after)))
    return pieces


def decode_items(payload: Buffer, at: int = 0) -> tuple[list[TurnItem], int]:
    """Read ``count u32`` and the turns at an offset; return them, and where they end."""
    (count,) = start(_U32, payload, at, "a list of turns")
    at += 4
    items: list[TurnItem] = []
    # not more than there can be is believed of the count
    if count * ITEM_SIZE > len(payload) - at:
        raise UsageError(f"a list of turns is cut off after {len(payload)} bytes")
    for _ in range(count):
        turn, parent, depth, size = start(_ITEM, payload, at, "a turn")
        at += _ITEM.size
        name = piece(payload, at, size, "a turn")
        at += size
        if len(payload) - at < _ITEM_PAYLOAD.size:
            raise UsageError(f"a turn is cut off after {len(payload)} bytes")
        version, encoding, compression, raw_size, hashed, size = _ITEM_PAYLOAD.unpack_from(payload, at)
        at += _ITEM_PAYLOAD.size
        if len(payload) - at < size:
            raise UsageError(f"a turn is cut off after {len(payload)} bytes")
        body = payload[at : at + size]
        at += size
        kind = text(name, "the name of a type")
        items.append(TurnItem(turn, parent, depth, kind, version, encoding, raw_size, hashed, body, compression))
    return items, at


class TurnsAnswer(Struct, frozen=True):
    """``count u32`` and the turns, oldest first: what GET_LAST is answered with."""

    items: list[TurnItem]

    def pieces(self) -> list[Buffer]:
        """Return the payload in pieces."""
        return item_pieces(self.items)

    def encode(self) -> bytes:
        """Return the payload."""
        return b"".join(self.pieces())

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """Read a payload."""
        items, at = decode_items(payload)
        ended(payload, at, "the answer to GET_LAST")
        return cls(items)


class BeforeAnswer(Struct, frozen=True):
    """As :class:`TurnsAnswer`, then ``cursor u64``: the oldest turn of these, 0 where it is the root."""

    items: list[TurnItem]
    cursor: int

    def pieces(self) -> list[Buffer]:
        """Return the payload in pieces."""
        return item_pieces(self.items, after=_U64.pack(self.cursor))

    def encode(self) -> bytes:
        """Return the payload."""
        return b"".join(self.pieces())

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """Read a payload."""
        items, at = decode_items(payload)
        (cursor,) = start(_U64, payload, at, "the answer to GET_BEFORE")
        ended(payload, at + 8, "the answer to GET_BEFORE")
        return cls(items, cursor)


class RangeAnswer(Struct, frozen=True):
    """``depth of the head u32``, then as :class:`TurnsAnswer`."""

    head_depth: int
    items: list[TurnItem]

    def pieces(self) -> list[Buffer]:
        """Return the payload in pieces."""
        return item_pieces(self.items, _U32.pack(self.head_depth))

    def encode(self) -> bytes:
        """Return the payload."""
        return b"".join(self.pieces())

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """Read a payload."""
        (depth,) = start(_U32, payload, 0, "the answer to GET_RANGE_BY_DEPTH")
        items, at = decode_items(payload, 4)
        ended(payload, at, "the answer to GET_RANGE_BY_DEPTH")
        return cls(depth, items)


def encode_records(turns: Iterable[Turn]) -> bytes:
    """Return turns as they are answered to a request that is WHOLE: ``record[80]`` each."""
    return b"".join(map(turn_format.encode, turns))


def decode_records(payload: Buffer) -> list[Turn]:
    """Read turns as :func:`encode_records` spells them. DamageError if a checksum does not hold."""
    if len(payload) % turn_format.RECORD_SIZE:
        raise UsageError(f"{len(payload)} bytes are no whole number of turns")
    return [turn_format.decode(payload, at) for at in range(0, len(payload), turn_format.RECORD_SIZE)]

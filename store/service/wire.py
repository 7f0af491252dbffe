"""The payloads of the messages of CXDB's wire protocol, as values and bytes; no I/O.

Layouts are those that CXDB's own clients send and expect (https://github.com/strongdm/cxdb); ``store/PROTOCOL.md``
shows each with an example. Everything is little-endian, a hash is the BLAKE3-256 of the raw bytes. Turns are read by
the messages of ``store.service.wire_turns``.

A request has the number of its message as ``number``, the flags of its frame as ``flags``, and ``decode`` takes both
payload and flags. What does not fit raises UsageError; no length is believed before the bytes are there.
"""

import struct
from typing import ClassVar, Self

from msgspec import Struct

from store.errors import UsageError
from store.ids import HASH_SIZE, Hash
from store.service.wire_fields import Buffer, allowed, ended, piece, start, text, whole

VERSION = 1
"""The version of the protocol."""

NONE, ZSTD = 0, 1
"""How the payload of an APPEND_TURN is compressed."""

FS_ROOT = 1
"""Flag of an APPEND_TURN: the hash of a file tree follows the key."""
EXPECTED_HEAD = 2
"""Flag of an APPEND_TURN: ``parent`` is the turn that the context must end in."""
WHOLE = 8
"""Flag of a request for a head or for turns: ours. Turns are answered as records of the turn log
(``store.disk.turn_format``), without payloads; a turn that is seen through a patch has its number in its id."""

_U64 = struct.Struct("<Q")
_U32 = struct.Struct("<I")
_HELLO = struct.Struct("<HH")
_HELLO_ANSWER = struct.Struct("<QH")
_HEAD = struct.Struct("<QQI")
_APPEND = struct.Struct("<QQI")
_APPEND_PAYLOAD = struct.Struct("<IIII32sI")
_APPENDED = struct.Struct("<QQI32s")


class Hello(Struct, frozen=True):
    """``version u16 | size u16 | tag | size u32 | meta``, or nothing: what older clients send.

    ``tag`` says who connects, ``meta`` is a JSON object or empty; a token travels in it.
    """

    version: int = VERSION
    tag: str = ""
    meta: bytes = b""

    number: ClassVar[int] = 1
    flags: ClassVar[int] = 0

    def encode(self) -> bytes:
        """Return the payload."""
        tag = self.tag.encode()
        return b"".join((_HELLO.pack(self.version, len(tag)), tag, _U32.pack(len(self.meta)), self.meta))

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read a payload."""
        allowed(flags, 0, "HELLO")
        if not payload:
            return cls()
        version, size = start(_HELLO, payload, 0, "HELLO")
        tag = piece(payload, _HELLO.size, size, "HELLO")
        at = _HELLO.size + size
        (size,) = start(_U32, payload, at, "HELLO")
        meta = piece(payload, at + 4, size, "HELLO")
        ended(payload, at + 4 + size, "HELLO")
        return cls(version, text(tag, "the tag of a client"), meta)


class HelloAnswer(Struct, frozen=True):
    """``session u64 | version u16``."""

    session: int
    version: int = VERSION

    def encode(self) -> bytes:
        """Return the payload."""
        return _HELLO_ANSWER.pack(self.session, self.version)

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """Read a payload."""
        return cls(*whole(_HELLO_ANSWER, payload, "the answer to HELLO"))


class _OneNumber(Struct, frozen=True):
    """A request that is one ``u64``."""

    value: int

    number: ClassVar[int]
    flags: ClassVar[int] = 0

    def encode(self) -> bytes:
        """Return the payload."""
        return _U64.pack(self.value)

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read a payload."""
        allowed(flags, 0, cls.__name__)
        return cls(*whole(_U64, payload, cls.__name__))


class CreateContext(_OneNumber, frozen=True):
    """CTX_CREATE: ``base_turn u64``, 0 for a context that begins empty."""

    number: ClassVar[int] = 2


class ForkContext(_OneNumber, frozen=True):
    """CTX_FORK: ``base_turn u64``."""

    number: ClassVar[int] = 3


class GetHead(Struct, frozen=True):
    """GET_HEAD: ``context u64``."""

    value: int
    whole: bool = False

    number: ClassVar[int] = 4

    @property
    def flags(self) -> int:
        """The flags that its frame must have."""
        return WHOLE * self.whole

    def encode(self) -> bytes:
        """Return the payload."""
        return _U64.pack(self.value)

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read a payload."""
        allowed(flags, WHOLE, "GET_HEAD")
        (value,) = whole(_U64, payload, "GET_HEAD")
        return cls(value, bool(flags & WHOLE))


class HeadAnswer(Struct, frozen=True):
    """``context u64 | head turn u64 | depth u32``: what CTX_CREATE, CTX_FORK and GET_HEAD are answered with."""

    context: int
    turn: int
    depth: int

    def encode(self) -> bytes:
        """Return the payload."""
        return _HEAD.pack(self.context, self.turn, self.depth)

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """Read a payload."""
        return cls(*whole(_HEAD, payload, "a head"))


class AppendTurn(Struct, frozen=True, gc=False):
    """APPEND_TURN: one turn, behind ``parent``, or behind the context's head where that is 0.

    ``context u64 | parent u64 | size u32 | type | type version u32 | encoding u32 | compression u32 | raw size u32
    | hash[32] | size u32 | payload | size u32 | key``, and ``fs root[32]`` where that flag is set. Hash and raw size
    are those of the payload before it was compressed. With ``expects_head`` the parent is the head that is expected.
    """

    context: int
    parent: int
    type_name: str
    type_version: int
    encoding: int
    compression: int
    raw_size: int
    hash: Hash
    payload: bytes
    key: bytes = b""
    fs_root: Hash | None = None
    expects_head: bool = False
    whole: bool = False

    number: ClassVar[int] = 5

    @property
    def flags(self) -> int:
        """The flags that its frame must have."""
        return FS_ROOT * (self.fs_root is not None) | EXPECTED_HEAD * self.expects_head | WHOLE * self.whole

    def encode(self) -> bytes:
        """Return the payload of the frame."""
        name = self.type_name.encode()
        fields = (self.type_version, self.encoding, self.compression, self.raw_size, self.hash, len(self.payload))
        return b"".join(
            (
                _APPEND.pack(self.context, self.parent, len(name)),
                name,
                _APPEND_PAYLOAD.pack(*fields),
                self.payload,
                _U32.pack(len(self.key)),
                self.key,
                self.fs_root or b"",
            )
        )

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read the payload of a frame."""
        allowed(flags, FS_ROOT | EXPECTED_HEAD | WHOLE, "APPEND_TURN")
        context, parent, size = start(_APPEND, payload, 0, "APPEND_TURN")
        at = _APPEND.size
        name = piece(payload, at, size, "APPEND_TURN")
        at += size
        if len(payload) - at < _APPEND_PAYLOAD.size:
            raise UsageError(f"APPEND_TURN is cut off after {len(payload)} bytes")
        version, encoding, compression, raw_size, hashed, size = _APPEND_PAYLOAD.unpack_from(payload, at)
        at += _APPEND_PAYLOAD.size
        body = piece(payload, at, size, "APPEND_TURN")
        at += size
        (size,) = start(_U32, payload, at, "APPEND_TURN")
        key = piece(payload, at + 4, size, "APPEND_TURN")
        at += 4 + size
        root = None
        if flags & FS_ROOT:
            root = Hash(piece(payload, at, HASH_SIZE, "APPEND_TURN"))
            at += HASH_SIZE
        ended(payload, at, "APPEND_TURN")
        return cls(
            context,
            parent,
            text(name, "the name of a type"),
            version,
            encoding,
            compression,
            raw_size,
            hashed,
            body,
            key,
            root,
            bool(flags & EXPECTED_HEAD),
            bool(flags & WHOLE),
        )


class Appended(Struct, frozen=True):
    """``context u64 | turn u64 | depth u32 | hash[32]``: what APPEND_TURN is answered with."""

    context: int
    turn: int
    depth: int
    hash: Hash

    def encode(self) -> bytes:
        """Return the payload."""
        return _APPENDED.pack(self.context, self.turn, self.depth, self.hash)

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """Read a payload."""
        if len(payload) != _APPENDED.size:
            raise UsageError(f"the answer to APPEND_TURN takes {_APPENDED.size} bytes, not {len(payload)}")
        return cls(*_APPENDED.unpack(payload))

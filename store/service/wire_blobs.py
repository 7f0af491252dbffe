"""The messages that read and write blobs, as values and bytes; no I/O. See ``store.service.wire``."""

import struct
from typing import ClassVar, Self

from msgspec import Struct

from store.errors import UsageError
from store.ids import Hash
from store.service.wire_fields import Buffer, allowed, digest, ended, piece, start

_U32 = struct.Struct("<I")
_FS = struct.Struct("<Q32s")
_PUT = struct.Struct("<32sI")
_PUT_ANSWER = struct.Struct("<32sB")


class GetBlob(Struct, frozen=True):
    """GET_BLOB: ``hash[32]``."""

    hash: Hash

    number: ClassVar[int] = 9
    flags: ClassVar[int] = 0

    def encode(self) -> bytes:
        """Return the payload."""
        return self.hash

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read a payload."""
        allowed(flags, 0, "GET_BLOB")
        return cls(digest(payload))


class BlobAnswer(Struct, frozen=True):
    """``size u32 | bytes``."""

    data: bytes

    def encode(self) -> bytes:
        """Return the payload."""
        return b"".join(self.pieces())

    def pieces(self) -> list[Buffer]:
        """Return the payload in pieces: the blob is not copied."""
        return [_U32.pack(len(self.data)), self.data]

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """Read a payload."""
        (size,) = start(_U32, payload, 0, "the answer to GET_BLOB")
        data = piece(payload, 4, size, "the answer to GET_BLOB")
        ended(payload, 4 + size, "the answer to GET_BLOB")
        return cls(data)


class AttachFs(Struct, frozen=True):
    """ATTACH_FS: ``turn u64 | fs root[32]``; it is answered with the same."""

    turn: int
    root: Hash

    number: ClassVar[int] = 10
    flags: ClassVar[int] = 0

    def encode(self) -> bytes:
        """Return the payload."""
        return _FS.pack(self.turn, self.root)

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read a payload."""
        allowed(flags, 0, "ATTACH_FS")
        if len(payload) != _FS.size:
            raise UsageError(f"ATTACH_FS takes {_FS.size} bytes, not {len(payload)}")
        return cls(*_FS.unpack(payload))


class PutBlob(Struct, frozen=True):
    """PUT_BLOB: ``hash[32] | size u32 | bytes``."""

    hash: Hash
    data: bytes

    number: ClassVar[int] = 11
    flags: ClassVar[int] = 0

    def encode(self) -> bytes:
        """Return the payload."""
        return _PUT.pack(self.hash, len(self.data)) + self.data

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read a payload."""
        allowed(flags, 0, "PUT_BLOB")
        if len(payload) < _PUT.size:
            raise UsageError(f"PUT_BLOB is cut off after {len(payload)} bytes")
        hashed, size = _PUT.unpack_from(payload)
        data = piece(payload, _PUT.size, size, "PUT_BLOB")
        ended(payload, _PUT.size + size, "PUT_BLOB")
        return cls(hashed, data)


class PutAnswer(Struct, frozen=True):
    """``hash[32] | new u8``: ``new`` is 0 where the store had the blob already."""

    hash: Hash
    new: bool

    def encode(self) -> bytes:
        """Return the payload."""
        return _PUT_ANSWER.pack(self.hash, self.new)

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """Read a payload."""
        if len(payload) != _PUT_ANSWER.size:
            raise UsageError(f"the answer to PUT_BLOB takes {_PUT_ANSWER.size} bytes, not {len(payload)}")
        hashed, new = _PUT_ANSWER.unpack(payload)
        return cls(hashed, bool(new))

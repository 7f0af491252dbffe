"""Reading the fields of payloads. What does not fit raises UsageError, which names ``what`` it was to be."""

import struct
from typing import TypeVar

import msgspec

from store.errors import UsageError
from store.ids import HASH_SIZE, Hash

T = TypeVar("T")
Buffer = bytes | memoryview
"""What payloads are read from."""


def whole(layout: struct.Struct, payload: Buffer, what: str) -> tuple[int, ...]:
    """Return the fields of a payload that is exactly one ``layout``."""
    if len(payload) != layout.size:
        raise UsageError(f"{what} takes {layout.size} bytes, not {len(payload)}")
    return layout.unpack(payload)


def start(layout: struct.Struct, payload: Buffer, at: int, what: str) -> tuple[int, ...]:
    """Return the fields of a ``layout`` at an offset of a payload that goes on behind it."""
    if len(payload) - at < layout.size:
        raise UsageError(f"{what} is cut off after {len(payload)} bytes")
    return layout.unpack_from(payload, at)


def piece(payload: Buffer, at: int, size: int, what: str) -> bytes:
    """Return ``size`` bytes at an offset of a payload."""
    if len(payload) - at < size:
        raise UsageError(f"{what} is cut off after {len(payload)} bytes: {size} more were to come at {at}")
    return bytes(payload[at : at + size])


def ended(payload: Buffer, at: int, what: str) -> None:
    """Raise UsageError if a payload goes on behind what was read of it."""
    if len(payload) != at:
        raise UsageError(f"{what} has {len(payload) - at} bytes too many")


def text(data: bytes, what: str) -> str:
    """Return bytes as the UTF-8 that they must be."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} is not UTF-8") from error


def digest(data: Buffer) -> Hash:
    """Return a hash that was given by a caller. UsageError if its size is another."""
    if len(data) != HASH_SIZE:
        raise UsageError(f"a hash has {HASH_SIZE} bytes, not {len(data)}")
    return Hash(bytes(data))


def allowed(flags: int, known: int, what: str) -> None:
    """Raise UsageError for flags that are not among the ``known``: what they ask for must not be passed over."""
    if flags & ~known:
        raise UsageError(f"{what} has no flags {flags & ~known:#x}")


def parameters(payload: Buffer, kind: type[T]) -> T:
    """Return what JSON says, an empty object where there is none. UsageError if it is no ``kind``."""
    try:
        return msgspec.json.decode(payload or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the parameters do not fit: {error}") from error

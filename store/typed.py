"""Values of a given type, from JSON and from parsed values.

msgspec keeps with a class of Struct how to read it, from the first time that it is read. Two threads that read a
class for the first time at once crash the process (0.22): the second takes up what the first has half built. So the
first time is one thread's here. Decoders that are made where a module begins are safe, as one thread imports it.
"""

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_building = Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decode(data: bytes | bytearray | memoryview | str, kind: type[T]) -> T:
    """Return the value in JSON. Raises msgspec.DecodeError, and its ValidationError for JSON that is no ``kind``."""
    found: T = _decoder(kind).decode(data)
    return found


def convert(value: object, kind: type[T]) -> T:
    """Return a value of lists, dicts and scalars as a ``kind``. Raises msgspec.ValidationError if it is none."""
    _decoder(kind)
    return msgspec.convert(value, kind)


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    found = _decoders.get(kind)
    if found is None:
        with _building:
            found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found

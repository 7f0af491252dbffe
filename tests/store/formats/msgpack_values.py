"""Values that MessagePack can hold, in the ways in which it can spell them, and what is shown of them."""

import math
import struct
from base64 import b64encode
from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st
from msgpack import ExtType, packb

from store.events.event import ValuePath
from store.formats.core.msgpack_view import Family, Schema, below, elements, members_shown, token, value_end

T = TypeVar("T")

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
PLAIN = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False) | TEXTS
EXTENSIONS = st.builds(ExtType, st.integers(0, 127), st.binary(max_size=20))
SCALARS = PLAIN | st.just(math.nan) | st.binary(max_size=40) | EXTENSIONS
KEYS = TEXTS | st.integers(-40, 300)


def nested(scalars: st.SearchStrategy[T], keys: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Return documents of scalars."""
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
        max_leaves=20,
    )


DOCUMENTS = nested(SCALARS, KEYS)


def packed(value: object) -> bytes:
    """Return a value as a library writes it."""
    found: bytes = packb(value)
    return found


def wide(value: object) -> bytes:
    """Return a value with the longest header for everything."""
    match value:
        case ExtType():
            return b"\xc9" + struct.pack(">Ib", len(value.data), value.code) + value.data
        case bool() | None | float():
            return packed(value)
        case int():
            return b"\xcf" + struct.pack(">Q", value) if value >= 1 << 63 else b"\xd3" + struct.pack(">q", value)
        case str():
            data = value.encode()
            return b"\xdb" + struct.pack(">I", len(data)) + data
        case bytes():
            return b"\xc6" + struct.pack(">I", len(value)) + value
        case list():
            return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(wide, value))
        case dict():
            pairs = b"".join(wide(key) + wide(item) for key, item in value.items())
            return b"\xdf" + struct.pack(">I", len(value)) + pairs
    raise TypeError(value)


WRITERS: st.SearchStrategy[Callable[[object], bytes]] = st.sampled_from([packed, wide])


def seen(value: object) -> object:
    """Return what is shown of a value."""
    match value:
        case ExtType():
            return {"$ext": value.code, "$bin": b64encode(value.data).decode()}
        case bytes():
            return {"$bin": b64encode(value).decode()}
        case float() if not math.isfinite(value):
            return {"$float": "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"}
        case list():
            return [seen(item) for item in value]
        case dict():
            spelled = {str(key): seen(item) for key, item in value.items()}
            if len(spelled) < len(value):
                return {"$map": [[key, seen(item)] for key, item in value.items()]}
            return spelled
    return value


def locate(payload: bytes, path: ValuePath, schema: Schema | None = None) -> tuple[int, int]:
    """Return the span of the value at a path of keys as they are shown; LookupError where none is."""
    start, end, fields = 0, value_end(payload, 0), schema or {}
    for step in path:
        if isinstance(step, int) and token(payload, start).family is Family.LIST:
            start, end = list(elements(payload, start))[step]
        elif isinstance(step, str) and token(payload, start).family is Family.MAP:
            found = (members_shown(payload, start, fields) or {})[step]
            start, end, fields = found.value, found.end, below(fields, step)
        else:
            raise LookupError(step)
    return start, end

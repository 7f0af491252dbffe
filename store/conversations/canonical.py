"""Canonical forms: one spelling for each value, so that equal values have equal bytes.

A *hook* has the form of a type's payloads: it returns a payload as it is stored, from what was appended and how that is
encoded. Its result, given to it again, does not change, and a payload that it cannot read it returns unchanged. Types
without a hook are stored as they come: payloads are their producers' own bytes. So is everything that is imported.

:func:`canonical` is the hook for JSON, MessagePack and CBOR. Of none of these it changes a value: documents are left
alone that have a key twice, or what their canonical form cannot tell.
"""

import json
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Never

from store.disk.turn_format import Encoding

Hook = Callable[[bytes, int], bytes]


def canonical(payload: bytes, encoding: int) -> bytes:
    """Return a payload in the canonical form of its encoding, unchanged where that has none."""
    form = _FORMS.get(encoding)
    return form(payload) if form else payload


def canonical_json(payload: bytes) -> bytes:
    """Return a JSON document by RFC 8785: sorted keys, no blanks, numbers as ECMAScript writes those of 64 bits.

    Left as they are: duplicate keys, lone surrogates, integers beyond 2^53, and whatever is no JSON.
    """
    import rfc8785

    try:
        value = json.loads(payload.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
        return rfc8785.dumps(value)
    except (ValueError, RecursionError):
        return payload


def canonical_msgpack(payload: bytes) -> bytes:
    """Return a value in MessagePack with the shortest headers, floats of 64 bits, and keys sorted by their bytes.

    Left as they are: duplicate keys, keys that are arrays or maps, texts that are no UTF-8, and whatever is not one
    value.
    """
    import msgpack  # type: ignore[import-untyped]  # it has no stubs

    def in_order(pairs: Iterable[tuple[object, object]]) -> dict[object, object]:
        return _unique(sorted(pairs, key=lambda pair: bytes(msgpack.packb(pair[0]))))

    try:
        value = msgpack.unpackb(payload, object_pairs_hook=in_order, strict_map_key=False)
        return bytes(msgpack.packb(value))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return payload


def canonical_cbor(payload: bytes) -> bytes:
    """Return a value in CBOR by RFC 8949, section 4.2, with shorter keys first (4.2.3). Tags stay what they are.

    Left as they are: duplicate keys, nesting of more than 400 levels, and whatever is not one value.
    """
    import cbor2

    class Tags(dict[int, Callable[[object, bool], object]]):
        def __missing__(self, tag: int) -> Callable[[object, bool], object]:
            return lambda value, _immutable: cbor2.CBORTag(tag, value)

    stream = BytesIO(payload)
    try:
        value = cbor2.CBORDecoder(stream, semantic_decoders=Tags(), allow_duplicate_keys=False).decode()
        return payload if stream.read(1) else cbor2.dumps(value, canonical=True)
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError):
        return payload


def _unique(pairs: list[tuple[object, object]]) -> dict[object, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is no JSON")


_FORMS: dict[int, Callable[[bytes], bytes]] = {
    Encoding.JSON: canonical_json,
    Encoding.MSGPACK: canonical_msgpack,
    Encoding.CBOR: canonical_cbor,
}


class Hooks:
    """The hooks of one store, by the names of types. ``all_json``: JSON of types without one is canonical, too."""

    def __init__(self, types: Iterable[str] = (), *, all_json: bool = False) -> None:
        self._hooks: dict[str, Hook] = dict.fromkeys(types, canonical)
        self._all_json = all_json

    def __bool__(self) -> bool:
        """Return whether any payload is not stored as it comes."""
        return self._all_json or bool(self._hooks)

    def add(self, type_name: str, hook: Hook = canonical) -> None:
        """Store payloads of a type as ``hook`` returns them from now on."""
        self._hooks = {**self._hooks, type_name: hook}

    def apply(self, payload: bytes, type_name: str, encoding: int) -> bytes:
        """Return a payload as it is stored."""
        hook = self._hooks.get(type_name)
        if hook is not None:
            return hook(payload, encoding)
        return canonical_json(payload) if self._all_json and encoding == Encoding.JSON else payload

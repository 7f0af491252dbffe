"""``events.json``: every record of a conversation as JSON, each content replaced by a reference to it.

The file is an array, indented by two spaces. A record's contents (what its blocks show) stand as ``{"$blob": "<64
hex>", "size": <bytes>}``: the BLAKE3 of the content's bytes, and how many they are. What identifies an element is
``"$event"``, the record's number, before its own keys; the array of ``jp`` is that tool's own file, which has no such
key. A record that is not an object is ``{"$event": N, "$value": …}``, one that is not JSON ``{"$event": N, "$raw":
{"$blob": …}}``.

The file is made of :func:`element` s: the first byte of the first becomes ``[``, and :data:`TAIL` follows the last.
So its size is the sum of theirs and :data:`TAIL_SIZE`, also where there are none.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from blake3 import blake3

from fusefs.text.grammar import encode, encoded_size
from store.events.event import Block, Event

OPENING = b"["
TAIL = b"\n]\n"
EMPTY = b"[]\n"
TAIL_SIZE = len(TAIL)

_LEAD = b",\n  "
_NO_HASH = "0" * 64
_BARE_FORMATS = frozenset({"jp"})

_to_json = msgspec.json.Encoder().encode
_pretty = msgspec.json.format


def element(number: int, event: Event, format: str, payload: bytes) -> bytes:
    """Return the element of record ``number``, led by its separator; ``format`` is its conversation's."""
    text = _native(number, event, format, hashed=True)
    if text is None:
        text = _raw(number, blake3(payload).hexdigest(), len(payload))
    return _LEAD + text.replace(b"\n", b"\n  ")


def element_size(number: int, event: Event, format: str, payload_size: int) -> int:
    """Return ``len(element(…))`` for a payload of that many bytes, without hashing anything."""
    text = _native(number, event, format, hashed=False)
    if text is None:
        text = _raw(number, _NO_HASH, payload_size)
    return len(_LEAD) + len(text) + 2 * text.count(b"\n")


def document(elements: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of the file that holds ``elements``."""
    rest = iter(elements)
    first = next(rest, None)
    if first is None:
        yield EMPTY
        return
    yield OPENING + first[1:]
    yield from rest
    yield TAIL


def _raw(number: int, digest: str, size: int) -> bytes:
    return _indented(_to_json({"$event": number, "$raw": {"$blob": digest, "size": size}}))


def _native(number: int, event: Event, format: str, *, hashed: bool) -> bytes | None:
    """Return the element of a record that is JSON, not yet indented; None for any other."""
    native = event.native
    if native is None:
        return None
    view = _with_references(native, event.blocks, hashed=hashed)
    try:
        text = _compact(view)
        if format in _BARE_FORMATS:
            pass
        elif not isinstance(native, dict) or "$event" in native:
            text = b'{"$event":%d,"$value":%b}' % (number, text)
        elif native:
            text = b'{"$event":%d,%b' % (number, text[1:])
        else:
            text = b'{"$event":%d}' % number
        return _indented(text)
    except (ValueError, RecursionError):
        return None


def _compact(value: object) -> bytes:
    try:
        return _to_json(value)
    except (UnicodeEncodeError, OverflowError):
        # half a surrogate pair has no UTF-8, but JSON can spell it
        return json.dumps(value).encode()


def _indented(text: bytes) -> bytes:
    try:
        return _pretty(text, indent=2)
    except msgspec.DecodeError:
        # msgspec takes no half pairs, however they are spelled
        return json.dumps(json.loads(text), indent=2, allow_nan=False).encode()


def _with_references(native: object, blocks: Sequence[Block], *, hashed: bool) -> object:
    """Return ``native`` with references for contents; only what leads to one of them is copied.

    A place that is not there, or that holds no string (arguments that are an object), stays as it is.
    """
    if not isinstance(native, (dict, list)):
        return native
    root = native
    copied: set[int] = set()
    for block in blocks:
        if not block.path:
            continue
        if not copied:
            root = native.copy()
            copied.add(id(root))
        node: Any = root  # parsed JSON: only its own shape says what may be asked of it
        *above, last = block.path
        try:
            for key in above:
                child = node[key]
                if id(child) not in copied:
                    if not isinstance(child, (dict, list)):
                        break
                    node[key] = child = child.copy()
                    copied.add(id(child))
                node = child
            else:
                value = node[last]
                if isinstance(value, str):
                    node[last] = _reference(value, block, hashed=hashed)
        except (KeyError, IndexError, TypeError):
            continue
    return root


def _reference(value: str, block: Block, *, hashed: bool) -> dict[str, object]:
    content: str | bytes | None = value
    if block.encoding == "base64":
        content = block.text if block.data is None else block.data
    if isinstance(content, str):
        if not hashed:
            return {"$blob": _NO_HASH, "size": encoded_size(content)}
        content = encode(content)
    data = content or b""
    return {"$blob": blake3(data).hexdigest() if hashed else _NO_HASH, "size": len(data)}

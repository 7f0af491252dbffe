"""``events.json``: every record of a conversation as JSON, its contents replaced by references to them.

The file is an array, indented by two spaces. What a record's blocks show stands as ``{"$blob": "<64 hex>", "size":
<bytes>}``: the BLAKE3 of the content's bytes, and how many they are. So does a string that blocks lead into. In a
record that is then still larger than :data:`LARGE_RECORD`, so does every other long string (tools write many a text
twice). What identifies an element is ``"$event"``, the record's number, before its own keys; those of ``jp`` have no
such key, and are as JP writes them: content that these hold in an object of its own is one reference. A record that is
not an object is ``{"$event": N, "$value": …}``, one that is not JSON ``{"$event": N, "$raw": {"$blob": …}}``.

The file is made of :func:`element` s: the first byte of the first becomes ``[``, and :data:`TAIL` follows the last.
So its size is the sum of theirs and :data:`TAIL_SIZE`, also where there are none.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
from blake3 import blake3

from store.events.event import Block, Event, ValuePath
from store.formats.core import documents
from store.formats.core.blocks import string_before
from store.formats.core.json_view import value_at

OPENING = b"["
TAIL = b"\n]\n"
EMPTY = b"[]\n"
TAIL_SIZE = len(TAIL)

LONG_STRING = 1024
"""Characters from which on a string in a large record is replaced, whatever it is."""

LARGE_RECORD = 2048
"""Bytes of JSON, without spaces, beyond which a record is large."""

_LEAD = b",\n  "
_NUMBERED = b'{\n    "$event": '
_NO_HASH = "0" * 64
_DEEPEST = 64
HOLDER = "content"
_BARE_FORMATS = frozenset({"jp"})

_to_json = msgspec.json.Encoder().encode
_pretty = msgspec.json.format


def element(number: int, event: Event, format: str, payload_hash: bytes, payload_size: int) -> bytes:
    """Return the element of record ``number``, led by its separator; ``format`` is that of its payload's type."""
    return _LEAD + _text(number, event, format, payload_hash.hex(), payload_size).replace(b"\n", b"\n  ")


def element_size(number: int, event: Event, format: str, payload_size: int) -> int:
    """Return ``len(element(…))`` for a payload of that many bytes, without hashing anything."""
    text = _text(number, event, format, "", payload_size)
    return len(_LEAD) + len(text) + 2 * text.count(b"\n")


def sized(number: int, event: Event, format: str, payload_size: int) -> tuple[int, list[bytes]]:
    """Return :func:`element_size` and :func:`contents` of an event, for little more than the time of one."""
    named: list[bytes] = []
    text = _text(number, event, format, "", payload_size, named)
    return len(_LEAD) + len(text) + 2 * text.count(b"\n"), named


def _text(
    number: int, event: Event, format: str, digest: str, size: int, named: list[bytes] | None = None
) -> bytes:
    """Return an element, not yet indented; hashes stand in it if ``digest`` does, and zeros otherwise.

    ``named`` gets the contents that the element can name.
    """
    text = _native(number, event, format, hashed=digest != "", named=named)
    if text is None:
        if named is not None:
            named[:] = contents(event)
        return _indented(_to_json({"$event": number, "$raw": {"$blob": digest or _NO_HASH, "size": size}}))
    return text


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


def text_of(element: bytes) -> bytes:
    """Return an element without its separator."""
    return element[len(_LEAD) :]


def says_number(text: bytes) -> bool:
    """Return whether an element begins with its number."""
    return text.startswith(_NUMBERED)


def parsed(text: bytes) -> object:
    """Return the value of an element, as :func:`store.formats.core.documents.parse` does."""
    return documents.parse(text.decode())


def contents(event: Event) -> list[bytes]:
    """Return all contents that the element of an event can name by their hashes."""
    found: list[bytes] = []

    def refer(value: str, block: Block | None) -> _Reference | None:
        content = _content(value, block)
        if content is None:
            return None
        found.append(content)
        return {}

    _without_long_strings(_with_references(event.native, event.blocks, refer), _DEEPEST, refer)
    return found


def _native(
    number: int, event: Event, format: str, *, hashed: bool, named: list[bytes] | None = None
) -> bytes | None:
    """Return the element of a record that is JSON, not yet indented; None for any other. ``named`` as :func:`_text`."""
    native = event.native
    if native is None:
        return None
    refer = partial(_reference, hashed=hashed, named=named)
    bare = format in _BARE_FORMATS
    view = _with_references(native, event.blocks, refer, bare=bare)
    try:
        text = _compact(view)
        if len(text) > LARGE_RECORD:
            text = _compact(_without_long_strings(view, _DEEPEST, refer))
        elif named is not None and len(text) >= LONG_STRING:
            # these stay in this element, but not in one of more text
            _without_long_strings(view, _DEEPEST, refer)
        if bare:
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


_Reference = dict[str, object]
_Refer = Callable[[str, Block | None], _Reference | None]
"""Returns what stands for a string, which a block shows or none does; None where the string stays."""


def is_held(value: object) -> bool:
    """Return whether a value is content as JP holds it, where it could be a reference: ``{"text": "…"}``."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("text", value.get("blob")), str)


def _with_references(native: object, blocks: Sequence[Block], refer: _Refer, *, bare: bool = False) -> object:
    """Return ``native`` with references for what blocks show; only what leads to one of them is copied.

    A place that is not there, or that holds no string (arguments that are an object), stays as it is.
    """
    root: Any = native  # parsed JSON: only its own shape says what may be asked of it
    copies: dict[ValuePath, Any] = {}
    for block in blocks:
        path = block.path
        shows: Block | None = block
        if not path:
            continue
        above, last = path[:-1], path[-1]
        # the blocks of an event often stand beside each other
        holder: Any = copies.get(above)
        try:
            if holder is None:
                holder = native
                for key in above:
                    holder = holder[key]
            value = holder[last]
        except (KeyError, IndexError, TypeError):
            value = None
        if type(value) is not str or type(holder) is str:
            if not (steps := string_before(native, path)):
                continue
            above, last, shows = path[: steps - 1], path[steps - 1], None
            value = value_at(root, path[:steps])
            if type(value) is not str:
                # another block leads into it, too
                continue
            holder = copies.get(above)
        reference = refer(value, shows)
        if reference is None:
            continue
        if bare and not block.name and above[-1:] == (HOLDER,) and is_held(value_at(native, above)):
            above, last = above[:-1], above[-1]
        if above not in copies:
            if not copies:
                root = copies[()] = root.copy()
            holder = root
            for depth, key in enumerate(above, 1):
                node = copies.get(above[:depth])
                if node is None:
                    node = holder[key] = copies[above[:depth]] = holder[key].copy()
                holder = node
        holder[last] = reference
    return root


def _without_long_strings(value: object, depth: int, refer: _Refer) -> object:
    """Return a value with references for its long strings, ``value`` itself if it has none."""
    places: Iterable[tuple[Any, object]]
    if isinstance(value, dict):
        places = value.items()
    elif isinstance(value, list):
        places = enumerate(value)
    else:
        return value
    changes: list[tuple[Any, object]] = []
    for key, item in places:
        if type(item) is str:
            if len(item) >= LONG_STRING and (reference := refer(item, None)) is not None:
                changes.append((key, reference))
        elif depth and type(item) in (dict, list):
            shorter = _without_long_strings(item, depth - 1, refer)
            if shorter is not item:
                changes.append((key, shorter))
    if not changes:
        return value
    copy: Any = value.copy()
    for key, item in changes:
        copy[key] = item
    return copy


def _reference(
    value: str, block: Block | None, *, hashed: bool, named: list[bytes] | None = None
) -> _Reference | None:
    """Return the stand-in for a string; None if it has no bytes to be named (half a surrogate pair).

    ``named`` gets its bytes.
    """
    if named is None and not hashed and value.isascii() and (block is None or block.encoding != "base64"):
        return {"$blob": _NO_HASH, "size": len(value)}
    content = _content(value, block)
    if content is None:
        return None
    if named is not None:
        named.append(content)
    return {"$blob": blake3(content).hexdigest() if hashed else _NO_HASH, "size": len(content)}


def _content(value: str, block: Block | None) -> bytes | None:
    """Return the bytes of a string, or of what a block shows that it holds in base64."""
    content: str | bytes | None = value
    if block is not None and block.encoding == "base64":
        content = block.text if block.data is None else block.data
    if not isinstance(content, str):
        return content
    try:
        return content.encode()
    except UnicodeEncodeError:
        return None

"""Files of many conversations: JSON objects each of which holds its messages in one member, an object or a list.

There may be one conversation, a list of them, or several such one after another. They are found without parsing what
they say: a conversation is decoded as bytes by its name, and so are its messages, which gives where each ends (more
than 1 GB/s). Where a file is damaged, its values are followed bracket by bracket, and what makes no sense reaches to
the next message that begins as the others do.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Raw

from store.errors import UsageError
from store.formats.format import Span
from store.formats.json_spans import members, text_of, value_end
from store.formats.json_view import decode
from store.formats.lines import let_go

_LITERAL = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_between = re.compile(rb"(?:\xef\xbb\xbf)?[\s,\[\]\0\x1e]*+").match
_NEXT_OBJECT = re.compile(rb'\{\s*+"')
_key = re.compile(rb"\s*+(" + _LITERAL + rb")\s*+:\s*+", re.DOTALL).match
_next_key = re.compile(rb"[{,]\s*+(" + _LITERAL + rb")\s*+:\s*+|[{\s]*+\}", re.DOTALL).match
_SCALAR = _LITERAL + rb'|[^\s,\[\]{}"]++'
_beginning = re.compile(
    rb"\{\s*+(" + _LITERAL + rb")\s*+:\s*+(?:(?:" + _SCALAR + rb")\s*+,\s*+(" + _LITERAL + rb")\s*+:)?", re.DOTALL
).match
_blanks = re.compile(rb"\s*+").match
_separator = re.compile(rb"\s*+,?\s*+").match
_after_value = re.compile(rb"\s*+(?:[,}\]]|\Z)").match
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode

_OBJECT, _END_OF_OBJECT, _END_OF_LIST = b"{}]"
_TRAILING = b" \t\r\n,[]\0\x1e"
_MOST_ATTEMPTS = 8
"""How many beginnings that look like the next conversation's may be within one before it is taken for damaged."""
RELEASED_AT_ONCE = 8 << 20
"""How many bytes of a mapped file are let go of at once: the system maps more than what is asked for."""
_FURTHER = 1 << 20
"""How far the end of a conversation is looked for, in bytes, that seems to be damaged; or as far as the attempts."""
_MOST_WASTE = 16 << 20
"""How many bytes are read in vain, of a damaged conversation, before what is left of it is given up as one piece."""


class Outline(NamedTuple):
    """A conversation: the JSON of its other members, by key, and where its messages are, in the order of the file.

    Bytes among these that make no sense are a message too. Keys of messages are not part of them.
    """

    members: dict[str, bytes]
    messages: list[Span]


def outlines(data: memoryview, holder: str) -> Iterator[tuple[int, Outline]]:
    """Yield the conversations of a file, each with where it ends; ``holder`` is the member that has the messages.

    Objects without that member have no messages. What stands between objects is left out.
    """
    size = len(data)
    signature: re.Pattern[bytes] | None = None
    released = 0
    position = _end(_between(data, 0))
    while position < size:
        if data[position] != _OBJECT:
            found = _NEXT_OBJECT.search(data, position)
            position = found.start() if found else size
            continue
        if signature is None or not signature.match(data, position):
            signature = _like(data, position) or _NEXT_OBJECT
        end, outline = _conversation(data, position, holder, signature)
        yield end, outline
        if end - released >= RELEASED_AT_ONCE:
            let_go(data, released, end)
            released = end
        position = _end(_between(data, end))


def _conversation(data: memoryview, position: int, holder: str, signature: re.Pattern[bytes]) -> tuple[int, Outline]:
    """Return where the object at ``position`` ends, and what it holds."""
    damaged: bytes | None = None
    searched = position + 1
    for _attempt in range(_MOST_ATTEMPTS):
        found = signature.search(data, searched)
        if found is None:
            break
        text = bytes(data[position : found.start()]).rstrip(_TRAILING)
        if (outline := _outlined(text, position, holder)) is not None:
            return position + len(text), outline
        damaged = damaged or text
        searched = found.start() + 1
    # the last one, or one before others that begin in another way, or one that holds many that begin as it does
    whole = data[: position + max(_FURTHER, _MOST_ATTEMPTS * len(damaged))] if damaged else data
    if end := _value_end(whole, position):
        text = bytes(data[position:end])
        outline = _outlined(text, position, holder)
        if outline is None and not damaged:
            outline = _followed(text, position, holder)
        if outline is not None:
            return end, outline
    if damaged is None:
        damaged = bytes(data[position:]).rstrip(_TRAILING)
    # what no parser reads may still have its brackets in order
    damaged = damaged[: _value_end(damaged, 0) or len(damaged)]
    return position + len(damaged), _followed(damaged, position, holder)


def _outlined(text: bytes, base: int, holder: str) -> Outline | None:
    """Return what a conversation holds that begins at ``base`` of its file, None if it is damaged."""
    if not text.endswith(b"}"):
        return None
    try:
        fields = _fields(text)
        spans = _member_spans(text, fields)
        if spans is None:
            return None
        found: list[Span] = []
        if holder in fields:
            start, end = spans[holder]
            held = text[start:end]
            if held.startswith(b"{"):
                inside = _member_spans(held, _fields(held))
                if inside is None:
                    return None
                start += base
                found = [Span(start + begin, start + stop) for begin, stop in inside.values()]
            elif held.startswith(b"["):
                found = _elements(held, base + start, _items(held))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Outline({key: text[slice(*span)] for key, span in spans.items() if key != holder}, found)


def _member_spans(text: bytes, fields: dict[str, Raw]) -> dict[str, tuple[int, int]] | None:
    """Return where the values of an object stand, given what they are; None where a key stands twice."""
    spans: dict[str, tuple[int, int]] = {}
    end = 0
    for key, raw in fields.items():
        named = _next_key(text, end)
        if named is None or named[1] is None or (named[1][1:-1] != key.encode() and text_of(named[1]) != key):
            return None
        start = named.end()
        end = start + len(memoryview(raw))
        spans[key] = start, end
        if text[end : end + 1] not in (b",", b"}"):
            end = _end(_blanks(text, end))
    closed = _next_key(text, end)
    return spans if closed and closed[1] is None else None


def _elements(text: bytes, base: int, items: list[Raw]) -> list[Span]:
    messages: list[Span] = []
    position = _end(_separator(text, 1))
    for raw in items:
        end = position + len(memoryview(raw))
        messages.append(Span(base + position, base + end))
        position = _end(_separator(text, end))
    return messages


# -- what is damaged -----------------------------------------------------------------------------------------------


def _followed(text: bytes, base: int, holder: str) -> Outline:
    """Return what can be made out of a conversation that parsers refuse."""
    opened = re.search(rb'(?<!\\)"%b"\s*+:\s*+[\[{]' % re.escape(holder.encode()), text)
    if opened is None:
        return Outline(_readable(text), [])
    messages, end = _followed_messages(text, opened.end(), base)
    told = _readable(text[: opened.start()]) | _readable(b"{" + text[end:].lstrip(b" \t\r\n,"))
    return Outline(told, messages)


def _readable(text: bytes) -> dict[str, bytes]:
    """Return the members of an object, as far as they can be told."""
    found: dict[str, bytes] = {}
    try:
        for member in members(text, 0):
            found[member.key] = text[member.value : member.end]
    except UsageError:
        pass
    return found


def _followed_messages(text: bytes, position: int, base: int) -> tuple[list[Span], int]:
    """Return the messages of the object or list whose inside begins at ``position``, and where it ends."""
    in_object = text[position - 1] == _OBJECT
    messages: list[Span] = []
    sibling: re.Pattern[bytes] | None = None
    waste = 0
    while (position := _end(_separator(text, position))) < len(text):
        if text[position] in (_END_OF_OBJECT, _END_OF_LIST):
            return messages, position + 1
        named = _key(text, position) if in_object else None
        start = named.end() if named and named.end() < len(text) else position
        if sibling is None and text[start : start + 1] == b"{":
            sibling = _like(memoryview(text), start, named=in_object)
        following = sibling.search(text, start + 1) if sibling else None
        bound = following.start() if following else len(text)
        end = _value_end(text, start)
        if end and (in_object <= (named is not None)) and (end <= bound or decode(text[start:end]) is not None):
            messages.append(Span(base + start, base + end))
            position = end
            continue
        waste += (end or len(text)) - start
        if waste > _MOST_WASTE:
            bound = len(text)
        end = start + len(text[start:bound].rstrip(_TRAILING) or b" ")
        messages.append(Span(base + start, base + end))
        position = bound
    return messages, len(text)


def _value_end(text: bytes | memoryview, start: int) -> int:
    """Return where the value at ``start`` ends, 0 where it does not, or nothing may follow it."""
    try:
        end = value_end(text, start)
    except UsageError:
        return 0
    return end if _after_value(text, end) else 0


def _like(data: memoryview, position: int, *, named: bool = False) -> re.Pattern[bytes] | None:
    """Return what objects look like that begin as the one at ``position`` does: with the same one or two keys.

    ``named``: they are members of an object, and found by their keys.
    """
    begins = _beginning(data, position)
    if begins is None:
        return None
    pattern = rb"\{\s*+" + re.escape(begins[1]) + rb"\s*+:"
    if begins[2] is not None:
        pattern += rb"\s*+(?:" + _SCALAR + rb")\s*+,\s*+" + re.escape(begins[2]) + rb"\s*+:"
    return re.compile((_LITERAL + rb"\s*+:\s*+" if named else b"") + pattern, re.DOTALL)


def _end(match: re.Match[bytes] | None) -> int:
    """Return the end of a match that cannot fail."""
    assert match is not None
    return match.end()

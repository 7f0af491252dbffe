"""Cut ``events.json``, one JSON array, into its elements without parsing them.

Elements are found by their brackets outside string literals. A literal holds no raw newline, so a quote that is lost
is noticed at the end of its line; a bracket that is lost, by an element that reaches over the beginning of the next.
Either way reading goes on where the next event begins: at an object with the indentation of the others, or, in a file
without line breaks, at one that begins as events do.
"""

import re
from collections.abc import Iterator

from store.formats.format import Span
from store.formats.json_cuts import LITERAL, MOST_WASTE, beginning_like, element_end, end_of, without_separators
from store.formats.json_view import decode

_opening = re.compile(rb"(?:\xef\xbb\xbf)?\s*+\[").match
_between = re.compile(rb"[\s,]*+").match
_scalar = re.compile(rb"(?:" + LITERAL + rb"|true|false|null|-?[0-9][0-9.eE+-]*+)(?=[\s,\]])").match
_next_event = re.compile(
    rb'\{\s*+"(?:(?:timestamp|event_id)"\s*+:|type"\s*+:\s*+"'
    rb"(?:turn_start|config_delta|chat_re|tool_call_re|inquiry_re|compaction|event_overlay))"
).search
_FURTHER = 64 * 1024
"""How far past the beginning of another element an element's end is looked for, in bytes."""
_OPENERS = b"[{"
_END_OF_ARRAY = 0x5D


def array_spans(data: memoryview, start: int) -> Iterator[Span]:
    """Yield the elements of a JSON array from offset ``start`` on: 0, or the end of an earlier element.

    What is no element (a file cut off, NULs, a conflict marker) is one span up to the next event, or to the end.
    """
    position, size = start, len(data)
    if start == 0:
        opened = _opening(data)
        if opened is None:
            yield from _rest(data, 0)
            return
        position = opened.end()
    sibling: re.Pattern[bytes] | None = None
    following = -1
    waste = 0
    while (position := end_of(_between(data, position))) < size:
        if data[position] == _END_OF_ARRAY:
            yield from _rest(data, position + 1)
            return
        sibling = sibling or beginning_like(data, position)
        if sibling and following < position:
            found = sibling.search(data, position)
            following = found.start() if found else size
        bound = min(following + _FURTHER, size) if sibling else size
        end, seen = _element_end(data, position, bound)
        if not end or (sibling and end > following and decode(bytes(data[position:end])) is None):
            waste += seen - position
            if waste > MOST_WASTE:
                end = size
            elif sibling:
                end = following
            else:
                end = sense.start() if (sense := _next_event(data, position + 1)) else size
            end = without_separators(data, position, end)
        yield Span(position, end)
        position = end


def _element_end(data: memoryview, position: int, bound: int) -> tuple[int, int]:
    """Return where the value at ``position`` ends, 0 where it does not before ``bound``, and how far it was read."""
    if data[position] not in _OPENERS:
        scalar = _scalar(data, position)
        return (scalar.end() if scalar else 0), position
    return element_end(data, position, bound)


def _rest(data: memoryview, start: int) -> Iterator[Span]:
    """Yield what should not be there, from its first byte that is not blank."""
    begin = end_of(_between(data, start))
    if begin < len(data):
        yield Span(begin, without_separators(data, begin, len(data)))

"""Lines taken out of a session whose lines name the one before them, so that the tool can go on with the rest."""

from collections.abc import Callable, Iterator, Sequence, Set

from msgspec import Struct

from store.events.event import Path
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode
from store.formats.new_literals import spell
from store.formats.splices import put, without_elements

WHOLE = -1
"""The position of a call or result that is all of its line."""


class Shape(Struct, frozen=True):
    """How a tool links its lines.

    ``key`` is the member with a line's own id, ``parent`` that with the id of the line before, ``links`` are all that
    may hold such an id. ``content`` is where the parts of a message stand, and ``calls`` yields the tool calls and
    results of a line: position among these parts (or WHOLE), the call's id, whether it is the call.
    """

    key: str
    parent: str
    links: tuple[str, ...]
    content: Path
    calls: Callable[[JsonObject], Iterator[tuple[int, str, bool]]]


def without(records: Sequence[bytes], deleted: Set[int], shape: Shape) -> dict[int, bytes]:
    """Return what is left of ``records`` without those at positions ``deleted``, by where each stood.

    A tool call and its result go together, out of a line that holds more too. Whatever followed a line that is gone
    follows the one before it.
    """
    lines = [object_of(record) for record in records]
    left = [line for at, line in enumerate(lines) if at not in deleted]
    torn = _whole_calls(lines, shape) - _whole_calls(left, shape)
    kept: dict[int, bytes] = {}
    for at, (record, line) in enumerate(zip(records, lines, strict=True)):
        if at in deleted:
            continue
        gone = {position for position, call, _ in shape.calls(line) if call in torn}
        if not gone:
            kept[at] = record
        elif WHOLE not in gone and len(gone) < _parts(line, shape.content):
            kept[at] = without_elements(record, shape.content, gone)
    present = {as_text(lines[at].get(shape.key)) for at in kept}
    before = {
        key: line.get(shape.parent)
        for at, line in enumerate(lines)
        if at not in kept and (key := as_text(line.get(shape.key))) and key not in present
    }
    return {at: _relinked(record, lines[at], before, shape.links) for at, record in kept.items()}


def object_of(record: bytes) -> JsonObject:
    """Return what a line says, an empty object where it is none."""
    decoded = decode(record)
    return as_object(decoded.value) if decoded else {}


def _relinked(record: bytes, line: JsonObject, before: dict[str, object], links: tuple[str, ...]) -> bytes:
    for key in links:
        link = line.get(key)
        if not isinstance(link, str) or link not in before:
            continue
        seen: set[str] = set()
        while isinstance(link, str) and link in before and link not in seen:
            seen.add(link)
            link = before[link]
        linked = spell(link, record) if isinstance(link, str) and link not in before else b"null"
        record = put(record, (key,), linked)
    return record


def _whole_calls(lines: Sequence[JsonObject], shape: Shape) -> set[str]:
    """Return the ids of the calls that have both call and result."""
    found = [(call, is_call) for line in lines for _, call, is_call in shape.calls(line)]
    return {call for call, is_call in found if is_call} & {call for call, is_call in found if not is_call}


def _parts(line: JsonObject, content: Path) -> int:
    value: object = line
    for step in content:
        value = as_object(value).get(str(step))
    return len(as_list(value))

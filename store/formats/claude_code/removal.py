"""Lines taken out of a session so that the program can go on with the rest."""

from collections.abc import Iterator, Sequence, Set

from store.formats.claude_code.messages import CALLS
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode
from store.formats.new_literals import spell
from store.formats.splices import put, without_elements

_LINKS = ("parentUuid", "logicalParentUuid", "leafUuid")
_CONTENT = ("message", "content")


def without(records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
    """Return ``records`` without those at positions ``deleted``.

    A tool call and its result go together, out of a line that holds more too. Whatever followed a line that is gone
    follows the one before it.
    """
    lines = [_line(record) for record in records]
    left = [line for at, line in enumerate(lines) if at not in deleted]
    torn = _whole_calls(lines) - _whole_calls(left)
    kept: dict[int, bytes] = {}
    for at, (record, line) in enumerate(zip(records, lines, strict=True)):
        if at in deleted:
            continue
        gone = {position for position, call, _ in _calls(line) if call in torn}
        if not gone:
            kept[at] = record
        elif len(gone) < len(as_list(as_object(line.get("message")).get("content"))):
            kept[at] = without_elements(record, _CONTENT, gone)
    present = {as_text(lines[at].get("uuid")) for at in kept}
    before = {
        key: line.get("parentUuid")
        for at, line in enumerate(lines)
        if at not in kept and (key := as_text(line.get("uuid"))) and key not in present
    }
    return [_relinked(record, lines[at], before) for at, record in kept.items()]


def _relinked(record: bytes, line: JsonObject, before: dict[str, object]) -> bytes:
    for key in _LINKS:
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


def _whole_calls(lines: Sequence[JsonObject]) -> set[str]:
    """Return the ids of the calls that have both call and result."""
    found = [(call, is_call) for line in lines for _, call, is_call in _calls(line)]
    return {call for call, is_call in found if is_call} & {call for call, is_call in found if not is_call}


def _calls(line: JsonObject) -> Iterator[tuple[int, str, bool]]:
    """Yield the calls and results in a line's content: position, the call's id, whether it is the call."""
    for at, part in enumerate(as_list(as_object(line.get("message")).get("content"))):
        if isinstance(part, dict):
            is_call = as_text(part.get("type")) in CALLS
            call = part.get("id" if is_call else "tool_use_id")
            if isinstance(call, str) and call:
                yield at, call, is_call


def _line(record: bytes) -> JsonObject:
    decoded = decode(record)
    return as_object(decoded.value) if decoded else {}

"""Messages taken out of an array so that what is left can still be sent: a call and its result go together."""

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from store.events.event import Path
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode
from store.formats.splices import with_members, without_elements

_CALLS = "tool_calls"


class _Link(NamedTuple):
    """A call or a result in a message: at ``at`` of the list at ``path``, or all of it where ``path`` is empty."""

    path: Path
    at: int
    call: str
    is_call: bool


def without(records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
    """Return ``records`` without those at positions ``deleted``, nor what belonged to a call or a result of these."""
    links = [list(_links(_object(record))) for record in records]
    torn = _whole(links) - _whole([found for at, found in enumerate(links) if at not in deleted])
    kept: list[bytes] = []
    for at, record in enumerate(records):
        if at in deleted:
            continue
        gone = [link for link in links[at] if link.call in torn]
        left = record if not gone else _without_links(record, gone)
        if left is not None:
            kept.append(left)
    return kept


def _without_links(record: bytes, gone: Sequence[_Link]) -> bytes | None:
    """Return a message without some of its calls or results, None where nothing is left of it."""
    if not all(link.path for link in gone):
        return None
    message = _object(record)
    for path in {link.path for link in gone}:
        positions = {link.at for link in gone if link.path == path}
        key = str(path[0])
        if len(positions) < len(as_list(message.get(key))):
            record = without_elements(record, path, positions)
        elif key == _CALLS and message.get("content"):
            record = with_members(record, (), {_CALLS}, {})
        else:
            return None
    return record


def _links(message: JsonObject) -> Iterator[_Link]:
    what = as_text(message.get("type"))
    if message.get("role") == "tool":
        for named in (message.get("tool_call_id"), *as_list(message.get("tool_call_ids"))):
            if call := as_text(named):
                yield _Link((), 0, call, False)
    elif call := as_text(message.get("call_id")):
        yield _Link((), 0, call, what.endswith("_call"))
    for at, made in enumerate(as_list(message.get(_CALLS))):
        if call := as_text(as_object(made).get("id")):
            yield _Link((_CALLS,), at, call, True)
    for at, part in enumerate(as_list(message.get("content"))):
        said = as_object(part)
        if call := as_text(said.get("tool_use_id")):
            yield _Link(("content",), at, call, False)
        elif as_text(said.get("type")).endswith("tool_use") and (call := as_text(said.get("id"))):
            yield _Link(("content",), at, call, True)


def _whole(links: Sequence[Sequence[_Link]]) -> set[str]:
    """Return the ids of the calls that have both call and result."""
    found = [link for of_one in links for link in of_one]
    return {link.call for link in found if link.is_call} & {link.call for link in found if not link.is_call}


def _object(record: bytes) -> JsonObject:
    decoded = decode(record)
    return as_object(decoded.value) if decoded else {}

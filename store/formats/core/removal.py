"""Records taken out of a session so that its tool can go on with the rest.

A call and its result go together, even out of a record that holds more; records that followed a deleted one follow the
one before it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from msgspec import Struct

from store.events.event import ValuePath
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, object_in, value_at
from store.formats.core.lens import CallLink
from store.formats.core.splices import put, spell, with_members, without_elements

_CALLS = "tool_calls"


LinksOf = Callable[[JsonObject], Iterator[CallLink]]
"""Yields the calls and results in a record."""


def without_calls(records: Sequence[bytes], deleted: Set[int], links_of: LinksOf) -> dict[int, bytes]:
    """Return ``records`` without ``deleted`` ones and the counterparts of their calls, by their old positions."""
    parsed = [object_in(record) for record in records]
    links = [list(links_of(record)) for record in parsed]
    torn = _whole(links) - _whole([found for at, found in enumerate(links) if at not in deleted])
    kept: dict[int, bytes] = {}
    for at, record in enumerate(records):
        if at in deleted:
            continue
        gone = [link for link in links[at] if link.call in torn] if torn else []
        left = without_links(record, parsed[at], gone) if gone else record
        if left is not None:
            kept[at] = left
    return kept


def without_links(record: bytes, parsed: JsonObject, gone: Sequence[CallLink]) -> bytes | None:
    """Return a record without some of its calls or results, None where nothing is left of it."""
    if not all(link.path for link in gone):
        return None
    for path in {link.path for link in gone}:
        positions = {link.at for link in gone if link.path == path}
        if len(positions) < len(as_list(value_at(parsed, path))):
            record = without_elements(record, path, positions)
        elif path[-1:] == (_CALLS,) and as_object(value_at(parsed, path[:-1])).get("content"):
            record = with_members(record, path[:-1], {_CALLS}, {})
        else:
            return None
    return record


def _whole(links: Sequence[Sequence[CallLink]]) -> set[str]:
    """Return the ids of the calls that have both call and result."""
    found = [link for of_one in links for link in of_one]
    return {link.call for link in found if link.is_call} & {link.call for link in found if not link.is_call}


def links_of_message(message: JsonObject, path: ValuePath = ()) -> Iterator[CallLink]:
    """Yield the calls and results in a message as the vendors' APIs have them, which stands at ``path``."""
    what = as_text(message.get("type"))
    if message.get("role") == "tool":
        for named in (message.get("tool_call_id"), *as_list(message.get("tool_call_ids"))):
            if call := as_text(named):
                yield CallLink((), 0, call, False)
    elif call := as_text(message.get("call_id")):
        yield CallLink((), 0, call, what.endswith("_call"))
    for at, made in enumerate(as_list(message.get(_CALLS))):
        if call := as_text(as_object(made).get("id")):
            yield CallLink((*path, _CALLS), at, call, True)
    for at, item in enumerate(as_list(message.get("output"))):
        if call := as_text(as_object(item).get("call_id")):
            yield CallLink((*path, "output"), at, call, as_text(as_object(item).get("type")).endswith("_call"))
    for at, part in enumerate(as_list(message.get("content"))):
        said = as_object(part)
        if call := as_text(said.get("tool_use_id")):
            yield CallLink((*path, "content"), at, call, False)
        elif as_text(said.get("type")).endswith("tool_use") and (call := as_text(said.get("id"))):
            yield CallLink((*path, "content"), at, call, True)


class Tree(Struct, frozen=True):
    """The links between a tool's records.

    ``key`` is the member with a record's own id, ``parent`` that with the id of the one before, ``links`` are all that
    may hold such an id. ``calls`` yields the calls and results in a record.
    """

    key: str
    parent: str
    links: tuple[str, ...]
    calls: LinksOf = lambda _record: iter(())

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> dict[int, bytes]:
        """Return records without those at positions ``deleted``, by their old positions."""
        kept = without_calls(records, deleted, self.calls)
        if len(kept) == len(records):
            return kept
        parsed = [object_in(record) for record in records]
        present = {as_text(parsed[at].get(self.key)) for at in kept}
        before = {
            key: record.get(self.parent)
            for at, record in enumerate(parsed)
            if at not in kept and (key := as_text(record.get(self.key))) and key not in present
        }
        return {at: self._relinked(record, parsed[at], before) for at, record in kept.items()}

    def _relinked(self, record: bytes, parsed: JsonObject, before: Mapping[str, object]) -> bytes:
        for key in self.links:
            link = parsed.get(key)
            if not isinstance(link, str) or link not in before:
                continue
            seen: set[str] = set()
            while isinstance(link, str) and link in before and link not in seen:
                seen.add(link)
                link = before[link]
            linked = spell(link, record) if isinstance(link, str) and link not in before else b"null"
            record = put(record, (key,), linked)
        return record

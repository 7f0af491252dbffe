"""Calls and results that change with their counterparts in other records: they have one id, and they go together."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from store.conversations.viewer import LARGEST_VIEWED
from store.errors import UsageError
from store.events.conversation import EventRow
from store.events.event import DELETED, Replacement
from store.formats.core.editing import Lens, check_intact
from store.formats.core.json_view import object_in, texts_in
from store.formats.core.lens import CallLink
from store.formats.core.removal import without_links
from store.formats.core.splices import put, spell
from store.store import Store

_OF_TOOL_USE = ("parentToolUseID", "parent_tool_use_id", "sourceToolUseID", "toolUseID", "tool_use_id")
_OF_CALLS = ("callID", "callId", "call_id", "toolCallId", "tool_call_id", "tool_call_ids")
_NAMES_A_CALL = frozenset(("id", *_OF_CALLS, *_OF_TOOL_USE))
"""The members of records that may hold a call's id."""


class _Ids(NamedTuple):
    """The ids of calls that have changed: new ones by the old ones, and those of calls or results that are gone."""

    renamed: dict[str, str]
    gone: set[str]


def with_partners(
    store: Store, row: Callable[[int], EventRow], records: int, changed: Mapping[int, Replacement]
) -> dict[int, Replacement]:
    """Return changes of a branch, whose rows ``row`` gives, with those of the counterparts of calls and results.

    Raises UsageError for an id that another call has already.
    """
    ids = _changed_ids(store, row, changed)
    found = dict(changed)
    if not ids.renamed and not ids.gone:
        return found
    for number, content in changed.items():
        if ids.renamed and content is not DELETED:
            found[number] = _renamed(content, ids.renamed)
    sought = [call.encode() for call in (*ids.gone, *ids.renamed, *ids.renamed.values())]
    for number in range(1, records + 1):
        near = row(number)
        if number in changed or near.deleted or near.payload_size > LARGEST_VIEWED:
            continue
        payload = store.contents.payload(near.turn)
        if any(call in payload for call in sought):
            now = _with_ids(payload, store.viewer.lens(store.turns.get(near.turn)), ids, number)
            if now is None:
                found[number] = DELETED
            elif now != payload:
                found[number] = now
    return found


def _changed_ids(store: Store, row: Callable[[int], EventRow], changed: Mapping[int, Replacement]) -> _Ids:
    ids = _Ids({}, set())
    for number, content in changed.items():
        now = row(number)
        if content is DELETED or now.deleted or now.payload_size > LARGEST_VIEWED:
            continue
        lens = store.viewer.lens(store.turns.get(now.turn))
        old = _links(lens, store.contents.payload(now.turn))
        new = _links(lens, content)
        lost = {link.call for link in old} - {link.call for link in new}
        come = {link.call for link in new} - {link.call for link in old}
        pairs = list(zip(old, new, strict=False)) if len(old) == len(new) else []
        renamed = {one.call: other.call for one, other in pairs if one.call in lost and other.call in come}
        ids.renamed.update(renamed)
        ids.gone.update(lost - renamed.keys())
    told = [content for content in changed.values() if content is not DELETED]
    # what has moved to another record is not gone
    return _Ids(ids.renamed, {call for call in ids.gone if not any(call.encode() in content for content in told)})


def _links(lens: Lens, payload: bytes) -> list[CallLink]:
    return list(lens.calls(object_in(payload)))


def _with_ids(payload: bytes, lens: Lens, ids: _Ids, number: int) -> bytes | None:
    """Return another record with the new ids, and without what is gone; None where nothing is left of it."""
    links = _links(lens, payload)
    taken = next((link.call for link in links if link.call in ids.renamed.values()), None)
    if taken is not None:
        raise UsageError(f"the id {taken!r} is that of event {number} already: every call has its own")
    gone = [link for link in links if link.call in ids.gone]
    left = without_links(payload, object_in(payload), gone) if gone else payload
    if left is None:
        return None
    now = _renamed(left, ids.renamed)
    check_intact(payload, now)
    return now


def _renamed(payload: bytes, renamed: Mapping[str, str]) -> bytes:
    for path, text in _named_calls(payload):
        if text in renamed:
            payload = put(payload, path, spell(renamed[text], payload))
    return payload


def _named_calls(payload: bytes) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the texts that may be the id of a call, each with its place."""
    for path, text in list(texts_in(object_in(payload))):
        key = next((step for step in reversed(path) if isinstance(step, str)), "")
        if key in _NAMES_A_CALL:
            yield path, text

"""What the kernel believes that a change has made untrue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.text.names import event_name
from fusefs.tree.projects import MARKDOWN
from fusefs.tree.shown_names import shown_name
from store.errors import NotFound
from store.events.conversation import EventRow
from store.events.event import Kind
from store.ids import Hash
from store.store import Store


class Stale(NamedTuple):
    """What the kernel must no longer believe: the entry ``name`` of directory ``ino``, or else all about ``ino``.

    ``content`` says whether the pages are stale too, and not only the attributes.
    """

    ino: int
    name: bytes | None = None
    content: bool = False


class Shown(NamedTuple):
    """What the tree has shown of a conversation: its head, its name, and the directories that it was in."""

    context: int
    view: int
    head: int
    records: int
    project_name: str
    name: str
    project: int
    transcripts: int


_CONTENT_PLACES = (Place.EVENTS_JSON, Place.METADATA, Place.NATIVE, Place.TRANSCRIPT)


def stale_places(view_id: int) -> Iterator[Stale]:
    """Yield what every change of a conversation makes stale, whatever it was."""
    first = inodes.base(Space.PLACE, view_id)
    for place in Place:
        yield Stale(first + place, content=place in _CONTENT_PLACES)


def stale_since(store: Store, old: Shown) -> Iterator[Stale]:
    """Yield what else differs between what was shown of a conversation and what it is now."""
    try:
        conversation = store.conversation(old.context)
    except NotFound:
        yield from _stale_names(old)
        return
    if old.head and not store.goes_on(old.head, conversation.head):
        yield from _stale_events(store, old, conversation.head)
    if (old.project_name, old.name) != (conversation.project, shown_name(conversation)):
        yield from _stale_names(old)


def _stale_names(old: Shown) -> Iterator[Stale]:
    yield Stale(old.project, old.name.encode())
    yield Stale(old.transcripts, (old.name + MARKDOWN).encode())


def _stale_events(store: Store, old: Shown, head: int) -> Iterator[Stale]:
    """Yield the events that differ between two branches.

    The records that an edit copies have other turns but the same payloads, and stay as they are. Those that a patch
    changes have other turns, too.
    """
    directory = inodes.base(Space.PLACE, old.view) + Place.EVENTS
    first = inodes.base(Space.EVENT, old.view)
    old_rows = store.rows(old.head)
    new_rows: Sequence[EventRow] = store.rows(head) if head else ()
    hashes = _payload_hashes(store, old.head) | _payload_hashes(store, head)
    for before, after in zip_longest(old_rows, new_rows[: len(old_rows)]):
        if after is not None and before.turn == after.turn:
            continue
        name = event_name(before, len(old_rows))
        if before.kind is not Kind.RECORD and (after is None or event_name(after, len(new_rows)) != name):
            yield Stale(directory, name.encode())
        if after is None or hashes[before.turn] != hashes[after.turn]:
            yield Stale(first + before.number, content=True)
    held = inodes.base(Space.RESOURCE, old.view)
    resources = store.resources(head) if head else []
    for number, (was, now) in enumerate(zip_longest(store.resources(old.head), resources), 1):
        if was is not None and (now is None or was.hash != now.hash):
            yield Stale(held + number, content=True)


def _payload_hashes(store: Store, head: int) -> dict[int, Hash]:
    return {turn.turn_id: turn.payload_hash for turn in store.path_to_root(head)} if head else {}

"""Stale names, attributes and pages: all that the kernel believes of a conversation that a change has made untrue."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.text.event_names import event_name
from fusefs.tree.paths import MARKDOWN, Paths
from store.errors import NotFound
from store.events.conversation import EventRow
from store.events.event import Kind
from store.filenames import Named
from store.ids import Hash
from store.store import Store


class Stale(NamedTuple):
    """Something that the kernel must forget: the entry ``name`` of directory ``ino``, or else all about ``ino``.

    ``content`` says whether the pages are stale too, and not only the attributes.
    """

    ino: int
    name: bytes | None = None
    content: bool = False


class ShownConversation(NamedTuple):
    """A conversation as it was shown: its head, its name, and the directories that it was in."""

    context: int
    view: int
    head: int
    path: str
    folder: int
    transcripts: int


CONTENT_PLACES = (Place.EVENTS_JSON, Place.METADATA, Place.TRANSCRIPT, Place.NATIVE)
"""The files of a conversation whose pages any change makes stale, and not only their attributes."""


def stale_since(store: Store, old: ShownConversation) -> Iterator[Stale]:
    """Yield all else that differs between a conversation as it was shown and as it is now."""
    try:
        conversation = store.library.conversation(old.context)
    except NotFound:
        yield from _stale_names(old)
        return
    if old.head and not store.turns.goes_on(old.head, conversation.head):
        yield from _stale_events(store, old, conversation.head)
    if not still_at(store, conversation, old.path):
        yield from _stale_names(old)


def still_at(store: Store, conversation: Named, path: str) -> bool:
    """Return whether a path leads to a conversation: its own, or one that it had until its session told a better."""
    if Paths(store).conversation(conversation) == path:
        return True
    _top, project, *_names, name = path.split("/")
    found = store.catalogue.called_before(project, name)
    return found is not None and found.id == conversation.id


def _stale_names(old: ShownConversation) -> Iterator[Stale]:
    name = old.path.rpartition("/")[2]
    yield Stale(old.folder, name.encode())
    yield Stale(old.transcripts, (name + MARKDOWN).encode())


def _stale_events(store: Store, old: ShownConversation, head: int) -> Iterator[Stale]:
    """Yield the events that differ between two branches.

    The records that an edit copies have other turns but the same payloads, and stay as they are. Those that a patch
    changes have other turns, too.
    """
    directory = inodes.base(Space.PLACE, old.view) + Place.EVENTS
    first = inodes.base(Space.EVENT, old.view)
    old_rows = store.records.rows(old.head)
    new_rows: Sequence[EventRow] = store.records.rows(head) if head else ()
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
    resources = store.records.resources(head) if head else []
    for number, (was, now) in enumerate(zip_longest(store.records.resources(old.head), resources), 1):
        if was is not None and (now is None or was.hash != now.hash):
            yield Stale(held + number, content=True)


def _payload_hashes(store: Store, head: int) -> dict[int, Hash]:
    return {turn.turn_id: turn.payload_hash for turn in store.turns.path_to_root(head)} if head else {}

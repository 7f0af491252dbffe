"""Stale names, attributes and pages: all that the kernel believes of a conversation that a change has made untrue."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.text.event_names import event_name
from fusefs.tree.paths import MARKDOWN, Paths
from store.conversations import branch
from store.conversations.records import NO_ROWS
from store.errors import NotFound
from store.events.conversation import EventRow
from store.events.event import Kind
from store.filenames import Named
from store.ids import Hash
from store.index.views import Run
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


_AT_ONCE = 512
"""The rows that are compared at a time."""

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
    old_runs, new_runs = store.records.runs(old.head), store.records.runs(head) if head else ()
    old_rows, new_rows = store.records.rows(old.head), store.records.rows(head) if head else NO_ROWS
    different = list(branch.differences(old_runs, new_runs))
    for start, count in different:
        for part in range(start, start + count, _AT_ONCE):
            end = min(part + _AT_ONCE, start + count)
            for before, after in zip_longest(old_rows[part:end], new_rows[part:end]):
                name = event_name(before, len(old_rows))
                if before.kind is not Kind.RECORD and (after is None or event_name(after, len(new_rows)) != name):
                    yield Stale(directory, name.encode())
                if after is None or _payload_hash(store, before) != _payload_hash(store, after):
                    yield Stale(first + before.number, content=True)
    held = inodes.base(Space.RESOURCE, old.view)
    for number in _stale_resources(store, old_runs, new_runs, different):
        yield Stale(held + number, content=True)


def _stale_resources(
    store: Store, old: tuple[Run, ...], new: tuple[Run, ...], different: Sequence[tuple[int, int]]
) -> Iterator[int]:
    """Yield the numbers of the resources that differ between two branches; they count from 1 in each."""
    for start, count in different:
        was, now = (store.views.resources(branch.part(runs, start, count), start + 1) for runs in (old, new))
        before = store.views.count_resources(branch.part(old, 0, start)) if was else 0
        shifted = len(was) != len(now)
        if shifted:
            # those behind them have other numbers
            was = store.views.resources(branch.part(old, start, branch.length(old)), start + 1)
            now = store.views.resources(branch.part(new, start, branch.length(new)), start + 1)
            before = before or store.views.count_resources(branch.part(old, 0, start))
        for number, (one, other) in enumerate(zip_longest(was, now), before + 1):
            if one is not None and (other is None or one.hash != other.hash):
                yield number
        if shifted:
            return


def _payload_hash(store: Store, row: EventRow) -> Hash:
    return store.turns.get(row.turn).payload_hash

"""The index as it must be for the records of a branch: everything viewed again, one record after another."""

from itertools import chain as chained

from fusefs.text.render import FileRenderer
from store.conversations.chain import Chain
from store.conversations.viewer import Measured
from store.disk.turn_format import Turn
from store.events.conversation import EventRow, ResourceRow, Sizes
from store.events.event import Event, Kind
from store.formats.registry import lens_for
from store.store import Store

RENDERER = FileRenderer()


class Measuring:
    """Measures branches of a store. What a branch begins with, as the one before it did, is not viewed once more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path: list[Turn] = []
        self._events: list[Event] = []
        self._rows: list[list[EventRow]] = []
        self._resources: list[list[ResourceRow]] = []

    def measured(self, head: int) -> tuple[list[EventRow], list[ResourceRow]]:
        """Return the rows and the resources of a branch, measured from its beginning."""
        path = list(self._store.turns.path_to_root(head)) if head else []
        same = next((at for at, (old, new) in enumerate(zip(self._path, path, strict=False)) if old != new), None)
        shared = min(len(self._path), len(path)) if same is None else same
        for known in (self._events, self._rows, self._resources):
            del known[shared:]
        chain = Chain(1, lambda _number: None, self._store.contents.aliased)
        for event in self._events:
            chain.advance(event)
        for number, turn in enumerate(path[shared:], shared + 1):
            self._measure(number, turn, chain)
        self._path = path
        return list(chained.from_iterable(self._rows)), list(chained.from_iterable(self._resources))

    def _measure(self, number: int, turn: Turn, chain: Chain) -> None:
        contents = self._store.contents
        payload, type_name = contents.payload(turn.turn_id), contents.type_name(turn.type_tag)
        event = lens_for(type_name, turn.encoding).view(payload, chain)
        chain.advance(event)
        self._events.append(event)
        if turn.deleted:
            size = len(payload)
            told = (event.tool, event.parent, turn.edited_ms or event.time_ms)
            self._rows.append([EventRow(turn.turn_id, number, Kind.RECORD, *told, 0, 0, 0, size, True)])
            self._resources.append([])
            return
        found = Measured()
        sizes: Sizes = RENDERER.measure(number, event, type_name.partition(".")[0], len(payload))
        found.add(number, event, sizes, len(payload), turn.edited_ms)
        self._rows.append(found.rows(turn.turn_id))
        self._resources.append(found.resources(turn.turn_id))

    def check(self, head: int) -> None:
        """Assert that what is filed of a branch is what is measured of it."""
        rows, resources = self.measured(head)
        assert list(self._store.records.rows(head)) == rows
        assert self._store.records.resources(head) == resources


def check_branch(store: Store, head: int) -> None:
    """Assert that what is filed of a branch is what is measured of it."""
    Measuring(store).check(head)


def check_measures(store: Store) -> None:
    """Assert that the index tells of every version of every conversation what there is."""
    for entry in store.catalogue.every():
        measuring = Measuring(store)
        for version in store.catalogue.versions(entry.id):
            measuring.check(version.head)
        conversation = store.library.conversation(entry.id)
        rows, _resources = measuring.measured(conversation.head)
        assert conversation.records == len(rows)
        assert conversation.events == sum(1 for row in rows if row.kind is not Kind.RECORD)
        assert conversation.transcript_size == sum(row.section_size for row in rows)
        assert conversation.json_size == sum(row.json_size for row in rows)

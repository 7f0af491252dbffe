"""The index as it must be for the records of a branch: everything viewed again, one record after another."""

from fusefs.text.render import FileRenderer
from store.conversations.chain import Chain
from store.conversations.viewer import Measured
from store.events.conversation import EventRow, ResourceRow, Sizes
from store.events.event import Kind
from store.formats.registry import lens_for
from store.store import Store

RENDERER = FileRenderer()


def measured(store: Store, head: int) -> tuple[list[EventRow], list[ResourceRow]]:
    """Return the rows and the resources of a branch, measured from its beginning."""
    rows: list[EventRow] = []
    resources: list[ResourceRow] = []
    chain = Chain(1, lambda _number: None, store.contents.aliased)
    for number, turn in enumerate(store.turns.path_to_root(head) if head else [], 1):
        payload, type_name = store.contents.payload(turn.turn_id), store.contents.type_name(turn.type_tag)
        event = lens_for(type_name, turn.encoding).view(payload, chain)
        chain.advance(event)
        if turn.deleted:
            size = len(payload)
            told = (event.tool, event.parent, turn.edited_ms or event.time_ms)
            rows.append(EventRow(turn.turn_id, number, Kind.RECORD, *told, 0, 0, 0, size, True))
            continue
        found = Measured()
        sizes: Sizes = RENDERER.measure(number, event, type_name.partition(".")[0], len(payload))
        found.add(number, event, sizes, len(payload), turn.edited_ms)
        rows += found.rows(turn.turn_id)
        resources += found.resources(turn.turn_id)
    return rows, resources


def check_branch(store: Store, head: int) -> None:
    """Assert that what is filed of a branch is what is measured of it."""
    rows, resources = measured(store, head)
    assert list(store.records.rows(head)) == rows
    assert store.records.resources(head) == resources


def check_measures(store: Store) -> None:
    """Assert that the index tells of every version of every conversation what there is."""
    for entry in store.catalogue.every():
        for version in store.catalogue.versions(entry.id):
            check_branch(store, version.head)
        conversation = store.library.conversation(entry.id)
        rows, _resources = measured(store, conversation.head)
        assert conversation.records == len(rows)
        assert conversation.events == sum(1 for row in rows if row.kind is not Kind.RECORD)
        assert conversation.transcript_size == sum(row.section_size for row in rows)
        assert conversation.json_size == sum(row.json_size for row in rows)

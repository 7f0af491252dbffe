"""The elements of ``events.json``, drawn from records."""

from collections.abc import Iterator, Sequence

from fusefs.text import events_json
from store.errors import ConvfsError
from store.events.conversation import EventRow
from store.events.event import Event
from store.store import Store


def draw_elements(store: Store, rows: Sequence[EventRow]) -> Iterator[tuple[EventRow, Event, bytes]]:
    """Yield the elements of records, as :func:`fusefs.text.events_json.element` draws them."""
    for row, event in store.events(rows):
        if isinstance(event, ConvfsError):
            raise event
        turn = store.turn(row.turn)
        format_name = store.viewer.format_name(turn.type_tag)
        yield row, event, events_json.element(row.number, event, format_name, turn.payload_hash, row.payload_size)

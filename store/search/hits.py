"""What is found: events in conversations, with the lines that say what was searched for."""

from __future__ import annotations

from msgspec import Struct

from store.events.conversation import EventRow
from store.index.catalogue import Entry


class Line(Struct, frozen=True):
    """A line of an event's file; ``number`` counts from 1, from the first of the file's head on."""

    number: int
    text: str


class Hit(Struct, frozen=True):
    """An event of a conversation that is what was asked for.

    ``time_ms`` is when it happened or, if it does not say so, when it came into the store. ``lines`` are those that
    have all that was asked for, or else some of it, in order, at most as many as were wanted; none where only filters
    were given.
    """

    conversation: Entry
    row: EventRow
    time_ms: int
    lines: tuple[Line, ...]

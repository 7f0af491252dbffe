"""A conversation as it stood at one head, and what the tree remembers of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter

from fusefs import inodes
from fusefs.inodes import Space
from fusefs.text import events_json, names, transcript
from fusefs.text.render import render_event
from fusefs.tree.extending import Extending
from fusefs.tree.json_elements import draw_elements
from fusefs.tree.node import FILE, Attributes, Entry
from fusefs.tree.pieces import Pieces
from fusefs.tree.resource_tree import ResourceTree
from store.conversations.rows import NO_ROWS, Rows
from store.errors import ConvfsError, NotFound
from store.events.conversation import Conversation, EventRow, Version
from store.events.event import Kind
from store.store import Store

FIRST_POSITION = 3
"""Directory position of the first entry that is not ``.`` or ``..``."""

_position = attrgetter("position")


class View:
    """A conversation at its head, or at an earlier version; what follows from its rows is made when first asked for.

    ``id`` is the view's number in inodes. Instances do not change: when the head moves, the tree makes a new one, which
    goes on with what the one ``before`` has made of rows that are the same.
    """

    def __init__(
        self,
        store: Store,
        view_id: int,
        conversation: Conversation,
        version: Version | None = None,
        before: View | None = None,
    ) -> None:
        self.store = store
        self.id = view_id
        self.conversation = conversation
        self.version = version
        self.head = conversation.head if version is None else version.head
        self.records = conversation.records if version is None else version.records
        self.time_ms = conversation.updated_ms if version is None else version.time_ms
        self.outdated = False
        """Whether the conversation has changed since."""
        # what entries are made with, beside rows
        self._entries_of = (view_id, names.number_width(self.records), conversation.created_ms)
        self._entries: Extending[list[Entry]]
        if before is not None and before._entries_of == self._entries_of:
            self._entries = before._entries
        else:
            self._entries = Extending(list, partial(_add_entries, view_id, self.records, conversation.created_ms))
        self._sections: Extending[_Drawn] = before._sections if before else Extending(_Drawn, _add_sections)
        self._elements: Extending[_Drawn] = before._elements if before else Extending(_Drawn, _add_elements)
        self._rows: Rows | None = None
        self._resources: ResourceTree | None = None
        self._transcript: Pieces | None = None
        self._json: Pieces | None = None

    @property
    def rows(self) -> Rows:
        """The rows of all records; ``rows[i].number == i + 1``."""
        if self._rows is None:
            self._rows = self.store.rows(self.head) if self.head else NO_ROWS
        return self._rows

    def row(self, number: int) -> EventRow:
        """Return the row of one record. Raises NotFound if the branch is not that long."""
        rows = self.rows
        try:
            # there is no number 0
            return rows[number - 1 if number > 0 else len(rows)]
        except IndexError:
            name = f"{self.conversation.project}/{self.conversation.name}"
            raise NotFound(f"{name} has no record {number}") from None

    def time_of(self, row: EventRow) -> int:
        """Return when an event happened; the conversation's beginning where the event does not say."""
        return row.time_ms or self.conversation.created_ms

    # -- events/ ---------------------------------------------------------------------------------------------------

    def event_attributes(self, row: EventRow) -> Attributes:
        """Return the attributes of an event's file."""
        return _event_attributes(self.id, row, self.time_of(row))

    def event_entries(self, after: int = 0) -> list[Entry]:
        """Return the entries of ``events/`` beyond position ``after``."""
        entries, count = self._entries.of(self.rows)
        if after < FIRST_POSITION:
            return entries[:count]
        return entries[bisect_right(entries, after, hi=count, key=_position) : count]

    def drawn_events(self, rows: Sequence[EventRow]) -> Iterator[tuple[EventRow, bytes | ConvfsError]]:
        """Yield the files of events; an error stands for one that cannot be read."""
        for row, event in self.store.events(rows):
            yield row, event if isinstance(event, ConvfsError) else render_event(row.number, event)

    # -- resources/ ------------------------------------------------------------------------------------------------

    @property
    def resources(self) -> ResourceTree:
        """What is in ``resources/``."""
        if self._resources is None:
            self._resources = ResourceTree(self.store.resources(self.head) if self.head else [])
        return self._resources

    # -- files that hold all events --------------------------------------------------------------------------------

    @property
    def transcript(self) -> Pieces:
        """The transcript: its head, and a section for each event."""
        if self._transcript is None:
            drawn, count = self._sections.of(self.rows)
            rows = drawn.rows

            def draw(first: int, beyond: int) -> Iterator[bytes]:
                for row, event in self.store.events(rows[first:beyond]):
                    if isinstance(event, ConvfsError):
                        raise event
                    yield transcript.section(row.number, event)

            self._transcript = Pieces(drawn.ends, count, draw, lead=transcript.head(self.conversation))
        return self._transcript

    @property
    def json(self) -> Pieces:
        """``events.json``: an element for each record, and an end."""
        if self._json is None:
            drawn, count = self._elements.of(self.rows)
            rows = drawn.rows

            def draw(first: int, beyond: int) -> Iterator[bytes]:
                opening = rows[0].number
                for row, _event, element in draw_elements(self.store, rows[first:beyond]):
                    yield events_json.OPENING + element[1:] if row.number == opening else element

            self._json = Pieces(drawn.ends, count, draw, rest=events_json.TAIL if count else events_json.EMPTY)
        return self._json

    @property
    def json_size(self) -> int:
        """The size of ``events.json``."""
        return self.json.size if self.version else self.conversation.json_size + events_json.TAIL_SIZE


def _event_attributes(view_id: int, row: EventRow, time_ms: int) -> Attributes:
    return Attributes(inodes.base(Space.EVENT, view_id) + row.number, FILE, row.file_size, time_ms)


def _add_entries(view_id: int, records: int, created_ms: int, entries: list[Entry], rows: Sequence[EventRow]) -> None:
    name = names.event_name
    entries += [
        Entry(
            row.number + FIRST_POSITION - 1,
            name(row, records).encode(),
            _event_attributes(view_id, row, row.time_ms or created_ms),
        )
        for row in rows
        if row.kind is not Kind.RECORD
    ]


class _Drawn:
    """The rows that have a piece in a file, and where these pieces end."""

    __slots__ = ("ends", "rows")

    def __init__(self) -> None:
        self.rows: list[EventRow] = []
        self.ends: list[int] = []

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, rows: Sequence[EventRow], sizes: Iterable[int]) -> None:
        """Take in further rows, and the sizes of their pieces."""
        self.rows += rows
        total = self.ends[-1] if self.ends else 0
        self.ends += (total := total + size for size in sizes)


def _add_sections(drawn: _Drawn, rows: Sequence[EventRow]) -> None:
    some = [row for row in rows if row.section_size]
    drawn.add(some, (row.section_size for row in some))


def _add_elements(drawn: _Drawn, rows: Sequence[EventRow]) -> None:
    # a record that was deleted keeps its number, and has no element
    some = [row for row in rows if not row.deleted]
    drawn.add(some, (row.json_size for row in some))

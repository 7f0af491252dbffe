"""A conversation as it stood at one head, and what the tree remembers of it."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from fusefs import inodes
from fusefs.inodes import Space
from fusefs.text import events_json, names, transcript
from fusefs.text.render import render_event
from fusefs.tree.json_elements import draw_elements
from fusefs.tree.node import FILE, Attributes, Entry
from fusefs.tree.pieces import Pieces
from fusefs.tree.resource_tree import ResourceTree
from store.errors import ConvfsError, NotFound
from store.events.conversation import Conversation, EventRow, Version
from store.events.event import Kind
from store.store import Store

FIRST_POSITION = 3
"""Directory position of the first entry that is not ``.`` or ``..``."""

_position = attrgetter("position")


class View:
    """A conversation at its head, or at an earlier version; what follows from its rows is made when first asked for.

    ``id`` is the view's number in inodes. Instances do not change: when the head moves, the tree makes a new one.
    """

    def __init__(self, store: Store, view_id: int, conversation: Conversation, version: Version | None = None) -> None:
        self.store = store
        self.id = view_id
        self.conversation = conversation
        self.version = version
        self.head = conversation.head if version is None else version.head
        self.records = conversation.records if version is None else version.records
        self.time_ms = conversation.updated_ms if version is None else version.time_ms
        self._entries: list[Entry] | None = None
        self._resources: ResourceTree | None = None
        self._transcript: Pieces | None = None
        self._json: Pieces | None = None

    @property
    def rows(self) -> Sequence[EventRow]:
        """The rows of all records; ``rows[i].number == i + 1``."""
        return self.store.rows(self.head) if self.head else ()

    def row(self, number: int) -> EventRow:
        """Return the row of one record. Raises NotFound if the branch is not that long."""
        rows = self.rows
        if not 0 < number <= len(rows):
            raise NotFound(f"{self.conversation.project}/{self.conversation.name} has no record {number}")
        return rows[number - 1]

    def time_of(self, row: EventRow) -> int:
        """Return when an event happened; the conversation's beginning where the event does not say."""
        return row.time_ms or self.conversation.created_ms

    # -- events/ ---------------------------------------------------------------------------------------------------

    def event_attributes(self, row: EventRow) -> Attributes:
        """Return the attributes of an event's file."""
        return Attributes(
            inodes.base(Space.EVENT, self.id) + row.number,
            FILE,
            row.file_size,
            row.time_ms or self.conversation.created_ms,
        )

    def event_entries(self, after: int = 0) -> list[Entry]:
        """Return the entries of ``events/`` beyond position ``after``."""
        if self._entries is None:
            records = self.records
            name = names.event_name
            self._entries = [
                Entry(row.number + FIRST_POSITION - 1, name(row, records).encode(), self.event_attributes(row))
                for row in self.rows
                if row.kind is not Kind.RECORD
            ]
        if after < FIRST_POSITION:
            return self._entries
        return self._entries[bisect_right(self._entries, after, key=_position) :]

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
            head = transcript.head(self.conversation)
            rows = [row for row in self.rows if row.section_size]

            def draw(first: int, beyond: int) -> Iterator[bytes]:
                if first == 0:
                    yield head
                for row, event in self.store.events(rows[max(0, first - 1) : beyond - 1]):
                    if isinstance(event, ConvfsError):
                        raise event
                    yield transcript.section(row.number, event)

            self._transcript = Pieces([len(head), *(row.section_size for row in rows)], draw)
        return self._transcript

    @property
    def json(self) -> Pieces:
        """``events.json``: an element for each record, and an end."""
        if self._json is None:
            # a record that was deleted keeps its number, and has no element
            rows = [row for row in self.rows if not row.deleted]
            opening = rows[0].number if rows else 0

            def draw(first: int, beyond: int) -> Iterator[bytes]:
                for row, _event, element in draw_elements(self.store, rows[first:beyond]):
                    yield events_json.OPENING + element[1:] if row.number == opening else element
                if beyond > len(rows):
                    yield events_json.TAIL if rows else events_json.EMPTY

            self._json = Pieces([*(row.json_size for row in rows), events_json.TAIL_SIZE], draw)
        return self._json

    @property
    def json_size(self) -> int:
        """The size of ``events.json``."""
        return self.json.size if self.version else self.conversation.json_size + events_json.TAIL_SIZE

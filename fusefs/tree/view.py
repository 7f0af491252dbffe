"""A conversation as it stood at one head, and what the tree remembers of it."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import cached_property, partial
from operator import attrgetter
from typing import Generic, TypeVar

from msgspec import Struct

from fusefs import inodes
from fusefs.inodes import FIRST_DERIVED, Space
from fusefs.text import event_names, events_json, resource_names, transcript
from fusefs.text.metadata import metadata_text
from fusefs.text.render import render_event
from fusefs.tree.node import FILE, FIRST_POSITION, LONG, SHORT, Attributes, DirEntry
from store.conversations.records import NO_ROWS, Rows
from store.errors import ConvfsError, DamageError, NotFound
from store.events.conversation import Conversation, EventRow, ResourceRow, Version
from store.events.event import Event, Kind
from store.store import Store
from store.worktree.known_files import FileRow

T = TypeVar("T", bound=Sized)


class Extending(Generic[T]):
    """Something that grows with the rows that it is made of, and is made anew for others.

    ``make`` makes an empty one, ``add`` adds what further rows bring at its end, and nothing else: a caller that was
    given it before goes on to use as much of it as there was then.
    """

    def __init__(self, make: Callable[[], T], add: Callable[[T, Sequence[EventRow]], None]) -> None:
        self._make = make
        self._add = add
        self._made = make()
        self._rows = NO_ROWS

    def of(self, rows: Rows) -> tuple[T, int]:
        """Return the thing made of ``rows``, and its present length: it may grow later."""
        if not self._rows.begins(rows):
            self._made, self._rows = self._make(), Rows(rows.shared, 0)
        if len(self._rows) < len(rows):
            self._add(self._made, rows[len(self._rows) :])
            self._rows = rows
        return self._made, len(self._made)


def draw_elements(store: Store, rows: Sequence[EventRow]) -> Iterator[tuple[EventRow, Event, bytes]]:
    """Yield the elements of records, as :func:`fusefs.text.events_json.element` draws them."""
    for row, event in store.viewer.events(rows):
        if isinstance(event, ConvfsError):
            raise event
        turn = store.turns.get(row.turn)
        format_name = store.viewer.format_name(turn.type_tag)
        yield row, event, events_json.element(row.number, event, format_name, turn.payload_hash, row.payload_size)


_REMEMBERED = 4
_LOOK_SECONDS = 0.03
"""The time in which all others may wait until it is known which files a conversation knew."""

Draw = Callable[[int, int], Iterator[bytes]]
"""Yields the pieces ``[first, beyond)``, in order. Raises ConvfsError where one cannot be drawn."""


class Pieces:
    """The pieces of one file; a read draws those that it touches and no others.

    ``ends`` are where they end, one after the other, of which the first ``count`` are meant; ``lead`` stands before the
    first piece, ``rest`` behind the last. The last pieces of recent reads are remembered, because the next read usually
    begins inside one, and one piece may be larger than many reads.
    """

    def __init__(self, ends: Sequence[int], count: int, draw: Draw, *, lead: bytes = b"", rest: bytes = b"") -> None:
        self._ends = ends
        self._count = count
        self._draw = draw
        self._lead = lead
        self._rest = rest
        self._drawn = ends[count - 1] if count else 0
        self._remembered: dict[int, bytes] = {}

    @property
    def size(self) -> int:
        return len(self._lead) + self._drawn + len(self._rest)

    def read(self, offset: int, size: int) -> bytes:
        data = self._lead[offset : offset + size]
        start = max(offset - len(self._lead), 0)
        data += self._read(start, size - len(data))
        behind = max(start - self._drawn, 0)
        return data + self._rest[behind : behind + size - len(data)]

    def _read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self._drawn)
        if offset >= end:
            return b""
        first = bisect_right(self._ends, offset, hi=self._count)
        beyond = bisect_left(self._ends, end, hi=self._count) + 1
        start = self._ends[first - 1] if first else 0
        data = b"".join(self._pieces(first, beyond))
        return data[offset - start : end - start]

    def _pieces(self, first: int, beyond: int) -> Iterator[bytes]:
        remembered = self._remembered.get(first)
        if remembered is not None:
            yield remembered
            first += 1
        if first == beyond:
            return
        piece = b""
        for number, piece in enumerate(self._draw(first, beyond), first):
            expected = self._ends[number] - (self._ends[number - 1] if number else 0)
            if len(piece) != expected:
                raise DamageError(f"piece {number} has {len(piece)} bytes and not {expected}: reindex")
            yield piece
        if len(self._remembered) >= _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[beyond - 1] = piece


class Folder(Struct):
    """The names directly in one directory of ``resources/``: files with their rows, directories with their folders."""

    path: str
    number: int
    files: dict[str, ResourceRow] = {}
    folders: dict[str, Folder] = {}


class ResourceTree:
    """The directories of ``resources/`` in one view, made from the paths of its resources.

    A resource's number counts from 1 in the order in which events brought them, that of a file which only follows from
    events from the middle on, and a directory's counts on from the highest possible downwards, so that numbers stay
    what they are while a conversation grows.
    """

    def __init__(self, held: Sequence[ResourceRow], derived: Sequence[FileRow] = ()) -> None:
        self.held = held
        """Those that records hold."""
        self._derived = derived
        self.rows = [*held, *derived]
        self._numbers = {(row.turn, row.seq): number for number, row in enumerate(held, 1)}
        self._numbers |= {(row.turn, row.seq): number for number, row in enumerate(derived, FIRST_DERIVED)}
        root = Folder("", inodes.MAX_NUMBER)
        self.folders = {"": root}
        self._folders_by_number = {root.number: root}
        paths = resource_names.resource_paths(self.rows)
        self._listed = {self.number(row): path for path, row in paths.items()}
        for path, row in sorted(paths.items(), key=lambda item: (item[1].number, item[1].seq)):
            folder, _, name = path.rpartition("/")
            self._folder(folder).files[name] = row

    def number(self, item: Folder | ResourceRow) -> int:
        return item.number if isinstance(item, Folder) else self._numbers[item.turn, item.seq]

    def path(self, row: ResourceRow) -> str:
        """Return the path of a resource's file, whether it is listed or not."""
        listed = self._listed.get(self.number(row))
        plain = resource_names.resource_path(row.uri, row.mime)
        return listed or resource_names.numbered_path(plain, row.number, row.seq, resource_names.lines_of(row.uri))

    def by_number(self, number: int) -> Folder | ResourceRow:
        """Return the folder or row of that number. Raises NotFound."""
        if 0 < number <= len(self.held):
            return self.held[number - 1]
        if 0 <= number - FIRST_DERIVED < len(self._derived):
            return self._derived[number - FIRST_DERIVED]
        if number in self._folders_by_number:
            return self._folders_by_number[number]
        raise NotFound(f"there is no resource {number}")

    def _folder(self, path: str) -> Folder:
        folder = self.folders.get(path)
        if folder is None:
            above, _, name = path.rpartition("/")
            parent = self._folder(above)
            folder = Folder(path, inodes.MAX_NUMBER - len(self.folders))
            self.folders[path] = parent.folders[name] = self._folders_by_number[folder.number] = folder
        return folder


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
        self.described_ms = max(self.time_ms, conversation.described_ms) if version is None else version.time_ms
        self.outdated = False
        """True if the conversation has changed since."""
        self._good_until = 0.0
        """The time, monotonic, until which unsure rows are shown; 0 if there are none."""
        # the arguments for making entries, beside rows
        self._entries_of = (view_id, event_names.number_width(self.records), conversation.created_ms)
        self._entries: Extending[list[DirEntry]]
        if before is not None and before._entries_of == self._entries_of:
            self._entries = before._entries
        else:
            self._entries = Extending(list, partial(_add_entries, view_id, self.records, conversation.created_ms))
        self._sections: Extending[_Drawn] = before._sections if before else Extending(_Drawn, _add_sections)
        self._elements: Extending[_Drawn] = before._elements if before else Extending(_Drawn, _add_elements)

    @cached_property
    def rows(self) -> Rows:
        """The rows of all records; ``rows[i].number == i + 1``."""
        rows = self.store.records.rows(self.head) if self.head else NO_ROWS
        if self.conversation.unsure or rows.unsure:
            self._good_until = time.monotonic() + SHORT
        return rows

    @property
    def holds(self) -> bool:
        """Return whether it may be shown: it is not outdated, and nothing unreadable is due for another try."""
        return not self.outdated and not 0 < self._good_until < time.monotonic()

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
        return _event_attributes(self.id, row, self.time_of(row))

    def event_entries(self, after: int = 0) -> list[DirEntry]:
        """Return the entries of ``events/`` beyond position ``after``."""
        entries, count = self._entries.of(self.rows)
        if after < FIRST_POSITION:
            return entries[:count]
        return entries[bisect_right(entries, after, hi=count, key=_position) : count]

    def drawn_events(self, rows: Sequence[EventRow]) -> Iterator[tuple[EventRow, bytes | ConvfsError]]:
        """Yield the files of events; an error stands for one that cannot be read."""
        for row, event in self.store.viewer.events(rows):
            yield row, event if isinstance(event, ConvfsError) else render_event(row.number, event)

    # -- resources/ ------------------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> list[ResourceRow]:
        """The resources that records hold, in order."""
        return self.store.records.resources(self.head) if self.head else []

    @cached_property
    def known(self) -> list[FileRow]:
        """The files that the conversation knew, in order; it may take long to tell: see :meth:`Tree.resources`."""
        return self.store.known_files.rows(self.conversation.id, self.head)

    @property
    def is_known(self) -> bool:
        """Return whether it can be told at once which files the conversation knew."""
        context, head = self.conversation.id, self.head
        return "known" in vars(self) or self.store.known_files.is_known(context, head, _LOOK_SECONDS)

    @cached_property
    def resources(self) -> ResourceTree:
        there = {(row.turn, row.seq) for row in self.held}
        return ResourceTree(self.held, [row for row in self.known if (row.turn, row.seq) not in there])

    # -- files of the whole ----------------------------------------------------------------------------------------

    @cached_property
    def metadata(self) -> bytes:
        return metadata_text(self.conversation)

    @cached_property
    def transcript(self) -> Pieces:
        """The transcript: its head, and a section for each event."""
        drawn, count = self._sections.of(self.rows)
        rows = drawn.rows

        def draw(first: int, beyond: int) -> Iterator[bytes]:
            for row, event in self.store.viewer.events(rows[first:beyond]):
                if isinstance(event, ConvfsError):
                    raise event
                yield transcript.section(row.number, event)

        return Pieces(drawn.ends, count, draw, lead=transcript.head(self.conversation))

    @cached_property
    def json(self) -> Pieces:
        """``events.json``: an element for each record, and an end."""
        drawn, count = self._elements.of(self.rows)
        rows = drawn.rows

        def draw(first: int, beyond: int) -> Iterator[bytes]:
            opening = rows[0].number
            for row, _event, element in draw_elements(self.store, rows[first:beyond]):
                yield events_json.OPENING + element[1:] if row.number == opening else element

        return Pieces(drawn.ends, count, draw, rest=events_json.TAIL if count else events_json.EMPTY)

    @property
    def json_size(self) -> int:
        """The size of ``events.json``."""
        return self.json.size if self.version else self.conversation.json_size + events_json.TAIL_SIZE


def _event_attributes(view_id: int, row: EventRow, time_ms: int) -> Attributes:
    timeout = SHORT if row.unsure else LONG
    return Attributes(inodes.base(Space.EVENT, view_id) + row.number, FILE, row.file_size, time_ms, timeout=timeout)


def _add_entries(
    view_id: int, records: int, created_ms: int, entries: list[DirEntry], rows: Sequence[EventRow]
) -> None:
    name = event_names.event_name
    entries += [
        DirEntry(
            row.number + FIRST_POSITION - 1,
            name(row, records).encode(),
            _event_attributes(view_id, row, row.time_ms or created_ms),
        )
        for row in rows
        if row.kind is not Kind.RECORD
    ]


class _Drawn(Struct):
    """The rows that have a piece in a file, and where these pieces end."""

    rows: list[EventRow] = []
    ends: list[int] = []

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, rows: Sequence[EventRow], sizes: Iterable[int]) -> None:
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

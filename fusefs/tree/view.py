"""A conversation as it stood at one head, and what the tree remembers of it."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from operator import attrgetter

from msgspec import Struct

from fusefs import inodes
from fusefs.inodes import FIRST_DERIVED, Space
from fusefs.text import event_names, events_json, resource_names, transcript
from fusefs.text.metadata import metadata_text
from fusefs.tree.node import FILE, FIRST_POSITION, LONG, SHORT, Attributes, DirEntry
from store.conversations import branch
from store.conversations.records import NO_ROWS, Part, Rows
from store.errors import Away, ConvfsError, DamageError, NotFound
from store.events.conversation import Conversation, EventRow, ResourceRow, Version
from store.events.event import Event, Kind
from store.index.catalogue import ContextEntry
from store.store import Store
from store.worktree.known_files import FileRow


def draw_elements(store: Store, rows: Sequence[EventRow]) -> Iterator[tuple[EventRow, Event, bytes]]:
    """Yield the elements of records, as :func:`fusefs.text.events_json.element` draws them."""
    for row, event in store.viewer.events(rows):
        if isinstance(event, ConvfsError):
            raise event
        turn = store.turns.get(row.turn)
        format_name = store.viewer.format_name(turn.type_tag)
        yield row, event, events_json.element(row.number, event, format_name, turn.payload_hash, row.payload_size)


_REMEMBERED = 4
_FEW = 16
_LOOK_SECONDS = 0.03
"""The time in which all others may wait until it is known which files a conversation knew."""

Draw = Callable[[Sequence[EventRow]], Iterator[bytes]]
"""Yields the pieces of records, in order. Raises ConvfsError where one cannot be drawn."""


class Pieces:
    """The pieces of one file, one for each row that has a size in it; a read draws those that it touches and no others.

    ``which`` says which of a row's sizes that is; the pieces have ``drawn`` bytes together. ``lead`` stands before the
    first piece, ``rest`` behind the last. The last pieces of recent reads are remembered, because the next read usually
    begins inside one, and one piece may be larger than many reads.
    """

    def __init__(
        self, rows: Rows, which: Part, drawn: int, draw: Draw, *, lead: bytes = b"", rest: bytes = b""
    ) -> None:
        self._rows = rows
        self._which = which
        self._drawn = drawn
        self._draw = draw
        self._lead = lead
        self._rest = rest
        self._size_of = attrgetter(which)
        self._starts = [0]
        """Where the blocks of rows begin, as far as anybody has read."""
        self._remembered: dict[int, bytes] = {}
        self._lock = threading.Lock()

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
        at = self._block_of(offset)
        start = self._starts[at]
        found: list[EventRow] = []
        begins = ends = start
        for block in self._rows.blocks(at):
            sizes = [*accumulate(map(self._size_of, block.rows), initial=ends)]
            first = max(bisect_right(sizes, offset) - 1, 0)
            beyond = bisect_left(sizes, end)
            if not found:
                begins = sizes[first]
            found += (row for row in block.rows[first:beyond] if self._size_of(row))
            ends = sizes[-1]
            if ends >= end:
                break
        data = b"".join(self._pieces(found))
        return data[offset - begins : end - begins]

    def _block_of(self, offset: int) -> int:
        """Return the number of the block of rows that has the piece at an offset."""
        starts = self._starts
        with self._lock:
            while starts[-1] <= offset and len(starts) < self._rows.count_of_blocks:
                starts.append(starts[-1] + getattr(self._rows.sums(len(starts) - 1), self._which))
        return bisect_right(starts, offset) - 1

    def _pieces(self, rows: Sequence[EventRow]) -> Iterator[bytes]:
        remembered = self._remembered.get(rows[0].number) if rows else None
        if remembered is not None:
            yield remembered
            rows = rows[1:]
        if not rows:
            return
        piece = b""
        for row, piece in zip(rows, self._draw(rows), strict=True):
            if len(piece) != self._size_of(row):
                what = f"the piece of record {row.number} has {len(piece)} bytes"
                raise DamageError(f"{what} and not {self._size_of(row)}: reindex")
            yield piece
        with self._lock:
            if len(self._remembered) >= _REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[rows[-1].number] = piece


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


class View:
    """A conversation at its head, or at an earlier version; what follows from its rows is made when first asked for.

    ``id`` is the view's number in inodes. Instances do not change: when the head moves, the tree makes a new one.
    """

    def __init__(
        self,
        store: Store,
        view_id: int,
        entry: ContextEntry,
        version: Version | None = None,
        read: Callable[[int], Rows] | None = None,
        sums: Callable[[ContextEntry], Conversation] | None = None,
    ) -> None:
        """``read`` returns the rows of the branch with a tip, ``sums`` a conversation with its sums.

        Both may raise Later.
        """
        self.store = store
        self._read = read or store.records.rows
        self._sums = sums or store.library.with_its_sums
        self.id = view_id
        self.entry = entry
        self.version = version
        self.head = entry.head if version is None else version.head
        self.records = entry.records if version is None else version.records
        self.time_ms = entry.updated_ms if version is None else version.time_ms
        self.described_ms = max(self.time_ms, entry.described_ms) if version is None else version.time_ms
        self.outdated = False
        """True if the conversation has changed since."""
        self._good_until = 0.0
        """The time, monotonic, until which unsure rows are shown; 0 if there are none."""
        self._is_read = False
        """True once it is known that all records were there to be looked at, but for damaged ones."""
        self._first = inodes.base(Space.EVENT, view_id)

    @cached_property
    def conversation(self) -> Conversation:
        """The conversation with its sums; after a change it may take long to tell these."""
        return self._sums(self.entry)

    @cached_property
    def rows(self) -> Rows:
        """The rows of all records; ``rows[i].number == i + 1``."""
        return self._read(self.head) if self.head else NO_ROWS

    @property
    def holds(self) -> bool:
        """Return whether it may be shown: it is not outdated, and nothing unreadable is due for another try."""
        known = vars(self)
        is_unsure = ("rows" in known and self.rows.unsure) or ("conversation" in known and self.conversation.unsure)
        if is_unsure and not self._good_until:
            self._good_until = time.monotonic() + SHORT
        return not self.outdated and not 0 < self._good_until < time.monotonic()

    def row(self, number: int) -> EventRow:
        """Return the row of one record. Raises NotFound if the branch is not that long."""
        rows = self.rows
        try:
            # there is no number 0
            return rows[number - 1 if number > 0 else len(rows)]
        except IndexError:
            name = f"{self.entry.project}/{self.entry.name}"
            raise NotFound(f"{name} has no record {number}") from None

    def check_read(self) -> None:
        """Raise Away if some records cannot be fetched now: it is not known whether they are events."""
        if self._is_read or self.store.files.packs.remote is None:
            return
        if self.version is not None or self.conversation.unsure:
            unsure = [row for row in self.rows if row.unsure and row.kind is Kind.RECORD and not row.deleted]
            if unsure and not any(map(self._is_damaged, unsure)):
                raise Away(f"records of {self.entry.project}/{self.entry.name} have only just come: look again")
        self._is_read = True

    def _is_damaged(self, row: EventRow) -> bool:
        try:
            self.store.contents.payload(row.turn)
        except Away:
            raise
        except ConvfsError:
            # its reader is told
            return True
        return False

    def time_of(self, row: EventRow) -> int:
        """Return when an event happened; the conversation's beginning where the event does not say."""
        return row.time_ms or self.entry.created_ms

    # -- events/ ---------------------------------------------------------------------------------------------------

    def event_attributes(self, row: EventRow) -> Attributes:
        timeout = SHORT if row.unsure else LONG
        return Attributes(self._first + row.number, FILE, row.file_size, self.time_of(row), timeout=timeout)

    def event_entries(self, after: int = 0) -> Iterator[DirEntry]:
        """Yield the entries of ``events/`` beyond position ``after``."""
        # so that what is missing is told at once
        return self._event_entries(self.rows, max(after - FIRST_POSITION + 1, 0))

    def _event_entries(self, rows: Rows, place: int) -> Iterator[DirEntry]:
        named, words = event_names.name_format(self.records), event_names.event_words
        for block in rows.blocks(rows.block_with(place)):
            for row in block.rows[max(place + 1 - block.rows[0].number, 0) :]:
                if row.kind is not Kind.RECORD:
                    name = named % (row.number, words(row.kind, row.tool))
                    yield DirEntry(row.number + FIRST_POSITION - 1, name.encode(), self.event_attributes(row))
        # behind those that are known: a listing that ends here must be of all
        self.check_read()

    def drawn_events(self, rows: Sequence[EventRow]) -> Iterator[tuple[EventRow, bytes | ConvfsError]]:
        """Yield the files of events; an error stands for one that cannot be read."""
        return self.store.texts.files_of(rows)

    # -- resources/ ------------------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> list[ResourceRow]:
        """The resources that records hold, in order."""
        return self.store.records.resources(self.head) if self.head else []

    def held_by(self, numbers: Collection[int]) -> Iterator[int]:
        """Yield the numbers, from 1, of the resources that some records hold."""
        if len(numbers) > _FEW or "held" in vars(self):
            yield from (at for at, row in enumerate(self.held, 1) if row.number in numbers)
            return
        runs, views = self.store.records.runs(self.head), self.store.views
        for number in numbers:
            if some := views.resources(branch.part(runs, number - 1, 1), number):
                first = views.count_resources(branch.part(runs, 0, number - 1)) + 1
                yield from range(first, first + len(some))

    @cached_property
    def known(self) -> list[FileRow]:
        """The files that the conversation knew, in order; it may take long to tell: see :meth:`Tree.resources`."""
        return self.store.known_files.rows(self.entry.id, self.head)

    @property
    def is_known(self) -> bool:
        """Return whether it can be told at once which files the conversation knew."""
        context, head = self.entry.id, self.head
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

        def draw(rows: Sequence[EventRow]) -> Iterator[bytes]:
            for _row, section in self.store.texts.sections_of(rows):
                if isinstance(section, ConvfsError):
                    raise section
                yield section

        size = self._bytes("section_size") if self.version else self.conversation.transcript_size
        return Pieces(self.rows, "section_size", size, draw, lead=transcript.head(self.entry))

    @cached_property
    def json(self) -> Pieces:
        """``events.json``: an element for each record, and an end."""
        rows = self.rows

        def draw(some: Sequence[EventRow]) -> Iterator[bytes]:
            # a record that was deleted keeps its number, and has no element
            opening = next(row.number for row in rows if row.json_size)
            for row, _event, element in draw_elements(self.store, some):
                yield events_json.OPENING + element[1:] if row.number == opening else element

        size = self._bytes("json_size") if self.version else self.conversation.json_size
        return Pieces(rows, "json_size", size, draw, rest=events_json.TAIL if size else events_json.EMPTY)

    def _bytes(self, which: Part) -> int:
        return sum(getattr(self.rows.sums(at), which) for at in range(self.rows.count_of_blocks))

    @property
    def json_size(self) -> int:
        """The size of ``events.json``."""
        return self.json.size if self.version else self.conversation.json_size + events_json.TAIL_SIZE

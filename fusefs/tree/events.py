"""``events/``: one file an event."""

from collections.abc import Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from fusefs.text import event_names
from fusefs.tree.node import DERIVED_FILE, FIRST_POSITION, Attributes, DirEntry, Entries, File, OpenContent
from fusefs.tree.tree import EventOverlay, Growing, Tree
from fusefs.tree.view_node import NumberedNode, RowNode, ViewDirectory
from store.errors import ConvfsError, NotFound
from store.events.event import Kind
from store.ids import now_ms


class EventsDirectory(ViewDirectory, Entries):
    """``events/``. The number in a name finds the file, whatever follows it."""

    __slots__ = ()

    def lookup(self, name: str) -> int | None:
        tree = self.tree
        overlay = tree.overlays.get(self.view_id)
        number = overlay.aliases.get(name) if overlay else None
        if number is None:
            number = event_names.parse_event_name(name)
        if number is None or (overlay and number in overlay.hidden):
            return None
        if tree.streams.event(self.view_id, number) is not None:
            return tree.own_number(self.view_id, number)
        try:
            row = self.view.row(number)
        except NotFound:
            return None
        ino = tree.event(self.view_id, number)
        # one that was deleted may be written again
        return None if row.kind is Kind.RECORD and not (row.deleted and ino in tree.served) else ino

    def entries(self, after: int) -> Iterator[DirEntry]:
        # first: the view may be another then
        growing = [growing for growing in self.tree.streams.of(self.view_id) if growing.name]
        entries = self._listed(self.view.event_entries(after))
        if not growing:
            return entries
        last = [GrowingFile.entry(self.tree, self.view_id, one) for one in growing]
        return chain(entries, (entry for entry in last if entry.position > after))

    def _listed(self, entries: Iterator[DirEntry]) -> Iterator[DirEntry]:
        tree = self.tree
        overlay = tree.overlays.get(self.view_id)
        if overlay is None and not tree.served and not tree.known:
            return entries
        return self._overlaid(entries, overlay or EventOverlay())

    def _overlaid(self, entries: Iterator[DirEntry], overlay: EventOverlay) -> Iterator[DirEntry]:
        """Yield entries as they are with what is being changed."""
        served, known = self.tree.served, self.tree.known
        for entry in entries:
            number = entry.position - FIRST_POSITION + 1
            if number in overlay.hidden:
                continue
            ino = known.get(entry.attributes.ino, entry.attributes.ino)
            if ino in served or ino != entry.attributes.ino:
                file = EventFile(self.tree, ino, self.view_id, number)
                yield DirEntry(entry.position, entry.name, file.attributes())
            else:
                yield entry


class EventFile(NumberedNode, RowNode, File):
    """``events/NNNNN-….md``: one event, resolved. ``ino`` may be another number than the event's own."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name that is listed; others may lead here too."""
        return event_names.event_name(self.row, self.view.records)

    def label(self) -> str:
        return f"events/{self.name}"

    def attributes(self) -> Attributes:
        view = self.view
        attributes = self.as_served(view.event_attributes(view.row(self._number)))
        return attributes if attributes.ino == self.ino else replace(attributes, ino=self.ino)

    def drawn(self) -> bytes:
        """Return the file as it is drawn, whatever is shown in its place."""
        view = self.view
        for _row, data in view.drawn_events([view.row(self._number)]):
            if isinstance(data, ConvfsError):
                raise data
            return data
        raise NotFound(f"event {self._number} cannot be read")

    def xattrs(self) -> Mapping[str, str]:
        row = self.row
        shown = self.turn_xattrs(row)
        shown["kind"] = row.kind.word
        if row.tool:
            shown["tool"] = row.tool
        try:
            event = self.tree.store.records.event(row)
        except ConvfsError:
            # which record is damaged can be told all the same
            return shown
        if "model" in event.header:
            shown["model"] = str(event.header["model"])
        uri = next((block.uri for block in event.blocks if block.uri), "")
        if uri:
            shown["uri"] = uri
        return shown

    def open(self) -> OpenContent:
        return EventContent(self)


class EventContent:
    """An open event. It is drawn when first read, and again if its record has become another by the next read."""

    __slots__ = ("_data", "_file", "_turn")

    def __init__(self, file: EventFile) -> None:
        self._file = file
        self._turn = 0
        self._data = b""

    def read(self, offset: int, size: int) -> bytes:
        file = self._file
        instead = file.instead()
        if instead is not None:
            return instead.read(offset, size)
        row = file.row
        if row.turn != self._turn:
            self._data, self._turn = file.drawn(), row.turn
        return self._data[offset : offset + size]


class GrowingFile(NumberedNode, File):
    """``events/NNNNN-….md`` of an open turn: the part received so far. It cannot be written to."""

    def __init__(self, tree: Tree, ino: int, view_id: int, number: int) -> None:
        super().__init__(tree, ino, view_id, number)
        self._sealed: OpenContent | None = None

    @property
    def growing(self) -> Growing:
        """The open turn as it is now. Raises NotFound once it is none any more."""
        growing = self.tree.streams.event(self.view_id, self._number)
        if growing is None:
            raise NotFound(f"event {self._number} is not being written")
        return growing

    @property
    def name(self) -> str:
        return self.growing.name

    def label(self) -> str:
        return f"events/{self.name}"

    def attributes(self) -> Attributes:
        growing = self.growing
        return Attributes(self.ino, DERIVED_FILE, len(growing.file), growing.text.touched_ms or now_ms())

    def xattrs(self) -> Mapping[str, str]:
        growing = self.growing
        shown = {
            "type": self.tree.store.contents.type_name(growing.text.tag),
            "event": str(growing.number),
            "kind": growing.event.kind.word,
            "open": str(growing.text.number),
        }
        return shown | ({"tool": growing.event.tool} if growing.event.tool else {})

    def open(self) -> OpenContent:
        return self

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of what is received so far; once it is sealed, of the event."""
        if self._sealed is None:
            growing = self.tree.streams.event(self.view_id, self._number)
            if growing is not None:
                return growing.file[offset : offset + size]
            node = EventFile(self.tree, self.tree.event(self.view_id, self._number), self.view_id, self._number)
            # raises NotFound if it was dropped
            node.attributes()
            self._sealed = node.open()
        return self._sealed.read(offset, size)

    @classmethod
    def entry(cls, tree: Tree, view_id: int, growing: Growing) -> DirEntry:
        """Return the entry of an open turn in ``events/``."""
        file = cls(tree, tree.own_number(view_id, growing.number), view_id, growing.number)
        return DirEntry(growing.number + FIRST_POSITION - 1, growing.name.encode(), file.attributes())

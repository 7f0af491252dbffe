"""``events/``: one file an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from fusefs.text import names
from fusefs.tree.node import Attributes, Content, Entry, File, Node
from fusefs.tree.overlay import EventOverlay
from fusefs.tree.streams import GrowingFile
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.view_node import NumberedNode, RowNode, ViewDirectory
from store.errors import ConvfsError, NotFound
from store.events.event import Kind


class EventsDirectory(ViewDirectory):
    """``events/``. The number in a name finds the file, whatever follows it."""

    __slots__ = ()

    def lookup(self, name: str) -> Node | None:
        overlay = self.tree.overlays.get(self.view_id)
        number = overlay.aliases.get(name) if overlay else None
        if number is None:
            number = names.parse_event_name(name)
        if number is None or (overlay and number in overlay.hidden):
            return None
        return self.event(number)

    def event(self, number: int) -> EventFile | GrowingFile | None:
        """Return the file of an event, None if there is none of that number."""
        growing = self.tree.streams.event(self.view_id, number)
        if growing is not None:
            return self._growing(number)
        try:
            row = self.view.row(number)
        except NotFound:
            return None
        file = self.tree.event(self.view_id, number)
        # one that was deleted may be written again
        return None if row.kind is Kind.RECORD and not (row.deleted and file.ino in self.tree.served) else file

    def _growing(self, number: int) -> GrowingFile:
        return GrowingFile(self.tree, self.tree.own_number(self.view_id, number), self.view_id, number)

    def entries(self, after: int) -> Iterator[Entry]:
        # first: the view may be another then
        open_turns = [growing.number for growing in self.tree.streams.of(self.view_id) if growing.name]
        entries = self.view.event_entries(after)
        if not open_turns:
            return self._listed(entries)
        last = [self._growing(number).entry() for number in open_turns]
        return chain(self._listed(entries), (entry for entry in last if entry.position > after))

    def _listed(self, entries: list[Entry]) -> Iterator[Entry]:
        tree = self.tree
        overlay = tree.overlays.get(self.view_id)
        if overlay is None and not tree.served and not tree.known:
            return iter(entries)
        return self._overlaid(entries, overlay or EventOverlay())

    def _overlaid(self, entries: list[Entry], overlay: EventOverlay) -> Iterator[Entry]:
        """Yield entries as they are with what is being changed."""
        served, known = self.tree.served, self.tree.known
        for entry in entries:
            number = entry.position - FIRST_POSITION + 1
            if number in overlay.hidden:
                continue
            ino = known.get(entry.attributes.ino, entry.attributes.ino)
            if ino in served or ino != entry.attributes.ino:
                yield Entry(entry.position, entry.name, self.tree.event(self.view_id, number).attributes())
            else:
                yield entry


class EventFile(NumberedNode, RowNode, File):
    """``events/NNNNN-….md``: one event, resolved. ``ino`` may be another number than the event's own."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name that is listed; others may lead here too."""
        return names.event_name(self.row, self.view.records)

    def label(self) -> str:
        return f"events/{self.name}"

    def attributes(self) -> Attributes:
        view = self.view
        attributes = self.as_served(view.event_attributes(view.row(self._number)))
        return attributes if attributes.ino == self.ino else attributes._replace(ino=self.ino)

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
        shown["kind"] = names.kind_word(row.kind)
        if row.tool:
            shown["tool"] = row.tool
        try:
            event = self.tree.store.event(row)
        except ConvfsError:
            # which record is damaged can be told all the same
            return shown
        if "model" in event.header:
            shown["model"] = str(event.header["model"])
        uri = next((block.uri for block in event.blocks if block.uri), "")
        if uri:
            shown["uri"] = uri
        return shown

    def open(self) -> Content:
        return EventContent(self)


class EventContent:
    """An open event. It is drawn when first read, and again if its record has become another by the next read."""

    __slots__ = ("_data", "_file", "_turn")

    def __init__(self, file: EventFile) -> None:
        self._file = file
        self._turn = 0
        self._data = b""

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        file = self._file
        now = file.tree.bound(file.ino)
        if now is not None and not isinstance(now, EventFile):
            # the event is known under another number by now, and this one keeps what it had
            return now.open().read(offset, size) if isinstance(now, File) else b""
        served = file.tree.served.get(file.ino)
        if served is not None:
            return served.read(offset, size)
        view = file.view
        row = view.row(self._file.number)
        if row.turn != self._turn:
            for _row, data in view.drawn_events([row]):
                if isinstance(data, ConvfsError):
                    raise data
                self._data = data
            self._turn = row.turn
        return self._data[offset : offset + size]

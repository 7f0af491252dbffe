"""``events/``: one file an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fusefs import inodes
from fusefs.inodes import Space
from fusefs.text import names
from fusefs.tree.node import Attributes, Content, Entry, File, Node
from fusefs.tree.view_node import RowNode, ViewDirectory
from store.errors import ConvfsError, NotFound
from store.events.event import Kind


class EventsDirectory(ViewDirectory):
    """``events/``. The number in a name finds the file, whatever follows it."""

    __slots__ = ()

    def lookup(self, name: str) -> Node | None:
        number = names.parse_event_name(name)
        if number is None:
            return None
        try:
            row = self.view.row(number)
        except NotFound:
            return None
        if row.kind is Kind.RECORD:
            return None
        return EventFile(self.tree, inodes.base(Space.EVENT, self.view_id) + number, self.view_id)

    def entries(self, after: int) -> Iterator[Entry]:
        return iter(self.view.event_entries(after))


class EventFile(RowNode, File):
    """``events/NNNNN-….md``: one event, resolved."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        view = self.view
        return view.event_attributes(view.row(self.number))

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
        view = self._file.view
        row = view.row(self._file.number)
        if row.turn != self._turn:
            for _row, data in view.drawn_events([row]):
                if isinstance(data, ConvfsError):
                    raise data
                self._data = data
            self._turn = row.turn
        return self._data[offset : offset + size]

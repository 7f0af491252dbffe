"""``.records/``: every record of a conversation as its producer wrote it."""

from collections.abc import Iterator, Mapping

from fusefs import inodes
from fusefs.inodes import Space
from fusefs.tree.node import DERIVED_FILE, Attributes, Content, Entry, File, Lazy, Node
from fusefs.tree.paths import record_name
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.view_node import RowNode, ViewDirectory

_EXTENSION = ".json"


class RecordsDirectory(ViewDirectory):
    """``.records/``: every record's own bytes, bookkeeping too."""

    __slots__ = ()

    def lookup(self, name: str) -> Node | None:
        stem = name.removesuffix(_EXTENSION)
        if stem == name or not (stem.isascii() and stem.isdigit() and len(stem) < 19):
            return None
        view = self.view
        number = int(stem)
        if not 0 < number <= view.records or name != record_name(number, view.records):
            return None
        return RecordFile(self.tree, inodes.base(Space.RECORD, self.view_id) + number, self.view_id)

    def entries(self, after: int) -> Iterator[Entry]:
        view = self.view
        first = inodes.base(Space.RECORD, self.view_id)
        for row in view.rows[max(0, after - FIRST_POSITION + 1) :]:
            yield Entry(
                row.number + FIRST_POSITION - 1,
                record_name(row.number, view.records).encode(),
                Attributes(first + row.number, DERIVED_FILE, row.payload_size, view.time_of(row)),
            )


class RecordFile(RowNode, File):
    """``.records/NNNNN.json``: the bytes of one record."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        row = self.row
        return Attributes(self.ino, DERIVED_FILE, row.payload_size, self.view.time_of(row))

    def xattrs(self) -> Mapping[str, str]:
        return self.turn_xattrs(self.row)

    def open(self) -> Content:
        return Lazy(lambda: self.tree.store.payload(self.row.turn))

"""A file in ``resources/``, to be saved: the event that holds its content changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from fusefs import inodes
from fusefs.editing.records import Base, Records
from fusefs.editing.target import Target
from fusefs.inodes import Place, Space
from fusefs.tree.node import Content, Directory, Lazy
from fusefs.tree.resources import ResourceDirectory, ResourceFile
from store.errors import Conflict, NotFound
from store.ids import hash_bytes

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree
    from store.events.conversation import ResourceRow

KEY = re.compile(r"resource/([0-9]{1,18})/([0-9]{1,9})").fullmatch


class ResourceTarget(Target):
    """The content at position ``seq`` of the resources of an event. Its state is the hash of that content."""

    def __init__(self, tree: Tree, records: Records, view_id: int, event: int, seq: int) -> None:
        self._tree = tree
        self._records = records
        self._view = view_id
        self._event = event
        self._seq = seq

    @property
    def row(self) -> ResourceRow:
        """What the index knows of it. Raises NotFound if the event no longer holds it."""
        for row in self._tree.view(self._view).resources.rows:
            if (row.number, row.seq) == (self._event, self._seq):
                return row
        raise NotFound(f"event {self._event} no longer holds this file")

    @property
    def view_id(self) -> int:
        return self._view

    @property
    def ino(self) -> int:
        return inodes.base(Space.RESOURCE, self._view) + self._tree.view(self._view).resources.number(self.row)

    @property
    def key(self) -> str:
        return f"resource/{self._event}/{self._seq}"

    @property
    def _path(self) -> str:
        return self._tree.view(self._view).resources.path(self.row)

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def path(self) -> str:
        return f"resources/{self._path}"

    def directory(self) -> Directory:
        folder, slash, _name = self._path.rpartition("/")
        number = self._tree.view(self._view).resources.folder_number(folder)
        own = inodes.base(Space.RESOURCE, self._view) + number
        top = inodes.base(Space.PLACE, self._view) + Place.RESOURCES
        return ResourceDirectory(self._tree, own if slash else top, self._view, folder)

    def node(self, ino: int) -> ResourceFile:
        return ResourceFile(self._tree, ino, self._view, self.ino & inodes.MAX_NUMBER)

    def size(self) -> int:
        return self.row.size

    def read(self, offset: int, size: int) -> bytes:
        return self.drawn()[offset : offset + size]

    def drawn(self) -> bytes:
        return self._tree.store.resource(self.row)

    def snapshot(self) -> Content:
        row = self.row
        return Lazy(lambda: self._tree.store.resource(row))

    def state(self) -> str:
        self._records.settle(self._view)
        return self.row.hash.hex()

    def prepare(self, state: str, data: bytes) -> PreparedResource | None:
        if self.state() != state:
            raise Conflict(f"event {self._event} was changed by somebody else in the meantime: compare, and save again")
        if self.draws(data):
            return None
        base = self._records.base(self._view, self._event)
        payload = self._records.edited_resource(base, self._seq, data)
        return None if payload is None else PreparedResource(self._records, base, payload, hash_bytes(data).hex())


class PreparedResource(Struct, frozen=True):
    """The payload that the event is to have, and what its resource then is."""

    records: Records
    base: Base
    payload: bytes
    result: str

    @property
    def touches(self) -> list[int]:
        """The event, and all that it holds."""
        return self.records.drawn_from(self.base.view, [self.base.number])

    def commit(self) -> str:
        """Give it to the event."""
        self.records.edit(self.base, self.payload)
        return self.result

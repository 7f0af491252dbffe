"""A file in ``resources/``, to be saved: the event that holds its content changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fusefs import inodes
from fusefs.editing.records import PreparedPayload, Records
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
        super().__init__(tree, view_id)
        self._records = records
        self._event = event
        self._seq = seq

    @property
    def row(self) -> ResourceRow:
        """What the index knows of it. Raises NotFound if the event no longer holds it."""
        for row in self.view.resources.rows:
            if (row.number, row.seq) == (self._event, self._seq):
                return row
        raise NotFound(f"event {self._event} no longer holds this file")

    @property
    def ino(self) -> int:
        return inodes.base(Space.RESOURCE, self.view_id) + self.view.resources.number(self.row)

    @property
    def key(self) -> str:
        return f"resource/{self._event}/{self._seq}"

    @property
    def _path(self) -> str:
        return self.view.resources.path(self.row)

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def path(self) -> str:
        return f"resources/{self._path}"

    def directory(self) -> Directory:
        folder, slash, _name = self._path.rpartition("/")
        number = self.view.resources.folder_number(folder)
        own = inodes.base(Space.RESOURCE, self.view_id) + number
        top = inodes.base(Space.PLACE, self.view_id) + Place.RESOURCES
        return ResourceDirectory(self.tree, own if slash else top, self.view_id, folder)

    def node(self, ino: int) -> ResourceFile:
        return ResourceFile(self.tree, ino, self.view_id, self.ino & inodes.MAX_NUMBER)

    def size(self) -> int:
        return self.row.size

    def drawn(self) -> bytes:
        return self.tree.store.resource(self.row)

    def snapshot(self) -> Content:
        row = self.row
        return Lazy(lambda: self.tree.store.resource(row))

    def state(self) -> str:
        self._records.settle(self.view_id)
        return self.row.hash.hex()

    def prepare(self, state: str, data: bytes) -> PreparedPayload | None:
        if self.state() != state:
            raise Conflict(f"event {self._event} was changed by somebody else in the meantime: compare, and save again")
        if self.draws(data):
            return None
        base = self._records.base(self.view_id, self._event)
        payload = self._records.edited_resource(base, self._seq, data)
        return None if payload is None else PreparedPayload(self._records, base, payload, hash_bytes(data).hex())

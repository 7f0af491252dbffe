"""The file of an event, to be saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from fusefs.editing.records import Base, PreparedPayload, Records, payload_hash
from fusefs.editing.target import Target, place_directory
from fusefs.inodes import Place
from fusefs.text.names import event_name
from fusefs.tree.events import EventFile
from fusefs.tree.node import Directory
from store.errors import NotFound

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

KEY = "event/"
_DELETED = "deleted:"


class EventTarget(Target):
    """One event. Its state is the hash of its payload, and that it was deleted, if it was."""

    def __init__(self, tree: Tree, records: Records, view_id: int, number: int) -> None:
        super().__init__(tree, view_id)
        self._records = records
        self.number = number

    @property
    def ino(self) -> int:
        return self.tree.own_number(self.view_id, self.number)

    @property
    def key(self) -> str:
        return f"{KEY}{self.number}"

    @property
    def name(self) -> str:
        try:
            view = self.view
            row = view.row(self.number)
            if row.deleted:
                row = replace(row, kind=self.tree.store.event(row).kind)
            return event_name(row, view.records)
        except NotFound:
            return f"{self.number:05}-event.md"

    @property
    def path(self) -> str:
        return f"events/{self.name}"

    def directory(self) -> Directory:
        return place_directory(self.tree, self.view_id, Place.EVENTS)

    def node(self, ino: int) -> EventFile:
        return EventFile(self.tree, ino, self.view_id, self.number)

    def size(self) -> int:
        return self.view.row(self.number).file_size

    def drawn(self) -> bytes:
        if self.view.row(self.number).deleted:
            return b""
        return self._records.drawn(self.view_id, self.number)

    def state(self) -> str:
        base = self._records.base(self.view_id, self.number)
        return _DELETED * base.deleted + base.payload_hash.hex()

    def prepare(self, state: str, data: bytes) -> PreparedPayload | None:
        digest = bytes.fromhex(state.removeprefix(_DELETED))
        base = Base(self.view_id, self.number, digest, state.startswith(_DELETED))
        payload = self._records.edited(base, data)
        return None if payload is None else PreparedPayload(self._records, base, payload, payload_hash(payload).hex())

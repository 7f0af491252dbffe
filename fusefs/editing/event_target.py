"""The file of an event, to be saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from fusefs.editing.records import Base, Records, payload_hash
from fusefs.editing.target import Target
from fusefs.inodes import Place
from fusefs.text.names import event_name
from fusefs.tree.events import EventFile
from fusefs.tree.node import Bytes, Content, Directory
from store.errors import NotFound

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

KEY = "event/"
_DELETED = "deleted:"


class EventTarget(Target):
    """One event. Its state is the hash of its payload, and that it was deleted, if it was."""

    def __init__(self, tree: Tree, records: Records, view_id: int, number: int) -> None:
        self._tree = tree
        self._records = records
        self._view = view_id
        self.number = number

    @property
    def view_id(self) -> int:
        return self._view

    @property
    def ino(self) -> int:
        return self._tree.own_number(self._view, self.number)

    @property
    def key(self) -> str:
        return f"{KEY}{self.number}"

    @property
    def name(self) -> str:
        try:
            view = self._tree.view(self._view)
            row = view.row(self.number)
            if row.deleted:
                row = replace(row, kind=self._tree.store.event(row).kind)
            return event_name(row, view.records)
        except NotFound:
            return f"{self.number:05}-event.md"

    @property
    def path(self) -> str:
        return f"events/{self.name}"

    def directory(self) -> Directory:
        events = self._tree.place(self._view, Place.EVENTS)
        assert isinstance(events, Directory)
        return events

    def node(self, ino: int) -> EventFile:
        return EventFile(self._tree, ino, self._view, self.number)

    def size(self) -> int:
        return self._tree.view(self._view).row(self.number).file_size

    def read(self, offset: int, size: int) -> bytes:
        return self.drawn()[offset : offset + size]

    def drawn(self) -> bytes:
        if self._tree.view(self._view).row(self.number).deleted:
            return b""
        return self._records.drawn(self._view, self.number)

    def snapshot(self) -> Content:
        return Bytes(self.drawn())

    def state(self) -> str:
        base = self._records.base(self._view, self.number)
        return _DELETED * base.deleted + base.payload_hash.hex()

    def prepare(self, state: str, data: bytes) -> PreparedEvent | None:
        digest = bytes.fromhex(state.removeprefix(_DELETED))
        base = Base(self._view, self.number, digest, state.startswith(_DELETED))
        payload = self._records.edited(base, data)
        return None if payload is None else PreparedEvent(self._records, base, payload)


class PreparedEvent(Struct, frozen=True):
    """The payload that an event is to have."""

    records: Records
    base: Base
    payload: bytes

    @property
    def result(self) -> str:
        """The hash of the payload."""
        return payload_hash(self.payload).hex()

    @property
    def touches(self) -> list[int]:
        """What the event holds."""
        return self.records.drawn_from(self.base.view, [self.base.number])

    def commit(self) -> str:
        """Give it to the event."""
        self.records.edit(self.base, self.payload)
        return self.result

"""``events.json``, to be saved: all records of a conversation in one version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusefs.editing.json_changes import JsonChanges, Rewrite
from fusefs.editing.target import WholeTarget
from fusefs.inodes import Place
from fusefs.tree.documents import EventsJson
from fusefs.tree.node import Content, Through
from store.errors import Conflict

if TYPE_CHECKING:
    from fusefs.editing.records import Records
    from fusefs.tree.tree import Tree

KEY = "events.json"
_ATTEMPTS = 8


class JsonTarget(WholeTarget):
    """All records of a conversation. Its state is the turn that the conversation ends in."""

    place = Place.EVENTS_JSON
    file_name = KEY
    keeps_text = False

    def __init__(self, tree: Tree, records: Records, view_id: int) -> None:
        super().__init__(tree, view_id)
        self._records = records

    def node(self, ino: int) -> EventsJson:
        return EventsJson(self.tree, ino, self.view_id)

    def size(self) -> int:
        return self.view.json_size

    def drawn(self) -> bytes:
        return self.read(0, self.size())

    def read(self, offset: int, size: int) -> bytes:
        return self.view.json.read(offset, size)

    def snapshot(self) -> Content:
        return Through(self.view.json.read)

    def state(self) -> str:
        self._records.settle(self.view_id)
        return str(self.view.head)

    def prepare(self, state: str, data: bytes) -> PreparedJson | None:
        head = int(state)
        self._records.behind(self.view_id, head)
        context = self._records.context(self.view_id)
        rewrite = JsonChanges(self.tree.store, context, head).work_out(data)
        return None if rewrite is None else PreparedJson(self, self._records, head, rewrite)


class PreparedJson:
    """What becomes of the records of a conversation that ended in turn ``head``."""

    result = ""

    def __init__(self, target: JsonTarget, records: Records, head: int, rewrite: Rewrite) -> None:
        self._target = target
        self._records = records
        self._head = head
        self._rewrite = rewrite

    @property
    def touches(self) -> list[int]:
        """The events that become others, and what they hold."""
        view_id, items = self._target.view_id, self._rewrite.items
        changed = self._rewrite.changes if items is None else range(1, self._records.length(view_id) + 1)
        return self._records.drawn_from(view_id, changed)

    def commit(self) -> str:
        """Make one version of it. What was appended since follows it."""
        for _attempt in range(_ATTEMPTS):
            behind = self._records.behind(self._target.view_id, self._head)
            try:
                self._commit(behind)
            except Conflict:
                continue
            return self._target.state()
        raise Conflict("the conversation grows too fast to be changed: save again")

    def _commit(self, behind: range) -> None:
        records, view_id, rewrite = self._records, self._target.view_id, self._rewrite
        if rewrite.items is not None:
            records.rewrite(view_id, [*rewrite.items, *behind])
        elif not rewrite.added:
            records.change(view_id, rewrite.changes)
        elif not behind:
            records.append(view_id, rewrite.added, expected_head=self._head)
        else:
            records.rewrite(view_id, [*range(1, behind.start), *rewrite.added, *behind])

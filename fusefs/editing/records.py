"""What was written, carried into records: parsed, compared, and committed as one version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from fusefs import inodes
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, Space
from fusefs.text.changes import changes
from fusefs.text.render import render_event
from store.conversations import branch
from store.conversations.chain import Recorded
from store.editing.echoes import with_echoes
from store.editing.editor import Editor
from store.editing.plan import Item
from store.errors import Conflict
from store.events.conversation import EventRow
from store.events.deletion import DELETED, Content, named
from store.events.edit import EventEdit
from store.events.event import Kind
from store.ids import hash_bytes
from store.store import Append

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fusefs.tree.tree import Tree
    from store.disk.turn_format import Turn
    from store.store import Store


class Base(Struct, frozen=True):
    """The event that a program began to change: its number, the hash of its payload, and whether it was deleted."""

    view: int
    number: int
    payload_hash: bytes
    deleted: bool = False


class Records:
    """Commits what was written."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._editor = Editor(tree.store)

    def base(self, view_id: int, number: int) -> Base:
        """Return what an event is now. Raises NotFound."""
        self.settle(view_id)
        row = self._tree.view(view_id).row(number)
        return Base(view_id, number, self._tree.store.turn(row.turn).payload_hash, row.deleted)

    def edited(self, base: Base, data: bytes) -> bytes | None:
        """Return the payload that ``data``, the file of an event, makes of what it was; None where that is the same.

        An event that was deleted comes back, whatever it is to say. Raises Conflict if the event has become another
        one, and ParseError or UsageError for what cannot be.
        """
        store = self._tree.store
        row = self._row(base)
        event = store.event(row)
        edit = changes(base.number, event, render_event(base.number, event), data)
        if edit == EventEdit() and not row.deleted:
            return None
        lens = store.viewer.lens(store.turn(row.turn))
        payload = store.payload(row.turn)
        edited = lens.edit(payload, edit, Recorded(row.tool, row.parent, store.aliased))
        return None if edited == payload and not row.deleted else edited

    def edited_resource(self, base: Base, seq: int, data: bytes) -> bytes | None:
        """Return the payload in which the resource at position ``seq`` is ``data``; None where it is the same.

        Raises Conflict if the event has become another one, and UsageError for what cannot be.
        """
        store = self._tree.store
        row = self._row(base)
        lens = store.viewer.lens(store.turn(row.turn))
        payload = store.payload(row.turn)
        edited = lens.edit_resource(payload, seq, data, Recorded(row.tool, row.parent, store.aliased))
        return None if edited == payload else edited

    def edit(self, base: Base, payload: bytes) -> None:
        """Make one version in which an event has another payload."""
        self._row(base)
        self._commit(base.view, {base.number: payload})

    def append(self, view_id: int, items: Sequence[Append], *, expected_head: int | None = None) -> int:
        """Append records at the head, as one version; return the number of the last."""
        self._editor.append(self.context(view_id), items, expected_head=expected_head)
        self._tree.renew(view_id)
        return self._tree.view(view_id).records

    def change(self, view_id: int, changed: Mapping[int, Content]) -> None:
        """Make one version in which records have other payloads, or are gone."""
        self._commit(view_id, changed)

    def rewrite(self, view_id: int, items: Sequence[Item]) -> None:
        """Make one version in which a conversation consists of ``items``."""
        tree = self._tree
        self._editor.rewrite(self.context(view_id), items, expected_head=tree.view(view_id).head)
        # their numbers are others' by now
        tree.overlay(view_id).aliases.clear()
        tree.renew(view_id)

    def behind(self, view_id: int, head: int) -> range:
        """Return the numbers of the records that were appended to a conversation since it ended in turn ``head``.

        Raises Conflict if something else has happened to it.
        """
        self.settle(view_id)
        store = self._tree.store
        view = self._tree.view(view_id)
        runs = store.runs(head) if head else ()
        length = branch.length(runs)
        if tuple(branch.part(store.runs(view.head), 0, length)) != runs:
            raise Conflict("the conversation was changed by somebody else in the meantime: compare, and save again")
        return range(length + 1, view.records + 1)

    def remove(self, view_id: int, numbers: list[int]) -> None:
        """Make one version in which events are gone."""
        self._commit(view_id, dict.fromkeys(numbers, DELETED))

    def drawn(self, view_id: int, number: int) -> bytes:
        """Return the file of an event as it is drawn now."""
        return self._tree.event(view_id, number).drawn()

    def length(self, view_id: int) -> int:
        """Return how many records a conversation has."""
        return self._tree.view(view_id).records

    def drawn_from(self, view_id: int, numbers: Collection[int]) -> list[int]:
        """Return the computed inode numbers of the files that show some records: events, and what they hold."""
        events, resources = inodes.base(Space.EVENT, view_id), inodes.base(Space.RESOURCE, view_id)
        held = self._tree.view(view_id).resources.rows
        return [
            *(events + number for number in numbers),
            *(resources + at for at, row in enumerate(held, 1) if row.number in numbers),
        ]

    def context(self, view_id: int) -> int:
        """Return the context of a view."""
        return view_id if view_id < FIRST_HANDED_OUT_VIEW else self._tree.view(view_id).conversation.id

    def _commit(self, view_id: int, changed: Mapping[int, Content]) -> None:
        tree = self._tree
        view = tree.view(view_id)
        every = with_echoes(tree.store, view.row, view.records, changed)
        self._editor.edit(self.context(view_id), every, action=named(changed), expected_head=view.head)
        tree.renew(view_id)

    def _row(self, base: Base) -> EventRow:
        """Return the row of an event that is what it was; Conflict if it is another one."""
        self.settle(base.view)
        row = self._tree.view(base.view).row(base.number)
        digest = self._tree.store.turn(row.turn).payload_hash
        shown = row.kind is not Kind.RECORD or row.deleted
        if not shown or row.deleted != base.deleted or digest != base.payload_hash:
            raise Conflict(f"event {base.number} was changed by somebody else in the meantime: compare, and save again")
        return row

    def settle(self, view_id: int) -> None:
        """Have a view show what is committed, whoever did it."""
        if self._tree.store.head(self.context(view_id)).tip != self._tree.view(view_id).head:
            self._tree.renew(view_id)


def record_like(store: Store, turn: Turn, payload: bytes) -> Append:
    """Return a record to append, of the type and in the encoding of a turn's."""
    return Append(payload, store.type_name(turn.type_tag), turn.encoding, turn.type_version)


class PreparedPayload(Struct, frozen=True):
    """The payload that an event is to have; ``result`` is the state that the file which was saved is then in."""

    records: Records
    base: Base
    payload: bytes
    result: str

    @property
    def touches(self) -> list[int]:
        """The event, and what it holds."""
        return self.records.drawn_from(self.base.view, [self.base.number])

    def commit(self) -> str:
        """Give it to the event."""
        self.records.edit(self.base, self.payload)
        return self.result


def payload_hash(payload: bytes) -> bytes:
    """Return the name of a payload."""
    return hash_bytes(payload)

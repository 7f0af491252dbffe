"""Commits of written files: texts parsed into records, compared, and committed as one version."""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from fusefs import inodes
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, Space
from fusefs.text.changes import changes
from fusefs.text.render import render_event
from fusefs.tree.tree import Tree
from store.conversations import branch
from store.conversations.chain import Recorded
from store.conversations.contexts import Append
from store.disk.turn_format import Turn
from store.editing.commit import Item
from store.editing.editor import Editor, with_echoes
from store.errors import Conflict
from store.events.conversation import EventRow
from store.events.event import Event, EventEdit, Kind, Replacement, named
from store.formats.core.editing import Lens
from store.store import Store

CHANGED = "was changed by somebody else in the meantime: compare, and save again"


class Base(Struct, frozen=True):
    """The event that a program began to change: its number, the hash of its payload, and whether it was deleted."""

    view: int
    number: int
    payload_hash: bytes
    deleted: bool = False


class DrawnEvent(Struct, frozen=True):
    """An event and its file, as they were when its record was ``turn``."""

    turn: int
    event: Event
    data: bytes


class Prepared(Struct, frozen=True):
    """The prepared changes of a save: all worked out, nothing committed.

    ``commit`` makes one version of it and returns the state that the file is then in. It is called with the time that
    the file shows then, in Unix milliseconds (0: now), if it takes one, and raises Conflict if the file is no longer in
    the state that this was prepared for. ``result`` is that state, "" where it is not known before. ``touches`` returns
    the computed inode numbers of other files that will have other content, but those that show all records.
    """

    commit: Callable[[int], str]
    result: str = ""
    touches: Callable[[], Sequence[int]] = tuple


class EventCommits:
    """Commits written texts."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._editor = Editor(tree.store)

    def base(self, view_id: int, number: int) -> Base:
        """Return the present event. Raises NotFound."""
        self.settle(view_id)
        row = self.tree.view(view_id).row(number)
        return Base(view_id, number, self.tree.store.turns.get(row.turn).payload_hash, row.deleted)

    def edited(self, base: Base, data: bytes, begun: DrawnEvent | None = None) -> bytes | None:
        """Return the event's payload changed as its file ``data`` says; None if that changes nothing.

        ``begun`` is how the event was drawn when it was opened: it need not be drawn again if it is still that.
        A deleted event comes back, even unchanged. Raises Conflict if the event is no longer the one in ``base``, and
        ParseError or UsageError for changes that are impossible.
        """
        row = self._row(base)
        drawn = begun if begun is not None and begun.turn == row.turn else self._drawn(row)
        edit = changes(base.number, drawn.event, drawn.data, data)
        if edit == EventEdit() and not row.deleted:
            return None
        lens, payload, before = self._recorded(row)
        edited = lens.edit(payload, edit, before)
        return None if edited == payload and not row.deleted else edited

    def edited_resource(self, base: Base, seq: int, data: bytes) -> bytes | None:
        """Return the payload in which resource ``seq`` is ``data``, None where that is the same."""
        lens, payload, before = self._recorded(self._row(base))
        edited = lens.edit_resource(payload, seq, data, before)
        return None if edited == payload else edited

    def _recorded(self, row: EventRow) -> tuple[Lens, bytes, Recorded]:
        store = self.tree.store
        before = Recorded(row.tool, row.parent, store.contents.aliased)
        return store.viewer.lens(store.turns.get(row.turn)), store.contents.payload(row.turn), before

    def edit(self, base: Base, payload: bytes, written_ms: int = 0) -> None:
        """Make one version in which an event has another payload, written at a time (0: now)."""
        self._row(base)
        # a program that removes a file and makes it again has saved it
        self.change(base.view, {base.number: payload}, written_ms, amends=True)

    def prepared(self, base: Base, payload: bytes, result: str) -> Prepared:
        """Return the change of an event's payload; ``result`` is the state that the file saved is then in."""

        def commit(written_ms: int) -> str:
            self.edit(base, payload, written_ms)
            return result

        return Prepared(commit, result, lambda: self.drawn_from(base.view, [base.number]))

    def append(self, view_id: int, items: Sequence[Append], *, expected_head: int | None = None) -> int:
        """Append records at the head, as one version; return the number of the last."""
        self._editor.append(self.context(view_id), items, expected_head=expected_head)
        self.tree.renew(view_id)
        return self.tree.view(view_id).records

    def change(
        self, view_id: int, changed: Mapping[int, Replacement], written_ms: int = 0, *, amends: bool = False
    ) -> None:
        """Make one version in which records have other payloads, or are gone, written at a time (0: now)."""
        tree = self.tree
        view = tree.view(view_id)
        every = with_echoes(tree.store, view.row, view.records, changed)
        self._editor.edit(
            self.context(view_id),
            every,
            action=named(changed),
            expected_head=view.head,
            amends=amends,
            written_ms=written_ms,
        )
        tree.renew(view_id)

    def rewrite(self, view_id: int, items: Sequence[Item]) -> None:
        """Make one version in which a conversation consists of ``items``."""
        tree = self.tree
        self._editor.rewrite(self.context(view_id), items, expected_head=tree.view(view_id).head)
        # their numbers now belong to others
        tree.overlay(view_id).aliases.clear()
        tree.renew(view_id)

    def behind(self, view_id: int, head: int) -> range:
        """Return the numbers of the records appended since a conversation ended in turn ``head``, or raise Conflict."""
        self.settle(view_id)
        store = self.tree.store
        view = self.tree.view(view_id)
        runs = store.records.runs(head) if head else ()
        length = branch.length(runs)
        if tuple(branch.part(store.records.runs(view.head), 0, length)) != runs:
            raise Conflict(f"the conversation {CHANGED}")
        return range(length + 1, view.records + 1)

    def drawn(self, view_id: int, number: int) -> DrawnEvent:
        """Return the file of an event as it is drawn now."""
        return self._drawn(self.tree.view(view_id).row(number))

    def _drawn(self, row: EventRow) -> DrawnEvent:
        event = self.tree.store.records.event(row)
        return DrawnEvent(row.turn, event, render_event(row.number, event))

    def drawn_from(self, view_id: int, numbers: Collection[int]) -> list[int]:
        """Return the computed inode numbers of the files that show some records: events, and what they hold."""
        events, resources = inodes.base(Space.EVENT, view_id), inodes.base(Space.RESOURCE, view_id)
        held = self.tree.view(view_id).held
        return [
            *(events + number for number in numbers),
            *(resources + at for at, row in enumerate(held, 1) if row.number in numbers),
        ]

    def context(self, view_id: int) -> int:
        """Return the context of a view."""
        return view_id if view_id < FIRST_HANDED_OUT_VIEW else self.tree.view(view_id).conversation.id

    def _row(self, base: Base) -> EventRow:
        """Return the row of an event. Raises Conflict if the event is no longer the one in ``base``."""
        self.settle(base.view)
        row = self.tree.view(base.view).row(base.number)
        digest = self.tree.store.turns.get(row.turn).payload_hash
        shown = row.kind is not Kind.RECORD or row.deleted
        if not shown or row.deleted != base.deleted or digest != base.payload_hash:
            raise Conflict(f"event {base.number} {CHANGED}")
        return row

    def settle(self, view_id: int) -> None:
        """Make a view show the committed state, regardless of who committed it."""
        if self.tree.store.writer.head(self.context(view_id)).tip != self.tree.view(view_id).head:
            self.tree.renew(view_id)


def record_like(store: Store, turn: Turn, payload: bytes) -> Append:
    """Return a record to append, of the type and in the encoding of a turn's."""
    return Append(payload, store.contents.type_name(turn.type_tag), turn.encoding, turn.type_version)

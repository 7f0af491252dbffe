"""Commits of written files: texts parsed into records, compared, and committed as one version."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, structs

from fusefs import inodes
from fusefs.editing.bursts import Bursts
from fusefs.editing.programs import REMEMBERED_MICROSECONDS, Program
from fusefs.editing.readers import Readers
from fusefs.editing.rewrites import Rewrite
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, Space
from fusefs.text.changes import changes
from fusefs.text.grammar import timestamp
from fusefs.text.render import render_event
from fusefs.tree.tree import Tree
from fusefs.tree.waiting import Work
from store.commit.request import ContextHead
from store.conversations import branch
from store.conversations.chain import Recorded
from store.conversations.contexts import Append
from store.disk.turn_format import Turn
from store.editing.commit import Item
from store.editing.editor import Editor, with_echoes
from store.editing.partners import with_partners
from store.errors import Conflict, ConvfsError, UsageError
from store.events.conversation import Conversation, EventRow
from store.events.event import Event, EventEdit, Kind, Replacement, named
from store.formats.core.composing import NO_PARTICULARS, Particulars
from store.formats.core.editing import Lens
from store.formats.core.format import Format
from store.formats.core.lens import Nothing
from store.formats.core.unknown import TextLens, type_named
from store.formats.registry import FORMATS, lens_for
from store.index.catalogue import ContextEntry
from store.index.views import Run
from store.store import Store

T = TypeVar("T")

_LOOKED_BACK = 64
"""Records that are looked at for the one that a new one follows."""

_ATTEMPTS = 8

CHANGED = "was changed in the meantime: compare, and save again"


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
    the computed inode numbers of other files that will have other content, but those that show all records. ``adds``:
    there will be more records, or another title: what may be there already, and would be so twice.
    """

    commit: Callable[[int], str]
    result: str = ""
    touches: Callable[[], Sequence[int]] = tuple
    adds: bool = False


class Pondered(Struct, frozen=True):
    """The work on ``data``, saved to a file that was in ``state``."""

    state: str
    data: bytes
    work: Work[Rewrite | None]


class Drawing(Struct, frozen=True):
    """The work on drawing a file that is in ``state``."""

    state: str
    work: Work[bytes]


class EventCommits:
    """Commits written texts."""

    def __init__(self, tree: Tree, bursts: Bursts) -> None:
        self.tree = tree
        self.bursts = bursts
        self.pondered: dict[int, Pondered] = {}
        """The work on saves of files that show many records, by their own inode numbers, until they are prepared."""
        self.drawings: dict[int, Drawing] = {}
        """The same for drawing them, until they are changed."""
        self.readers = Readers()
        self._reader: Program | None = None
        """The program of the thread that may open such files without asking."""
        self._editor = Editor(tree.store)

    def opened(self, own: int, thread: int) -> int | None:
        """Record that a thread opens a file that shows all records, by its own number; return how many it shows.

        None: it is no conversation at its head.
        """
        self.overtake(thread)
        context = self.tree.context_at_head(inodes.split(own)[1])
        if not context:
            return None
        head = self.tree.store.writer.head(context)
        records = head.depth + 1 if head.turn else 0
        self.readers.show(own, self._reader, records)
        return records

    def overtake(self, thread: int = 0) -> None:
        """Record which files have been opened without asking, and who may open more of them so."""
        if thread:
            reader = self.bursts.program()
            opened = self.tree.opens.reading(thread if reader else 0, REMEMBERED_MICROSECONDS)
        else:
            reader, opened = None, self.tree.opens.reading(0, 0)
        for own, records in opened:
            self.readers.show(own, self._reader, records)
        self._reader = reader

    def seen(self, own: int, program: Program | None) -> int | None:
        """Return how many records a program was shown last in a file with an own number; None if none ever."""
        self.overtake()
        return self.readers.seen(own, program)

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
        edited = edited_payload(self.tree.store, row, edit)
        if edited is not None:
            if any(field.key == "timestamp" for field in edit.fields):
                lens, _payload, before = _recorded(self.tree.store, row)
                view = self.tree.view(base.view)
                time_ms = lens.view(edited, before).time_ms
                if wrong := out_of_order(time_ms, base.number, view.records, lambda at: view.row(at).time_ms):
                    raise UsageError(f"'timestamp' is out of order: {wrong}")
            self.with_partners(base.view, {base.number: edited})
        return edited

    def with_partners(self, view_id: int, changed: Mapping[int, Replacement]) -> dict[int, Replacement]:
        """Return changes of records with those of their calls' counterparts. Raises UsageError for ids of others."""
        view = self.tree.view(view_id)
        return with_partners(self.tree.store, view.row, view.records, changed)

    def edited_resource(self, base: Base, seq: int, data: bytes) -> bytes | None:
        """Return the payload in which resource ``seq`` is ``data``, None where that is the same."""
        lens, payload, before = _recorded(self.tree.store, self._row(base))
        edited = lens.edit_resource(payload, seq, data, before)
        return None if edited == payload else edited

    def edit(self, base: Base, payload: bytes, written_ms: int = 0) -> None:
        """Make one version in which an event has another payload, written at a time (0: now)."""

        def change() -> None:
            self._row(base)
            # a program that removes a file and makes it again has saved it
            self.change(base.view, {base.number: payload}, written_ms, amends=True)

        self.anew(base.view, change)

    def anew(self, view_id: int, deed: Callable[[], T]) -> T:
        """Return what ``deed`` returns. It is done anew where another machine has moved the conversation on meanwhile.

        Raises what it raises, Conflict too, if that is not why, or if this happens too often.
        """
        for _attempt in range(_ATTEMPTS):
            self.settle(view_id)
            head = self.tree.view(view_id).head
            try:
                return deed()
            except Conflict:
                self.settle(view_id)
                if self.tree.view(view_id).head == head:
                    raise
        raise Conflict("the conversation grows too fast to be changed: save again")

    def prepared(self, base: Base, payload: bytes, result: str) -> Prepared:
        """Return the change of an event's payload; ``result`` is the state that the file saved is then in."""

        def commit(written_ms: int) -> str:
            self.edit(base, payload, written_ms)
            return result

        return Prepared(commit, result, lambda: self.drawn_from(base.view, [base.number]))

    def append(self, view_id: int, items: Sequence[Append], *, expected_head: int | None = None) -> int:
        """Append records at the head, as one version; return the number of the last."""
        context = self.context(view_id)
        head = self._editor.append(context, items, expected_head=expected_head, again=self.bursts.tip(context))
        self._committed(view_id, head)
        return self.tree.view(view_id).records

    def change(
        self, view_id: int, changed: Mapping[int, Replacement], written_ms: int = 0, *, amends: bool = False
    ) -> None:
        """Make one version in which records have other payloads, or are gone, written at a time (0: now)."""
        tree = self.tree
        view = tree.view(view_id)
        context = self.context(view_id)
        every = self.with_partners(view_id, with_echoes(tree.store, view.row, view.records, changed))
        head = self._editor.edit(
            context,
            every,
            action=named(changed),
            expected_head=view.head,
            amends=amends,
            again=self.bursts.tip(context),
            written_ms=written_ms,
        )
        self._committed(view_id, head)

    def rewrite(self, view_id: int, items: Sequence[Item]) -> None:
        """Make one version in which a conversation consists of ``items``."""
        tree = self.tree
        context, again = self.context(view_id), self.bursts.tip(self.context(view_id))
        head = self._editor.rewrite(context, items, expected_head=tree.view(view_id).head, again=again)
        # their numbers now belong to others
        tree.overlay(view_id).aliases.clear()
        self._committed(view_id, head)

    def _committed(self, view_id: int, head: ContextHead) -> None:
        self.bursts.saved(head.context, head.tip)
        self.tree.renew(view_id)

    def behind(self, view_id: int, head: int, worked_out: Rewrite | None = None) -> range:
        """Return the numbers of the records appended since a conversation ended in turn ``head``, or raise Conflict.

        With changes that were ``worked_out`` then, only what they are about must still be as it was.
        """
        self.settle(view_id)
        store = self.tree.store
        view = self.tree.view(view_id)
        old = store.records.runs(head) if head else ()
        new = store.records.runs(view.head) if view.head else ()
        length = branch.length(old)
        if tuple(branch.part(new, 0, length)) != old and (what := self._in_the_way(old, new, worked_out)):
            raise Conflict(f"{what} {CHANGED}")
        return range(length + 1, view.records + 1)

    def _in_the_way(self, old: tuple[Run, ...], new: tuple[Run, ...], worked_out: Rewrite | None) -> str:
        """Return what has changed in a branch that changes ``worked_out`` of it are about, "" if nothing has."""
        length = branch.length(old)
        if worked_out is None or branch.length(new) < length:
            return "the conversation"
        turns = self.tree.store.turns
        number, gone, there = 1, dict[int, bytes](), set[bytes]()
        for first, other, count in branch.pairs(old, new, 0, length):
            for at in range(count) if first != other else ():
                was, now = turns.get(first + at), turns.get(other + at)
                if (was.payload_hash, was.deleted) != (now.payload_hash, now.deleted):
                    gone[number + at] = was.payload_hash
                    if not now.deleted:
                        there.add(now.payload_hash)
            number += count
        if touched := gone.keys() & worked_out.changes.keys():
            return f"event {min(touched)}"
        if worked_out.items is not None and gone:
            for first, count in branch.part(new, length, branch.length(new) - length):
                there.update(turns.get(turn).payload_hash for turn in range(first, first + count))
            if not there.isdisjoint(gone.values()):
                return "the order of the events"
        return ""

    def drawn(self, view_id: int, number: int) -> DrawnEvent:
        """Return the file of an event as it is drawn now."""
        return self._drawn(self.tree.view(view_id).row(number))

    def _drawn(self, row: EventRow) -> DrawnEvent:
        event = self.tree.store.records.event(row)
        return DrawnEvent(row.turn, event, render_event(row.number, event))

    def drawn_from(self, view_id: int, numbers: Collection[int]) -> list[int]:
        """Return the computed inode numbers of the files that show some records: events, and what they hold."""
        events, resources = inodes.base(Space.EVENT, view_id), inodes.base(Space.RESOURCE, view_id)
        held = self.tree.view(view_id).held_by(numbers)
        return [*(events + number for number in numbers), *(resources + at for at in held)]

    def context(self, view_id: int) -> int:
        """Return the context of a view."""
        return view_id if view_id < FIRST_HANDED_OUT_VIEW else self.tree.view(view_id).entry.id

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


def out_of_order(time_ms: int, place: int, places: int, time_at: Callable[[int], int]) -> str:
    """Return why a time cannot stand at one of so many places, "" if it can.

    It must not be before that of the record before, or after that of the one behind. ``time_at`` returns the time at
    another place, 0 where there is none.
    """
    before = next((time for at in range(place - 1, 0, -1) if (time := time_at(at))), 0)
    after = next((time for at in range(place + 1, places + 1) if (time := time_at(at))), 0)
    least, most = (after, before) if 0 < after < before else (before, after)
    if not (least and time_ms < least) and not (most and time_ms > most):
        return ""
    between = " and ".join(timestamp(time) for time in (least, most) if time)
    told = f"between {between}" if least and most else f"from {between} on" if least else f"up to {between}"
    return f"the records around it ask for a time {told}"


def edited_payload(store: Store, row: EventRow, edit: EventEdit) -> bytes | None:
    """Return a record's payload as an edit makes it, None if that changes nothing; a deleted one comes back."""
    if edit == EventEdit() and not row.deleted:
        return None
    lens, payload, before = _recorded(store, row)
    edited = lens.edit(payload, edit, before)
    return None if edited == payload and not row.deleted else edited


def _recorded(store: Store, row: EventRow) -> tuple[Lens, bytes, Recorded]:
    before = Recorded(row.tool, row.parent, store.contents.aliased)
    return store.viewer.lens(store.turns.get(row.turn)), store.contents.payload(row.turn), before


def predecessor(store: Store, format: str, rows: Sequence[EventRow]) -> tuple[EventRow | None, Lens]:
    """Return the record that a new one behind ``rows`` follows, and its lens; in an empty one, its format's."""
    previous = _previous(store, rows[-_LOOKED_BACK:])
    if previous is not None:
        return previous, store.viewer.lens(store.turns.get(previous.turn))
    return None, lens_for(_format_of(format).main_type)


def _format_of(name: str) -> Format:
    return next((one for one in FORMATS if one.name == name), FORMATS[0])


def composed(
    store: Store,
    conversation: Conversation | ContextEntry,
    rows: Sequence[EventRow],
    kind: Kind,
    text: str,
    time_ms: int,
    more: Particulars = NO_PARTICULARS,
    after: Append | None = None,
) -> Append:
    """Return a record that says ``text`` behind ``rows``, at a time in milliseconds; raises UsageError.

    ``after`` is a new one that it follows there.
    """
    previous, lens = predecessor(store, conversation.format, rows)
    if previous is not None:
        last = next((row for row in reversed(rows) if not row.deleted), previous)
        first, like, last_one = (store.contents.payload(row.turn) for row in (rows[0], previous, last))
        session = conversation.metadata.get("session")
        more = structs.replace(more, first=first, last=last_one, session=session if isinstance(session, str) else "")
        after = after or record_like(store, store.turns.get(previous.turn), like)
    if after is None:
        return Append(lens.compose(kind, text, None, time_ms, more), lens.type_name)
    record = _composed_after(after, kind, text, time_ms, more)
    if lens_for(record.type_name, record.encoding).view(record.payload, Nothing()).kind is not Kind.RECORD:
        return record
    # it follows one of a type for what nobody says
    after = structs.replace(after, type_name=_format_of(conversation.format).main_type)
    return _composed_after(after, kind, text, time_ms, more)


def _composed_after(previous: Append, kind: Kind, text: str, time_ms: int, more: Particulars) -> Append:
    lens = lens_for(previous.type_name, previous.encoding)
    if isinstance(lens, TextLens):
        return Append(TextLens(kind).compose(kind, text, None, time_ms), type_named(kind), previous.encoding)
    return structs.replace(previous, payload=lens.compose(kind, text, previous.payload, time_ms, more))


def _previous(store: Store, rows: Sequence[EventRow]) -> EventRow | None:
    """Return the record that a new one follows: the last that others may refer to, else the last that is shown."""
    shown: EventRow | None = None
    for row in reversed(rows):
        if row.deleted:
            continue
        try:
            event = store.records.event(row)
        except ConvfsError:
            continue
        if event.defines:
            return row
        if shown is None and row.kind is not Kind.RECORD:
            shown = row
    return shown or (rows[-1] if rows else None)


def record_like(store: Store, turn: Turn, payload: bytes) -> Append:
    """Return a record to append, of the type and in the encoding of a turn's."""
    return Append(payload, store.contents.type_name(turn.type_tag), turn.encoding, turn.type_version)

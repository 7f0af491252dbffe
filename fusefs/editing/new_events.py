"""New events: a file made in ``events/`` under a name such as ``user.md`` or ``00120-user.md`` is appended at the head.

Until it is closed it is a scratch file like any other. The kernel knows the event under the same inode, and the typed
name stays beside its own until the mount ends, or until somebody else writes another event under it. If the disk is
full, the file waits until there is room.
"""

import logging
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from msgspec import Struct, structs

from fusefs.editing.drafts import NEW, Draft, remove_quietly
from fusefs.editing.inode import LARGEST, ScratchRole, State
from fusefs.editing.programs import Program
from fusefs.editing.records import composed, predecessor, record_like
from fusefs.editing.saves import NS_IN_MS, Saves, saved_as
from fusefs.editing.scratch import ScratchFile
from fusefs.editing.targets import EventTarget
from fusefs.editing.typed_names import TypedNames
from fusefs.inodes import Place
from fusefs.text.event_names import shown_tool
from fusefs.text.new_event import Asked, new_event, said_in
from fusefs.tree.changes import Stale
from fusefs.tree.view import View
from store.conversations.contexts import Append
from store.errors import ConvfsError, StoreFailed, UsageError
from store.events.conversation import EventRow
from store.events.event import Kind
from store.exporting.steps import Step, steps_of
from store.formats.core.composing import Particulars
from store.ids import hash_bytes, now_ms

log = logging.getLogger(__name__)

_ASKED_BACK = 1024
"""Records that are looked at for the call or the question that a new one answers."""
_ASKS = {Kind.TOOL_RESULT: Kind.TOOL_CALL, Kind.ANSWER: Kind.QUESTION}


class Composed(Struct, frozen=True):
    """The record that ``data`` becomes behind turn ``head``; ``number``: that of the record whose place it takes."""

    data: bytes
    head: int
    record: Append
    time_ms: int
    number: int = 0


class NewEvent:
    """A scratch file that becomes an event when it is closed."""

    __slots__ = ("asked", "composed", "draft", "maker", "name", "note", "source", "view_id")

    state: ClassVar[State] = State.NEW_EVENT

    def __init__(self, view_id: int, name: str, asked: Asked) -> None:
        self.view_id = view_id
        self.name = name
        self.asked = asked
        self.maker: Program | None = None
        """The program that gave it its name."""
        self.draft: Path | None = None
        self.composed: Composed | None = None
        """The event that it becomes, worked out when it was closed."""
        self.source: ScratchFile | None = None
        """The file, if it was closed but could not be appended."""
        self.note = ""
        """The note of that."""

    @property
    def path(self) -> str:
        """Its path in the conversation, for messages."""
        return f"events/{self.name}"


class NewEvents:
    """Makes events of new files."""

    def __init__(self, saves: Saves, typed_names: TypedNames) -> None:
        self._names = typed_names
        self.inodes = saves.inodes
        self.records = saves.records
        self.drafts = saves.drafts
        self.tree = saves.tree
        self._saves = saves
        self._waiting: dict[int, _Closed] = {}
        """The files that wait to be appended, by inode number."""

    def path(self, candidate: NewEvent) -> Path:
        """Return the path of a file on the disk."""
        return self.inodes.scratch.events_of(self.records.context(candidate.view_id)) / candidate.name

    def stays(self, candidate: NewEvent, error: Exception) -> None:
        """Note why a file stays as it is."""
        self.drafts.note(candidate.view_id, candidate.path, f"{error}; the text is kept as it is")

    def consider(self, ino: int, view_id: int, name: str) -> NewEvent | None:
        """Return the event that a scratch file with a name in ``events/`` may become."""
        asked = new_event(name)
        if asked is None:
            self.inodes.be_candidate(ino, None)
            return None
        known = self.inodes.candidate(ino, NewEvent)
        if known is None and ino in self._waiting:
            # the kernel had forgotten the file, and its draft must not be left behind
            known = self._waiting[ino].candidate
        if known is None or (known.view_id, known.name) != (view_id, name):
            known = NewEvent(view_id, name, asked)
        self.inodes.be_candidate(ino, known)
        return known

    def check(self, candidate: NewEvent, data: bytes, file: int | Path) -> None:
        """Make the contents of ``file``, a descriptor or path, durable as a draft; UsageError if it can be no event."""
        self.tree.store.writer.check_writable()
        self._keep(candidate, self._composed(candidate, data, file))

    def _keep(self, candidate: NewEvent, composed: Composed) -> None:
        context = self.records.context(candidate.view_id)
        # the record that it becomes shows on recovery whether it has been appended
        draft = Draft(context, NEW, candidate.name, "", hash_bytes(composed.record.payload).hex(), True, "")
        candidate.draft = self.drafts.keep(draft, composed.data, candidate.draft)
        candidate.composed = composed

    def commit(self, candidate: NewEvent, data: bytes, file: int | Path) -> tuple[int, int]:
        """Append the contents of ``file``; return the event's number, and its time in milliseconds. Its draft stays."""
        composed = candidate.composed
        if composed is None or composed.data != data or composed.head != self._head(candidate.view_id):
            composed = self._composed(candidate, data, file)
            if candidate.draft is not None:
                self._keep(candidate, composed)
        if composed.number:
            self.records.change(candidate.view_id, {composed.number: composed.record.payload}, composed.time_ms)
            return composed.number, composed.time_ms
        return self.records.append(candidate.view_id, [composed.record]), composed.time_ms

    def append(self, source: ScratchFile, path: Path, candidate: NewEvent, data: bytes) -> None:
        """Append the content of a scratch file as an event, which is then known under the file's inode."""
        tree, saves, view_id = self.tree, self._saves, candidate.view_id
        saves.settle_waiting(view_id)
        number, time_ms = self.commit(candidate, data, path)
        self.drafts.withdraw(candidate.note)
        self._names.made(view_id, candidate.name, candidate.maker, number)
        if candidate.composed is not None and candidate.composed.number:
            self._joined(source, path, candidate)
            return
        if not remove_quietly(path):
            # the next start tries again, if there is a draft
            self.inodes.scratch.renumber(source)
        elif candidate.draft is not None:
            remove_quietly(candidate.draft)
        self.inodes.be_candidate(source.ino, None)
        self.waits_no_more(source.ino)
        if tree.bound(source.ino) is not source:
            # the kernel has forgotten it meanwhile
            saves.unsettle(view_id)
            return
        target = EventTarget(self.records, view_id, number)
        self.inodes.become(source.ino, target)
        saved = saved_as(target, data, target.state(), time_ms * NS_IN_MS)
        saves.show_saved(source.ino, target, saved)
        self.inodes.kernel.invalidate(Stale(source.ino))
        saves.unsettle(view_id)

    def _joined(self, source: ScratchFile, path: Path, candidate: NewEvent) -> None:
        """Take a file away whose text has become a part of another event; its name leads there."""
        tree, view_id = self.tree, candidate.view_id
        events = tree.place(view_id, Place.EVENTS)
        with source.losing(self.inodes.scratch.place_of(os.fsencode(path), events)):
            removed = remove_quietly(path)
        if removed and candidate.draft is not None:
            remove_quietly(candidate.draft)
        self.inodes.be_candidate(source.ino, None)
        self.waits_no_more(source.ino)
        self.inodes.kernel.invalidate(Stale(events, candidate.name.encode()))
        assert candidate.composed is not None
        self._saves.unsettle(view_id, self.records.drawn_from(view_id, [candidate.composed.number]))

    def wait(self, source: ScratchFile, candidate: NewEvent, error: StoreFailed | OSError) -> None:
        """Append a file later, which has a draft. ``error`` is why it cannot be now."""
        candidate.source = source
        if not candidate.note:
            candidate.note = self.drafts.postponed(candidate.view_id, candidate.path, error)
        self.waits_no_more(source.ino)
        self._waiting[source.ino] = closed = _Closed(self, source.ino, candidate, error)
        self._saves.waiting.append(closed)

    def waits_no_more(self, ino: int) -> None:
        """Take a file out of those that wait to be appended."""
        if (closed := self._waiting.pop(ino, None)) is not None:
            self._saves.waiting.remove(closed)

    def take_up(self, candidate: NewEvent, data: bytes, error: StoreFailed | OSError) -> None:
        """Go on with a file that an earlier mount has left with its draft; see :meth:`wait`."""
        path = self.path(candidate)
        with suppress(FileExistsError):
            self.drafts.put_new(path, data)
        source = self.inodes.scratch.node_at(os.fsencode(path), self.tree.place(candidate.view_id, Place.EVENTS))
        if isinstance(source, ScratchFile) and candidate.composed is not None and path.read_bytes() == data:
            self.wait(source, candidate, error)

    def settle(self, ino: int, candidate: NewEvent) -> None:
        """Append a file that waits. Raises StoreFailed and OSError where it goes on to wait."""
        path, source, composed = self.path(candidate), candidate.source, candidate.composed
        assert source is not None
        assert composed is not None
        try:
            is_there = os.lstat(path).st_ino == source.on_disk
        except (FileNotFoundError, NotADirectoryError):
            is_there = False
        if candidate.draft is not None and is_there and path.read_bytes() == composed.data:
            try:
                self.append(source, path, candidate, composed.data)
            except (StoreFailed, OSError):
                raise
            except ConvfsError as error:
                self.stays(candidate, error)
        elif candidate.draft is not None and not is_there:
            # somebody has removed it, or given it another name
            remove_quietly(candidate.draft)
        # what differs from the text reported as saved gets that beside it with the next start
        self.waits_no_more(ino)

    def is_there(self, view_id: int, result: str) -> bool:
        """Return whether a conversation has a record with a payload of this hash."""
        tree = self.tree
        self.records.settle(view_id)
        rows = tree.view(view_id).rows
        return any(tree.store.turns.get(row.turn).payload_hash.hex() == result for row in reversed(rows))

    def _head(self, view_id: int) -> int:
        return self.tree.store.writer.head(self.records.context(view_id)).tip

    def _composed(self, candidate: NewEvent, data: bytes, file: int | Path) -> Composed:
        """Return the record that a file becomes. It has the time of the file, unless that is before what came last."""
        said = said_in(candidate.asked, candidate.name, data)
        # before the view: of a head that moves in between, commit learns
        head = self._head(candidate.view_id)
        self.records.settle(candidate.view_id)
        view = self.tree.view(candidate.view_id)
        time_ms = os.stat(file).st_mtime_ns // NS_IN_MS
        if any(time_ms < row.time_ms for row in view.rows[-1:]):
            time_ms = now_ms()
        kind, more, asked = candidate.asked.kind, said.more, None
        predecessor(self.tree.store, view.entry.format, view.rows)[1].check_new(kind, said.text)
        if kind in _ASKS:
            asked, more = self._answering(view, candidate.asked, more)
        elif more.id:
            self._check_unused(view, more.id)
        if asked is not None:
            turn = self.tree.store.turns.get(asked.turn)
            payload = self.tree.store.contents.payload(asked.turn)
            answered = self.tree.store.viewer.lens(turn).answered(payload, said.text, time_ms, more)
            if answered is not None:
                return Composed(data, head, record_like(self.tree.store, turn, answered), time_ms, asked.number)
        record = composed(self.tree.store, view.entry, view.rows, kind, said.text, time_ms, more)
        return Composed(data, head, record, time_ms)

    def _answering(self, view: View, asked: Asked, more: Particulars) -> tuple[EventRow, Particulars]:
        """Return the call or question that a new event answers, and its particulars with those of that."""
        what = _ASKS[asked.kind]
        waiting: list[tuple[EventRow, Step]] = []
        answered: Counter[str] = Counter()
        for row in reversed(view.rows[-_ASKED_BACK:]):
            if row.deleted or row.kind is Kind.RECORD:
                continue
            if waiting and not more.id and row.kind not in (what, asked.kind):
                # calls that were made at once stand together
                break
            for step in reversed(self._steps(row)):
                key = step.id or step.tool
                if step.kind is asked.kind:
                    answered[key] += 1
                elif step.kind is what and answered[key]:
                    answered[key] -= 1
                    if more.id and key == more.id:
                        has = f"{more.id} has its {asked.kind.word}"
                        raise UsageError(f"{has}: edit that, or write another {what.word}")
                elif step.kind is what and more.id in ("", step.id) and asked.tool in ("", shown_tool(step.tool)):
                    waiting.insert(0, (row, step))
        named = f" {more.id}" if more.id else f" of {asked.tool}" if asked.tool else ""
        if not waiting:
            waits = f"no {what.word}{named} waits for {_article(asked.kind)}"
            raise UsageError(f"{waits}: write {_article(what)} first")
        if len(waiting) > 1:
            ids = " or ".join(step.id or f"event {row.number}" for row, step in waiting)
            raise UsageError(f"{len(waiting)} of them wait: say in the head which one is answered, by id: {ids}")
        [(row, step)] = waiting
        tool = step.tool if asked.kind is Kind.TOOL_RESULT else ""
        payload = self.tree.store.contents.payload(row.turn)
        return row, structs.replace(more, id=step.id, tool=tool, asked=payload)

    def _check_unused(self, view: View, identifier: str) -> None:
        for row in reversed(view.rows[-_ASKED_BACK:]):
            if row.kind in _ASKS.values() and any(step.id == identifier for step in self._steps(row)):
                told = f"the id {identifier} is that of event {row.number}"
                raise UsageError(f"{told}: leave it out of the head, and a new one is made")

    def _steps(self, row: EventRow) -> list[Step]:
        try:
            return list(steps_of(row.number, self.tree.store.records.event(row)))
        except ConvfsError:
            return []

    def role(self, ino: int, fd: int) -> ScratchRole:
        """Return the role of a scratch file that is open for writing."""
        candidate = self.inodes.candidate(ino, NewEvent)
        return ScratchRole(fd) if candidate is None else NewEventRole(self, ino, fd, candidate)


class _Closed:
    """A file that waits to be appended, among the closed texts."""

    def __init__(
        self, new_events: NewEvents, ino: int, candidate: NewEvent, postponed: StoreFailed | OSError
    ) -> None:
        self.candidate = candidate
        self.postponed: StoreFailed | OSError | None = postponed
        self._new_events = new_events
        self._ino = ino

    @property
    def view_id(self) -> int:
        return self.candidate.view_id

    def settle(self) -> None:
        self.postponed = None
        if self._new_events.inodes.is_open(self._ino):
            # the program will close it
            return
        try:
            self._new_events.settle(self._ino, self.candidate)
        except (StoreFailed, OSError) as error:
            self.postponed = error


def _article(kind: Kind) -> str:
    return f"{'an' if kind is Kind.ANSWER else 'a'} {kind.word}"


class NewEventRole(ScratchRole):
    """A scratch file that is open for writing, and becomes an event when it is closed."""

    __slots__ = ("_candidate", "_failure", "_ino", "_new_events", "_program", "_waits")

    def __init__(self, new_events: NewEvents, ino: int, fd: int, candidate: NewEvent) -> None:
        super().__init__(fd)
        self._new_events = new_events
        self._ino = ino
        self._candidate = candidate
        self._program = new_events.records.bursts.program()
        self._waits = True
        self._failure: StoreFailed | OSError | None = None
        """The error reported to the writing program: it may have given up half-way."""

    def write(self, offset: int, data: bytes) -> int:
        self._waits = True
        try:
            written = super().write(offset, data)
            # as precise as the time of a record, so that the file shows the same one as an event
            os.utime(self.fd, ns=(now_ms() * NS_IN_MS,) * 2)
        except OSError as error:
            self._failure = error
            raise
        return written

    def truncate(self, size: int) -> None:
        self._waits = True
        super().truncate(size)
        if size == 0:
            self._failure = None

    def flush(self) -> None:
        """Check that the text written can become an event, and make it durable."""
        if self._failure is not None:
            raise self._failure
        data = self._content()
        if self._waits and data:
            try:
                self._new_events.check(self._candidate, data, self.fd)
            except (StoreFailed, OSError) as error:
                self._failure = error
                raise
            self._waits = False

    def release(self) -> None:
        """Close the file and append it, if it can be; else it stays as it is."""
        new_events, candidate, ino = self._new_events, self._candidate, self._ino
        try:
            if self._failure is not None:
                raise self._failure
            data = self._content()
        except (ConvfsError, OSError) as error:
            new_events.stays(candidate, error)
            data = b""
        super().release()
        node = new_events.tree.bound(ino)
        if new_events.inodes.candidate(ino, NewEvent) is not candidate or not isinstance(node, ScratchFile):
            return
        if not data or new_events.inodes.is_open(ino):
            return
        path = new_events.path(candidate)
        # it is closed anew
        new_events.waits_no_more(ino)
        try:
            if self._waits:
                new_events.check(candidate, data, path)
            with new_events.records.bursts.by(self._program):
                new_events.append(node, path, candidate, data)
        except (ConvfsError, OSError) as error:
            composed = candidate.composed
            if isinstance(error, StoreFailed | OSError) and composed is not None and composed.data == data:
                # it was said to be saved, and is in a draft
                new_events.wait(node, candidate, error)
                return
            new_events.stays(candidate, error)
            if isinstance(error, UsageError) and candidate.draft is not None:
                remove_quietly(candidate.draft)
                candidate.draft = None

    def _content(self) -> bytes:
        size = os.fstat(self.fd).st_size
        if size > LARGEST:
            raise UsageError(f"{size} bytes are too large for an event: {LARGEST} at most")
        return os.pread(self.fd, size, 0)

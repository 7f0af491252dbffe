"""New events: a file made in ``events/`` under a name such as ``user.md`` or ``00120-user.md`` is appended at the head.

Until it is closed it is a scratch file like any other. Then it becomes an event: the kernel goes on to know it under
its inode, and the name that it was made with stays beside its own until the mount ends.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fusefs.editing.buffer import LARGEST
from fusefs.editing.drafts import NEW, Draft, remove_quietly
from fusefs.editing.event_target import EventTarget
from fusefs.editing.handle import ScratchHandle
from fusefs.editing.records import payload_hash, record_like
from fusefs.editing.scratch import ScratchFile
from fusefs.editing.written import saved_as
from fusefs.text.names import kind_word
from fusefs.text.parse import parse_event
from store.errors import ConvfsError, StoreFailed, UsageError
from store.events.event import Kind
from store.formats.plain_text import TextLens, type_named
from store.formats.registry import FORMATS
from store.ids import now_ms
from store.store import Append

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusefs.editing.desk import Desk
    from store.events.conversation import EventRow

log = logging.getLogger(__name__)

_KINDS = {kind_word(kind): kind for kind in Kind if kind is not Kind.RECORD}
_NAME = re.compile(rf"(?:([0-9]{{5,18}})-)?({'|'.join(_KINDS)})\.md")
_LOOKED_BACK = 64
"""Records that are looked at for the one that a new one follows."""


def new_event(name: str) -> tuple[int, Kind] | None:
    """Return the number (0: none is given) and the kind that a name asks for; None for any other name."""
    found = _NAME.fullmatch(name)
    return (int(found[1] or 0), _KINDS[found[2]]) if found else None


class Composed(Struct, frozen=True):
    """The record that ``data`` becomes behind turn ``head``."""

    data: bytes
    head: int
    record: Append


class Candidate:
    """A scratch file that becomes an event when it is closed."""

    __slots__ = ("composed", "draft", "kind", "name", "view_id")

    def __init__(self, view_id: int, name: str, kind: Kind) -> None:
        self.view_id = view_id
        self.name = name
        self.kind = kind
        self.draft: Path | None = None
        self.composed: Composed | None = None
        """What it becomes, worked out when it was closed."""

    @property
    def path(self) -> str:
        """Its path in the conversation, for messages."""
        return f"events/{self.name}"


class Appending:
    """Makes events of new files."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._candidates: dict[int, Candidate] = {}

    def consider(self, ino: int, view_id: int, name: str) -> Candidate | None:
        """Take note that a scratch file has a name in ``events/``; return what it may become."""
        asked = new_event(name)
        if asked is None:
            self._candidates.pop(ino, None)
            return None
        known = self._candidates.get(ino)
        if known is None or (known.view_id, known.name) != (view_id, name):
            known = self._candidates[ino] = Candidate(view_id, name, asked[1])
        return known

    def candidate(self, ino: int) -> Candidate | None:
        """Return what a scratch file may become."""
        return self._candidates.get(ino)

    def forget(self, ino: int) -> None:
        """Let go of what is known of a scratch file."""
        self._candidates.pop(ino, None)

    def check(self, candidate: Candidate, data: bytes) -> None:
        """Make what was written durable as a draft. Raises UsageError for what cannot become an event.

        The draft says which record it becomes: whoever finds it later can tell whether it has been appended.
        """
        self._desk.tree.store.check()
        self._keep(candidate, self._composed(candidate, data))

    def _keep(self, candidate: Candidate, composed: Composed) -> None:
        context = self._desk.records.context(candidate.view_id)
        draft = Draft(context, NEW, candidate.name, "", payload_hash(composed.record.payload).hex(), True, "")
        candidate.draft = self._desk.drafts.keep(draft, composed.data, candidate.draft)
        candidate.composed = composed

    def commit(self, candidate: Candidate, data: bytes) -> int:
        """Append what was written; return the number of the event. Its draft stays."""
        composed = candidate.composed
        if composed is None or composed.data != data or composed.head != self._head(candidate.view_id):
            composed = self._composed(candidate, data)
            if candidate.draft is not None:
                self._keep(candidate, composed)
        return self._desk.records.append(candidate.view_id, [composed.record])

    def append(self, source: ScratchFile, path: bytes, candidate: Candidate, data: bytes) -> None:
        """Append the content of a scratch file as an event, which is then known under the file's inode."""
        desk, view_id = self._desk, candidate.view_id
        number = self.commit(candidate, data)
        desk.tree.overlay(view_id).aliases[candidate.name] = number
        if not remove_quietly(Path(os.fsdecode(path))):
            # the next start tries again, if there is a draft
            desk.scratch.renumber(source)
        elif candidate.draft is not None:
            desk.drafts.drop(candidate.draft)
        self.forget(source.ino)
        time_ns = source.status().st_mtime_ns
        target = EventTarget(desk.tree, desk.records, view_id, number)
        desk.identities.become(source.ino, target)
        saved = saved_as(target, data, time_ns, target.state())
        desk.show_saved(source.ino, target, saved)
        desk.unsettle(view_id)

    def is_there(self, view_id: int, result: str) -> bool:
        """Say whether a conversation has a record with a payload of this hash."""
        tree = self._desk.tree
        self._desk.records.settle(view_id)
        rows = tree.view(view_id).rows
        return any(tree.store.turn(row.turn).payload_hash.hex() == result for row in reversed(rows))

    def _head(self, view_id: int) -> int:
        return self._desk.tree.store.head(self._desk.records.context(view_id)).tip

    def _composed(self, candidate: Candidate, data: bytes) -> Composed:
        """Return the record that a file becomes."""
        parsed = parse_event(data)
        said = parsed.head.get("type")
        if said is not None and said.value != candidate.kind.name.lower():
            wanted = candidate.kind.name.lower()
            raise UsageError(f"line {said.line}: the file is called {candidate.name}: write type: {wanted}")
        if len(parsed.blocks) != 1 or parsed.blocks[0].type != "text" or parsed.blocks[0].text is None:
            raise UsageError("a new event is one text: write it without blocks")
        head = self._head(candidate.view_id)
        return Composed(data, head, self.composed(candidate.view_id, candidate.kind, parsed.blocks[0].text))

    def composed(self, view_id: int, kind: Kind, text: str) -> Append:
        """Return a record that says ``text`` at the end of a conversation."""
        store = self._desk.tree.store
        self._desk.records.settle(view_id)
        view = self._desk.tree.view(view_id)
        previous = self._previous(view.rows[-_LOOKED_BACK:])
        if previous is not None:
            turn = store.turn(previous.turn)
            lens = store.viewer.lens(turn)
            if isinstance(lens, TextLens):
                return Append(TextLens(kind).compose(kind, text, None, now_ms()), type_named(kind), turn.encoding)
            payload = lens.compose(kind, text, store.payload(previous.turn), now_ms())
            return record_like(store, turn, payload)
        format_ = next((one for one in FORMATS if one.name == view.conversation.format), FORMATS[0])
        refusal = UsageError(f"nothing can be written in the format {format_.name}")
        for lens in format_.lenses:
            try:
                return Append(lens.compose(kind, text, None, now_ms()), lens.type_name)
            except UsageError as error:
                refusal = error
        raise refusal

    def _previous(self, rows: Sequence[EventRow]) -> EventRow | None:
        """Return the record that a new one follows: the last that others may refer to, else the last that is shown."""
        shown: EventRow | None = None
        for row in reversed(rows):
            if row.deleted:
                continue
            try:
                event = self._desk.tree.store.event(row)
            except ConvfsError:
                continue
            if event.defines:
                return row
            if shown is None and row.kind is not Kind.RECORD:
                shown = row
        return shown or (rows[-1] if rows else None)

    def reopen(self, ino: int) -> bool:
        """Have the handles of a scratch file do what its new name asks for; say whether there are any."""
        handles = self._desk.handles
        found = [(fh, handle) for fh, handle in handles.items() if handle.ino == ino]
        for fh, handle in found:
            if isinstance(handle, ScratchHandle):
                handles[fh] = self.as_handle(ino, handle.fd)
        return bool(found)

    def as_handle(self, ino: int, fd: int) -> ScratchHandle:
        """Return a handle of a scratch file that is open for writing."""
        candidate = self.candidate(ino)
        return ScratchHandle(ino, fd) if candidate is None else NewEventHandle(self._desk, ino, fd, candidate)


class NewEventHandle(ScratchHandle):
    """A scratch file that is open for writing, and becomes an event when it is closed."""

    __slots__ = ("_candidate", "_desk", "_failure", "_waits")

    def __init__(self, desk: Desk, ino: int, fd: int, candidate: Candidate) -> None:
        super().__init__(ino, fd)
        self._desk = desk
        self._candidate = candidate
        self._waits = True
        self._failure: StoreFailed | OSError | None = None
        """What the program was told of that wrote: it may have given up half-way."""

    def write(self, offset: int, data: bytes) -> int:
        """Write all of ``data``."""
        self._waits = True
        try:
            return super().write(offset, data)
        except OSError as error:
            self._failure = error
            raise

    def truncate(self, size: int) -> None:
        """Make it ``size`` bytes long."""
        self._waits = True
        super().truncate(size)
        if size == 0:
            self._failure = None

    def flush(self) -> None:
        """Say whether what was written can become an event, and make it durable."""
        if self._failure is not None:
            raise self._failure
        data = self._content()
        if self._waits and data:
            try:
                self._desk.appending.check(self._candidate, data)
            except (StoreFailed, OSError) as error:
                self._failure = error
                raise
            self._waits = False

    def release(self) -> None:
        """Close the file and append it, if it can be; else it stays as it is."""
        try:
            if self._failure is not None:
                raise self._failure
            data = self._content()
        except (ConvfsError, OSError) as error:
            self._desk.note_path(self._candidate.view_id, self._candidate.path, f"{error}; the text is kept as it is")
            data = b""
        super().release()
        node = self._desk.tree.bound(self.ino)
        if self._desk.appending.candidate(self.ino) is not self._candidate or not isinstance(node, ScratchFile):
            return
        if not data:
            return
        if any(handle.ino == self.ino for handle in self._desk.handles.values()):
            return
        view_id, name = self._candidate.view_id, self._candidate.name
        path = self._desk.scratch.events_of(self._desk.records.context(view_id)) / name
        try:
            if self._waits:
                self._desk.appending.check(self._candidate, data)
            self._desk.appending.append(node, os.fsencode(path), self._candidate, data)
        except (ConvfsError, OSError) as error:
            self._desk.note_path(view_id, self._candidate.path, f"{error}; the text is kept as it is")
            if isinstance(error, UsageError) and self._candidate.draft is not None:
                self._desk.drafts.drop(self._candidate.draft)
                self._candidate.draft = None

    def _content(self) -> bytes:
        size = os.fstat(self.fd).st_size
        if size > LARGEST:
            raise UsageError(f"{size} bytes are too large for an event: {LARGEST} at most")
        return os.pread(self.fd, size, 0)

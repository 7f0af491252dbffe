"""Saving a file of a conversation: from a program's first write to the one version that it becomes.

Writes are gathered in a buffer, and shown at once. *flush*, which every close waits for, parses the text, reports its
errors, and makes it durable as a draft. The *release* of the handle, when no descriptor is left, commits it. Between
the two, mapped memory may still be written, and a shell may write on through another descriptor; so a flush never
commits.

Handles that are open at once share one text, as in any file; but one that was opened to write all of the file anew
begins a session of its own. Of two such programs the later one is told that it comes too late.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from pyfuse3 import FUSEError

from fusefs.editing.delays import Clock, Quiet
from fusefs.editing.drafts import Draft, Drafts, remove_quietly
from fusefs.editing.inode import Buffer, Inodes, OrphanFile, ScratchRole, State, check_size
from fusefs.editing.programs import Program
from fusefs.editing.records import EventCommits, Prepared
from fusefs.editing.scratch import ScratchFile
from fusefs.editing.targets import Target
from fusefs.tree.changes import CONTENT_PLACES, Stale
from fusefs.tree.node import LONG, Bytes, Node, OpenContent
from fusefs.tree.router import Router
from fusefs.tree.view_node import ViewNode
from store.errors import Conflict, ConvfsError, StoreFailed, Unreachable, UsageError

log = logging.getLogger(__name__)

NS_IN_MS = 1_000_000
FORGOTTEN_SAVES = 16
FORGOTTEN_SIZE = 1 << 20
"""The size in bytes up to which a save is kept for a file that the kernel has forgotten."""
QUIET_SECONDS = 3.0
"""After so long without a write, a closed text is committed though another descriptor is open."""


class Saved(Struct, frozen=True):
    """The last save of a file, which led to ``state``. ``data`` is None, ``time_ns`` 0 where they are as drawn."""

    data: bytes | None
    state: str
    time_ns: int = 0


def saved_as(target: Target, data: bytes, state: str, time_ns: int = 0) -> Saved:
    """Return the save of a file whose ``data`` led to ``state``, as it is shown from then on."""
    kept = target.keeps_text and not target.draws(data)
    return Saved(data if kept else None, state, time_ns)


class Written:
    """The text shown of a file in place of the drawn one: the one being written, else the one saved last."""

    __slots__ = ("saved", "sessions", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.sessions: list[Session] = []
        """The sessions in progress, the last one written to at the end."""
        self.saved: Saved | None = None

    @property
    def size(self) -> int:
        """The size of the text shown."""
        if self.sessions:
            return len(self.sessions[-1].buffer)
        # what is as drawn is only measured for those who ask
        return len(self.saved.data) if self.saved and self.saved.data is not None else self.target.size()

    @property
    def time_ns(self) -> int:
        """Its time while it is not committed; then 0 where the drawn file has the time."""
        if self.sessions:
            return self.sessions[-1].time_ns
        return self.saved.time_ns if self.saved else 0

    @property
    def text(self) -> bytes | None:
        """The text shown, None if it is the drawn one."""
        if self.sessions:
            return bytes(self.sessions[-1].buffer)
        return self.saved.data if self.saved else None

    @property
    def timeout(self) -> float:
        """The time for which the kernel may believe that: a text being written may be refused, and is then reverted."""
        return 0.0 if self.sessions else LONG

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the text shown."""
        if self.sessions:
            return self.sessions[-1].buffer.read(offset, size)
        if self.saved and self.saved.data is not None:
            return self.saved.data[offset : offset + size]
        return self.target.read(offset, size)

    def is_current(self) -> bool:
        """Return whether this must still be shown: not once somebody else has changed the file."""
        if self.sessions:
            return True
        saved = self.saved
        try:
            return saved is not None and self.target.state() == saved.state
        except ConvfsError:
            return False


class SavedRole:
    """A file open for writing, ``anew`` if for all of it. It has a session from its first change on.

    ``appends``: whatever is written goes to its end.
    """

    __slots__ = ("_anew", "_appends", "_ino", "_saves", "_target", "program", "session")

    def __init__(self, saves: Saves, ino: int, target: Target, *, anew: bool = False, appends: bool = False) -> None:
        self._saves = saves
        self._ino = ino
        self._target = target
        self.session: Session | None = None
        self.program = saves.records.bursts.program()
        self._anew = anew
        self._appends = appends

    def read(self, offset: int, size: int) -> bytes:
        if self.session is not None:
            return self.session.buffer.read(offset, size)
        return (self._saves.instead(self._ino) or self._target).read(offset, size)

    def write(self, offset: int, data: bytes) -> int:
        session = self._begin()
        at = offset
        if self._appends and offset % PAGESIZE:
            # mapped memory comes in whole pages, by whatever handle there is
            at = len(session.buffer)
        session.buffer.write(at, data)
        session.changed()
        if at != offset:
            # the kernel had not heard yet that somebody else has changed the file
            self._saves.inodes.kernel.invalidate(Stale(self._ino, content=True))
        return len(data)

    def truncate(self, size: int) -> None:
        self._begin().truncate(size)

    def flush(self) -> None:
        if self.session is not None:
            self.session.flush()

    def sync(self, *, data_only: bool) -> None:
        if self.session is not None:
            self.session.sync()

    def release(self) -> None:
        """Commit the text written, if no other handle goes on with it. Nobody is told of errors: they are noted."""
        session, self.session = self.session, None
        if session is not None:
            session.handles.discard(self)
            if not session.handles:
                session.settle()

    def join(self, session: Session) -> None:
        """Write in a session from now on."""
        session.handles.add(self)
        self.session = session

    def _begin(self) -> Session:
        if self.session is None:
            # writes to a file that was removed while it was open have nowhere to go
            gone = self._saves.inodes.state(self._ino) is State.ORPHAN
            session = None if gone else self._saves.session(self._ino)
            if session is None or (self._anew and not session.is_closed):
                session = Session(self._saves, self._ino, self._target, self.program, anew=self._anew)
            self._anew = False
            self.join(session)
            return session
        return self.session


class Closed(Protocol):
    """A closed text that waits to be committed."""

    postponed: StoreFailed | OSError | None
    """The reason why it waits; None if it need not any more, or a program has it open."""

    @property
    def view_id(self) -> int:
        """The conversation that it is of."""

    def settle(self) -> None:
        """Commit it, or say why it goes on to wait."""


class Session:
    """A text being written to a file, until it is committed. ``anew``: its old contents do not matter."""

    def __init__(self, saves: Saves, ino: int, target: Target, program: Program | None, *, anew: bool = False) -> None:
        self._saves = saves
        self.ino = ino
        self.target = target
        self._program = program
        self.handles: set[SavedRole] = set()
        self.time_ns = 0
        drawn = saves.router.node(ino).attributes()
        self._later_than = drawn.time_ns or drawn.time_ms * NS_IN_MS
        """The time that the file had: programs that look at that alone must see that it was changed."""
        self._state = "" if self.gone else target.base()
        self._held_something = not self.gone and target.size() > 0
        self._before = saves.saved_text(ino)
        """The text shown, if it differs from the drawn one: writing it back changes nothing."""
        self.buffer = Buffer(b"" if anew else saves.begun(ino, target))
        self._prepared: Prepared | None = None
        self.touched: Sequence[int] = ()
        """The inode numbers of other files that look different once this is committed."""
        self._waits = False
        """True if something was written that no flush has looked at."""
        self._quiet = Quiet()
        self._draft: Path | None = None
        self._draft_is_closed = False
        """True if the draft has the text that was reported as saved, and not one that was merely synced since."""
        self._rejected: Path | None = None
        self._reverted = False
        """True if it went back to the text that was reported as saved: the note of the later one stays."""
        self.postponed: StoreFailed | OSError | None = None
        """The reason why it could not be committed when it was closed: the space is away, or the disk was full."""
        self._note = ""
        """The note of that."""
        self._closed: tuple[bytes, Prepared] | None = None
        """The text reported as saved that is yet to be committed, with its changes."""
        self._failure: StoreFailed | OSError | None = None
        """The error reported to a program that asked to make this durable. It may have given up half-way."""

    @property
    def view_id(self) -> int:
        """The conversation that it is saved to."""
        return self.target.view_id

    @property
    def gone(self) -> bool:
        """True if the file now has another inode, so that nothing will be committed."""
        return isinstance(self._saves.tree.bound(self.ino), OrphanFile)

    @property
    def is_closed(self) -> bool:
        """True if no program has it open, and it waits to be committed: the next text takes the place of this one."""
        return self.postponed is not None and not self.handles

    # -- what programs do ------------------------------------------------------------------------------------------

    def truncate(self, size: int) -> None:
        """Make the file ``size`` bytes long."""
        self.buffer.truncate(size)
        self.changed()

    def set_time(self, time_ns: int) -> None:
        """Set the time of the write, unless the file has only that of its version."""
        if self.target.takes_time:
            self.time_ns = time_ns // NS_IN_MS * NS_IN_MS

    def changed(self) -> None:
        """Show the text now in the buffer, which is complete once it is closed."""
        self._waits = True
        if self.postponed is not None:
            self.postponed = None
            self._saves.waiting.remove(self)
        self._quiet.written(self._saves.clock())
        # as exact as a version is: the time shown is the one that stays
        self.time_ns = max(time.time_ns() // NS_IN_MS * NS_IN_MS, self._later_than + NS_IN_MS)
        if self._saves.session(self.ino) is not self and not self.gone:
            self._saves.writing(self)

    def flush(self) -> None:
        """Parse the text written and make it durable. Raises EINVAL, ESTALE, and the disk's errors."""
        if not self._waits or self.gone or not self.buffer:
            # an empty file is no state to save: a program that truncates is about to write
            return
        data = bytes(self.buffer)
        try:
            if self._failure is not None:
                raise self._failure
            if data != self._before:
                self.target.ponder(self._state, data)
            self._work_out(data)
            if self._prepared is not None:
                # a text that will not be committed must not be reported as saved
                self._saves.tree.store.writer.check_writable()
            self._keep(data, complete=True)
            self._closed = None if self._prepared is None else (data, self._prepared)
        except UsageError as error:
            self._reject(data, error)
            raise FUSEError(errno.ESTALE if isinstance(error, Conflict) else errno.EINVAL) from None
        except (StoreFailed, OSError) as error:
            self._failure = error
            self._reject_quietly(data, error)
            raise
        self._waits = False

    def sync(self) -> None:
        """Make the text written durable, whatever it is."""
        if self._waits and not self.gone and self.buffer:
            try:
                self._keep(bytes(self.buffer), complete=False)
            except OSError as error:
                self._failure = error
                raise
            self._failure = None

    # -- what becomes of it ----------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Commit the text if it is complete, closed or not even open, and nothing was written for a while."""
        if self._quiet.rests(now, QUIET_SECONDS) and not (self.handles and self._waits):
            self.settle()

    def settle(self) -> None:
        """Commit the text written. The next change begins another session."""
        saved: Saved | None = None
        data = b"" if self.gone else bytes(self.buffer)
        if data and self._failure is not None:
            # a program that was told of a failure may have written only half of it
            self._reject_quietly(data, self._failure)
            data = self._as_closed()
        elif not self.gone and not data and self._failure is None:
            if self._held_something:
                reason = "it was saved empty, which changes nothing: remove it instead"
                self._saves.drafts.note(self.target.view_id, self.target.path, reason)
                self._note = ""
            data = self._as_closed()
        while data:
            try:
                self._saves.settle_waiting(self.view_id)
                saved = self._commit(data)
                break
            except (StoreFailed, OSError) as error:
                if self._draft is not None and not self._waits:
                    # the kept text is shown; the commit is retried every now and then, and when the mount begins again
                    self.wait(error)
                    return
                self._reject_quietly(data, error)
            except ConvfsError as error:
                self._reject_quietly(data, error)
            # the one before it was reported as saved, too, if this one was not
            data = self._as_closed() if self._waits else b""
        if self.postponed is not None:
            self.postponed = None
            self._saves.waiting.remove(self)
        if saved is not None or self.gone:
            self.drop()
        self._forget_draft()
        for handle in self.handles:
            handle.session = None
        self.handles.clear()
        self.target.end()
        self._saves.saved(self, saved)

    def wait(self, error: StoreFailed | OSError) -> None:
        """Commit the text later, which was closed and has a draft. ``error`` is why it cannot be now."""
        if self.postponed is None:
            self._saves.waiting.append(self)
        self.postponed = error
        if not self._note and not self._reverted:
            self._note = self._saves.drafts.postponed(self.target.view_id, self.target.path, error)

    def drop(self) -> None:
        """Forget the draft, and the note that it waits: it is committed, or its file is gone."""
        if self._note:
            self._saves.drafts.withdraw(self._note)
        self._forget_draft()

    def take_up(self, path: Path, draft: Draft, text: bytes, prepared: Prepared | None) -> None:
        """Go on with a text that an earlier mount has left in a draft, to be committed as what was ``prepared``."""
        self._state, self.buffer = draft.base, Buffer(text)
        self._draft, self._draft_is_closed = path, True
        self.time_ns = draft.written_ms * NS_IN_MS
        self._prepared = prepared
        self._closed = None if prepared is None else (text, prepared)
        self._saves.writing(self)

    def end(self) -> None:
        """Commit the closed text, as :meth:`settle` does; later writes are found at the next start."""
        if self.gone or not self.handles or not self._waits or not self.buffer:
            self.settle()
            return
        if self._draft is not None and self._prepared is not None and self._failure is None:
            self._state = self._committed(self._prepared)
        self._keep(bytes(self.buffer), complete=False)

    def _as_closed(self) -> bytes:
        """Revert to the text reported as saved before a failure; return it, "" if there is none."""
        if self._closed is None:
            return b""
        data, self._prepared = self._closed
        self.buffer = Buffer(data)
        self._failure, self._waits = None, False
        self._rejected, self._reverted = None, True
        if not self._draft_is_closed:
            try:
                self._keep(data, complete=True)
            except (StoreFailed, OSError) as error:
                log.error("%s: %s", self.target.path, error)
        return data

    def _commit(self, data: bytes) -> Saved:
        if self._waits:
            self._work_out(data)
        state = self._state
        if self._prepared is not None:
            self.touched = self._prepared.touches()
            state = self._committed(self._prepared)
        if self._rejected is not None:
            remove_quietly(self._rejected)
        return saved_as(self.target, data, state)

    def _committed(self, prepared: Prepared) -> str:
        with self._saves.records.bursts.by(self._program):
            return self.target.commit(prepared, self._state, bytes(self.buffer), self.time_ns // NS_IN_MS)

    def _work_out(self, data: bytes) -> None:
        self._prepared = None
        if data != self._before:
            self._prepared = self.target.prepare(self._state, data)

    def _keep(self, data: bytes, *, complete: bool) -> None:
        if complete and self._prepared is None:
            # nothing is changed, so there is nothing to lose
            self._forget_draft()
            return
        context = self._saves.records.context(self.target.view_id)
        result = self._prepared.result if complete and self._prepared is not None else ""
        target, written_ms = self.target, self.time_ns // NS_IN_MS
        draft = Draft(context, target.key, target.name, self._state, result, complete, "", written_ms)
        self._draft = self._saves.drafts.keep(draft, data, self._draft)
        self._draft_is_closed = complete

    def _forget_draft(self) -> None:
        if self._draft is not None:
            remove_quietly(self._draft)
            self._draft = None

    def _reject(self, data: bytes, error: Exception) -> None:
        with self._saves.records.bursts.by(self._program):
            self._rejected = self._saves.drafts.reject(self.target, data, str(error), self._rejected)
        # it stands in the place of an earlier one
        self._note = ""

    def _reject_quietly(self, data: bytes, error: Exception) -> None:
        try:
            self._reject(data, error)
        except OSError as refused:
            log.error("what was written to %s could not be kept: %s", self.target.path, refused)
            self._draft = None  # left where it is: the next mount looks at it


class Saves:
    """The files of conversations being written in one mount, and the latest saves, by inode."""

    def __init__(self, router: Router, inodes: Inodes, records: EventCommits, drafts: Drafts, clock: Clock) -> None:
        self.router = router
        self.tree = router.tree
        self.inodes = inodes
        self.records = records
        self.drafts = drafts
        self.clock = clock
        self.written: dict[int, Written] = {}
        """The files shown as they were written, by inode."""
        self.tree.served = self.written
        self.waiting: list[Closed] = []
        """The closed texts that wait to be committed, in the order in which they were closed."""
        self._settling: set[int] = set()
        """The conversations whose waiting texts are being committed."""
        self._aside: dict[int, Session] = {}
        """Those of files that are being removed, by the files' own inode numbers."""
        self._forgotten: deque[int] = deque()
        """The files whose saves are shown though the kernel has forgotten them: the oldest first."""

    # -- opening ---------------------------------------------------------------------------------------------------

    def open(self, ino: int, target: Target, *, anew: bool = False, appends: bool = False) -> SavedRole:
        """Open a file for writing; ``anew``: all of it; ``appends``: at its end."""
        role = SavedRole(self, ino, target, anew=anew, appends=appends)
        if anew:
            role.truncate(0)
        return role

    def truncate(self, node: Node, target: Target, size: int) -> None:
        """Make a file ``size`` bytes long by its name, wherever it is open."""
        session = self.session(node.ino)
        if session is None and size == node.attributes().size:
            return
        if session is None:
            session = Session(self, node.ino, target, self.records.bursts.program())
            for role in self.inodes.roles(SavedRole, node.ino):
                if role.session is None:
                    role.join(session)
        session.truncate(size)

    def session(self, ino: int) -> Session | None:
        """Return the session that is writing to a file."""
        written = self.written.get(ino)
        return written.sessions[-1] if written and written.sessions else None

    # -- what is shown ---------------------------------------------------------------------------------------------

    def instead(self, ino: int) -> OpenContent | None:
        """Return the contents shown under an inode in place of the drawn ones; None if those are shown."""
        node = self.tree.bound(ino)
        return node.content if isinstance(node, OrphanFile) else self.written.get(ino)

    def all_shown(self, ino: int, target: Target) -> bytes:
        """Return all that is shown of a file."""
        return (self.instead(ino) or target).read(0, 1 << 62)

    def begun(self, ino: int, target: Target) -> bytes:
        """Return all that is shown of a file that is about to be changed."""
        return target.begin() if self.instead(ino) is None else self.all_shown(ino, target)

    def saved_text(self, ino: int) -> bytes | None:
        """Return the written text shown under an inode; None if the drawn one is shown."""
        written = self.written.get(ino)
        return written.text if written else None

    def orphan(self, ino: int, target: Target) -> None:
        """Take the name from the file known as ``ino``; programs that have it open keep its contents."""
        text = self.saved_text(ino)
        content: OpenContent = Bytes(text or b"")
        size = len(text or b"")
        if text is None and ino in self.inodes.kernel.lookups:
            content, size = target.snapshot(), target.size()
        self.put_aside(ino, target)
        self.inodes.orphan(ino, target, content, size)

    def put_aside(self, ino: int, target: Target) -> None:
        """Have what waits to be saved in the file known as ``ino`` wait until it is removed, or there again."""
        written = self.written.pop(ino, None)
        for session in written.sessions if written else ():
            if session.postponed is not None:
                self.waiting.remove(session)
                if session.is_closed:
                    self._aside[target.ino] = session
                else:
                    session.postponed = None

    def take_back(self, own: int) -> None:
        """Go on with what waited to be saved in a file with an own number, which was removed and is there again."""
        if (session := self._aside.pop(own, None)) is not None:
            session.ino = self.inodes.known(session.target)
            self.writing(session)
            self.waiting.append(session)

    def removed(self, own: int) -> None:
        """Drop what waited to be saved in a file that is removed."""
        if (session := self._aside.pop(own, None)) is not None:
            session.drop()

    def writing(self, session: Session) -> None:
        """Show the text being written in a session."""
        sessions = self.written.setdefault(session.ino, Written(session.target)).sessions
        if session in sessions:
            sessions.remove(session)
        sessions.append(session)

    def saved(self, session: Session, saved: Saved | None) -> None:
        """Show the text saved in a session, or the one before it."""
        written = self.written.get(session.ino)
        if written is None or session.gone:
            return
        if session in written.sessions:
            written.sessions.remove(session)
        if saved is not None:
            written.saved = saved
        is_current = written.is_current()
        if not is_current:
            del self.written[session.ino]
        if not is_current or not session.target.keeps_text:
            self.inodes.drawn_again(session.ino)
        if saved is not None:
            self.unsettle(session.target.view_id, session.touched)

    def show_saved(self, ino: int, target: Target, saved: Saved) -> None:
        """Show a file as it was saved, under inode number ``ino``."""
        self.written.setdefault(ino, Written(target)).saved = saved
        if not target.keeps_text:
            self.inodes.drawn_again(ino)

    def unsettle(self, view_id: int, touched: Iterable[int] = ()) -> None:
        """Mark the files that show all of a conversation as changed, and those with the own numbers ``touched``."""
        known = self.tree.known
        places = (self.tree.place(view_id, place) for place in CONTENT_PLACES)
        for ino in (*places, *(known.get(own, own) for own in touched)):
            if written := self.written.get(ino):
                if written.is_current():
                    continue
                del self.written[ino]
            if ino in self.inodes.kernel.lookups:
                self.tree.unsettle(ino)
                self.inodes.kernel.refresh(ino)

    def check(self, view_id: int | None) -> None:
        """Drop outdated saves of a conversation (None: of all): somebody else has changed it."""
        for ino, written in list(self.written.items()):
            if view_id in (None, written.target.view_id) and not written.is_current():
                del self.written[ino]

    def forget_all(self) -> None:
        """Drop all outdated saves, and all that is remembered of their drawing."""
        self.check(None)
        for session in self._sessions():
            session.target.end()

    def forget(self, ino: int) -> None:
        """Drop what is kept for an inode that the kernel no longer knows, but for the last few saves.

        A kernel short of memory forgets a file between its save and the next look, and an editor that finds other
        text than it wrote says that somebody has changed it.
        """
        lookups = self.inodes.kernel.lookups
        written = self.written.get(ino)
        if written is not None and not written.sessions:
            own = self.tree.own.get(ino, ino)
            del self.written[ino]
            if self.tree.known.get(own, own) == ino:
                # an earlier file that somebody still holds keeps the own number
                self._keep(ino if own != ino and own in lookups else own, written)
        # the file that took the place of that one gets its number now
        later = self.tree.known.get(ino)
        if later is not None and later not in lookups and (written := self.written.pop(later, None)) is not None:
            self._keep(ino, written)

    def _keep(self, ino: int, written: Written) -> None:
        if ino not in self.written and written.size <= FORGOTTEN_SIZE:
            self.written[ino] = written
            self._forgotten.append(ino)
            if len(self._forgotten) > FORGOTTEN_SAVES:
                self._drop_forgotten(self._forgotten.popleft())

    def _drop_forgotten(self, ino: int) -> None:
        written = self.written.get(ino)
        if written and not written.sessions and ino not in self.inodes.kernel.lookups and ino not in self._forgotten:
            del self.written[ino]

    # -- files that are put in the place of others --------------------------------------------------------------------

    def take(
        self, source: ScratchFile, path: bytes, node: Node, target: Target, come_back: Callable[[Node], bool]
    ) -> None:
        """Make a scratch file's content that of a file, which then has its inode. ``come_back`` is told of that."""
        inodes = self.inodes
        status = source.status()
        check_size(status.st_size)
        with open(path, "rb") as file:
            data = file.read()
        before = self.saved_text(node.ino)
        self.settle_waiting(target.view_id)
        state = target.base()
        touched: Sequence[int] = ()
        program = self.records.bursts.program()
        try:
            if data != before:
                state = target.ponder(state, data)
            held = Bytes(before) if before is not None else target.snapshot()
            size = target.size() if before is None else len(before)
            prepared = None if data == before else target.prepare(state, data)
            if prepared is not None:
                touched = prepared.touches()
                with self.records.bursts.by(program):
                    state = prepared.commit(status.st_mtime_ns // NS_IN_MS)
        except UsageError as error:
            self.drafts.reject(target, data, str(error), None)
            raise FUSEError(errno.ESTALE if isinstance(error, Conflict) else errno.EINVAL) from None
        saved = saved_as(target, data, state)
        self.removed(target.ino)
        if not come_back(node):
            self.written.pop(node.ino, None)
            inodes.orphan(node.ino, target, held, size)
        inodes.be_candidate(source.ino, None)

        def opened(earlier: ScratchRole) -> SavedRole:
            earlier.release()
            return self.open(source.ino, target)

        inodes.change(source.ino, ScratchRole, opened)
        if not remove_quietly(Path(os.fsdecode(path))) or status.st_nlink > 1:
            inodes.scratch.renumber(source)
        inodes.become(source.ino, target)
        self.show_saved(source.ino, target, saved)
        self.unsettle(target.view_id, touched)

    def give(self, node: ViewNode, target: Target, path: bytes, above: int) -> ViewNode:
        """Make a scratch file at ``path`` of a file; return the file under the number that it has from then on."""
        attributes = node.attributes()
        time_ns = attributes.time_ns or attributes.time_ms * NS_IN_MS
        self.drafts.put_copy(Path(os.fsdecode(path)), self.all_shown(node.ino, target), time_ns)
        inodes = self.inodes
        # programs that have it open go on in the file that it was made
        inodes.change(node.ino, SavedRole, lambda _earlier: ScratchRole(os.open(path, os.O_RDWR | os.O_CLOEXEC)))
        self.put_aside(node.ino, target)
        inodes.make_scratch(node.ino, target, path, above)
        return target.node(inodes.known(target))

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Commit the texts that have been quiet for a while."""
        now = self.clock()
        self._settle_all()
        for session in self._sessions():
            if session.postponed is None:
                session.tick(now)

    def settle_waiting(self, view_id: int) -> None:
        """Commit the texts of a conversation that wait, in their order: others come after them.

        Raises the StoreFailed of one that goes on to wait.
        """
        if view_id in self._settling:
            # one of them asks, and those before it are committed
            return
        self._settling.add(view_id)
        try:
            for closed in self.waiting[:]:
                if closed.view_id != view_id or closed not in self.waiting:
                    continue
                if away := self.tree.store.writer.order.away:
                    raise Unreachable(away)
                closed.settle()
                if isinstance(closed.postponed, StoreFailed):
                    raise closed.postponed
        finally:
            self._settling.remove(view_id)

    def _settle_all(self) -> None:
        for view_id in dict.fromkeys(closed.view_id for closed in self.waiting):
            with suppress(StoreFailed):
                self.settle_waiting(view_id)

    def close(self) -> None:
        """Commit the closed texts when the mount ends; keep the rest for the next start."""
        self._settle_all()
        for session in self._sessions():
            if session.postponed is None:
                try:
                    session.end()
                except Exception:
                    log.exception("what was written to %s may be lost", session.target.path)
        self._settle_all()

    def _sessions(self) -> list[Session]:
        return [session for written in self.written.values() for session in written.sessions]

"""Saving a file of a conversation: from a program's first write to the one version that it becomes.

What a program writes is gathered in a buffer, and shown at once. *flush*, which every close waits for,
parses it and makes it durable as a draft: what is wrong with it is told there. The *release* of the handle, when no
descriptor is left, commits it. Between the two, memory that is mapped may still be written, and a shell may write on
through another descriptor; so a flush never commits.

Handles that are open at once share what is written, as they do in any file; but one that was opened to write all of the
file anew begins a session of its own. Of two such programs the later one is told that it comes too late.

What a file is and what becomes of it, its target knows (:mod:`fusefs.editing.target`).
"""

from __future__ import annotations

import errno
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyfuse3 import FUSEError

from fusefs.editing.buffer import Buffer
from fusefs.editing.drafts import Draft
from fusefs.editing.written import Saved, saved_as
from store.errors import Conflict, ConvfsError, StoreFailed, StoreFull, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusefs.editing.desk import Desk
    from fusefs.editing.target import Prepared, Target

log = logging.getLogger(__name__)

QUIET_SECONDS = 3.0
"""After so long without a write, what was closed is committed though another descriptor is open."""


class FileHandle:
    """A file that is open for writing. Before its first change it has no session, and shows what others see.

    ``anew`` says that it was opened to write all of it. ``gone`` says that the file is known under another inode by
    now: what is written here has nowhere to go, as with any file that was removed while it was open.
    """

    def __init__(self, desk: Desk, ino: int, target: Target, *, anew: bool = False) -> None:
        self._desk = desk
        self.ino = ino
        self.target = target
        self.session: Session | None = None
        self.gone = False
        self._anew = anew

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file as this handle sees it."""
        if self.session is not None:
            return self.session.buffer.read(offset, size)
        return self._desk.shown(self.ino, self.target, offset, size)

    def write(self, offset: int, data: bytes) -> int:
        """Write; what that makes of the file is seen at flush."""
        self._begin().write(offset, data)
        return len(data)

    def truncate(self, size: int) -> None:
        """Make the file ``size`` bytes long."""
        self._begin().truncate(size)

    def flush(self) -> None:
        """Parse what was written and make it durable. Raises EINVAL, ESTALE, and what the disk says."""
        if self.session is not None:
            self.session.flush()

    def sync(self, *, data_only: bool) -> None:
        """Make what was written durable, whatever it is: programs sync half-written files."""
        if self.session is not None:
            self.session.sync()

    def release(self) -> None:
        """Commit what was written, if no other handle goes on with it.

        Nobody can be told of an error any more, so it is noted and the text is kept.
        """
        session, self.session = self.session, None
        if session is not None:
            session.handles.discard(self)
            if not session.handles:
                session.settle()

    def _begin(self) -> Session:
        """Return the session that this handle writes in, which begins or is joined at its first change."""
        if self.session is None:
            session = None if self._anew or self.gone else self._desk.session(self.ino)
            if session is None:
                session = Session(self._desk, self.ino, self.target, gone=self.gone, anew=self._anew)
            self._anew = False
            session.handles.add(self)
            self.session = session
        return self.session


class Session:
    """What is being written to a file, until it is committed.

    ``gone`` says that the file is known under another inode by now, so that nothing will be committed; ``anew`` that
    what it was does not matter.
    """

    def __init__(self, desk: Desk, ino: int, target: Target, *, gone: bool = False, anew: bool = False) -> None:
        self._desk = desk
        self.ino = ino
        self.target = target
        self.gone = gone
        self.handles: set[FileHandle] = set()
        self.time_ns = 0
        self._state = "" if gone else target.state()
        self._held_something = not gone and target.size() > 0
        self._before = desk.saved_text(ino)
        """What was shown that is not drawn so: written back, it changes nothing."""
        self.buffer = Buffer(b"" if anew else desk.all_shown(ino, target))
        self._prepared: Prepared | None = None
        self.touched: Sequence[int] = ()
        """The inode numbers of other files that are drawn otherwise once this is committed."""
        self._waits = False
        """Whether something was written that no flush has looked at."""
        self._changed_at = 0.0
        self._draft: Path | None = None
        self._rejected: Path | None = None
        self.waits_for_room = False
        """Whether it was closed, and could not be committed because the disk was full."""
        self._failure: StoreFailed | OSError | None = None
        """What a program was told of that asked for this to be made durable. It may have given up half-way."""

    # -- what programs do ------------------------------------------------------------------------------------------

    def write(self, offset: int, data: bytes) -> None:
        """Write at ``offset``."""
        self.buffer.write(offset, data)
        self._changed()

    def truncate(self, size: int) -> None:
        """Make the file ``size`` bytes long."""
        self.buffer.truncate(size)
        self._changed()

    def _changed(self) -> None:
        self._waits = True
        self._changed_at = time.monotonic()
        self.time_ns = time.time_ns()
        if not self.gone:
            self._desk.writing(self)

    def flush(self) -> None:
        """Parse what was written and make it durable. Raises EINVAL, ESTALE, and what the disk says.

        An empty file is no state to save: a program that truncates is about to write.
        """
        if not self._waits or self.gone or not self.buffer:
            return
        data = bytes(self.buffer)
        try:
            if self._failure is not None:
                raise self._failure
            self._work_out(data)
            self._keep(data, complete=True)
        except UsageError as error:
            self._reject(data, error)
            raise FUSEError(errno.ESTALE if isinstance(error, Conflict) else errno.EINVAL) from None
        except (StoreFailed, OSError) as error:
            self._failure = error
            self._reject_quietly(data, error)
            raise
        self._waits = False

    def sync(self) -> None:
        """Make what was written durable, whatever it is."""
        if self._waits and not self.gone and self.buffer:
            try:
                self._keep(bytes(self.buffer), complete=False)
            except OSError as error:
                self._failure = error
                raise
            self._failure = None

    # -- what becomes of it ----------------------------------------------------------------------------------------

    def is_quiet(self, now: float) -> bool:
        """Say whether nothing was written for a while, and what was is complete: closed, or not even open."""
        return self._changed_at < now - QUIET_SECONDS and not (self.handles and self._waits)

    def settle(self) -> None:
        """Commit what was written. The next change begins another session."""
        saved: Saved | None = None
        data = bytes(self.buffer)
        waited, self.waits_for_room = self.waits_for_room, False
        if not self.gone and data and self._failure is not None:
            # who was told that it failed may have written the half of it only
            self._reject_quietly(data, self._failure)
        elif not self.gone and data:
            self._desk.settle_waiting(self.target.view_id)
            try:
                saved = self._commit(data)
            except StoreFull as error:
                if self._draft is not None and not self._waits:
                    # shown as it was saved, and tried again every now and then until there is room
                    if not waited:
                        log.error("%s waits to be saved: %s", self.target.path, error)
                    self.waits_for_room = True
                    return
                self._reject_quietly(data, error)
            except (StoreFailed, OSError) as error:
                self._postpone(data, error)
            except ConvfsError as error:
                self._reject_quietly(data, error)
        elif not self.gone and self._held_something:
            self._desk.note(self.target, "it was saved empty, which changes nothing: remove it instead")
        self._forget_draft()
        for handle in self.handles:
            handle.session = None
        self.handles.clear()
        self._desk.saved(self, saved)

    def end(self) -> None:
        """Commit what was closed, as :meth:`settle` does; what was written since is found at the next start."""
        if self.gone or not self.handles or not self._waits or not self.buffer:
            self.settle()
            return
        if self._draft is not None and self._prepared is not None and self._failure is None:
            self._state = self._prepared.commit()
        self._keep(bytes(self.buffer), complete=False)

    def _commit(self, data: bytes) -> Saved:
        if self._waits:
            self._work_out(data)
        state = self._state
        if self._prepared is not None:
            self.touched = self._prepared.touches
            state = self._prepared.commit()
        self._desk.drop_rejected(self._rejected)
        return saved_as(self.target, data, self.time_ns, state)

    # -- within ----------------------------------------------------------------------------------------------------

    def _work_out(self, data: bytes) -> None:
        """Find out what changes."""
        self._prepared = None
        if data != self._before:
            self._prepared = self.target.prepare(self._state, data)

    def _keep(self, data: bytes, *, complete: bool) -> None:
        if complete and self._prepared is None:
            # nothing is changed, so there is nothing to lose
            self._forget_draft()
            return
        if complete:
            # what will not be committed must not be called saved
            self._desk.tree.store.check()
        context = self._desk.records.context(self.target.view_id)
        result = self._prepared.result if complete and self._prepared is not None else ""
        draft = Draft(context, self.target.key, self.target.name, self._state, result, complete, "")
        self._draft = self._desk.drafts.keep(draft, data, self._draft)

    def _forget_draft(self) -> None:
        if self._draft is not None:
            self._desk.drafts.drop(self._draft)
            self._draft = None

    def _postpone(self, data: bytes, error: Exception) -> None:
        """Leave what was closed, and could not be committed now, to the next start; keep what was not closed."""
        if self._draft is not None and not self._waits:
            self._draft = None
            self._desk.note(self.target, f"{error}; what was saved is kept, and committed when the mount begins again")
        else:
            self._reject_quietly(data, error)

    def _reject(self, data: bytes, error: Exception) -> None:
        """Keep a text that cannot become the file beside it, and note why."""
        self._rejected = self._desk.reject(self.target, data, str(error), self._rejected)

    def _reject_quietly(self, data: bytes, error: Exception) -> None:
        try:
            self._reject(data, error)
        except OSError as refused:
            log.error("what was written to %s could not be kept: %s", self.target.path, refused)
            self._draft = None  # left where it is: the next mount looks at it

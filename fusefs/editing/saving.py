"""Saving an event: from a program's first write to the one version that it becomes.

What a program writes is gathered in the buffer of its handle, and shown at once. *flush*, which every close waits for,
parses it and makes it durable as a draft: what is wrong with it is told there. The *release* of the handle, when no
descriptor is left, commits it. Between the two, memory that is mapped may still be written, and a shell may write on
through another descriptor; so a flush never commits.
"""

from __future__ import annotations

import errno
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from pyfuse3 import FUSEError

from fusefs.editing.buffer import Buffer
from fusefs.editing.drafts import Draft
from fusefs.editing.records import Base, payload_hash
from store.errors import Conflict, ConvfsError, StoreFailed, UsageError
from store.ids import now_ms

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk

log = logging.getLogger(__name__)

QUIET_SECONDS = 3.0
"""After so long without a write, what was closed is committed though another descriptor is open."""


class Saved(Struct, frozen=True):
    """What an event was saved as. ``data`` is None where it is drawn the same."""

    data: bytes | None
    size: int
    time_ms: int
    payload_hash: bytes


class Written:
    """What is shown of an event in place of how it is drawn: what is being written, else what was saved last."""

    __slots__ = ("_desk", "_number", "handles", "saved", "view")

    def __init__(self, desk: Desk, view_id: int, number: int) -> None:
        self._desk = desk
        self.view = view_id
        self._number = number
        self.handles: list[EventHandle] = []
        """Those with a buffer, the last one written to at the end."""
        self.saved: Saved | None = None

    @property
    def size(self) -> int:
        """The size of what is shown."""
        if self.handles:
            return len(self.handles[-1].written)
        return self.saved.size if self.saved else len(self._desk.records.drawn(self.view, self._number))

    @property
    def time_ms(self) -> int:
        """When it was written."""
        if self.handles:
            return self.handles[-1].time_ms
        return self.saved.time_ms if self.saved else now_ms()

    @time_ms.setter
    def time_ms(self, time_ms: int) -> None:
        if self.handles:
            self.handles[-1].time_ms = time_ms
        elif self.saved:
            saved = self.saved
            self.saved = Saved(saved.data, saved.size, time_ms, saved.payload_hash)

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of what is shown."""
        if self.handles:
            return self.handles[-1].written.read(offset, size)
        if self.saved and self.saved.data is not None:
            return self.saved.data[offset : offset + size]
        return self._desk.records.drawn(self.view, self._number)[offset : offset + size]

    def is_current(self) -> bool:
        """Say whether this must still be shown: not once somebody else has changed the event."""
        if self.handles:
            return True
        saved = self.saved
        try:
            return saved is not None and self._desk.records.hash_of(self.view, self._number) == saved.payload_hash
        except ConvfsError:
            return False


class EventHandle:
    """An event that is open for writing. Before its first change it has no buffer, and shows what others see.

    ``gone`` says that the event is known under another inode by now: what is written here has nowhere to go, as with
    any file that was removed while it was open.
    """

    def __init__(self, desk: Desk, ino: int, view_id: int, number: int) -> None:
        self._desk = desk
        self.ino = ino
        self.view_id = view_id
        self.number = number
        self.time_ms = 0
        self.gone = False
        self.closed = False
        self.quiet_since = 0.0
        self._buffer: Buffer | None = None
        self._base: Base | None = None
        self._before = b""
        self._payload: bytes | None = None
        self._waits = False
        """Whether something was written that no flush has looked at."""
        self._draft: Path | None = None
        self._rejected: Path | None = None

    @property
    def written(self) -> Buffer:
        """What was written. To be asked only once something was."""
        assert self._buffer is not None
        return self._buffer

    # -- what programs do ------------------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file as this handle sees it."""
        if self._buffer is not None:
            return self._buffer.read(offset, size)
        return self._desk.shown(self.ino, self.view_id, self.number, offset, size)

    def write(self, offset: int, data: bytes) -> int:
        """Write; what that makes of the event is seen at flush."""
        self._touch().write(offset, data)
        self._changed()
        return len(data)

    def truncate(self, size: int) -> None:
        """Make the file ``size`` bytes long."""
        self._touch(size == 0).truncate(size)
        self._changed()

    def flush(self) -> None:
        """Parse what was written and make it durable. Raises EINVAL, ESTALE, and what the disk says.

        An empty file is no state to save: a program that truncates is about to write.
        """
        if self._buffer is None or not self._waits or self.gone or not self._buffer:
            return
        data = bytes(self._buffer)
        try:
            self._work_out(data)
            self._keep(data, complete=True)
        except FUSEError:
            raise
        except UsageError as error:
            self._reject(data, error)
            raise FUSEError(errno.ESTALE if isinstance(error, Conflict) else errno.EINVAL) from None
        self._waits = False
        self.quiet_since = time.monotonic()

    def sync(self, *, data_only: bool) -> None:
        """Make what was written durable, whatever it is: programs sync half-written files."""
        if self._buffer is not None and self._waits and not self.gone and self._buffer:
            self._keep(bytes(self._buffer), complete=False)

    def release(self) -> None:
        """Commit what was written; nobody can be told of an error any more, so it is noted and the text is kept."""
        self.closed = True
        self.settle()

    # -- what becomes of it ----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Commit what was written, and begin anew."""
        buffer = self._buffer
        if buffer is None:
            return
        data = bytes(buffer)
        saved: Saved | None = None
        if not self.gone and data:
            try:
                saved = self._commit(data)
            except (UsageError, StoreFailed, OSError) as error:
                self._reject_quietly(data, error)
        elif not self.gone and self._before:
            self._desk.note(self.view_id, self.number, "it was saved empty, which changes nothing: remove it instead")
        self._forget_draft()
        self._buffer = self._base = self._payload = None
        self._desk.saved(self, saved)

    def _commit(self, data: bytes) -> Saved:
        if self._waits:
            self._work_out(data)
        base = self._base
        assert base is not None
        if self._payload is not None:
            self._desk.records.edit(base, self._payload)
            base = Base(base.view, base.number, payload_hash(self._payload))
        drawn = self._desk.records.drawn(self.view_id, self.number)
        self._desk.drop_rejected(self._rejected)
        self._rejected = None
        return Saved(None if drawn == data else data, len(data), self.time_ms, base.payload_hash)

    def is_quiet(self, now: float) -> bool:
        """Say whether what was written was closed a while ago, and may be committed though the file is still open."""
        return self._buffer is not None and not self._waits and 0 < self.quiet_since < now - QUIET_SECONDS

    # -- within ----------------------------------------------------------------------------------------------------

    def _touch(self, empty: bool = False) -> Buffer:
        """Return the buffer, which at the first change holds what is shown."""
        if self._buffer is None:
            desk = self._desk
            if self.gone:
                self._buffer = Buffer(desk.shown(self.ino, self.view_id, self.number, 0, 1 << 62))
                return self._buffer
            base = desk.records.base(self.view_id, self.number)
            self._before = desk.shown(self.ino, self.view_id, self.number, 0, 1 << 62)
            self._base = base
            self._buffer = Buffer(b"" if empty else self._before)
        if not self.gone:
            self._desk.writing(self)
        return self._buffer

    def _changed(self) -> None:
        self._waits = True
        self.quiet_since = 0.0
        self.time_ms = max(now_ms(), self.time_ms)

    def _work_out(self, data: bytes) -> None:
        """Find out what the event's payload becomes."""
        assert self._base is not None
        self._payload = None
        if data != self._before:
            self._payload = self._desk.records.edited(self._base, data)

    def _keep(self, data: bytes, *, complete: bool) -> None:
        if complete and self._payload is None:
            # nothing is changed, so there is nothing to lose
            self._forget_draft()
            return
        assert self._base is not None
        records = self._desk.records
        result = payload_hash(self._payload).hex() if complete and self._payload is not None else ""
        name = self._desk.event_name(self.view_id, self.number)
        draft = Draft(
            records.context(self.view_id), self.number, name, self._base.payload_hash.hex(), result, complete, ""
        )
        self._draft = self._desk.drafts.keep(draft, data, self._draft)

    def _forget_draft(self) -> None:
        if self._draft is not None:
            self._desk.drafts.drop(self._draft)
            self._draft = None

    def _reject(self, data: bytes, error: Exception) -> None:
        """Keep a text that cannot become the event beside it, and note why."""
        self._rejected = self._desk.reject(self.view_id, self.number, data, str(error), self._rejected)

    def _reject_quietly(self, data: bytes, error: Exception) -> None:
        try:
            self._reject(data, error)
        except OSError:
            log.exception("what was written to event %d could not be kept", self.number)
            self._draft = None  # left where it is: the next mount looks at it

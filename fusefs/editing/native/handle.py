"""Files of sessions that are open for writing."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pyfuse3 import FUSEError

from fusefs.editing.handle import LARGEST_SCRATCH, ScratchHandle
from fusefs.editing.orphan import OrphanFile
from fusefs.tree.changes import Stale
from fusefs.tree.native.files import SessionFile

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk


class SessionHandle:
    """The file of a conversation that is open for writing; ``appends``: whatever is written goes to its end."""

    __slots__ = ("_context", "_desk", "appends", "ino")

    def __init__(self, desk: Desk, ino: int, context: int, *, appends: bool) -> None:
        self._desk = desk
        self.ino = ino
        self._context = context
        self.appends = appends
        desk.native.opened(context)

    @property
    def _is_there(self) -> bool:
        """Whether the file still has its name."""
        return isinstance(self._desk.tree.node(self.ino), SessionFile)

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        if self._is_there:
            return self._desk.native.read(self._context, offset, size)
        node = self._desk.tree.node(self.ino)
        return node.content.read(offset, size) if isinstance(node, OrphanFile) else b""

    def write(self, offset: int, data: bytes) -> int:
        """Write all of ``data``."""
        if self._is_there:
            at = self._desk.native.size(self._context) if self.appends else offset
            if at + len(data) > LARGEST_SCRATCH:
                raise FUSEError(errno.EFBIG)
            self._desk.native.write(self._context, at, data)
            if at != offset:
                # the kernel believes it to stand elsewhere
                self._desk.invalidate(Stale(self.ino, content=True))
        return len(data)

    def truncate(self, size: int) -> None:
        """Make it ``size`` bytes long."""
        if size > LARGEST_SCRATCH:
            raise FUSEError(errno.EFBIG)
        if self._is_there:
            self._desk.native.truncate(self._context, size)

    def flush(self) -> None:
        """Commit what is ready."""
        if self._is_there:
            self._desk.native.commit(self._context)

    def sync(self, *, data_only: bool) -> None:
        """Make what was written durable."""
        if self._is_there:
            self._desk.native.sync(self._context)

    def release(self) -> None:
        """Take note that the last descriptor is closed."""
        self._desk.native.closed(self._context)


class NewSessionHandle(ScratchHandle):
    """A file below a tool's directory that is open for writing, and may be a session."""

    __slots__ = ("_desk",)

    def __init__(self, desk: Desk, ino: int, fd: int, *, appends: bool) -> None:
        super().__init__(ino, fd, appends=appends)
        self._desk = desk

    def write(self, offset: int, data: bytes) -> int:
        """Write all of ``data``."""
        at = os.fstat(self.fd).st_size if self.appends else offset
        done = super().write(at, data)
        self._desk.new_sessions.written(self.ino, at)
        return done

    def truncate(self, size: int) -> None:
        """Make it ``size`` bytes long."""
        super().truncate(size)
        self._desk.new_sessions.written(self.ino, size)

    def flush(self) -> None:
        """Make a conversation of it, if it is a session."""
        self._desk.new_sessions.settle(self.ino)

    def sync(self, *, data_only: bool) -> None:
        """Make what was written durable."""
        super().sync(data_only=data_only)
        self._desk.new_sessions.settle(self.ino)

    def release(self) -> None:
        """Close the file."""
        super().release()
        self._desk.new_sessions.settle_quietly(self.ino)

"""An output of a tool or an agent that is open for writing."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyfuse3 import FUSEError

from fusefs.editing.handle import ScratchHandle

if TYPE_CHECKING:
    from fusefs.editing.outputs.files import OutputFiles
    from fusefs.tree.node import Content
    from fusefs.tree.outputs import Key


class OutputHandle(ScratchHandle):
    """A file in ``artifacts/`` or ``agents/``. What there is of it is copied when it is first written to.

    ``key`` is what it is by now: it may be renamed, and has no name once it was removed.
    """

    __slots__ = ("_outputs", "_shown", "key")

    def __init__(self, outputs: OutputFiles, ino: int, key: Key, fd: int = -1) -> None:
        super().__init__(ino, fd)
        self.key = key
        self._outputs = outputs
        self._shown: Content | None = None

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        if self.fd >= 0:
            return super().read(offset, size)
        if self._shown is None:
            self._shown = self._outputs.file(self.key).begin()
        return self._shown.read(offset, size)

    def write(self, offset: int, data: bytes) -> int:
        """Write all of ``data``."""
        self._begin(anew=False)
        return super().write(offset, data)

    def truncate(self, size: int) -> None:
        """Make it ``size`` bytes long."""
        self._begin(anew=size == 0)
        super().truncate(size)

    def sync(self, *, data_only: bool) -> None:
        """Make what was written durable."""
        if self.fd >= 0:
            super().sync(data_only=data_only)
            if self.key.name:
                self._outputs.sync(self.key)

    def release(self) -> None:
        """Close the file. What was written is kept, unless it was removed."""
        if self.fd >= 0:
            super().release()
            if self.key.name:
                self._outputs.keeper.put(self.key)

    def _begin(self, *, anew: bool) -> None:
        if self.fd < 0:
            if not self.key.name:
                raise FUSEError(errno.ESTALE)
            self.fd = self._outputs.begin(self.key, anew=anew)

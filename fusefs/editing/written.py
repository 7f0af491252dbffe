"""What is shown of a file that is being written, or was: what a program wrote stays as it was."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from fusefs.tree.node import LONG
from store.errors import ConvfsError

if TYPE_CHECKING:
    from fusefs.editing.saving import Session
    from fusefs.editing.target import Target


class Saved(Struct, frozen=True):
    """What a file was saved as, which led to ``state``. ``data`` is None where it is shown as it is drawn."""

    data: bytes | None
    size: int
    time_ns: int
    state: str


def saved_as(target: Target, data: bytes, time_ns: int, state: str) -> Saved:
    """Return what a file is shown as once ``data`` has been saved, which led to ``state``."""
    kept = target.keeps_text and not target.draws(data)
    return Saved(data if kept else None, len(data) if kept else target.size(), time_ns, state)


class Written:
    """What is shown of a file in place of how it is drawn: what is being written, else what was saved last."""

    __slots__ = ("saved", "sessions", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.sessions: list[Session] = []
        """What is being written, the last one written to at the end."""
        self.saved: Saved | None = None

    @property
    def size(self) -> int:
        """The size of what is shown."""
        if self.sessions:
            return len(self.sessions[-1].buffer)
        return self.saved.size if self.saved else self.target.size()

    @property
    def time_ns(self) -> int:
        """When it was written."""
        if self.sessions:
            return self.sessions[-1].time_ns
        return self.saved.time_ns if self.saved else time.time_ns()

    @time_ns.setter
    def time_ns(self, time_ns: int) -> None:
        if self.sessions:
            self.sessions[-1].time_ns = time_ns
        elif self.saved:
            saved = self.saved
            self.saved = Saved(saved.data, saved.size, time_ns, saved.state)

    @property
    def text(self) -> bytes | None:
        """What is shown, None where it is what is drawn."""
        if self.sessions:
            return bytes(self.sessions[-1].buffer)
        return self.saved.data if self.saved else None

    @property
    def timeout(self) -> float:
        """For how long the kernel may believe that: what is being written may be refused, and is then as it was."""
        return 0.0 if self.sessions else LONG

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of what is shown."""
        if self.sessions:
            return self.sessions[-1].buffer.read(offset, size)
        if self.saved and self.saved.data is not None:
            return self.saved.data[offset : offset + size]
        return self.target.read(offset, size)

    def is_current(self) -> bool:
        """Say whether this must still be shown: not once somebody else has changed the file."""
        if self.sessions:
            return True
        saved = self.saved
        try:
            return saved is not None and self.target.state() == saved.state
        except ConvfsError:
            return False

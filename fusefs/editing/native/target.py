"""The file of a session, as what the kernel may know under another number than its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusefs.editing.target import WholeTarget
from fusefs.inodes import Place
from fusefs.tree.native.files import NATIVE, SessionFile

if TYPE_CHECKING:
    from fusefs.editing.target import Prepared
    from fusefs.tree.view_node import ViewNode


class NativeTarget(WholeTarget):
    """The file of a session. What is written to it is kept in a spool, and never as a text to be parsed."""

    place = Place.NATIVE
    file_name = NATIVE

    def node(self, ino: int) -> ViewNode:
        return SessionFile(self.tree, ino, self.view_id)

    def size(self) -> int:
        return self.tree.native.file(self.tree.context_at_head(self.view_id)).size

    def drawn(self) -> bytes:
        return self.read(0, self.size())

    def read(self, offset: int, size: int) -> bytes:
        return self.tree.native.file(self.tree.context_at_head(self.view_id)).read(offset, size)

    def state(self) -> str:
        return str(self.tree.native.file(self.tree.context_at_head(self.view_id)).entry.head)

    def prepare(self, state: str, data: bytes) -> Prepared | None:
        # what is written goes another way, so there is nothing to be worked out
        return None

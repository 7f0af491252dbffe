"""Under which inode the kernel knows a file that can be saved.

Its own number is computed. But a file that is renamed onto another takes that one's place, and the kernel then knows
the place under the file's inode; what was there before is without a name, and keeps its bytes for whoever has it open.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fusefs.editing.handle import ScratchHandle
from fusefs.editing.orphan import OrphanFile
from fusefs.editing.saving import FileHandle
from fusefs.editing.scratch import ScratchNode
from fusefs.editing.written import Written

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk
    from fusefs.editing.target import Target
    from fusefs.tree.node import Content


class Identities:
    """Gives numbers to files, and takes them back. ``Tree.known`` is what comes of it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._held: dict[int, ScratchNode] = {}
        """The scratch files that have become files of a conversation, by the number that they share."""

    def known(self, target: Target) -> int:
        """Return the number that a file is known by."""
        return self._tree.known.get(target.ino, target.ino)

    def orphan(self, ino: int, target: Target, content: Content, size: int) -> None:
        """Let the file that is known as ``ino`` be known under another number; who has it open keeps ``content``.

        A number that the kernel does not know stays the file's: its own may be that of an earlier orphan.
        """
        self._abandon(ino)
        if ino in self._desk.lookups:
            self._tree.own.pop(ino, None)
            self._tree.bind(ino, OrphanFile(ino, content, size))
            self._give(self._tree.new_number(), target)

    def become(self, ino: int, target: Target) -> None:
        """Make ``ino``, a scratch file's, the number by which the kernel knows a file."""
        node = self._tree.bound(ino)
        if ino == target.ino:
            self._tree.known.pop(ino, None)
            if isinstance(node, ScratchNode):
                self._desk.scratch.drop(node)
            return
        earlier = self._tree.known.get(target.ino)
        if earlier is not None and earlier not in self._desk.lookups:
            self._take_back(earlier, target.ino)
        if isinstance(node, ScratchNode):
            # its number on the disk must not come back as another file's
            self._held[ino] = node
        self._give(ino, target)

    def make_scratch(self, ino: int, target: Target, path: bytes, above: int) -> None:
        """Make ``ino``, by which the kernel knows a file, the number of a scratch file with the same content."""
        for fh, handle in self._desk.handles.items():
            if isinstance(handle, FileHandle) and handle.ino == ino:
                handle.gone = True
                self._desk.handles[fh] = ScratchHandle(ino, os.open(path, os.O_RDWR | os.O_CLOEXEC))
        self._abandon(ino)
        self._tree.own.pop(ino, None)
        self._let_go(ino)
        self._desk.scratch.give(ino, path, above)
        self._give(self._tree.new_number(), target)

    def forget(self, ino: int) -> None:
        """Take note that the kernel no longer knows ``ino``: let go of what was kept for it."""
        node = self._tree.bound(ino)
        own = self._tree.own.get(ino)
        if isinstance(node, ScratchNode):
            self._desk.appending.forget(ino)
            self._desk.scratch.drop(node)
        elif isinstance(node, OrphanFile):
            self._tree.unbind(ino)
            self._let_go(ino)
        elif own is not None and self._tree.known.get(own) != ino:
            self._tree.own.pop(ino)
            self._tree.unbind(ino)
            self._let_go(ino)
        elif own is not None and own not in self._desk.lookups:
            # unless somebody still holds what that was
            self._take_back(ino, own)
        other = self._tree.known.get(ino)
        if other is not None and other not in self._desk.lookups:
            self._take_back(other, ino)

    def _give(self, ino: int, target: Target) -> None:
        self._tree.known[target.ino] = ino
        self._tree.own[ino] = target.ino
        self._tree.bind(ino, target.node(ino))

    def _take_back(self, ino: int, own: int) -> None:
        """Let the file whose own number is ``own`` be known by that again."""
        del self._tree.known[own]
        del self._tree.own[ino]
        self._tree.unbind(ino)
        self._let_go(ino)

    def _let_go(self, ino: int) -> None:
        held = self._held.pop(ino, None)
        if held is not None:
            self._desk.scratch.drop(held)

    def _abandon(self, ino: int) -> None:
        """Let what is written through handles of an inode go nowhere."""
        written = self._tree.served.pop(ino, None)
        if isinstance(written, Written):
            for session in written.sessions:
                session.gone = True
        for handle in self._desk.handles.values():
            if isinstance(handle, FileHandle) and handle.ino == ino:
                handle.gone = True

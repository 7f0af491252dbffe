"""What it means when names are made, removed or moved below ``.convfs/native/TOOL/``."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyfuse3 import FUSEError

from fusefs.editing.handle import LARGEST_SCRATCH, ScratchHandle
from fusefs.editing.native.handle import NewSessionHandle, SessionHandle
from fusefs.editing.scratch import ScratchFile
from fusefs.tree.native.files import KEY, NativeDirectory, SessionFile
from fusefs.tree.native.paths import Parts
from fusefs.tree.native.sidecars import GONE, SidecarFile
from store.disk import durable
from store.editing.keeper import Keeper
from store.importing.paths import path_text

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk
    from fusefs.editing.scratch import ScratchNode
    from fusefs.tree.node import Node

_AT_ONCE = 1 << 20


class Sessions:
    """Makes, removes and moves the files of sessions, and the folders that they are in."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._keeper = Keeper(desk.tree.store)

    # -- files -----------------------------------------------------------------------------------------------------

    def open(self, node: SessionFile, flags: int) -> SessionHandle:
        """Open the file of a session for writing."""
        handle = SessionHandle(self._desk, node.ino, node.context, appends=bool(flags & os.O_APPEND))
        if flags & os.O_TRUNC:
            handle.truncate(0)
        return handle

    def truncate(self, node: SessionFile, size: int) -> None:
        """Make the file of a session ``size`` bytes long."""
        if size > LARGEST_SCRATCH:
            raise FUSEError(errno.EFBIG)
        self._desk.native.truncate(node.context, size)

    def replace(self, source: ScratchFile, path: Path, node: SessionFile) -> None:
        """Make a scratch file that of a session, which the kernel then knows under the scratch file's inode."""
        desk, context = self._desk, node.context
        target = desk.native.target(context)
        if source.status().st_nlink > 1:
            copy = self._temporary()
            shutil.copyfile(path, copy)
            durable.remove(path)
            desk.scratch.renumber(source)
            path = copy
        spool, held, size = desk.native.replaced(context, path)
        desk.identities.orphan(node.ino, target, held, size)
        desk.new_sessions.forget(source.ino)
        desk.appending.forget(source.ino)
        for fh, handle in list(desk.handles.items()):
            if isinstance(handle, ScratchHandle) and handle.ino == source.ino:
                desk.handles[fh] = SessionHandle(desk, source.ino, context, appends=handle.appends)
                handle.close()
        desk.identities.become(source.ino, target)
        desk.native.hold(spool)
        desk.native.commit_quietly(context)

    def remove(self, node: SessionFile) -> None:
        """Put the conversation of a session's file into the trash."""
        desk, context = self._desk, node.context
        desk.native.commit_quietly(context, everything=True)
        target, size = desk.native.target(context), desk.native.size(context)
        file = self._tree.native.file(context)
        tool, parts = self._place(context)
        # the folder stays until it is removed
        desk.scratch.make_folder(self._tree.native.on_disk(tool, parts[:-1]))
        self._keeper.remove(context)
        self._tree.native.paths.removed[tool, parts] = context
        held = desk.native.drop(context) or file
        desk.identities.orphan(node.ino, target, held, size)
        self._tree.renew(self._tree.view_id(context))

    def move(self, node: SessionFile, directory: NativeDirectory, name: bytes, path: Path) -> None:
        """Give the file of a session another name, ``path`` on the disk.

        One that is called as a session of the tool is, is still the conversation's. Any other is a copy, and the
        conversation is in the trash until there is a session again where it was: programs that save may do that.
        """
        desk, context = self._desk, node.context
        tool, parts = self._place(context)
        to = (*directory.parts, os.fsdecode(name))
        if directory.tool == tool and Path(to[-1]).suffix == Path(parts[-1]).suffix:
            source = path_text(self._tree.native.paths.path(tool, to))
            desk.scratch.make_folder(self._tree.native.on_disk(tool, parts[:-1]))
            self._tree.store.set_metadata(context, {"source": source})
            self._tree.native.paths.move(tool, context, to)
            self._tree.renew(self._tree.view_id(context))
            return
        self._make_scratch(node, directory, path)

    def move_onto(self, node: SessionFile, directory: NativeDirectory, path: Path, target: SessionFile) -> None:
        """Make the content of one session's file that of another, whose name is ``path`` on the disk."""
        self._make_scratch(node, directory, path)
        source = self._tree.bound(node.ino)
        assert isinstance(source, ScratchFile)
        self.replace(source, path, target)

    def _make_scratch(self, node: SessionFile, directory: NativeDirectory, path: Path) -> None:
        """Make a file of the disk of a session's, whose conversation goes into the trash."""
        desk, context = self._desk, node.context
        tool, parts = self._place(context)
        copy = self._temporary()
        time_ns = node.attributes().time_ns
        with copy.open("wb") as file:
            for offset in range(0, desk.native.size(context), _AT_ONCE):
                file.write(desk.native.read(context, offset, _AT_ONCE))
        os.utime(copy, ns=(time_ns, time_ns))
        target = desk.native.target(context)
        desk.native.commit_quietly(context, everything=True)
        desk.scratch.make_folder(self._tree.native.on_disk(tool, parts[:-1]))
        self._keeper.remove(context)
        self._tree.native.paths.removed[tool, parts] = context
        desk.native.drop(context)
        durable.replace(copy, path)
        for fh, handle in list(desk.handles.items()):
            if isinstance(handle, SessionHandle) and handle.ino == node.ino:
                desk.handles[fh] = ScratchHandle(node.ino, os.open(path, os.O_RDWR | os.O_CLOEXEC))
                handle.release()
        desk.identities.make_scratch(node.ino, target, os.fsencode(path), directory.ino)
        self._tree.renew(self._tree.view_id(context))

    def _place(self, context: int) -> tuple[str, tuple[str, ...]]:
        tool = self._tree.native.file(context).entry.format
        parts = self._tree.native.paths.place(tool, context)
        if parts is None:
            raise FUSEError(errno.ENOENT)
        return tool, parts

    def _temporary(self) -> Path:
        number, name = tempfile.mkstemp(dir=self._desk.scratch.root, prefix=".copy-")
        os.close(number)
        return Path(name)

    # -- what lies beside sessions ---------------------------------------------------------------------------------

    def copy_up(self, node: SidecarFile, *, empty: bool = False) -> ScratchNode:
        """Make a file of the disk of one that the store keeps beside a session, so that it can be written to."""
        path = self._tree.native.on_disk(node.tool, node.parts)
        above = self._tree.fixed((*KEY, node.tool, *node.parts[:-1])).ino
        self._desk.scratch.make_folder(path.parent)
        copy = self._temporary()
        with copy.open("wb") as file:
            for piece in () if empty else self._tree.store.blob_pieces(node.digest):
                file.write(piece)
        durable.replace(copy, path)
        self._desk.companions.note(node.tool, node.parts)
        return self._desk.scratch.give(node.ino, os.fsencode(path), above)

    def remove_sidecar(self, tool: str, parts: Parts) -> None:
        """Show a file no more that the store keeps beside a session."""
        context, below = self._tree.native.sidecars.owner(tool, parts)
        name, _digest = self._tree.native.sidecars.of(context)[below]
        gone = self._tree.native.file(context).entry.metadata.get(GONE)
        self._tree.store.set_metadata(context, {GONE: [*(gone if isinstance(gone, list) else ()), name]})
        self._desk.scratch.make_folder(self._tree.native.on_disk(tool, parts[:-1]))
        self._tree.renew(self._tree.view_id(context))

    def uncover(self, directory: Node, name: bytes) -> None:
        """Take note that a file of the disk has gone: what the store keeps under its name does not come back."""
        if isinstance(directory, NativeDirectory) and directory.tool:
            parts = (*directory.parts, os.fsdecode(name))
            if self._tree.native.sidecars.digest(directory.tool, parts) is not None:
                self.remove_sidecar(directory.tool, parts)

    # -- folders ---------------------------------------------------------------------------------------------------

    def make_folder(self, directory: NativeDirectory, name: bytes) -> Node:
        """Make a folder."""
        if not directory.tool:
            raise FUSEError(errno.EPERM)
        self._desk.scratch.make_folder(directory.on_disk() / os.fsdecode(name))
        made = directory.lookup(os.fsdecode(name))
        assert made is not None
        return made

    def remove_folder(self, node: NativeDirectory) -> None:
        """Remove an empty folder."""
        if not node.parts:
            raise FUSEError(errno.EPERM)
        if next(node.entries(0), None) is not None:
            raise FUSEError(errno.ENOTEMPTY)
        try:
            os.rmdir(node.on_disk())
        except FileNotFoundError:
            # it was there for the sake of sessions
            return

    def new_handle(self, ino: int, fd: int, flags: int) -> NewSessionHandle:
        """Return a handle of a new file that may be a session."""
        return NewSessionHandle(self._desk, ino, fd, appends=bool(flags & os.O_APPEND))

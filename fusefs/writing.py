"""The handlers that change something."""

from __future__ import annotations

import errno
import os

from pyfuse3 import EntryAttributes, FileInfo, FUSEError, RequestContext, SetattrFields

from fusefs.editing.handle import LARGEST_SCRATCH, Handle
from fusefs.editing.orphan import OrphanFile
from fusefs.editing.scratch import ScratchFile, ScratchNode
from fusefs.editing.written import Written
from fusefs.handler import handler
from fusefs.reading import PREFIX, Reading
from fusefs.tree.conversation import LABEL_ATTRIBUTE, ConversationDirectory
from fusefs.tree.native.files import SessionFile
from fusefs.tree.native.sidecars import SidecarFile
from fusefs.tree.node import Directory, Node
from fusefs.tree.outputs import OutputFile
from fusefs.tree.view_node import ViewNode

_LABEL = PREFIX + LABEL_ATTRIBUTE.encode()
"""Leads the names of extended attributes that give a conversation a label."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class Writing(Reading):
    """The handlers that write."""

    # -- files -----------------------------------------------------------------------------------------------------

    @handler
    def open(self, inode: int, flags: int, _ctx: RequestContext) -> FileInfo:
        if not flags & _WRITING:
            return self._open_to_read(inode)
        return self._opened(self._open_to_write(self.tree.node(inode), flags))

    def _open_to_write(self, node: Node, flags: int) -> Handle:
        target = self.desk.targets.of(node)
        if target is not None:
            return self.desk.open(node.ino, target, anew=bool(flags & os.O_TRUNC))
        if isinstance(node, SidecarFile):
            node = self.gestures.sessions.copy_up(node, empty=bool(flags & os.O_TRUNC))
        match node:
            case SessionFile():
                return self.gestures.sessions.open(node, flags)
            case ScratchFile():
                _check_there(node)
                fd = os.open(node.path, os.O_RDWR | os.O_CLOEXEC | flags & os.O_TRUNC)
                return self.gestures.as_handle(node.ino, fd, flags)
            case OutputFile():
                return self.desk.outputs.open(node, flags)
            case Directory():
                raise FUSEError(errno.EISDIR)
            case OrphanFile():
                raise FUSEError(errno.ESTALE)
        raise FUSEError(_refusal(node))

    def _opened(self, writing: Handle) -> FileInfo:
        handle = self._next_handle = self._next_handle + 1
        self.desk.handles[handle] = writing
        self.prefetch.holding(writing.ino)
        self._held[handle] = writing.ino
        return FileInfo(handle)

    @handler
    def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, _ctx: RequestContext
    ) -> tuple[FileInfo, EntryAttributes]:
        directory = self._directory(parent_inode, name)
        node, writing = self.gestures.create(directory, name, mode, flags)
        return self._opened(writing), self._named(node, name)

    @handler
    def write(self, fh: int, off: int, buf: bytes) -> int:
        return self._writing(fh).write(off, buf)

    async def flush(self, fh: int) -> None:
        # asked at every close: for a file that was opened to be read, this is all that is done
        if fh in self.desk.handles:
            await self._flush(fh)

    @handler
    def _flush(self, fh: int) -> None:
        self.desk.handles[fh].flush()

    @handler
    def fsync(self, fh: int, datasync: bool) -> None:
        writing = self.desk.handles.get(fh)
        if writing is not None:
            writing.sync(data_only=datasync)

    @handler
    def release(self, fh: int) -> None:
        writing = self.desk.handles.pop(fh, None)
        if writing is None:
            self.prefetch.released(self._files.pop(fh).ino)
            return
        self.prefetch.released(self._held.pop(fh))
        writing.release()

    def _writing(self, fh: int) -> Handle:
        writing = self.desk.handles.get(fh)
        if writing is None:
            raise FUSEError(errno.EBADF)
        return writing

    # -- attributes ------------------------------------------------------------------------------------------------

    @handler
    def setattr(
        self, inode: int, attr: EntryAttributes, fields: SetattrFields, fh: int | None, _ctx: RequestContext
    ) -> EntryAttributes:
        node = self.tree.node(inode)
        if isinstance(node, SidecarFile):
            node = self.gestures.sessions.copy_up(node)
        if fields.update_size:
            self._truncate(node, attr.st_size, fh)
        if isinstance(node, ScratchNode):
            _set_status(node, attr, fields)
        else:
            self._set_drawn(node, attr, fields)
        return self._entry(node.attributes())

    def _truncate(self, node: Node, size: int, fh: int | None) -> None:
        writing = self.desk.handles.get(fh) if fh is not None else None
        if writing is not None:
            writing.truncate(size)
        elif isinstance(node, ScratchFile):
            if size > LARGEST_SCRATCH:
                raise FUSEError(errno.EFBIG)
            _check_there(node)
            os.truncate(node.path, size)
        elif isinstance(node, OutputFile):
            self.desk.outputs.truncate(node, size)
        elif isinstance(node, SessionFile):
            self.gestures.sessions.truncate(node, size)
        elif (target := self.desk.targets.of(node)) is not None:
            self.desk.truncate(node, target, size)
        else:
            raise FUSEError(_refusal(node))

    def _set_drawn(self, node: Node, attr: EntryAttributes, fields: SetattrFields) -> None:
        """Take what a program sets on a file that is drawn: its owner and mode stay, its time is kept while it is."""
        if (fields.update_uid and attr.st_uid != self._uid) or (fields.update_gid and attr.st_gid != self._gid):
            raise FUSEError(errno.EPERM)
        served = self.tree.served.get(node.ino)
        if fields.update_mtime and isinstance(served, Written):
            served.time_ns = attr.st_mtime_ns
        elif fields.update_mtime and isinstance(node, OutputFile):
            self.desk.outputs.set_time(node, attr.st_mtime_ns)
        elif fields.update_mtime and isinstance(node, SessionFile):
            self.desk.native.set_time(node.context, attr.st_mtime_ns)

    @handler
    def setxattr(self, inode: int, name: bytes, value: bytes, _ctx: RequestContext) -> None:
        match self.tree.node(inode):
            case ScratchNode() as node if name.startswith(b"user."):
                os.setxattr(node.path, name, value)
            case ConversationDirectory() as node if name.startswith(_LABEL):
                self.gestures.conversations.labels.set(self._head(node), _label(name))
            case _:
                raise FUSEError(errno.EOPNOTSUPP)

    @handler
    def removexattr(self, inode: int, name: bytes, _ctx: RequestContext) -> None:
        match self.tree.node(inode):
            case ScratchNode() as node if name.startswith(b"user."):
                os.removexattr(node.path, name)
            case ConversationDirectory() as node if name.startswith(_LABEL):
                self.gestures.conversations.labels.unset(self._head(node), _label(name))
            case _:
                raise FUSEError(errno.EOPNOTSUPP)

    def _head(self, node: ConversationDirectory) -> ConversationDirectory:
        """Return the directory of a conversation as it is now; EROFS for an earlier version's."""
        if not self.desk.is_head(node.view_id):
            raise FUSEError(errno.EROFS)
        return node

    # -- names -----------------------------------------------------------------------------------------------------

    def _made(self, node: Node) -> EntryAttributes:
        entry = self._entry(node.attributes())
        self.lookups.add(node.ino)
        return entry

    @handler
    def mknod(self, parent_inode: int, name: bytes, mode: int, _rdev: int, _ctx: RequestContext) -> EntryAttributes:
        return self._made(self.gestures.mknod(self._directory(parent_inode, name), name, mode))

    @handler
    def mkdir(self, parent_inode: int, name: bytes, mode: int, _ctx: RequestContext) -> EntryAttributes:
        return self._made(self.gestures.mkdir(self._directory(parent_inode, name), name, mode))

    @handler
    def symlink(self, parent_inode: int, name: bytes, target: bytes, _ctx: RequestContext) -> EntryAttributes:
        return self._made(self.gestures.symlink(self._directory(parent_inode, name), name, target))

    @handler
    def link(self, inode: int, new_parent_inode: int, new_name: bytes, _ctx: RequestContext) -> EntryAttributes:
        directory = self._directory(new_parent_inode, new_name)
        return self._made(self.gestures.link(self.tree.node(inode), directory, new_name))

    @handler
    def unlink(self, parent_inode: int, name: bytes, _ctx: RequestContext) -> None:
        self.gestures.unlink(self._directory(parent_inode, name), name)

    @handler
    def rmdir(self, parent_inode: int, name: bytes, _ctx: RequestContext) -> None:
        self.gestures.rmdir(self._directory(parent_inode, name), name)

    @handler
    def rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        _ctx: RequestContext,
    ) -> None:
        old, new = self._directory(parent_inode_old, name_old), self._directory(parent_inode_new, name_new)
        self.gestures.rename(old, name_old, new, name_new, flags)

    @handler
    def fsyncdir(self, fh: int, _datasync: bool) -> None:
        self.gestures.sync_directory(self._directories[fh].node)


def _refusal(node: Node) -> int:
    """Return the errno for what cannot be written: an earlier version never can, other things are not for programs."""
    return errno.EROFS if isinstance(node, ViewNode) else errno.EACCES


def _check_there(node: ScratchFile) -> None:
    """Raise ESTALE for a file that was removed because the store has it: told that, the kernel looks again."""
    if not node.status().st_nlink:
        raise FUSEError(errno.ESTALE)


def _label(attribute: bytes) -> str:
    """Return the label that an extended attribute names."""
    try:
        return attribute.removeprefix(_LABEL).decode()
    except UnicodeDecodeError:
        raise FUSEError(errno.EINVAL) from None


def _set_status(node: ScratchNode, attr: EntryAttributes, fields: SetattrFields) -> None:
    """Set the attributes of a scratch file on the disk."""
    if fields.update_mode:
        os.chmod(node.path, attr.st_mode & 0o7777)
    if fields.update_uid or fields.update_gid:
        os.chown(node.path, attr.st_uid if fields.update_uid else -1, attr.st_gid if fields.update_gid else -1)
    if fields.update_atime or fields.update_mtime:
        status = node.status()
        atime = attr.st_atime_ns if fields.update_atime else status.st_atime_ns
        mtime = attr.st_mtime_ns if fields.update_mtime else status.st_mtime_ns
        os.utime(node.path, ns=(atime, mtime))

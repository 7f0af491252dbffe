"""What it means when a name is made, removed or moved: of an event, or of a scratch file."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path

from pyfuse3 import RENAME_NOREPLACE, FUSEError

from fusefs.editing.buffer import check_size
from fusefs.editing.conversations import Conversations
from fusefs.editing.desk import Desk
from fusefs.editing.handle import Handle, ScratchHandle
from fusefs.editing.naming import Names, refusal
from fusefs.editing.native.sessions import Sessions
from fusefs.editing.outputs.moves import OutputMoves
from fusefs.editing.placing import move_away, save_onto
from fusefs.editing.removal import Removals
from fusefs.editing.scratch import ScratchDirectory, ScratchFile, ScratchNode
from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.documents import EventsJson, MetadataFile
from fusefs.tree.events import EventFile, EventsDirectory
from fusefs.tree.labels import LabelDirectory
from fusefs.tree.native.files import NativeDirectory, SessionFile
from fusefs.tree.native.sidecars import SidecarFile
from fusefs.tree.node import Directory, File, Link, Node
from fusefs.tree.outputs import OutputFile, OutputsDirectory
from fusefs.tree.resources import ResourceFile
from fusefs.tree.view_node import ViewNode
from store.errors import UsageError

log = logging.getLogger(__name__)

_MODES = 0o7777


class Gestures:
    """Makes, removes and moves names."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.removals = Removals(desk)
        self.outputs = OutputMoves(desk, desk.outputs)
        self.conversations = Conversations(desk, self.removals, self.outputs)
        self.sessions = Sessions(desk)
        self.names = Names(desk, self.removals, self.conversations.vanishing)

    # -- making ----------------------------------------------------------------------------------------------------

    def create(self, directory: Directory, name: bytes, mode: int, flags: int) -> tuple[Node, Handle]:
        """Make a file and open it."""
        there = self.names.removed(directory, name) or self.names.find(directory, name)
        target = self.desk.targets.of(there)
        if there is not None and target is not None:
            if not self.names.come_back(there) and flags & os.O_EXCL:
                raise FUSEError(errno.EEXIST)
            return there, self.desk.open(there.ino, target, anew=True)
        if there is None or isinstance(there, OutputFile):
            made = self.desk.outputs.create(directory, name, flags)
            if made is not None:
                return made
        if isinstance(there, SessionFile) and not flags & os.O_EXCL:
            return there, self.sessions.open(there, flags | os.O_TRUNC)
        if there is not None and not isinstance(there, ScratchFile):
            raise FUSEError(errno.EEXIST)
        path = self.names.new_path(directory, name)
        kept = flags & (os.O_EXCL | os.O_TRUNC)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | kept, 0o600)
        if there is None:
            os.fchmod(fd, mode & _MODES)
        node = self.names.node(path, directory)
        self.names.named(node, directory, name)
        return node, self.as_handle(node.ino, fd, flags)

    def as_handle(self, ino: int, fd: int, flags: int) -> Handle:
        """Return a handle of a scratch file that is open for writing."""
        if self.desk.new_sessions.has(ino):
            return self.sessions.new_handle(ino, fd, flags)
        return self.desk.appending.as_handle(ino, fd)

    def mknod(self, directory: Directory, name: bytes, mode: int) -> Node:
        """Make a file without opening it."""
        self._check_free(directory, name)
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise FUSEError(errno.EPERM)
        path = self.names.new_path(directory, name)
        os.mknod(path, stat.S_IFMT(mode) | 0o600)
        os.chmod(path, mode & _MODES)
        return self.names.node(path, directory)

    def mkdir(self, directory: Directory, name: bytes, mode: int) -> Node:
        """Make a directory."""
        self._check_free(directory, name)
        if isinstance(directory, NativeDirectory):
            return self.sessions.make_folder(directory, name)
        made = self.conversations.make(directory, name)
        if made is not None:
            return made
        path = self.names.new_path(directory, name)
        os.mkdir(path, 0o700)
        os.chmod(path, mode & _MODES)
        return self.names.node(path, directory)

    def symlink(self, directory: Directory, name: bytes, target: bytes) -> Node:
        """Make a symbolic link."""
        self._check_free(directory, name)
        if isinstance(directory, LabelDirectory):
            return self.conversations.labels.link(directory, name, target)
        path = self.names.new_path(directory, name)
        os.symlink(target, path)
        return self.names.node(path, directory)

    def link(self, node: Node, directory: Directory, name: bytes) -> Node:
        """Give a scratch file one name more."""
        if not isinstance(node, ScratchNode) or isinstance(node, ScratchDirectory):
            raise FUSEError(errno.EPERM)
        self._check_free(directory, name)
        # only with a descriptor does this follow the link in /proc; the path is absolute, so which one does not matter
        os.link(node.path, self.names.new_path(directory, name), src_dir_fd=node.fd, follow_symlinks=True)
        if isinstance(directory, NativeDirectory):
            self.names.named(node, directory, name)
            self._maybe_session(node)
        return node

    def _check_free(self, directory: Directory, name: bytes) -> None:
        if self.names.find(directory, name) is not None:
            raise FUSEError(errno.EEXIST)

    # -- removing --------------------------------------------------------------------------------------------------

    def unlink(self, directory: Directory, name: bytes) -> None:
        """Remove the name of a file."""
        node = self.names.find(directory, name)
        match node:
            case None:
                raise FUSEError(errno.ENOENT)
            case ScratchDirectory():
                raise FUSEError(errno.EISDIR)
            case ScratchNode():
                os.unlink(self.names.path(directory, name))
                self.desk.new_sessions.forget(node.ino)
                self.sessions.uncover(directory, name)
            case SessionFile():
                self.sessions.remove(node)
            case SidecarFile():
                self.sessions.remove_sidecar(node.tool, node.parts)
            case OutputFile():
                self.outputs.remove(node)
            case ResourceFile() if self.desk.is_head(node.view_id) and not self.conversations.vanishing.begun(
                node.view_id
            ):
                raise FUSEError(errno.EPERM)
            case EventFile() | EventsJson() | MetadataFile() | ResourceFile() if self.desk.is_head(node.view_id):
                target = self.desk.targets.of(node)
                if target is not None:
                    self.desk.orphan(node.ino, target)
                    node = target.node(self.desk.identities.known(target))
                self.names.hide(node)
                self.names.look_again(node, name)
            case Link():
                self.conversations.unlink(directory, name, node)
            case _:
                raise FUSEError(refusal(node))

    def rmdir(self, directory: Directory, name: bytes) -> None:
        """Remove an empty directory."""
        node = self.names.find(directory, name)
        match node:
            case None:
                raise FUSEError(errno.ENOENT)
            case ScratchDirectory():
                os.rmdir(self.names.path(directory, name))
            case NativeDirectory():
                self.sessions.remove_folder(node)
            case Directory():
                self.conversations.remove(directory, node)
            case _:
                raise FUSEError(errno.ENOTDIR)

    # -- moving ----------------------------------------------------------------------------------------------------

    def rename(self, old: Directory, old_name: bytes, new: Directory, new_name: bytes, flags: int) -> None:
        """Move a name. What a scratch file is moved onto, if it is an event, takes its content."""
        if flags & ~RENAME_NOREPLACE:
            raise FUSEError(errno.EINVAL)
        source = self.names.find(old, old_name)
        if source is None:
            raise FUSEError(errno.ENOENT)
        removed = self.names.removed(new, new_name)
        target = removed or self.names.find(new, new_name)
        if flags & RENAME_NOREPLACE and target is not None and removed is None:
            raise FUSEError(errno.EEXIST)
        match source, target:
            case ScratchFile(), SessionFile():
                self.sessions.replace(source, Path(os.fsdecode(self.names.path(old, old_name))), target)
            case SessionFile(), None if isinstance(new, NativeDirectory) and new.tool:
                self.sessions.move(source, new, new_name, Path(os.fsdecode(self.names.new_path(new, new_name))))
            case SessionFile(), SessionFile() if isinstance(new, NativeDirectory):
                self.sessions.move_onto(source, new, Path(os.fsdecode(self.names.new_path(new, new_name))), target)
            case ScratchFile(), SidecarFile():
                self._move(source, self.names.path(old, old_name), new, new_name)
            case ((SessionFile() | SidecarFile() | NativeDirectory()), _):
                # programs that can then copy it and remove it
                raise FUSEError(errno.EXDEV)
            case ConversationDirectory(), None:
                self.conversations.move(source, old, new, new_name)
            case ((ScratchFile() | OutputFile()), (None | OutputFile())) if isinstance(new, OutputsDirectory) and (
                asked := self.desk.outputs.asked(new, new_name)
            ):
                if isinstance(source, OutputFile):
                    self.outputs.move(source, new, asked)
                else:
                    self.outputs.take(source, self.names.path(old, old_name), new, asked)
            case OutputFile(), (None | ScratchFile()):
                self.outputs.give(source, self.names.new_path(new, new_name), new.ino)
            case ScratchFile(), File() if (saved_as := self.desk.targets.of(target)) is not None:
                save_onto(self.desk, source, self.names.path(old, old_name), target, saved_as, self.names.come_back)
                self.names.look_again(target, new_name)
            case ScratchNode(), None | ScratchNode():
                self._move(source, self.names.path(old, old_name), new, new_name)
                self.sessions.uncover(old, old_name)
            case ViewNode(), None | ScratchNode() if (saved_as := self.desk.targets.of(source)) is not None:
                self.names.hide(move_away(self.desk, source, saved_as, self.names.new_path(new, new_name), new.ino))
                self.names.look_again(source, old_name)
            case ScratchFile(), ViewNode() if not self.desk.is_head(target.view_id):
                raise FUSEError(errno.EROFS)
            case ((Link() | LabelDirectory()), None):
                self.conversations.labels.move(source, old, old_name, new, new_name)
            case _:
                raise FUSEError(refusal(source))

    def _move(self, source: ScratchNode, path: bytes, directory: Directory, name: bytes) -> None:
        """Give a scratch file another name. One that asks for it makes an event of the file."""
        to = self.names.new_path(directory, name)
        candidate = self.names.named(source, directory, name) if isinstance(source, ScratchFile) else None
        open_still = self.desk.appending.reopen(source.ino)
        if candidate is None or not isinstance(source, ScratchFile) or open_still or not source.status().st_size:
            os.rename(path, to)
            source.above = directory.ino
            self._maybe_session(source)
            return
        check_size(source.status().st_size)
        with open(path, "rb") as opened:
            data = opened.read()
        try:
            self.desk.appending.append(source, path, candidate, data)
        except UsageError as error:
            self.desk.note_path(candidate.view_id, candidate.path, str(error))
            raise FUSEError(errno.EINVAL) from None

    def _maybe_session(self, source: ScratchNode) -> None:
        """Let a file that has another name be a session, if it is one; and its handles know."""
        desk = self.desk
        if desk.new_sessions.has(source.ino):
            for fh, handle in list(desk.handles.items()):
                if isinstance(handle, ScratchHandle) and handle.ino == source.ino:
                    flags = os.O_APPEND if handle.appends else 0
                    desk.handles[fh] = self.sessions.new_handle(source.ino, handle.fd, flags)
            desk.new_sessions.settle_quietly(source.ino)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what is to be done after a while."""
        try:
            self.removals.tick()
            self.conversations.vanishing.tick()
            self.outputs.tick(self.conversations.vanishing.begun)
            self.desk.tick()
        except Exception:
            log.exception("what was written is committed later")

    def close(self) -> None:
        """Commit everything, when the mount ends."""
        self.desk.close()
        self.removals.close()
        self.outputs.close()
        self.desk.outputs.keeper.close()

    # -- making sure -----------------------------------------------------------------------------------------------

    def sync_directory(self, directory: Directory) -> None:
        """Make the names in a directory durable: what was removed from it is removed now."""
        if isinstance(directory, EventsDirectory):
            self.removals.commit(directory.view_id)
        if isinstance(directory, OutputsDirectory):
            self.outputs.commit(directory.view_id)
        place = self.desk.scratch.place(directory)
        if place is not None:
            try:
                fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

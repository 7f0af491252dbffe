"""What it means when a name is made, removed or moved: of an event, or of a scratch file."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path

from pyfuse3 import RENAME_NOREPLACE, FUSEError

from fusefs.editing.appending import Candidate, new_event
from fusefs.editing.buffer import check_size
from fusefs.editing.conversations import Conversations
from fusefs.editing.desk import Desk
from fusefs.editing.handle import Handle, ScratchHandle
from fusefs.editing.native.sessions import Sessions
from fusefs.editing.outputs.moves import OutputMoves
from fusefs.editing.placing import move_away, save_onto
from fusefs.editing.removal import Removals
from fusefs.editing.scratch import ScratchDirectory, ScratchFile, ScratchNode
from fusefs.inodes import Place
from fusefs.text.names import parse_event_name
from fusefs.tree.changes import Stale
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

    # -- finding ---------------------------------------------------------------------------------------------------

    def find(self, directory: Directory, name: bytes) -> Node | None:
        """Return what a name in a directory stands for, None if it is free."""
        try:
            node = directory.lookup(name.decode())
        except UnicodeDecodeError:
            node = None
        if node is not None and not self.desk.tree.has_vanished(node.ino):
            return node
        node = self.desk.scratch.find(directory, name)
        if isinstance(node, ScratchFile):
            self._named(node, directory, name)
        return node

    def _named(self, node: ScratchNode, directory: Directory, name: bytes) -> Candidate | None:
        """Take note of a name of a scratch file; return what it may become under it."""
        if isinstance(directory, NativeDirectory) and isinstance(node, ScratchFile):
            self.desk.new_sessions.named(node, directory, name)
        else:
            self.desk.new_sessions.forget(node.ino)
        if not isinstance(directory, EventsDirectory):
            self.desk.appending.forget(node.ino)
            return None
        return self.desk.appending.consider(node.ino, directory.view_id, name.decode(errors="replace"))

    def _removed(self, directory: Directory, name: bytes) -> Node | None:
        """Return the file that had this name and is being removed; or the event that had it, and was deleted."""
        text = name.decode(errors="replace")
        if not isinstance(directory, EventsDirectory):
            tree = self.desk.tree
            node = directory.lookup(text) if tree.vanished and isinstance(directory, ViewNode) else None
            return node if node is not None and tree.has_vanished(node.ino) else None
        overlay = self.desk.tree.overlays.get(directory.view_id)
        number = (overlay and overlay.aliases.get(text)) or parse_event_name(text)
        if number is None or not ((overlay and number in overlay.hidden) or self._is_deleted(directory, number)):
            return None
        return self.desk.tree.event(directory.view_id, number)

    def _is_deleted(self, directory: EventsDirectory, number: int) -> bool:
        return (
            self.desk.is_head(directory.view_id)
            and number <= directory.view.records
            and directory.view.row(number).deleted
        )

    def _hide(self, node: ViewNode) -> None:
        """Take note that a file has been removed, or moved away."""
        if isinstance(node, EventFile):
            self.removals.hide(node)
        else:
            self.conversations.vanishing.hide(node, node)

    def _look_again(self, node: Node, name: bytes) -> None:
        """Have the kernel look where the listed name of an event leads, if another one was moved or removed."""
        if isinstance(node, EventFile) and node.name.encode() != name:
            self.desk.invalidate(Stale(node.place(Place.EVENTS), node.name.encode()))

    def _come_back(self, node: Node) -> bool:
        """Take note that a file is there again; say whether it was being removed, or was gone."""
        if isinstance(node, EventFile):
            return self.removals.cancel(node.view_id, node.number) or node.row.deleted
        return isinstance(node, ViewNode) and self.conversations.vanishing.cancel(node)

    def _new_path(self, directory: Directory, name: bytes) -> bytes:
        """Return the path on the disk for a new name. Raises what is wrong with making one here."""
        path = self.desk.scratch.make_place(directory, name)
        if path is None:
            raise FUSEError(_refusal(directory))
        if isinstance(directory, EventsDirectory):
            self._check_number(directory, name.decode(errors="replace"))
        return path

    def _check_number(self, directory: EventsDirectory, name: str) -> None:
        """Raise EEXIST for the name of a new event whose number is taken, EINVAL for one that no event can have."""
        number = parse_event_name(name)
        if number is not None and number <= directory.view.records:
            raise FUSEError(errno.EEXIST)
        if number is not None and new_event(name) is None:
            raise FUSEError(errno.EINVAL)

    def _node(self, path: bytes, directory: Directory) -> ScratchNode:
        node = self.desk.scratch.node_at(path, directory.ino)
        if node is None:
            raise FUSEError(errno.ENOENT)
        return node

    # -- making ----------------------------------------------------------------------------------------------------

    def create(self, directory: Directory, name: bytes, mode: int, flags: int) -> tuple[Node, Handle]:
        """Make a file and open it."""
        there = self._removed(directory, name) or self.find(directory, name)
        target = self.desk.targets.of(there)
        if there is not None and target is not None:
            if not self._come_back(there) and flags & os.O_EXCL:
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
        path = self._new_path(directory, name)
        kept = flags & (os.O_EXCL | os.O_TRUNC)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | kept, 0o600)
        if there is None:
            os.fchmod(fd, mode & _MODES)
        node = self._node(path, directory)
        self._named(node, directory, name)
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
        path = self._new_path(directory, name)
        os.mknod(path, stat.S_IFMT(mode) | 0o600)
        os.chmod(path, mode & _MODES)
        return self._node(path, directory)

    def mkdir(self, directory: Directory, name: bytes, mode: int) -> Node:
        """Make a directory."""
        self._check_free(directory, name)
        if isinstance(directory, NativeDirectory):
            return self.sessions.make_folder(directory, name)
        made = self.conversations.make(directory, name)
        if made is not None:
            return made
        path = self._new_path(directory, name)
        os.mkdir(path, 0o700)
        os.chmod(path, mode & _MODES)
        return self._node(path, directory)

    def symlink(self, directory: Directory, name: bytes, target: bytes) -> Node:
        """Make a symbolic link."""
        self._check_free(directory, name)
        if isinstance(directory, LabelDirectory):
            return self.conversations.labels.link(directory, name, target)
        path = self._new_path(directory, name)
        os.symlink(target, path)
        return self._node(path, directory)

    def link(self, node: Node, directory: Directory, name: bytes) -> Node:
        """Give a scratch file one name more."""
        if not isinstance(node, ScratchNode) or isinstance(node, ScratchDirectory):
            raise FUSEError(errno.EPERM)
        self._check_free(directory, name)
        # only with a descriptor does this follow the link in /proc; the path is absolute, so which one does not matter
        os.link(node.path, self._new_path(directory, name), src_dir_fd=node.fd, follow_symlinks=True)
        if isinstance(directory, NativeDirectory):
            self._named(node, directory, name)
            self._maybe_session(node)
        return node

    def _check_free(self, directory: Directory, name: bytes) -> None:
        if self.find(directory, name) is not None:
            raise FUSEError(errno.EEXIST)

    # -- removing --------------------------------------------------------------------------------------------------

    def unlink(self, directory: Directory, name: bytes) -> None:
        """Remove the name of a file."""
        node = self.find(directory, name)
        match node:
            case None:
                raise FUSEError(errno.ENOENT)
            case ScratchDirectory():
                raise FUSEError(errno.EISDIR)
            case ScratchNode():
                os.unlink(self._path(directory, name))
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
                self._hide(node)
                self._look_again(node, name)
            case Link():
                self.conversations.unlink(directory, name, node)
            case _:
                raise FUSEError(_refusal(node))

    def rmdir(self, directory: Directory, name: bytes) -> None:
        """Remove an empty directory."""
        node = self.find(directory, name)
        match node:
            case None:
                raise FUSEError(errno.ENOENT)
            case ScratchDirectory():
                os.rmdir(self._path(directory, name))
            case NativeDirectory():
                self.sessions.remove_folder(node)
            case Directory():
                self.conversations.remove(directory, node)
            case _:
                raise FUSEError(errno.ENOTDIR)

    def _path(self, directory: Directory, name: bytes) -> bytes:
        path = self.desk.scratch.at(directory, name)
        assert path is not None
        return path

    # -- moving ----------------------------------------------------------------------------------------------------

    def rename(self, old: Directory, old_name: bytes, new: Directory, new_name: bytes, flags: int) -> None:
        """Move a name. What a scratch file is moved onto, if it is an event, takes its content."""
        if flags & ~RENAME_NOREPLACE:
            raise FUSEError(errno.EINVAL)
        source = self.find(old, old_name)
        if source is None:
            raise FUSEError(errno.ENOENT)
        removed = self._removed(new, new_name)
        target = removed or self.find(new, new_name)
        if flags & RENAME_NOREPLACE and target is not None and removed is None:
            raise FUSEError(errno.EEXIST)
        match source, target:
            case ScratchFile(), SessionFile():
                self.sessions.replace(source, Path(os.fsdecode(self._path(old, old_name))), target)
            case SessionFile(), None if isinstance(new, NativeDirectory) and new.tool:
                self.sessions.move(source, new, new_name, Path(os.fsdecode(self._new_path(new, new_name))))
            case SessionFile(), SessionFile() if isinstance(new, NativeDirectory):
                self.sessions.move_onto(source, new, Path(os.fsdecode(self._new_path(new, new_name))), target)
            case ScratchFile(), SidecarFile():
                self._move(source, self._path(old, old_name), new, new_name)
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
                    self.outputs.take(source, self._path(old, old_name), new, asked)
            case OutputFile(), (None | ScratchFile()):
                self.outputs.give(source, self._new_path(new, new_name), new.ino)
            case ScratchFile(), File() if (saved_as := self.desk.targets.of(target)) is not None:
                save_onto(self.desk, source, self._path(old, old_name), target, saved_as, self._come_back)
                self._look_again(target, new_name)
            case ScratchNode(), None | ScratchNode():
                self._move(source, self._path(old, old_name), new, new_name)
                self.sessions.uncover(old, old_name)
            case ViewNode(), None | ScratchNode() if (saved_as := self.desk.targets.of(source)) is not None:
                self._hide(move_away(self.desk, source, saved_as, self._new_path(new, new_name), new.ino))
                self._look_again(source, old_name)
            case ScratchFile(), ViewNode() if not self.desk.is_head(target.view_id):
                raise FUSEError(errno.EROFS)
            case ((Link() | LabelDirectory()), None):
                self.conversations.labels.move(source, old, old_name, new, new_name)
            case _:
                raise FUSEError(_refusal(source))

    def _move(self, source: ScratchNode, path: bytes, directory: Directory, name: bytes) -> None:
        """Give a scratch file another name. One that asks for it makes an event of the file."""
        to = self._new_path(directory, name)
        candidate = self._named(source, directory, name) if isinstance(source, ScratchFile) else None
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


def _refusal(node: Node) -> int:
    """Return the errno for a name that cannot be changed: in an earlier version none can."""
    return errno.EROFS if isinstance(node, ViewNode) else errno.EPERM

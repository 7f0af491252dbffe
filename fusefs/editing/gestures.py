"""What it means when a name is made, removed or moved: of an event, or of a scratch file."""

from __future__ import annotations

import errno
import logging
import os
import stat

from pyfuse3 import RENAME_NOREPLACE, FUSEError

from fusefs.editing.appending import Candidate, new_event
from fusefs.editing.buffer import check_size
from fusefs.editing.conversations import Conversations
from fusefs.editing.desk import Desk
from fusefs.editing.handle import Handle, ScratchHandle
from fusefs.editing.records import payload_hash
from fusefs.editing.removal import Removals
from fusefs.editing.saving import EventHandle, Saved
from fusefs.editing.scratch import ScratchDirectory, ScratchFile, ScratchNode
from fusefs.text.names import parse_event_name
from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.documents import EventsJson, MetadataFile
from fusefs.tree.events import EventFile, EventsDirectory
from fusefs.tree.node import Directory, Node
from fusefs.tree.resources import ResourceFile
from fusefs.tree.view_node import ViewNode
from store.errors import Conflict, UsageError

log = logging.getLogger(__name__)

_MODES = 0o7777


class Gestures:
    """Makes, removes and moves names."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.removals = Removals(desk)
        self.conversations = Conversations(desk, self.removals)
        self._vanished = desk.tree.vanished

    # -- finding ---------------------------------------------------------------------------------------------------

    def find(self, directory: Directory, name: bytes) -> Node | None:
        """Return what a name in a directory stands for, None if it is free."""
        try:
            node = directory.lookup(name.decode())
        except UnicodeDecodeError:
            node = None
        if node is not None and not (self._vanished and node.ino in self._vanished):
            return node
        node = self.desk.scratch.find(directory, name)
        if isinstance(node, ScratchFile):
            self._named(node, directory, name)
        return node

    def _named(self, node: ScratchNode, directory: Directory, name: bytes) -> Candidate | None:
        """Take note of a name of a scratch file; return what it may become under it."""
        if not isinstance(directory, EventsDirectory):
            self.desk.appending.forget(node.ino)
            return None
        return self.desk.appending.consider(node.ino, directory.view_id, name.decode(errors="replace"))

    def _removed(self, directory: Directory, name: bytes) -> EventFile | None:
        """Return the event that had this name and is being removed."""
        if not isinstance(directory, EventsDirectory):
            return None
        overlay = self.desk.tree.overlays.get(directory.view_id)
        if overlay is None:
            return None
        number = overlay.aliases.get(name.decode(errors="replace")) or parse_event_name(name.decode(errors="replace"))
        if number is None or number not in overlay.hidden:
            return None
        return self.desk.tree.event(directory.view_id, number)

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
        if isinstance(there, EventFile):
            if not self.removals.cancel(there.view_id, there.number) and flags & os.O_EXCL:
                raise FUSEError(errno.EEXIST)
            return there, self.desk.open_event(there, anew=True)
        if there is not None and not isinstance(there, ScratchFile):
            raise FUSEError(errno.EEXIST)
        path = self._new_path(directory, name)
        kept = flags & (os.O_EXCL | os.O_TRUNC)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | kept, 0o600)
        if there is None:
            os.fchmod(fd, mode & _MODES)
        node = self._node(path, directory)
        self._named(node, directory, name)
        return node, self.desk.appending.as_handle(node.ino, fd)

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
            case EventFile() if self.desk.is_head(node.view_id):
                self.desk.orphan(node, self.desk.all_shown(node) if node.ino in self.desk.lookups else b"")
                self.removals.hide(node)
            case EventsJson() | MetadataFile() | ResourceFile() if self.desk.is_head(node.view_id):
                self.conversations.vanishing.hide(node)
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
            case ConversationDirectory(), None:
                self.conversations.move(source, old, new, new_name)
            case ScratchFile(), EventFile():
                self._save_onto(source, self._path(old, old_name), target)
            case ScratchNode(), None | ScratchNode():
                self._move(source, self._path(old, old_name), new, new_name)
            case EventFile(), None | ScratchFile() if self.desk.is_head(source.view_id):
                self._move_away(source, new, new_name)
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
            return
        check_size(source.status().st_size)
        with open(path, "rb") as opened:
            data = opened.read()
        try:
            self.desk.appending.append(source, path, candidate, data)
        except UsageError as error:
            self.desk.note_name(candidate.view_id, candidate.name, str(error))
            raise FUSEError(errno.EINVAL) from None

    def _save_onto(self, source: ScratchFile, path: bytes, file: EventFile) -> None:
        """Make the content of a scratch file that of an event, which the kernel then knows under the file's inode."""
        desk = self.desk
        if not desk.is_head(file.view_id):
            raise FUSEError(errno.EROFS)
        status = source.status()
        check_size(status.st_size)
        with open(path, "rb") as opened:
            data = opened.read()
        before = desk.all_shown(file)
        saved = self._save(file, data, before, status.st_mtime_ns)
        if not self.removals.cancel(file.view_id, file.number):
            desk.orphan(file, before)
        desk.appending.forget(source.ino)
        for fh, handle in desk.handles.items():
            if isinstance(handle, ScratchHandle) and handle.ino == source.ino:
                handle.release()
                desk.handles[fh] = EventHandle(desk, source.ino, file.view_id, file.number)
        os.unlink(path)
        if status.st_nlink > 1:
            desk.scratch.renumber(source)
        desk.become(source.ino, file.view_id, file.number)
        desk.show_saved(source.ino, file.view_id, file.number, saved)
        desk.unsettle(file.view_id)

    def _save(self, file: EventFile, data: bytes, before: bytes, time_ns: int) -> Saved:
        """Commit ``data`` as an event that was ``before``.

        Raises EINVAL for what cannot be; the text is then kept beside the event too.
        """
        desk = self.desk
        base = desk.records.base(file.view_id, file.number)
        digest = base.payload_hash
        try:
            if data != before:
                payload = desk.records.edited(base, data)
                if payload is not None:
                    desk.records.edit(base, payload)
                    digest = payload_hash(payload)
        except UsageError as error:
            desk.reject(file.view_id, file.number, data, str(error), None)
            raise FUSEError(errno.ESTALE if isinstance(error, Conflict) else errno.EINVAL) from None
        drawn = desk.records.drawn(file.view_id, file.number)
        return Saved(None if data == drawn else data, len(data), time_ns, digest)

    def _move_away(self, file: EventFile, directory: Directory, name: bytes) -> None:
        """Make a scratch file of an event: it is what a program keeps while it writes the event anew."""
        desk = self.desk
        path = self._new_path(directory, name)
        attributes = file.attributes()
        temporary = path[: path.rindex(b"/") + 1] + b".%d~" % file.ino
        with open(temporary, "xb", opener=_private) as opened:
            opened.write(desk.all_shown(file))
        os.utime(temporary, ns=(attributes.time_ns or attributes.time_ms * 1_000_000,) * 2)
        os.rename(temporary, path)
        desk.make_scratch(file, path, directory.ino)
        self.removals.hide(file)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what is to be done after a while."""
        try:
            self.removals.tick()
            self.conversations.vanishing.tick()
            self.desk.tick()
        except Exception:
            log.exception("what was written is committed later")

    def close(self) -> None:
        """Commit everything, when the mount ends."""
        self.desk.close()
        self.removals.close()

    # -- making sure -----------------------------------------------------------------------------------------------

    def sync_directory(self, directory: Directory) -> None:
        """Make the names in a directory durable: what was removed from it is removed now."""
        if isinstance(directory, EventsDirectory):
            self.removals.commit(directory.view_id)
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


def _private(path: str | bytes, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)

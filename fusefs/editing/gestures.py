"""Gestures: making, removing and moving names, by the kinds of things that they stand for."""

import errno
import logging
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from enum import Enum
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from pyfuse3 import RENAME_NOREPLACE, FUSEError

from fusefs.editing.conversations import Conversations, refusal
from fusefs.editing.desk import Desk
from fusefs.editing.inode import Role, ScratchRole, check_size
from fusefs.editing.native.jobs import NewSession
from fusefs.editing.native.new_sessions import NewSessionRole
from fusefs.editing.new_events import NewEvent
from fusefs.editing.removal import Removals
from fusefs.editing.scratch import ScratchDirectory, ScratchFile, ScratchNode
from fusefs.inodes import Place
from fusefs.text.event_names import parse_event_name
from fusefs.text.new_event import is_like_an_event, new_event
from fusefs.tree.changes import Stale
from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.documents import EventsJson, MetadataFile, Transcript
from fusefs.tree.events import EventFile, EventsDirectory
from fusefs.tree.links import LabelDirectory
from fusefs.tree.native.files import NativeDirectory, SessionFile, SidecarFile
from fusefs.tree.node import Directory, Link, Node
from fusefs.tree.outputs import OutputFile, OutputsDirectory
from fusefs.tree.projects import ConversationsDirectory, FormerName, ProjectDirectory
from fusefs.tree.resources import KnownFile, ResourceFile
from fusefs.tree.view_node import ViewNode
from store.disk import files
from store.errors import UsageError

log = logging.getLogger(__name__)

_MODES = 0o7777


class Named(Enum):
    """The kind of thing that a name stands for: the classes of its nodes."""

    NOTHING = (type(None),)
    SCRATCH = (ScratchFile,)
    SCRATCH_FOLDER = (ScratchDirectory,)
    SPECIAL = (ScratchNode,)
    """Links and pipes of the disk."""
    SAVED = (EventFile, EventsJson, MetadataFile, Transcript)
    RESOURCE = (ResourceFile,)
    KNOWN = (KnownFile,)
    OUTPUT = (OutputFile,)
    SESSION = (SessionFile,)
    SIDECAR = (SidecarFile,)
    FOLDER = (NativeDirectory,)
    CONVERSATION = (ConversationDirectory,)
    FORMER = (FormerName,)
    PROJECT = (ProjectDirectory,)
    LINK = (Link,)
    LABEL = (LabelDirectory,)
    OTHER = ()
    """All that programs cannot change."""


class Where(Enum):
    """The kind of place that a name is moved to."""

    TOOL = "below a tool's directory"
    TOOLS = "beside the tools' directories"
    OUTPUTS = "a name that is meant for an output"
    ELSEWHERE = "anywhere else"


_NAMED: dict[type, Named] = {kind: named for named in Named for kind in named.value}
_SAVED = (Named.SAVED, Named.RESOURCE)
"""They can be as long as they are of a conversation as it is now."""


class Name(NamedTuple):
    """A name in a directory and the node that has it (None: nothing), of the class that the table gives."""

    directory: Any
    name: bytes
    node: Any


class Gestures:
    """Makes, removes and moves names."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.removals = Removals(desk.saves)
        self.conversations = Conversations(desk, self.removals)

    # -- looking ---------------------------------------------------------------------------------------------------

    def find(self, directory: Directory, name: bytes) -> Node | None:
        """Return the node that a name in a directory stands for, None if it is free."""
        try:
            node = self.desk.router.find(directory, name.decode())
        except UnicodeDecodeError:
            node = None
        if node is not None and not self.desk.tree.has_vanished(node.ino):
            return node
        node = self.desk.scratch.find(directory, name)
        if isinstance(node, ScratchFile):
            self._consider(node, directory, name)
        return node

    def _consider(self, node: ScratchNode, directory: Directory, name: bytes) -> NewEvent | None:
        """Record a name of a scratch file; return the event that it may become under it."""
        if isinstance(directory, EventsDirectory):
            return self.desk.new_events.consider(node.ino, directory.view_id, name.decode(errors="replace"))
        if isinstance(directory, NativeDirectory) and isinstance(node, ScratchFile):
            self.desk.native.new.named(node, directory, name)
        else:
            self.desk.inodes.be_candidate(node.ino, None)
        return None

    def _removed(self, directory: Directory, name: bytes) -> Node | None:
        """Return the file that had this name and is being removed; or the event that had it, and was deleted."""
        text = name.decode(errors="replace")
        if not isinstance(directory, EventsDirectory):
            tree, find = self.desk.tree, self.desk.router.find
            has_saved = isinstance(directory, ViewNode | ConversationsDirectory)
            node = find(directory, text) if tree.vanished and has_saved else None
            return node if node is not None and tree.has_vanished(node.ino) else None
        overlay = self.desk.tree.overlays.get(directory.view_id)
        typed = overlay.aliases.get(text) if overlay else None
        number = typed or parse_event_name(text)
        if number is None:
            return None
        if not (overlay and number in overlay.hidden):
            view = directory.view
            if view.version is not None or number > view.records or not view.row(number).deleted:
                return None
            if typed and parse_event_name(text) != typed:
                # what was made with this name is gone, and what comes now is new
                self.desk.typed_names.drop(directory.view_id, text)
                return None
        return self.desk.router.node(self.desk.tree.event(directory.view_id, number))

    def _hide(self, node: ViewNode) -> None:
        if isinstance(node, EventFile):
            self.removals.hide(node)
        else:
            self.conversations.vanishing.hide(node, node)

    def _look_again(self, node: Node, name: bytes) -> None:
        """Make the kernel look up an event's listed name again, if another of its names was moved or removed."""
        if isinstance(node, EventFile) and node.name.encode() != name:
            self.desk.kernel.invalidate(Stale(node.place(Place.EVENTS), node.name.encode()))

    def _come_back(self, node: Node) -> bool:
        if isinstance(node, EventFile):
            return self.removals.cancel(node.view_id, node.number) or node.row.deleted
        return isinstance(node, ViewNode) and self.conversations.vanishing.cancel(node)

    def _new_path(self, directory: Directory, name: bytes, *, is_file: bool = False) -> bytes:
        """Return the path on the disk for a new name. Raises an error if none can be made here.

        A file may become an event; nothing else can be called as one.
        """
        path = self.desk.scratch.make_place(directory, name)
        if path is None:
            raise FUSEError(refusal(directory))
        text = name.decode(errors="replace")
        if isinstance(directory, EventsDirectory):
            number = parse_event_name(text)
            if number is not None and number <= directory.view.records:
                raise FUSEError(errno.EEXIST)
            if is_like_an_event(text) and not (is_file and new_event(text)):
                what = "events are called user.md, call-TOOL.md and the like, or otherwise than events"
                self.desk.drafts.note(directory.view_id, f"events/{text}", f"{what}: give it another name")
                raise FUSEError(errno.EINVAL)
        return path

    def _made(self, path: bytes, directory: Directory) -> ScratchNode:
        node = self.desk.scratch.node_at(path, directory.ino)
        if node is None:
            raise FUSEError(errno.ENOENT)
        return node

    def _path(self, at: Name) -> bytes:
        path = self.desk.scratch.at(at.directory, at.name)
        assert path is not None
        return path

    # -- making ----------------------------------------------------------------------------------------------------

    def create(self, directory: Directory, name: bytes, mode: int, flags: int) -> tuple[Node, Role]:
        """Make a file and open it."""
        if (copied := self._copied(directory, name)) is not None:
            copy = self.desk.targets.of(copied)

            def differs() -> Role:
                if copy is None:
                    raise FUSEError(errno.EACCES)
                return self.desk.saves.open(copied.ino, copy, anew=True)

            return copied, self.desk.copies.role(copied, differs)
        removed = self._removed(directory, name)
        there = removed or self.find(directory, name)
        if isinstance(there, EventFile) and self._is_another(there, name, is_removed=bool(removed)):
            there = None
        target = self.desk.targets.of(there)
        if there is not None and target is not None:
            if not self._come_back(there) and flags & os.O_EXCL:
                raise FUSEError(errno.EEXIST)
            return there, self.desk.saves.open(there.ino, target, anew=True)
        if there is None or isinstance(there, OutputFile):
            made = self.desk.outputs.create(directory, name, flags)
            if made is not None:
                return made
        if isinstance(there, SessionFile) and not flags & os.O_EXCL:
            return there, self.desk.native.open(there, flags | os.O_TRUNC)
        if there is not None and not isinstance(there, ScratchFile):
            raise FUSEError(errno.EEXIST)
        path = self._new_path(directory, name, is_file=True)
        kept = flags & (os.O_EXCL | os.O_TRUNC)
        files.check()
        if there is None and flags & os.O_APPEND and not kept:
            self.desk.imports.go_on(Path(os.fsdecode(os.path.realpath(os.path.dirname(path)))) / os.fsdecode(name))
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | kept, 0o600)
        if there is None:
            os.fchmod(fd, mode & _MODES)
        node = self._made(path, directory)
        self._made_by(self._consider(node, directory, name))
        return node, self.role(node.ino, fd, flags)

    def write_another(self, node: EventFile, name: bytes) -> Node | None:
        """Return a new file for who writes another event under the name of one; None where that one is meant."""
        text = name.decode(errors="replace")
        if not self.desk.typed_names.asks_for(node, text):
            self.desk.typed_names.looked(node.view_id, text)
            return None
        directory = self.desk.router.place(node.view_id, Place.EVENTS)
        assert isinstance(directory, EventsDirectory)
        files.check()
        os.close(os.open(self._new_path(directory, name, is_file=True), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        node_made = self.find(directory, name)
        assert isinstance(node_made, ScratchFile)
        self._made_by(self.desk.inodes.candidate(node_made.ino, NewEvent))
        return node_made

    def _made_by(self, candidate: NewEvent | None) -> None:
        if candidate is not None:
            candidate.maker = self.desk.programs.asking()

    def _is_another(self, node: EventFile, name: bytes, *, is_removed: bool = False) -> bool:
        """Return whether who writes to the name that an event was made with means another one; it is then free."""
        names, text = self.desk.typed_names, name.decode(errors="replace")
        another = names.is_replaced if is_removed else names.writes_another
        if not another(node.view_id, text):
            return False
        if is_removed:
            self._come_back(node)
        names.drop(node.view_id, text)
        return True

    def role(self, ino: int, fd: int, flags: int) -> Role:
        """Return the role of a scratch file that is open for writing."""
        if self.desk.inodes.candidate(ino, NewSession) is not None:
            return NewSessionRole(self.desk.native.new, ino, fd, appends=bool(flags & os.O_APPEND))
        return self.desk.new_events.role(ino, fd)

    def mknod(self, directory: Directory, name: bytes, mode: int) -> Node:
        """Make a file without opening it."""
        self._check_free(directory, name)
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise FUSEError(errno.EPERM)
        path = self._new_path(directory, name, is_file=stat.S_ISREG(mode))
        os.mknod(path, stat.S_IFMT(mode) | 0o600)
        os.chmod(path, mode & _MODES)
        return self._made(path, directory)

    def mkdir(self, directory: Directory, name: bytes, mode: int) -> Node:
        """Make a directory."""
        if isinstance(copied := self._copied(directory, name), Directory):
            return copied
        self._check_free(directory, name)
        if isinstance(directory, NativeDirectory):
            return self.desk.native.make_folder(directory, name)
        made = self.conversations.make(directory, name)
        if made is not None:
            return made
        path = self._new_path(directory, name)
        os.mkdir(path, 0o700)
        # a directory hands on that it sets the group
        os.chmod(path, mode & _MODES | os.stat(path).st_mode & stat.S_ISGID)
        return self._made(path, directory)

    def symlink(self, directory: Directory, name: bytes, target: bytes) -> Node:
        """Make a symbolic link."""
        if isinstance(copied := self._copied(directory, name), Link):
            return copied
        self._check_free(directory, name)
        if isinstance(directory, LabelDirectory):
            return self.conversations.labels.link(directory, name, target)
        path = self._new_path(directory, name)
        os.symlink(target, path)
        return self._made(path, directory)

    def link(self, node: Node, directory: Directory, name: bytes) -> Node:
        """Give a scratch file another name."""
        if not isinstance(node, ScratchNode) or isinstance(node, ScratchDirectory):
            raise FUSEError(errno.EPERM)
        self._check_free(directory, name)
        to = self._new_path(directory, name)
        here = os.open(b"/", os.O_PATH | os.O_CLOEXEC)
        try:
            with node.held() as path:
                # only with a descriptor does this follow the link in /proc; which one does not matter
                os.link(path, to, src_dir_fd=here, follow_symlinks=True)
        finally:
            os.close(here)
        node.called(self.desk.scratch.place_of(to, directory.ino))
        if isinstance(directory, NativeDirectory):
            self._consider(node, directory, name)
            self._maybe_session(node)
        return node

    def _meant(self, node: Node | None) -> Node | None:
        """Return the conversation for a link that is its former name, and any other node as it is."""
        if not isinstance(node, FormerName):
            return node
        return self.desk.router.place(self.desk.tree.view_id(node.context), Place.CONVERSATION)

    def _copied(self, directory: Directory, name: bytes) -> Node | None:
        """Return what a program that copies a conversation makes here, if the copy has it already."""
        return self.desk.copies.make(self.desk.programs.thread, directory, name)

    def _check_free(self, directory: Directory, name: bytes) -> None:
        if self.find(directory, name) is not None:
            raise FUSEError(errno.EEXIST)

    # -- removing --------------------------------------------------------------------------------------------------

    def unlink(self, directory: Directory, name: bytes) -> None:
        """Remove the name of a file."""
        node = self.find(directory, name)
        if node is None:
            raise FUSEError(errno.ENOENT)
        what = self._named(node)
        if what is Named.SCRATCH_FOLDER:
            raise FUSEError(errno.EISDIR)
        if what not in UNLINKS:
            raise FUSEError(refusal(node))
        UNLINKS[what](self, Name(directory, name, node))

    def _unlink_scratch(self, at: Name) -> None:
        path = self._path(at)
        with at.node.losing(self.desk.scratch.place_of(path, at.directory.ino)):
            os.unlink(path)
        self.desk.native.new.forget(at.node.ino)
        self.desk.native.uncover(at.directory, at.name)

    def _unlink_saved(self, at: Name) -> None:
        if isinstance(at.node, ResourceFile) and not self.conversations.vanishing.begun(at.node.view_id):
            # it goes with all of its conversation, not alone
            raise FUSEError(errno.EPERM)
        if isinstance(at.node, EventFile):
            self.desk.typed_names.removed(at.node.view_id, at.name.decode(errors="replace"))
        target = self.desk.targets.of(at.node)
        assert target is not None
        self.desk.saves.orphan(at.node.ino, target)
        node = target.node(self.desk.inodes.known(target))
        self._hide(node)
        self._look_again(node, at.name)

    def _unlink_known(self, at: Name) -> None:
        if not self.desk.targets.is_head(at.node.view_id):
            raise FUSEError(refusal(at.node))
        if not self.conversations.vanishing.begun(at.node.view_id):
            raise FUSEError(errno.EPERM)
        self._hide(at.node)

    def rmdir(self, directory: Directory, name: bytes) -> None:
        """Remove an empty directory."""
        node = self._meant(self.find(directory, name))
        match node:
            case None:
                raise FUSEError(errno.ENOENT)
            case ScratchDirectory():
                path = self._path(Name(directory, name, node))
                with node.losing(self.desk.scratch.place_of(path, directory.ino)):
                    os.rmdir(path)
            case NativeDirectory():
                self.desk.native.remove_folder(node)
            case Directory():
                self.conversations.remove(directory, node)
            case _:
                raise FUSEError(errno.ENOTDIR)

    # -- moving ----------------------------------------------------------------------------------------------------

    def rename(self, old: Directory, old_name: bytes, new: Directory, new_name: bytes, flags: int) -> None:
        """Move a name. A scratch file that is moved onto an event becomes its content."""
        if flags & ~RENAME_NOREPLACE:
            raise FUSEError(errno.EINVAL)
        if self.conversations.labels.renamed(old, old_name, new_name):
            return
        source = self._meant(self.find(old, old_name))
        if source is None:
            raise FUSEError(errno.ENOENT)
        removed = self._removed(new, new_name)
        target = removed or self.find(new, new_name)
        if isinstance(target, EventFile) and isinstance(source, ScratchFile) and not flags & RENAME_NOREPLACE:
            target = None if self._is_another(target, new_name, is_removed=bool(removed)) else target
        if flags & RENAME_NOREPLACE and target is not None and removed is None:
            raise FUSEError(errno.EEXIST)
        at, to = Name(old, old_name, source), Name(new, new_name, target)
        where = Where.OUTPUTS if self.desk.outputs.asked(new, new_name) else Where.ELSEWHERE
        if isinstance(new, NativeDirectory):
            where = Where.TOOL if new.tool else Where.TOOLS
        rename = RENAMES.get((self._named(source), where, self._named(target)))
        if rename is None:
            raise FUSEError(self._not_moved(source, target))
        rename(self, at, to)

    def _named(self, node: Node | None) -> Named:
        what = next((_NAMED[kind] for kind in type(node).__mro__ if kind in _NAMED), Named.OTHER)
        return Named.OTHER if what in _SAVED and self.desk.targets.of(node) is None else what

    def _not_moved(self, source: Node, target: Node | None) -> int:
        if isinstance(source, SessionFile | SidecarFile | NativeDirectory):
            # programs that can then copy it and remove it
            return errno.EXDEV
        in_the_past = isinstance(target, ViewNode) and not self.desk.targets.is_head(target.view_id)
        return errno.EROFS if isinstance(source, ScratchFile) and in_the_past else refusal(source)

    def _rename_onto_saved(self, at: Name, to: Name) -> None:
        saved_as = self.desk.targets.of(to.node)
        assert saved_as is not None
        path = self._path(at)
        self.desk.saves.take(at.node, path, to.node, saved_as, self._come_back)
        self._look_again(to.node, to.name)

    def _rename_saved(self, at: Name, to: Name) -> None:
        saved_as = self.desk.targets.of(at.node)
        assert saved_as is not None
        path = self._new_path(to.directory, to.name)
        self._hide(self.desk.saves.give(at.node, saved_as, path, to.directory.ino))
        self._look_again(at.node, at.name)

    def _rename_session(self, at: Name, to: Name) -> None:
        if to.node is not None:
            self.desk.native.new.forget(to.node.ino)
        path = Path(os.fsdecode(self._new_path(to.directory, to.name)))
        self.desk.native.move(at.node, to.directory, to.name, path)

    def _rename_session_onto_another(self, at: Name, to: Name) -> None:
        path = Path(os.fsdecode(self._new_path(to.directory, to.name)))
        self.desk.native.move_onto(at.node, to.directory, path, to.node)

    def _rename_sidecar(self, at: Name, to: Name) -> None:
        replaced = to.node if isinstance(to.node, ScratchFile) else None
        self._move(self.desk.native.copy_up(at.node), at, to, replaced)
        self.desk.native.uncover(at.directory, at.name)

    def _rename_folder(self, at: Name, to: Name) -> None:
        if to.node is not None:
            self.rmdir(to.directory, to.name)
        self.desk.native.move_folder(at.node, to.directory, os.fsdecode(to.name))

    def _rename_scratch(self, at: Name, to: Name) -> None:
        self._move(at.node, at, to, to.node)
        self.desk.native.uncover(at.directory, at.name)

    def _rename_to_output(self, at: Name, to: Name) -> None:
        asked = self.desk.outputs.asked(to.directory, to.name)
        assert asked is not None
        if isinstance(at.node, OutputFile):
            self.desk.outputs.move(at.node, to.directory, asked)
        else:
            self.desk.outputs.take(at.node, self._path(at), to.directory, asked)

    def _move(self, source: ScratchNode, at: Name, to: Name, replaced: ScratchNode | None = None) -> None:
        path = self._path(at)
        new_path = self._new_path(to.directory, to.name, is_file=isinstance(source, ScratchFile))
        candidate = self._consider(source, to.directory, to.name) if isinstance(source, ScratchFile) else None
        self._made_by(candidate)
        ino, inodes = source.ino, self.desk.inodes
        inodes.change(ino, ScratchRole, lambda earlier: self.desk.new_events.role(ino, earlier.fd))
        open_still = inodes.is_open(ino)
        if candidate is None or not isinstance(source, ScratchFile) or open_still or not source.status().st_size:
            scratch = self.desk.scratch
            place = scratch.place_of(new_path, to.directory.ino)
            with replaced.losing(place) if replaced is not None else nullcontext():
                os.rename(path, new_path)
            source.called(place)
            source.not_called(scratch.place_of(path, at.directory.ino))
            self._maybe_session(source)
            return
        check_size(source.status().st_size)
        with open(path, "rb") as opened:
            data = opened.read()
        try:
            self.desk.new_events.append(source, Path(os.fsdecode(path)), candidate, data)
        except UsageError as error:
            self.desk.drafts.note(candidate.view_id, candidate.path, str(error))
            raise FUSEError(errno.EINVAL) from None

    def _maybe_session(self, source: ScratchNode) -> None:
        new, ino = self.desk.native.new, source.ino
        if self.desk.inodes.candidate(ino, NewSession) is not None:
            self.desk.inodes.change(ino, ScratchRole, lambda old: NewSessionRole(new, ino, old.fd, appends=old.appends))
            new.settle_quietly(ino)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do the work that is due after a while."""
        try:
            self.removals.tick()
            self.desk.copies.tick()
            self.conversations.vanishing.tick()
            self.desk.outputs.tick(self.conversations.vanishing.begun)
            self.desk.saves.tick()
            self.desk.native.tick()
        except Exception:
            log.exception("what was written is committed later")

    def close(self) -> None:
        """Commit everything, when the mount ends."""
        self.desk.saves.close()
        self.desk.native.writing.close()
        self.removals.close()
        self.desk.outputs.close()

    def sync_directory(self, directory: Directory) -> None:
        """Make the names in a directory durable: pending removals from it happen now."""
        if isinstance(directory, EventsDirectory):
            self.removals.commit(directory.view_id)
        if isinstance(directory, OutputsDirectory):
            self.desk.outputs.commit(directory.view_id)
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


Unlink = Callable[[Gestures, Name], None]
Rename = Callable[[Gestures, Name, Name], None]

UNLINKS: dict[Named, Unlink] = {
    Named.SCRATCH: Gestures._unlink_scratch,
    Named.SPECIAL: Gestures._unlink_scratch,
    Named.SAVED: Gestures._unlink_saved,
    Named.RESOURCE: Gestures._unlink_saved,
    Named.KNOWN: Gestures._unlink_known,
    Named.OUTPUT: lambda self, at: self.desk.outputs.remove(at.node),
    Named.SESSION: lambda self, at: self.desk.native.remove(at.node),
    Named.SIDECAR: lambda self, at: self.desk.native.remove_sidecar(at.node.tool, at.node.parts),
    Named.FORMER: lambda self, at: self.conversations.forget_name(at.node),
    Named.LINK: lambda self, at: self.conversations.unlink(at.directory, at.name, at.node),
}
"""The method that removes a name, by the kind of thing it stands for; no other can be removed."""

_NOTHING, _SCRATCH, _OUTPUT = (Named.NOTHING,), (Named.SCRATCH,), (Named.OUTPUT,)
_ON_DISK = (Named.SCRATCH, Named.SPECIAL, Named.SCRATCH_FOLDER)
_ANYWHERE, _BELOW_TOOLS = tuple(Where), (Where.TOOL, Where.TOOLS)

_ROWS: tuple[tuple[Sequence[Named], Sequence[Where], Sequence[Named], Rename], ...] = (
    # the kinds moved, the destinations, the kinds there, the method; the first row that has all three holds
    ((*_SCRATCH, *_OUTPUT), (Where.OUTPUTS,), (*_NOTHING, *_OUTPUT), Gestures._rename_to_output),
    (_OUTPUT, _ANYWHERE, (*_NOTHING, *_SCRATCH), lambda self, at, to: self.desk.outputs.give(
        at.node, self._new_path(to.directory, to.name), to.directory.ino)),
    (_SCRATCH, _ANYWHERE, _SAVED, Gestures._rename_onto_saved),
    (_SCRATCH, _ANYWHERE, (Named.SESSION,), lambda self, at, to: self.desk.native.replace(
        at.node, Path(os.fsdecode(self._path(at))), to.node)),
    (_SCRATCH, _ANYWHERE, (Named.SIDECAR,), lambda self, at, to: self._move(at.node, at, to)),
    (_ON_DISK, _ANYWHERE, (*_NOTHING, *_ON_DISK), Gestures._rename_scratch),
    (_SAVED, _ANYWHERE, (*_NOTHING, *_ON_DISK), Gestures._rename_saved),
    ((Named.SESSION,), (Where.TOOL,), (*_NOTHING, *_SCRATCH), Gestures._rename_session),
    ((Named.SESSION,), _BELOW_TOOLS, (Named.SESSION,), Gestures._rename_session_onto_another),
    ((Named.SIDECAR,), (Where.TOOL,), (*_NOTHING, *_SCRATCH, Named.SIDECAR), Gestures._rename_sidecar),
    ((Named.FOLDER,), _BELOW_TOOLS, (*_NOTHING, Named.FOLDER), Gestures._rename_folder),
    ((Named.CONVERSATION,), _ANYWHERE, _NOTHING, lambda self, at, to: self.conversations.move(
        at.node, at.directory, to.directory, to.name)),
    ((Named.PROJECT,), _ANYWHERE, (*_NOTHING, Named.PROJECT), lambda self, at, to: self.conversations.move_project(
        at.node, to.directory, to.name, to.node)),
    ((Named.LINK, Named.LABEL), _ANYWHERE, _NOTHING, lambda self, at, to: self.conversations.labels.move(
        at.node, at.directory, at.name, to.directory, to.name)),
)  # fmt: skip

RENAMES: dict[tuple[Named, Where, Named], Rename] = {}
"""The method that moves a name, by its kind, its destination and the kind there; no other can be moved."""
for _sources, _places, _targets, _rename in _ROWS:
    for _key in product(_sources, _places, _targets):
        RENAMES.setdefault(_key, _rename)

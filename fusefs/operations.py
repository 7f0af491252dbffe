"""The handlers that pyfuse3 calls: each answers a request of the kernel from the tree and the desk.

No handler waits for anything but work of a thread (``fusefs.tree.waiting``) or a change that a stand-in makes
(``fusefs.editing.stand_in``), so requests are answered one after the other, and others while some wait. Every handler
is wrapped: an exception that is not an errno would end the mount.
"""

import errno
import logging
import os
import stat
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count
from typing import Any, TypeVar

import pyfuse3
import trio
from msgspec import Struct
from pyfuse3 import EntryAttributes, FileInfo, FUSEError, ReaddirToken, RequestContext, SetattrFields, StatvfsData

from fusefs import inodes
from fusefs.editing.desk import Desk
from fusefs.editing.gestures import Gestures
from fusefs.editing.inode import LARGEST_SCRATCH, Handle, OrphanFile, Role
from fusefs.editing.new_events import NewEvent
from fusefs.editing.scratch import ScratchFile, ScratchLink, ScratchNode
from fusefs.editing.stand_in import ANYWHERE
from fusefs.handler import change, handler, question
from fusefs.inodes import FIRST_DERIVED, MAX_NUMBER, Place, Space
from fusefs.prefetch import Prefetch
from fusefs.tree.changes import Stale
from fusefs.tree.control import ErrorsDirectory
from fusefs.tree.conversation import LABEL_ATTRIBUTE, ConversationDirectory
from fusefs.tree.events import EventFile, EventsDirectory, GrowingFile
from fusefs.tree.native.files import SessionFile, SidecarFile
from fusefs.tree.node import LONG, SHORT, Attributes, Directory, DirEntry, File, Link, Node, OpenContent, OpenListing
from fusefs.tree.outputs import OutputFile
from fusefs.tree.projects import AsideDirectory, ProjectDirectory, ProjectsDirectory
from fusefs.tree.router import Router
from fusefs.tree.snapshots import SnapshotFile
from fusefs.tree.tree import Tree
from fusefs.tree.view_node import ViewDirectory, ViewNode
from fusefs.tree.waiting import Later
from store.errors import Away, ConvfsError, DamageError, Missing
from store.filenames import NAME_MAX

log = logging.getLogger(__name__)

T = TypeVar("T")

_BLOCK = 4096
_TOLD = 8192
"""The events of a listing whose attributes the kernel is told, too; and as many more each time it then looks any up.

Whoever lists more and looks at none wants names: all else would cost the kernel an inode each, and us a lookup.
"""
_FORGOTTEN_AT_ONCE = 512
"""The inodes that are forgotten while other requests wait."""
PREFIX = b"user.convfs."
_ACL = b"system.posix_acl_"
_LABEL = PREFIX + LABEL_ATTRIBUTE.encode()
"""Leads the names of extended attributes that give a conversation a label."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC

_OF_RECORDS = frozenset((int(Place.EVENTS_JSON), int(Place.TRANSCRIPT)))
"""The files that show all records of a conversation."""

_DIRECT = frozenset((int(Place.CHANGES), int(Place.CONTEXT), int(Place.FAMILY), int(Place.PAGE)))


class OpenDirectory(Struct):
    """A directory that is being listed: where the listing stands, so that the next request goes on from there."""

    node: Directory
    entries: Iterator[DirEntry] = iter(())
    position: int = -1
    waiting: DirEntry | None = None
    told: int = _TOLD
    """The position up to which attributes are told, too."""
    names_only: bool = False
    """True if none were told with the last reply."""


class OpenFile(Struct):
    """An open file. Its content is looked for when it is first read: most come from the page cache."""

    ino: int
    content: OpenContent | None


class Operations(pyfuse3.Operations):
    """All handlers."""

    supports_dot_lookup = False
    enable_writeback_cache = False
    enable_acl = False

    def __init__(self, tree: Tree, tell: Callable[[Stale], None] = lambda _stale: None) -> None:
        super().__init__()
        self.tree = tree
        self.router = Router(tree)
        self.desk = Desk(self.router, tell)
        self.lookups = self.desk.kernel.lookups
        self.prefetch = Prefetch(tree, self.lookups)
        self.gestures = Gestures(self.desk)
        self._uid = os.getuid()
        self._gid = os.getgid()
        self._numbers = count(1)
        """The numbers of open files and directories."""
        self._files: dict[int, OpenFile] = {}
        self._handles: dict[int, Handle] = {}
        self._directories: dict[int, OpenDirectory] = {}
        self._only_named: set[int] = set()
        """Directories whose listings went on with names only, and in which nothing was looked up since."""
        self._scratch = self._entry(Attributes(0, 0, 0, 0))

    def _entry(self, attributes: Attributes) -> EntryAttributes:
        entry = EntryAttributes()
        entry.st_uid = self._uid
        entry.st_gid = self._gid
        entry.st_blksize = _BLOCK
        _fill(entry, attributes)
        return entry

    def forget_all(self) -> None:
        """Forget all drawn and pushed contents: the stored ones have changed."""
        self.desk.forget_all()
        self.router.forget_all()
        self.prefetch.forget_all()

    # -- names and attributes --------------------------------------------------------------------------------------

    @question
    def lookup(self, parent_inode: int, name: bytes, ctx: RequestContext) -> EntryAttributes:
        self._in_order(parent_inode)
        directory = self._directory(parent_inode, name)
        self._only_named.discard(parent_inode)
        node = self.gestures.find(directory, name)
        if node is None or (self.desk.copies.busy and self.desk.copies.hides(ctx.pid, directory, name, node)):
            raise FUSEError(errno.ENOENT)
        if isinstance(node, EventFile) and node.view_id in self.tree.overlays and name != node.name.encode():
            self.desk.programs.asks(ctx)
            node = self.gestures.write_another(node, name) or node
        return self._named(node, name)

    def _named(self, node: Node, name: bytes) -> EntryAttributes:
        """Return the entry of a node that the kernel is about to know by a name."""
        entry = self._made(node)
        if isinstance(node, EventFile | GrowingFile | OutputFile) and name != node.name.encode():
            # changes by one name of a file are not seen by the others
            entry.entry_timeout = 0
        if self.desk.inodes.candidate(node.ino, NewEvent) is not None:
            # who looks at it is asked for
            entry.entry_timeout = 0
        return entry

    def _directory(self, inode: int, name: bytes) -> Directory:
        """Return the directory that ``name`` is, or will be, in."""
        if len(name) > NAME_MAX:
            raise FUSEError(errno.ENAMETOOLONG)
        directory = self.router.node(inode)
        if not isinstance(directory, Directory):
            raise FUSEError(errno.ENOTDIR)
        return directory

    def place(self, ino: int) -> int:
        """Return what requests about an inode are in one order by: its conversation, or a directory that has none."""
        while isinstance(node := self.tree.bound(ino), ScratchNode):
            ino = node.place.above
        if isinstance(node, ErrorsDirectory):
            return ANYWHERE
        space, view_id, _number = inodes.split(ino := self.tree.own.get(ino, ino))
        return ino if space == Space.FIXED else self.tree.place(view_id, Place.CONVERSATION)

    def _in_order(self, ino: int) -> None:
        """Raise Later while a change is being made that was asked for before, and is about the same place."""
        pending = self.desk.stand_in.pending
        if pending and (work := pending.get(self.place(ino))) is not None:
            work.await_done()

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        # the kernel sends tens of thousands at once; whatever it asks for in between adds to the counts
        for start in range(0, len(inode_list), _FORGOTTEN_AT_ONCE):
            if start:
                with trio.CancelScope(shield=True):
                    await trio.lowlevel.checkpoint()
            self.desk.stand_in.once_made(partial(self._forget, inode_list[start : start + _FORGOTTEN_AT_ONCE]))

    def _forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        try:
            for ino in self.lookups.forget(inode_list):
                self.prefetch.forget(ino)
                self.desk.forget(ino)
                self.tree.forget(ino)
        except Exception:
            log.exception("forgetting %r", inode_list)

    @question
    def getattr(self, inode: int, _ctx: RequestContext) -> EntryAttributes:
        self._in_order(inode)
        return self._entry(self.router.node(inode).attributes())

    @handler
    def readlink(self, inode: int, _ctx: RequestContext) -> bytes:
        node = self.router.node(inode)
        if isinstance(node, ScratchLink):
            return node.target()
        if not isinstance(node, Link):
            raise FUSEError(errno.EINVAL)
        return node.to

    # -- directories -----------------------------------------------------------------------------------------------

    def opendir(self, inode: int, ctx: RequestContext) -> Coroutine[Any, Any, int]:
        # who copies a conversation has it forked by that
        forks = self.desk.stand_in.needed and self.desk.copies.expects
        return (self._begin_to_copy if forks else self._begin_to_list)(inode, ctx)

    @change(1)
    def _begin_to_copy(self, inode: int, ctx: RequestContext) -> int:
        return self._listed(inode, ctx)

    @question
    def _begin_to_list(self, inode: int, ctx: RequestContext) -> int:
        self._in_order(inode)
        return self._listed(inode, ctx)

    def _listed(self, inode: int, ctx: RequestContext) -> int:
        node = self.router.node(inode)
        if isinstance(node, ViewDirectory):
            self.desk.copies.lists(ctx.pid, node)
        if not isinstance(node, Directory):
            raise FUSEError(errno.ENOTDIR)
        listed = node.opened()
        for released in self.tree.opens.released():
            del self._directories[released]
        handle = next(self._numbers)
        self._directories[handle] = OpenDirectory(listed)
        if seconds := self._kept_seconds(node):
            self.tree.opening(inode, handle, seconds)
        return handle

    def _kept_seconds(self, node: Directory) -> float:
        """Return for how long the kernel may keep the entries of a directory: as long as what it is told of these.

        Not at all where they are not what the store has, or nobody tells of a change.
        """
        tree = self.tree
        if tree.vanished or self.desk.copies.expects or any(True for _ in self.desk.scratch.entries(node, 0)):
            return 0.0
        if isinstance(node, EventsDirectory):
            is_bound = tree.bound(node.ino) is not None or node.ino in tree.own
            return 0.0 if is_bound or node.view_id in tree.overlays or tree.streams.any_of(node.view_id) else LONG
        if isinstance(node, ProjectsDirectory):
            # asked one by one for what is in it, Python would have more to do than to list it
            return SHORT
        return LONG if isinstance(node, ProjectDirectory | AsideDirectory) else 0.0

    @question
    def readdir(self, fh: int, start_id: int, token: ReaddirToken) -> None:
        opened = self._directories.get(fh)
        if opened is None:
            opened = self._adopted(fh)
        if start_id != opened.position:
            opened.entries = self._listing(opened.node, start_id)
            opened.waiting = None
            opened.position = start_id
        waiting = (opened.waiting,) if opened.waiting else ()
        opened.waiting = None
        try:
            self._reply(opened, token, chain(waiting, opened.entries))
            node = opened.node
            if opened.waiting is None:
                if not (isinstance(node, EventsDirectory) and node.view.rows.unsure):
                    self.tree.listed(node.ino, fh)
                if not opened.names_only:
                    self.tree.opens.ended(fh, opened.position)
        except Later:
            # the replies so far must go out, since they were counted; the rest is listed anew
            opened.position, reached = -1, opened.position
            if reached == start_id:
                raise
        except Exception:
            # the same, and the error comes with the next request
            opened.entries = iter(())
            if opened.position == start_id:
                raise
            log.exception("listing directory %d", opened.node.ino)
            opened.position = -1

    def _adopted(self, fh: int) -> OpenDirectory:
        """Return an open directory that Python was not asked about: from now on it is. May raise NotFound."""
        ino = self.tree.opens.adopt(fh)
        # one that is gone has nothing in it, and is released all the same
        root = self.router.fixed()
        assert isinstance(root, Directory)
        opened = self._directories[fh] = OpenDirectory(OpenListing(root, {}))
        node = self.router.node(ino)
        assert isinstance(node, Directory)
        opened.node = node.opened()
        return opened

    def _reply(self, opened: OpenDirectory, token: ReaddirToken, entries: Iterable[DirEntry]) -> None:
        """Put entries into a reply until it is full."""
        reply = pyfuse3.readdir_reply
        count = self.lookups.add
        scratch = self._scratch
        reached = opened.position
        names_only = self._are_names_enough(opened) and self.tree.opens.names_only(True)
        fill = _fill_identity if names_only else _fill
        try:
            for entry in entries:
                position, attributes = entry.position, entry.attributes
                fill(scratch, attributes)
                if not reply(token, entry.name, scratch, position):
                    opened.waiting = entry
                    return
                reached = position
                # the kernel takes no reference for these two
                if position > 2 and not names_only:
                    count(attributes.ino)
        finally:
            opened.position = reached
            if names_only:
                self.tree.opens.names_only(False)

    def _are_names_enough(self, opened: OpenDirectory) -> bool:
        """Return whether whoever lists events has been told of many, and has looked at none.

        Of other directories all are told: what is remembered for an entry of theirs goes when the kernel forgets it.
        """
        if opened.position < opened.told or not isinstance(opened.node, EventsDirectory):
            return False
        ino = opened.node.ino
        if opened.names_only and ino not in self._only_named:
            opened.names_only = False
            opened.told = opened.position + _TOLD
            return False
        self._only_named.add(ino)
        opened.names_only = True
        return True

    def _listing(self, directory: Directory, start: int) -> Iterator[DirEntry]:
        """Yield ``.``, ``..`` and the entries of a directory that come after position ``start``."""
        if start < 2:
            itself = directory.attributes()
            if start < 1:
                yield DirEntry(1, b".", itself)
            yield DirEntry(2, b"..", Attributes(directory.parent, itself.mode, 0, 0))
        entries = self.router.entries(directory, start)
        hidden = self.tree.has_vanished
        yield from (entry for entry in entries if not hidden(entry.attributes.ino)) if self.tree.vanished else entries
        if not isinstance(directory, ScratchNode):
            yield from self.desk.scratch.entries(directory, start)

    @handler
    def releasedir(self, fh: int) -> None:
        opened = self._directories.pop(fh)
        self._only_named.discard(opened.node.ino)
        waiting = opened.waiting
        if waiting is not None and waiting.attributes.ino not in self.lookups:
            self.desk.forget(waiting.attributes.ino)

    # -- reading ---------------------------------------------------------------------------------------------------

    def _open_to_read(self, inode: int) -> FileInfo:
        handle = next(self._numbers)
        answer = FileInfo(handle)
        content = None
        # events of these numbers are looked at, too: there is one of each in a conversation
        if inode <= MAX_NUMBER or inode & MAX_NUMBER in _DIRECT:
            node = self._file(inode)
            if node.direct:
                answer.direct_io = True
                answer.keep_cache = False
                content = node.open()
        bound = self.tree.bound(inode)
        if isinstance(bound, OrphanFile):
            # the name has led elsewhere since: told that, the kernel looks again
            raise FUSEError(errno.ESTALE)
        if isinstance(bound, ScratchFile):
            # while it has a name
            content = bound.open()
        if inode in self.tree.unsettled:
            # the kernel knows the old length only, and would cut to it what is read, or fill up with NULs
            answer.direct_io = True
            answer.keep_cache = False
        elif inode & MAX_NUMBER >= FIRST_DERIVED:
            # what it follows from may have changed
            answer.keep_cache = False
        self.prefetch.opening(inode)
        self._files[handle] = OpenFile(inode, content)
        if answer.keep_cache and content is None:
            self.prefetch.opened(inode)
        return answer

    @question
    def read(self, fh: int, off: int, size: int) -> bytes:
        writing = self._handles.get(fh)
        if writing is not None:
            return writing.role.read(off, size)
        opened = self._files.get(fh)
        if opened is None:
            opened = self._files[fh] = OpenFile(self.prefetch.adopt(fh), None)
        self.prefetch.missed(opened.ino, off)
        if opened.content is None:
            opened.content = self._file(opened.ino).open()
        try:
            return opened.content.read(off, size)
        except (DamageError, Missing) as error:
            # the file was found: what it stands for and is not there is damage, too
            self.tree.errors.add(self.router.describe(opened.ino), str(error))
            raise DamageError(str(error)) from error

    def _file(self, inode: int) -> File:
        node = self.router.node(inode)
        if not isinstance(node, File):
            raise FUSEError(errno.EISDIR)
        return node

    # -- the rest --------------------------------------------------------------------------------------------------

    @handler
    def statfs(self, _ctx: RequestContext) -> StatvfsData:
        space = self.tree.space.now()
        answer = StatvfsData()
        answer.f_bsize = answer.f_frsize = space.block
        answer.f_blocks = -(-space.used // space.block) + space.free
        answer.f_bfree = space.free
        answer.f_bavail = space.available
        # no number of inodes is set aside, so there is none to run out of
        answer.f_files = answer.f_ffree = answer.f_favail = 0
        answer.f_namemax = NAME_MAX
        return answer

    @question
    def getxattr(self, inode: int, name: bytes, _ctx: RequestContext) -> bytes:
        self._in_order(inode)
        # asked before every write, of whatever is written to
        if isinstance(node := self.tree.bound(inode), ScratchNode):
            return node.xattr(name)
        if name.startswith(PREFIX):
            value = self.router.xattr(self.router.node(inode), name[len(PREFIX) :].decode(errors="replace"))
            if value is not None:
                return value.encode(errors="replace")
        elif name.startswith(_ACL):
            raise FUSEError(errno.EOPNOTSUPP)
        raise FUSEError(pyfuse3.ENOATTR)

    @question
    def listxattr(self, inode: int, _ctx: RequestContext) -> Sequence[bytes]:
        node = self.router.node(inode)
        if isinstance(node, ScratchNode):
            return node.xattr_names()
        if not isinstance(node, ConversationDirectory):
            # what is listed is copied along (cp -a): only what people set, as the rest is true of this file alone
            return []
        return [PREFIX + name.encode() for name in node.xattrs() if name.startswith(LABEL_ATTRIBUTE)]

    @handler
    def access(self, _inode: int, _mode: int, _ctx: RequestContext) -> bool:
        return True

    # -- writing ---------------------------------------------------------------------------------------------------

    def open(self, inode: int, flags: int, ctx: RequestContext) -> Coroutine[Any, Any, FileInfo]:
        if not flags & _WRITING:
            return self._begin_to_read(inode, flags, ctx)
        begin = partial(self._begin_to_write, inode, flags, ctx)
        return begin() if self._all_is_here else self._once_fetched(begin, inode)

    async def _once_fetched(
        self, begin: Callable[[], Coroutine[Any, Any, T]], inode: int, name: bytes | None = None
    ) -> T:
        """Begin a change once what :meth:`_fetched` says is here."""
        await self._fetched(inode, name)
        return await begin()

    @property
    def _all_is_here(self) -> bool:
        """True if nothing has to be fetched for a change: whoever makes one waits for that, and all others with it."""
        return self.tree.store.files.packs.remote is None

    @question
    def _fetched(self, inode: int, name: bytes | None = None) -> None:
        """Have the record here whose file is about to be changed: an inode, or a name in it. May raise Away."""
        self._in_order(inode)
        try:
            node = self.router.node(inode) if name is None else self.gestures.find(self._directory(inode, name), name)
            if isinstance(node, EventFile) and node.ino not in self.tree.served:
                self.tree.store.contents.payload(node.row.turn)
        except Away:
            raise
        except ConvfsError:
            # whoever changes it is told
            return

    @handler
    def _begin_to_read(self, inode: int, _flags: int, ctx: RequestContext) -> FileInfo:
        self._in_order(inode)
        self.desk.programs.asks(ctx)
        own = self.tree.own.get(inode, inode)
        if own & MAX_NUMBER not in _OF_RECORDS or inodes.split(own)[0] != Space.PLACE:
            return self._open_to_read(inode)
        records = self.desk.records.opened(own, self.desk.programs.thread)
        answer = self._open_to_read(inode)
        if records is not None and answer.keep_cache and own == inode and inode not in self.tree.served:
            self.prefetch.watch(inode, records)
        return answer

    @change(1, commits=False)
    def _begin_to_write(self, inode: int, flags: int, ctx: RequestContext) -> FileInfo:
        self.desk.programs.asks(ctx)
        return self._opened(inode, self._open_to_write(self.router.node(inode), flags))

    def _open_to_write(self, node: Node, flags: int) -> Role:
        target = self.desk.targets.of(node)
        if target is not None:
            if isinstance(node, EventFile):
                self.desk.typed_names.opening(node, flags)
            anew, appends = bool(flags & os.O_TRUNC), bool(flags & os.O_APPEND)
            return self.desk.saves.open(node.ino, target, anew=anew, appends=appends)
        if isinstance(node, SidecarFile):
            node = self.desk.native.copy_up(node, empty=bool(flags & os.O_TRUNC))
        match node:
            case SessionFile():
                return self.desk.native.open(node, flags)
            case ScratchFile():
                _check_there(node)
                fd = node.opened(os.O_RDWR | flags & os.O_TRUNC)
                return self.gestures.role(node.ino, fd, flags)
            case OutputFile():
                return self.desk.outputs.open(node, flags)
            case Directory():
                raise FUSEError(errno.EISDIR)
            case OrphanFile():
                raise FUSEError(errno.ESTALE)
        raise FUSEError(_refusal(node))

    def _opened(self, inode: int, role: Role) -> FileInfo:
        handle = next(self._numbers)
        self._handles[handle] = self.desk.inodes.open(inode, role)
        self.prefetch.holding(inode)
        return FileInfo(handle)

    @change(1)
    def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: RequestContext
    ) -> tuple[FileInfo, EntryAttributes]:
        self.desk.programs.asks(ctx)
        directory = self._directory(parent_inode, name)
        node, role = self.gestures.create(directory, name, mode, flags)
        return self._opened(node.ino, role), self._named(node, name)

    @change(commits=False)
    def write(self, fh: int, off: int, buf: bytes) -> int:
        writing = self._handles.get(fh)
        if writing is None:
            raise FUSEError(errno.EBADF)
        return writing.role.write(off, buf)

    async def flush(self, fh: int) -> None:
        # asked at every close: for a file that was opened to be read, this is all that is done
        if (writing := self._handles.get(fh)) is not None:
            await self._flush(writing.ino, writing)

    @change(1)
    def _flush(self, _inode: int, writing: Handle) -> None:
        writing.role.flush()

    async def fsync(self, fh: int, datasync: bool) -> None:
        if (writing := self._handles.get(fh)) is not None:
            await self._sync(writing.ino, writing, datasync)

    @change(1)
    def _sync(self, _inode: int, writing: Handle, data_only: bool) -> None:
        writing.role.sync(data_only=data_only)

    def release(self, fh: int) -> Coroutine[Any, Any, None]:
        writing = self._handles.pop(fh, None)
        return self._let_go(fh) if writing is None else self._close(writing.ino, writing)

    @handler
    def _let_go(self, fh: int) -> None:
        self.prefetch.released(self._files.pop(fh).ino)

    @change(1)
    def _close(self, _inode: int, writing: Handle) -> None:
        self.prefetch.released(writing.opened_as)
        self.desk.inodes.close(writing)

    # -- attributes ------------------------------------------------------------------------------------------------

    @change(1)
    def setattr(
        self, inode: int, attr: EntryAttributes, fields: SetattrFields, fh: int | None, ctx: RequestContext
    ) -> EntryAttributes:
        self.desk.programs.asks(ctx)
        node = self.router.node(inode)
        if isinstance(node, SidecarFile):
            node = self.desk.native.copy_up(node)
        if fields.update_size:
            self._truncate(node, attr.st_size, fh)
        if isinstance(node, ScratchNode):
            _set_status(node, attr, fields)
        else:
            self._set_drawn(node, attr, fields)
        return self._entry(node.attributes())

    def _truncate(self, node: Node, size: int, fh: int | None) -> None:
        writing = self._handles.get(fh) if fh is not None else None
        if writing is not None:
            writing.role.truncate(size)
        elif isinstance(node, ScratchFile):
            if size > LARGEST_SCRATCH:
                raise FUSEError(errno.EFBIG)
            _check_there(node)
            with node.held() as path:
                os.truncate(path, size)
        elif isinstance(node, OutputFile):
            self.desk.outputs.truncate(node, size)
        elif isinstance(node, SessionFile):
            self.desk.native.truncate(node, size)
        elif (target := self.desk.targets.of(node)) is not None:
            self.desk.saves.truncate(node, target, size)
        else:
            raise FUSEError(_refusal(node))

    def _set_drawn(self, node: Node, attr: EntryAttributes, fields: SetattrFields) -> None:
        """Apply the attributes that a program sets on a drawn file: owner and mode stay, the time is that of a save."""
        if (fields.update_uid and attr.st_uid != self._uid) or (fields.update_gid and attr.st_gid != self._gid):
            raise FUSEError(errno.EPERM)
        if fields.update_size:
            # which sets its time, too
            return
        sets_mode = fields.update_mode and attr.st_mode != node.attributes().mode
        if (sets_mode or fields.update_mtime) and not self._can_be_saved(node):
            raise FUSEError(errno.EPERM)
        if not fields.update_mtime:
            return
        session = self.desk.saves.session(node.ino)
        if session is not None:
            session.set_time(attr.st_mtime_ns)
        elif isinstance(node, OutputFile):
            self.desk.outputs.set_time(node, attr.st_mtime_ns)
        elif isinstance(node, SessionFile):
            self.desk.native.writing.set_time(node.context, attr.st_mtime_ns)

    def _can_be_saved(self, node: Node) -> bool:
        """Return whether programs create a file or directory: setting its mode and times then succeeds.

        If refused, the programs would report that they could not save, or copy.
        """
        if isinstance(node, ViewNode) and not self.desk.targets.is_head(node.view_id):
            return False
        if self.desk.copies.writes(self.desk.programs.thread, node):
            return True
        if isinstance(node, SnapshotFile):
            # its mode is that of the file that it was
            return False
        return node.made if isinstance(node, Link) else bool(node.attributes().mode & stat.S_IWUSR)

    @change(1)
    def setxattr(self, inode: int, name: bytes, value: bytes, _ctx: RequestContext) -> None:
        node = self._with_xattr(inode, name)
        if isinstance(node, ConversationDirectory):
            self.gestures.conversations.labels.set(node, _label(name))
        else:
            with node.held() as path:
                os.setxattr(path, name, value)

    @change(1)
    def removexattr(self, inode: int, name: bytes, _ctx: RequestContext) -> None:
        node = self._with_xattr(inode, name)
        if isinstance(node, ConversationDirectory):
            self.gestures.conversations.labels.unset(node, _label(name))
        else:
            with node.held() as path:
                os.removexattr(path, name)

    def _with_xattr(self, inode: int, name: bytes) -> ScratchNode | ConversationDirectory:
        """Return the node of a settable attribute. Raises EOPNOTSUPP where there is none, EROFS in earlier versions."""
        node = self.router.node(inode)
        if isinstance(node, ConversationDirectory) and name.startswith(_LABEL):
            if not self.desk.targets.is_head(node.view_id):
                raise FUSEError(errno.EROFS)
            return node
        if isinstance(node, ScratchNode) and name.startswith(b"user."):
            return node
        raise FUSEError(errno.EOPNOTSUPP)

    # -- names -----------------------------------------------------------------------------------------------------

    def _made(self, node: Node) -> EntryAttributes:
        entry = self._entry(node.attributes())
        self.lookups.add(node.ino)
        return entry

    @change(1)
    def mknod(self, parent_inode: int, name: bytes, mode: int, _rdev: int, _ctx: RequestContext) -> EntryAttributes:
        return self._made(self.gestures.mknod(self._directory(parent_inode, name), name, mode))

    @change(1)
    def mkdir(self, parent_inode: int, name: bytes, mode: int, ctx: RequestContext) -> EntryAttributes:
        self.desk.programs.asks(ctx)
        return self._made(self.gestures.mkdir(self._directory(parent_inode, name), name, mode))

    @change(1)
    def symlink(self, parent_inode: int, name: bytes, target: bytes, ctx: RequestContext) -> EntryAttributes:
        self.desk.programs.asks(ctx)
        return self._made(self.gestures.symlink(self._directory(parent_inode, name), name, target))

    @change(1, 2)
    def link(self, inode: int, new_parent_inode: int, new_name: bytes, _ctx: RequestContext) -> EntryAttributes:
        directory = self._directory(new_parent_inode, new_name)
        return self._made(self.gestures.link(self.router.node(inode), directory, new_name))

    @change(1)
    def unlink(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        self.desk.programs.asks(ctx)
        self.gestures.unlink(self._directory(parent_inode, name), name)

    @change(1)
    def rmdir(self, parent_inode: int, name: bytes, _ctx: RequestContext) -> None:
        self.gestures.rmdir(self._directory(parent_inode, name), name)

    def rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        ctx: RequestContext,
    ) -> Coroutine[Any, Any, None]:
        begin = partial(self._rename, parent_inode_old, name_old, parent_inode_new, name_new, flags, ctx)
        # by this, programs put a new file in the place of an event's
        return begin() if self._all_is_here else self._once_fetched(begin, parent_inode_new, name_new)

    @change(1, 3)
    def _rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        ctx: RequestContext,
    ) -> None:
        self.desk.programs.asks(ctx)
        old, new = self._directory(parent_inode_old, name_old), self._directory(parent_inode_new, name_new)
        self.gestures.rename(old, name_old, new, name_new, flags)

    @change()
    def fsyncdir(self, fh: int, _datasync: bool) -> None:
        opened = self._directories.get(fh) or self._adopted(fh)
        self.gestures.sync_directory(opened.node)


def _refusal(node: Node) -> int:
    """Return the errno for what cannot be written: an earlier version never can, other things are not for programs."""
    return errno.EROFS if isinstance(node, ViewNode) else errno.EACCES


def _check_there(node: ScratchFile) -> None:
    """Raise ESTALE for a file that was removed because the store has it: told that, the kernel looks again."""
    if not node.status().st_nlink:
        raise FUSEError(errno.ESTALE)


def _label(attribute: bytes) -> str:
    try:
        return attribute.removeprefix(_LABEL).decode()
    except UnicodeDecodeError:
        raise FUSEError(errno.EINVAL) from None


def _set_status(node: ScratchNode, attr: EntryAttributes, fields: SetattrFields) -> None:
    with node.held() as path:
        if fields.update_mode:
            os.chmod(path, attr.st_mode & 0o7777)
        if fields.update_uid or fields.update_gid:
            os.chown(path, attr.st_uid if fields.update_uid else -1, attr.st_gid if fields.update_gid else -1)
        if fields.update_atime or fields.update_mtime:
            status = node.status()
            atime = attr.st_atime_ns if fields.update_atime else status.st_atime_ns
            mtime = attr.st_mtime_ns if fields.update_mtime else status.st_mtime_ns
            os.utime(path, ns=(atime, mtime))


def _fill_identity(entry: EntryAttributes, attributes: Attributes) -> None:
    entry.st_ino = attributes.ino
    entry.st_mode = attributes.mode


def _fill(entry: EntryAttributes, attributes: Attributes) -> None:
    size, status = attributes.size, attributes.status
    entry.st_ino = attributes.ino
    entry.st_mode = attributes.mode
    entry.st_size = size
    entry.st_blocks = (size + 511) >> 9
    entry.st_nlink = attributes.links
    entry.entry_timeout = entry.attr_timeout = attributes.timeout
    nanoseconds = attributes.time_ns or attributes.time_ms * 1_000_000
    entry.st_mtime_ns = nanoseconds
    entry.st_ctime_ns = nanoseconds
    entry.st_atime_ns = nanoseconds
    if status is not None:
        entry.st_blocks = status.st_blocks
        entry.st_rdev = status.st_rdev
        entry.st_mtime_ns = status.st_mtime_ns
        entry.st_ctime_ns = status.st_ctime_ns
        entry.st_atime_ns = status.st_atime_ns

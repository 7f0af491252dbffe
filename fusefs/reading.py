"""The handlers that change nothing: names, attributes, listings, content."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import pyfuse3
from pyfuse3 import EntryAttributes, FileInfo, FUSEError, ReaddirToken, RequestContext, StatvfsData

from fusefs.editing.desk import Desk
from fusefs.editing.gestures import Gestures
from fusefs.editing.orphan import OrphanFile
from fusefs.editing.scratch import ScratchLink, ScratchNode
from fusefs.handler import handler
from fusefs.inodes import MAX_NUMBER, Lookups, Place
from fusefs.kernel import Prefetch
from fusefs.text.names import NAME_MAX
from fusefs.tree.events import EventFile
from fusefs.tree.node import Attributes, Content, Directory, Entry, File, Link, Node
from fusefs.tree.outputs import OutputFile
from fusefs.tree.streams import GrowingFile
from fusefs.tree.tree import Tree
from store.errors import DamageError

log = logging.getLogger(__name__)

_BLOCK = 4096
PREFIX = b"user.convfs."
_ACL = b"system.posix_acl_"

_DIRECT = frozenset((int(Place.CONTEXT), int(Place.FAMILY)))


class OpenDirectory:
    """A directory that is being listed: where the listing stands, so that the next request goes on from there."""

    __slots__ = ("entries", "node", "position", "waiting")

    def __init__(self, node: Directory) -> None:
        self.node = node
        self.entries: Iterator[Entry] = iter(())
        self.position = -1
        self.waiting: Entry | None = None


class OpenFile:
    """An open file. Its content is looked for when it is first read: most come from the page cache."""

    __slots__ = ("content", "ino")

    def __init__(self, ino: int, content: Content | None) -> None:
        self.ino = ino
        self.content = content


class Reading(pyfuse3.Operations):
    """The handlers that read, and what all handlers share."""

    supports_dot_lookup = False
    enable_writeback_cache = False
    enable_acl = False

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self.tree = tree
        self.lookups = Lookups()
        self.prefetch = Prefetch(tree, self.lookups)
        self.desk = Desk(tree, self.lookups)
        self.gestures = Gestures(self.desk)
        self._uid = os.getuid()
        self._gid = os.getgid()
        self._next_handle = 0
        self._files: dict[int, OpenFile] = {}
        self._held: dict[int, int] = {}
        self._directories: dict[int, OpenDirectory] = {}
        self._scratch = self._entry(Attributes(0, 0, 0, 0))

    def _entry(self, attributes: Attributes) -> EntryAttributes:
        entry = EntryAttributes()
        entry.st_uid = self._uid
        entry.st_gid = self._gid
        entry.st_blksize = _BLOCK
        _fill(entry, attributes)
        return entry

    def forget_all(self) -> None:
        """Forget what was drawn and pushed: contents are others now."""
        self.desk.forget_all()
        self.prefetch.forget_all()

    # -- names and attributes --------------------------------------------------------------------------------------

    @handler
    def lookup(self, parent_inode: int, name: bytes, _ctx: RequestContext) -> EntryAttributes:
        node = self.gestures.names.find(self._directory(parent_inode, name), name)
        if node is None:
            raise FUSEError(errno.ENOENT)
        return self._named(node, name)

    def _named(self, node: Node, name: bytes) -> EntryAttributes:
        """Return the entry of a node that the kernel is about to know by a name."""
        entry = self._entry(node.attributes())
        if isinstance(node, EventFile | GrowingFile | OutputFile) and name != node.name.encode():
            # what is done by one name of a file is not seen by the others
            entry.entry_timeout = 0
        self.lookups.add(node.ino)
        return entry

    def _directory(self, inode: int, name: bytes) -> Directory:
        """Return the directory that ``name`` is, or will be, in."""
        if len(name) > NAME_MAX:
            raise FUSEError(errno.ENAMETOOLONG)
        directory = self.tree.node(inode)
        if not isinstance(directory, Directory):
            raise FUSEError(errno.ENOTDIR)
        return directory

    @handler
    def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        for ino in self.lookups.forget(inode_list):
            self.prefetch.forget(ino)
            self.desk.forget(ino)
            self.tree.forget(ino)

    @handler
    def getattr(self, inode: int, _ctx: RequestContext) -> EntryAttributes:
        return self._entry(self.tree.node(inode).attributes())

    @handler
    def readlink(self, inode: int, _ctx: RequestContext) -> bytes:
        node = self.tree.node(inode)
        if isinstance(node, ScratchLink):
            return node.target()
        if not isinstance(node, Link):
            raise FUSEError(errno.EINVAL)
        return node.to

    # -- directories -----------------------------------------------------------------------------------------------

    @handler
    def opendir(self, inode: int, _ctx: RequestContext) -> int:
        node = self.tree.node(inode)
        if not isinstance(node, Directory):
            raise FUSEError(errno.ENOTDIR)
        listed = node.opened()
        self._next_handle += 1
        self._directories[self._next_handle] = OpenDirectory(listed)
        return self._next_handle

    @handler
    def readdir(self, fh: int, start_id: int, token: ReaddirToken) -> None:
        opened = self._directories[fh]
        if start_id != opened.position:
            opened.entries = self._listing(opened.node, start_id)
            opened.waiting = None
            opened.position = start_id
        waiting = (opened.waiting,) if opened.waiting else ()
        opened.waiting = None
        try:
            self._reply(opened, token, chain(waiting, opened.entries))
        except Exception:
            # what was replied so far must go out, since it was counted; the error comes when it is asked on
            opened.entries = iter(())
            if opened.position == start_id:
                raise
            log.exception("listing directory %d", opened.node.ino)
            opened.position = -1

    def _reply(self, opened: OpenDirectory, token: ReaddirToken, entries: Iterable[Entry]) -> None:
        """Put entries into a reply until it is full."""
        reply = pyfuse3.readdir_reply
        counts = self.lookups.counts
        scratch = self._scratch
        for entry in entries:
            position, name, attributes = entry
            _fill(scratch, attributes)
            if not reply(token, name, scratch, position):
                opened.waiting = entry
                return
            opened.position = position
            # the kernel takes no reference for these two
            if position > 2:
                ino = attributes.ino
                counts[ino] = counts.get(ino, 0) + 1

    def _listing(self, directory: Directory, start: int) -> Iterator[Entry]:
        """Yield ``.``, ``..`` and the entries of a directory that come after position ``start``."""
        if start < 1:
            yield Entry(1, b".", directory.attributes())
        if start < 2:
            yield Entry(2, b"..", Attributes(directory.parent, directory.attributes().mode, 0, 0))
        entries = directory.entries(start)
        hidden = self.tree.has_vanished
        yield from (entry for entry in entries if not hidden(entry.attributes.ino)) if self.tree.vanished else entries
        if not isinstance(directory, ScratchNode):
            yield from self.desk.scratch.entries(directory, start)

    @handler
    def releasedir(self, fh: int) -> None:
        waiting = self._directories.pop(fh).waiting
        if waiting is not None and waiting.attributes.ino not in self.lookups:
            self.desk.forget(waiting.attributes.ino)

    # -- files -----------------------------------------------------------------------------------------------------

    def _open_to_read(self, inode: int) -> FileInfo:
        """Open a file that will only be read."""
        handle = self._next_handle = self._next_handle + 1
        answer = FileInfo(handle)
        content = None
        # events of these numbers are looked at, too: there is one of each in a conversation
        if inode <= MAX_NUMBER or inode & MAX_NUMBER in _DIRECT:
            node = self._file(inode)
            if node.direct:
                answer.direct_io = True
                answer.keep_cache = False
                content = node.open()
        if isinstance(self.tree.bound(inode), OrphanFile):
            # the name has led elsewhere since: told that, the kernel looks again
            raise FUSEError(errno.ESTALE)
        if inode in self.tree.unsettled:
            answer.keep_cache = False
        self.prefetch.opening(inode)
        self._files[handle] = OpenFile(inode, content)
        return answer

    @handler
    def read(self, fh: int, off: int, size: int) -> bytes:
        writing = self.desk.handles.get(fh)
        if writing is not None:
            return writing.read(off, size)
        opened = self._files[fh]
        self.prefetch.missed(opened.ino, off)
        try:
            if opened.content is None:
                opened.content = self._file(opened.ino).open()
            return opened.content.read(off, size)
        except DamageError as error:
            self.tree.errors.add(self.tree.describe(opened.ino), str(error))
            raise

    def _file(self, inode: int) -> File:
        node = self.tree.node(inode)
        if not isinstance(node, File):
            raise FUSEError(errno.EISDIR)
        return node

    # -- the rest --------------------------------------------------------------------------------------------------

    @handler
    def statfs(self, _ctx: RequestContext) -> StatvfsData:
        space = self.tree.space()
        answer = StatvfsData()
        answer.f_bsize = answer.f_frsize = space.block
        answer.f_blocks = -(-space.used // space.block) + space.free
        answer.f_bfree = space.free
        answer.f_bavail = space.available
        # no number of inodes is set aside, so there is none to run out of
        answer.f_files = answer.f_ffree = answer.f_favail = 0
        answer.f_namemax = NAME_MAX
        return answer

    @handler
    def getxattr(self, inode: int, name: bytes, _ctx: RequestContext) -> bytes:
        # asked before every write, of whatever is written to
        if isinstance(node := self.tree.bound(inode), ScratchNode):
            return node.xattr(name)
        if name.startswith(PREFIX):
            node, key = self.tree.node(inode), name[len(PREFIX) :].decode(errors="replace")
            value = node.unlisted_xattr(key) or node.xattrs().get(key)
            if value is not None:
                return value.encode(errors="replace")
        elif name.startswith(_ACL):
            raise FUSEError(errno.EOPNOTSUPP)
        raise FUSEError(pyfuse3.ENOATTR)

    @handler
    def listxattr(self, inode: int, _ctx: RequestContext) -> Sequence[bytes]:
        node = self.tree.node(inode)
        if isinstance(node, ScratchNode):
            return node.xattr_names()
        return [PREFIX + name.encode() for name in node.xattrs()]

    @handler
    def access(self, _inode: int, _mode: int, _ctx: RequestContext) -> bool:
        return True


def _fill(entry: EntryAttributes, attributes: Attributes) -> None:
    ino, mode, size, time_ms, links, timeout, status, time_ns = attributes
    entry.st_ino = ino
    entry.st_mode = mode
    entry.st_size = size
    entry.st_blocks = (size + 511) >> 9
    entry.st_nlink = links
    entry.entry_timeout = entry.attr_timeout = timeout
    nanoseconds = time_ns or time_ms * 1_000_000
    entry.st_mtime_ns = nanoseconds
    entry.st_ctime_ns = nanoseconds
    entry.st_atime_ns = nanoseconds
    if status is not None:
        entry.st_blocks = status.st_blocks
        entry.st_rdev = status.st_rdev
        entry.st_mtime_ns = status.st_mtime_ns
        entry.st_ctime_ns = status.st_ctime_ns
        entry.st_atime_ns = status.st_atime_ns

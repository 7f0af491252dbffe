"""What pyfuse3 calls: each request of the kernel, answered from the tree.

No handler waits for anything, so requests are answered one after the other, and every handler is wrapped: an
exception that is not an errno would end the mount. The mount is read-only; whatever would change something is EROFS.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import wraps
from itertools import chain
from typing import Any, NoReturn, ParamSpec, TypeVar

import pyfuse3
from pyfuse3 import EntryAttributes, FileInfo, FUSEError, ReaddirToken, RequestContext, StatvfsData

from fusefs.inodes import MAX_NUMBER, Lookups
from fusefs.kernel import Prefetch
from fusefs.text.names import NAME_MAX
from fusefs.tree.node import Attributes, Content, Directory, Entry, File, Link
from fusefs.tree.tree import Tree
from store.errors import Conflict, ConvfsError, DamageError, NotFound, StoreBusy, StoreFailed, UsageError

log = logging.getLogger(__name__)

ERRNO: dict[type[ConvfsError], int] = {
    NotFound: errno.ENOENT,
    Conflict: errno.EEXIST,
    StoreBusy: errno.EBUSY,
    UsageError: errno.EINVAL,
    DamageError: errno.EIO,
    StoreFailed: errno.EROFS,
}
"""What an error of the store is to programs; any other is EIO."""

_BLOCK = 4096
_PREFIX = b"user.convfs."
_ACL = b"system.posix_acl_"

P = ParamSpec("P")
T = TypeVar("T")


def errno_of(error: ConvfsError) -> int:
    """Return the errno that an error of the store becomes."""
    return next((ERRNO[kind] for kind in type(error).__mro__ if kind in ERRNO), errno.EIO)


def handler(answer: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a handler of a method that answers at once: whatever it raises becomes an errno."""

    # pyfuse3 passes positions only, and a mapping of keywords would cost something
    @wraps(answer)
    async def handle(*args: P.args, **_kwargs: P.kwargs) -> T:
        try:
            return answer(*args)  # type: ignore[call-arg]  # see above
        except FUSEError:
            raise
        except ConvfsError as error:
            code = errno_of(error)
            if code == errno.EIO:
                log.error("%s%r: %s", answer.__name__, args[1:], error)
            raise FUSEError(code) from None
        except Exception:
            log.exception("%s%r failed", answer.__name__, args[1:])
            raise FUSEError(errno.EIO) from None

    return handle


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


class Operations(pyfuse3.Operations):
    """The handlers."""

    supports_dot_lookup = False
    enable_writeback_cache = False
    enable_acl = False

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self.tree = tree
        self.lookups = Lookups()
        self.prefetch = Prefetch(tree, self.lookups)
        self._uid = os.getuid()
        self._gid = os.getgid()
        self._next_handle = 0
        self._files: dict[int, OpenFile] = {}
        self._directories: dict[int, OpenDirectory] = {}
        self._scratch = self._entry(Attributes(0, 0, 0, 0))

    def _entry(self, attributes: Attributes) -> EntryAttributes:
        entry = EntryAttributes()
        entry.st_uid = self._uid
        entry.st_gid = self._gid
        entry.st_blksize = _BLOCK
        _fill(entry, attributes)
        return entry

    # -- names and attributes --------------------------------------------------------------------------------------

    @handler
    def lookup(self, parent_inode: int, name: bytes, _ctx: RequestContext) -> EntryAttributes:
        if len(name) > NAME_MAX:
            raise FUSEError(errno.ENAMETOOLONG)
        directory = self.tree.node(parent_inode)
        if not isinstance(directory, Directory):
            raise FUSEError(errno.ENOTDIR)
        try:
            node = directory.lookup(name.decode())
        except UnicodeDecodeError:
            node = None
        if node is None:
            raise FUSEError(errno.ENOENT)
        entry = self._entry(node.attributes())
        self.lookups.add(node.ino)
        return entry

    @handler
    def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        for ino in self.lookups.forget(inode_list):
            self.prefetch.forget(ino)
            self.tree.forget(ino)

    @handler
    def getattr(self, inode: int, _ctx: RequestContext) -> EntryAttributes:
        return self._entry(self.tree.node(inode).attributes())

    @handler
    def readlink(self, inode: int, _ctx: RequestContext) -> bytes:
        node = self.tree.node(inode)
        if not isinstance(node, Link):
            raise FUSEError(errno.EINVAL)
        return node.to

    # -- directories -----------------------------------------------------------------------------------------------

    @handler
    def opendir(self, inode: int, _ctx: RequestContext) -> int:
        node = self.tree.node(inode)
        if not isinstance(node, Directory):
            raise FUSEError(errno.ENOTDIR)
        self._next_handle += 1
        self._directories[self._next_handle] = OpenDirectory(node)
        return self._next_handle

    @handler
    def readdir(self, fh: int, start_id: int, token: ReaddirToken) -> None:
        opened = self._directories[fh]
        if start_id != opened.position:
            opened.entries = _listing(opened.node, start_id)
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

    @handler
    def releasedir(self, fh: int) -> None:
        del self._directories[fh]

    @handler
    def fsyncdir(self, _fh: int, _datasync: bool) -> None:
        return

    # -- files -----------------------------------------------------------------------------------------------------

    @handler
    def open(self, inode: int, flags: int, _ctx: RequestContext) -> FileInfo:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC):
            raise FUSEError(errno.EROFS)
        handle = self._next_handle = self._next_handle + 1
        answer = FileInfo(handle)
        content = None
        if inode <= MAX_NUMBER:
            node = self._file(inode)
            if node.direct:
                answer.direct_io = True
                answer.keep_cache = False
                content = node.open()
        self.prefetch.opening(inode)
        self._files[handle] = OpenFile(inode, content)
        return answer

    @handler
    def read(self, fh: int, off: int, size: int) -> bytes:
        opened = self._files[fh]
        self.prefetch.missed(opened.ino, off)
        try:
            if opened.content is None:
                opened.content = self._file(opened.ino).open()
            return opened.content.read(off, size)
        except DamageError as error:
            self.tree.errors.add(self.tree.describe(opened.ino), str(error))
            raise

    async def flush(self, _fh: int) -> None:
        # nothing is ever written, so the kernel need not ask again at every close: a third of all requests of a grep
        raise FUSEError(errno.ENOSYS)

    @handler
    def release(self, fh: int) -> None:
        self.prefetch.released(self._files.pop(fh).ino)

    @handler
    def fsync(self, _fh: int, _datasync: bool) -> None:
        return

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
        if name.startswith(_PREFIX):
            value = self.tree.node(inode).xattrs().get(name[len(_PREFIX) :].decode(errors="replace"))
            if value is not None:
                return value.encode(errors="replace")
        elif name.startswith(_ACL):
            raise FUSEError(errno.EOPNOTSUPP)
        raise FUSEError(pyfuse3.ENOATTR)

    @handler
    def listxattr(self, inode: int, _ctx: RequestContext) -> Sequence[bytes]:
        return [_PREFIX + name.encode() for name in self.tree.node(inode).xattrs()]

    @handler
    def access(self, _inode: int, _mode: int, _ctx: RequestContext) -> bool:
        return True


async def _refuse(_self: Operations, *_args: object) -> NoReturn:
    raise FUSEError(errno.EROFS)


_CHANGES = "setattr setxattr removexattr write create mknod mkdir symlink link unlink rmdir rename"
for _change in _CHANGES.split():
    setattr(Operations, _change, _refuse)


def _listing(directory: Directory, start: int) -> Iterator[Entry]:
    """Yield ``.``, ``..`` and the entries of a directory that come after position ``start``."""
    if start < 1:
        yield Entry(1, b".", directory.attributes())
    if start < 2:
        yield Entry(2, b"..", Attributes(directory.parent, directory.attributes().mode, 0, 0))
    yield from directory.entries(start)


def _fill(entry: EntryAttributes, attributes: Attributes) -> None:
    ino, mode, size, time_ms, links, timeout = attributes
    entry.st_ino = ino
    entry.st_mode = mode
    entry.st_size = size
    entry.st_blocks = (size + 511) >> 9
    entry.st_nlink = links
    entry.entry_timeout = entry.attr_timeout = timeout
    nanoseconds = time_ms * 1_000_000
    entry.st_mtime_ns = nanoseconds
    entry.st_ctime_ns = nanoseconds
    entry.st_atime_ns = nanoseconds

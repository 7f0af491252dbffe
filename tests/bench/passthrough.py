"""A read-only passthrough file system with pyfuse3: what a FUSE daemon in Python costs that does nothing else.

One contestant of the read benchmarks, run as its own process: ``python passthrough.py SOURCE MOUNTPOINT``. It does
each thing the plain way: stat on lookup, scandir on readdirplus, open and pread for reading. The kernel may keep
entries and attributes for a minute, and file contents for as long as it likes.
"""

import errno
import os
import sys
from collections.abc import Sequence

import pyfuse3
import trio

CACHED_SECONDS = 60.0


class Passthrough(pyfuse3.Operations):
    """Maps inode numbers to paths below the source directory; nothing is ever forgotten."""

    enable_writeback_cache = False

    def __init__(self, source: str) -> None:
        super().__init__()
        self._paths: dict[int, str] = {pyfuse3.ROOT_INODE: source}
        self._inodes: dict[str, int] = {source: pyfuse3.ROOT_INODE}
        self._listings: dict[int, tuple[str, list[os.DirEntry[str]]]] = {}
        self._next = pyfuse3.ROOT_INODE + 1

    def _inode(self, path: str) -> int:
        known = self._inodes.get(path)
        if known is None:
            known = self._inodes[path] = self._next
            self._paths[known] = path
            self._next += 1
        return known

    def _attributes(self, inode: int, status: os.stat_result) -> pyfuse3.EntryAttributes:
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = pyfuse3.InodeT(inode)
        entry.st_mode = pyfuse3.ModeT(status.st_mode)
        entry.st_nlink = status.st_nlink
        entry.st_uid = status.st_uid
        entry.st_gid = status.st_gid
        entry.st_size = status.st_size
        entry.st_blksize = 4096
        entry.st_blocks = status.st_blocks
        entry.st_atime_ns = status.st_atime_ns
        entry.st_mtime_ns = status.st_mtime_ns
        entry.st_ctime_ns = status.st_ctime_ns
        entry.entry_timeout = entry.attr_timeout = CACHED_SECONDS
        return entry

    async def lookup(
        self, parent_inode: pyfuse3.InodeT, name: pyfuse3.FileNameT, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """Stat the path."""
        path = f"{self._paths[parent_inode]}/{os.fsdecode(name)}"
        try:
            status = os.lstat(path)
        except OSError as error:
            raise pyfuse3.FUSEError(error.errno or errno.EIO) from None
        return self._attributes(self._inode(path), status)

    async def getattr(self, inode: pyfuse3.InodeT, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        """Stat the path that the inode has."""
        return self._attributes(inode, os.lstat(self._paths[inode]))

    async def opendir(self, inode: pyfuse3.InodeT, ctx: pyfuse3.RequestContext) -> pyfuse3.FileHandleT:
        """List the directory now; the listing is what this handle serves."""
        path = self._paths[inode]
        with os.scandir(path) as entries:
            handle = self._next
            self._next += 1
            self._listings[handle] = (path, list(entries))
        return pyfuse3.FileHandleT(handle)

    async def readdir(self, fh: pyfuse3.FileHandleT, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        """Answer entries with their attributes until the kernel's buffer is full."""
        path, entries = self._listings[fh]
        for position in range(start_id, len(entries)):
            entry = entries[position]
            inode = self._inode(f"{path}/{entry.name}")
            attributes = self._attributes(inode, entry.stat(follow_symlinks=False))
            if not pyfuse3.readdir_reply(token, pyfuse3.FileNameT(os.fsencode(entry.name)), attributes, position + 1):
                return

    async def releasedir(self, fh: pyfuse3.FileHandleT) -> None:
        """Drop the listing."""
        del self._listings[fh]

    async def open(self, inode: pyfuse3.InodeT, flags: pyfuse3.FlagT, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        """Open the file; the kernel may keep what it has cached of it."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise pyfuse3.FUSEError(errno.EROFS)
        return pyfuse3.FileInfo(fh=pyfuse3.FileHandleT(os.open(self._paths[inode], os.O_RDONLY)), keep_cache=True)

    async def read(self, fh: pyfuse3.FileHandleT, off: int, size: int) -> bytes:
        """Read from the file."""
        return os.pread(fh, size, off)

    async def release(self, fh: pyfuse3.FileHandleT) -> None:
        """Close the file."""
        os.close(fh)

    async def forget(self, inode_list: Sequence[tuple[pyfuse3.InodeT, int]]) -> None:
        """Keep everything: the benchmark's tree fits in memory."""


def main() -> None:
    """Serve until unmounted."""
    source, mountpoint = sys.argv[1:]
    options = set(pyfuse3.default_options) | {"fsname=passthrough", "ro"}
    pyfuse3.init(Passthrough(os.path.abspath(source)), mountpoint, options)
    try:
        trio.run(pyfuse3.main)
    finally:
        pyfuse3.close(unmount=True)


if __name__ == "__main__":
    main()

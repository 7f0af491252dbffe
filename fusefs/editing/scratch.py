"""Scratch: every name in the mount that is not of a conversation. Editors' and tools' own files are kept here.

They lie below ``scratch/`` in the store's directory, a directory for each of the mount's that has any, and are what
they are there: files, directories, links, with their modes, times and attributes. So they survive a restart, and what
holds for files on that disk holds for them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pyfuse3 import ENOATTR, FUSEError

from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.disk_space import SCRATCH
from fusefs.tree.events import EventsDirectory
from fusefs.tree.fixed import RootDirectory
from fusefs.tree.imports import IMPORT, ImportDirectory
from fusefs.tree.native.files import NativeDirectory
from fusefs.tree.node import SHORT, Attributes, Content, Directory, Entry, File, Node
from fusefs.tree.outputs import OutputsDirectory
from fusefs.tree.projects import ProjectDirectory, ProjectsDirectory
from fusefs.tree.resources import ResourceDirectory
from fusefs.tree.view_node import ViewNode
from store.disk import durable

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

FIRST = 1 << 49
"""Inode numbers of scratch files are those on the disk, counted from here, if they are below it."""

_FIRST_POSITION = 1 << 51
_KEY_BYTES = 6
_NAME_MAX = 200
_RESERVED = 256
"""Descriptors that are left to everything else."""


class ScratchNode(Node):
    """A scratch file of any kind, held by a descriptor that opens nothing (``O_PATH``), so that it is found by no name.

    ``above`` is the inode number of a directory that it is in.
    """

    __slots__ = ("above", "fd")

    def __init__(self, ino: int, fd: int, above: int) -> None:
        super().__init__(ino)
        self.fd = fd
        self.above = above

    @property
    def path(self) -> bytes:
        """A path that leads to it, whatever its names are."""
        return b"/proc/self/fd/%d" % self.fd

    def status(self) -> os.stat_result:
        """Return its status on the disk."""
        return os.fstat(self.fd)

    def attributes(self) -> Attributes:
        return status_attributes(self.ino, self.status())

    def xattr(self, name: bytes) -> bytes:
        """Return an extended attribute; those that programs may set are kept on the disk."""
        if name.startswith(b"system.posix_acl_"):
            raise FUSEError(errno.EOPNOTSUPP)
        if not name.startswith(b"user.") or isinstance(self, ScratchLink):
            raise FUSEError(ENOATTR)
        return os.getxattr(self.path, name)

    def xattr_names(self) -> list[bytes]:
        """Return the names of the extended attributes that programs have set."""
        if isinstance(self, ScratchLink):
            return []
        return [os.fsencode(name) for name in os.listxattr(self.path) if name.startswith("user.")]


def status_attributes(ino: int, status: os.stat_result) -> Attributes:
    """Return the attributes of a file of the disk."""
    return Attributes(ino, status.st_mode, status.st_size, 0, status.st_nlink, SHORT, status)


class ScratchPipe(ScratchNode):
    """A named pipe in scratch, or a socket. The kernel opens them itself; whoever opened one here would wait in it."""

    __slots__ = ()


class ScratchFile(ScratchNode, File):
    """A regular scratch file."""

    __slots__ = ()

    def open(self) -> Content:
        return ScratchContent(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))


class ScratchContent:
    """A scratch file that is open; closed when nobody holds it any more."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        return os.pread(self.fd, size, offset)


class ScratchLink(ScratchNode):
    """A symbolic link in scratch."""

    __slots__ = ()

    def target(self) -> bytes:
        """Return where it leads."""
        return os.readlink(b"", dir_fd=self.fd)


class ScratchDirectory(ScratchNode, Directory):
    """A directory in scratch."""

    __slots__ = ("scratch",)

    def __init__(self, ino: int, fd: int, above: int, scratch: Scratch) -> None:
        super().__init__(ino, fd, above)
        self.scratch = scratch

    @property
    def parent(self) -> int:
        """The inode number of the directory that it is in."""
        return self.above

    def lookup(self, name: str) -> Node | None:
        return self.scratch.find(self, os.fsencode(name))

    def entries(self, after: int) -> Iterator[Entry]:
        return self.scratch.entries(self, after)


class Scratch:
    """All scratch files of one mount."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.root = tree.store.root / SCRATCH
        durable.make_directory(self.root)
        self._numbers: dict[int, int] = {}
        """Inode numbers by those on the disk, where they differ."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = limit - _RESERVED if limit > 2 * _RESERVED else limit // 2
        """How many scratch files the kernel may know at once: the rest of the mount needs descriptors too."""
        self._known = 0

    # -- where they are --------------------------------------------------------------------------------------------

    def place(self, directory: Node) -> bytes | None:
        """Return the path of the directory on the disk for names in one of the mount's; None where there is none."""
        if isinstance(directory, ScratchDirectory):
            return directory.path
        if isinstance(directory, NativeDirectory):
            return os.fsencode(directory.on_disk()) if directory.tool else None
        key = self._key(directory)
        return None if key is None else os.fsencode(self.root) + b"/" + key

    def _key(self, directory: Node) -> bytes | None:
        match directory:
            case ConversationDirectory() | EventsDirectory() | ResourceDirectory() | OutputsDirectory():
                return self._view_key(directory)
            case RootDirectory():
                return b"mount"
            case ImportDirectory():
                return IMPORT.encode()
            case ProjectDirectory():
                return _spelled(f"{directory.key}/{directory.project}")
            case ProjectsDirectory():
                return _spelled(directory.key)
        return None

    def _view_key(self, directory: ViewNode) -> bytes | None:
        view = directory.view
        if view.version is not None:
            return None
        above = f"{view.conversation.id}"
        match directory:
            case EventsDirectory():
                return f"{above}-events".encode()
            case ResourceDirectory():
                return _spelled(f"{above}-resources/{directory.path}".rstrip("/"))
            case OutputsDirectory():
                return f"{above}-{directory.outputs.directory}".encode()
        return above.encode()

    def events_of(self, context: int) -> Path:
        """Return the directory on the disk for names in a conversation's ``events/``, made if it is not there."""
        path = self.root / f"{context}-events"
        durable.make_directory(path)
        return path

    def at(self, directory: Node, name: bytes) -> bytes | None:
        """Return the path on the disk of a name in one of the mount's directories; None where none can be."""
        place = self.place(directory)
        return None if place is None else place + b"/" + name

    def make_place(self, directory: Node, name: bytes) -> bytes | None:
        """Return the path on the disk for a new name, whose directory is made where it is not there yet."""
        place = self.place(directory)
        if place is None:
            return None
        if isinstance(directory, NativeDirectory):
            self.make_folder(directory.on_disk())
        elif not isinstance(directory, ScratchDirectory):
            durable.make_directory(Path(os.fsdecode(place)))
        return place + b"/" + name

    def make_folder(self, folder: Path) -> None:
        """Make a directory on the disk, and those that it is in up to the one of all scratch files."""
        if folder != self.root and not folder.is_dir():
            self.make_folder(folder.parent)
            durable.make_directory(folder)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def find(self, directory: Node, name: bytes) -> ScratchNode | None:
        """Return the scratch file with a name in a directory, None if there is none."""
        path = self.at(directory, name)
        return None if path is None else self.node_at(path, directory.ino)

    def node_at(self, path: bytes, above: int) -> ScratchNode | None:
        """Return the node of a file on the disk that is in directory ``above``; None if there is none."""
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return self._node(fd, above)

    def _node(self, fd: int, above: int) -> ScratchNode:
        status = os.fstat(fd)
        ino = self.number(status.st_ino)
        known = self._tree.bound(ino)
        if isinstance(known, ScratchNode):
            os.close(fd)
            return known
        if self._known >= self._most:
            os.close(fd)
            raise OSError(errno.ENFILE, "the kernel knows too many scratch files")
        self._known += 1
        node: ScratchNode
        if stat.S_ISDIR(status.st_mode):
            node = ScratchDirectory(ino, fd, above, self)
        elif stat.S_ISLNK(status.st_mode):
            node = ScratchLink(ino, fd, above)
        elif stat.S_ISREG(status.st_mode):
            node = ScratchFile(ino, fd, above)
        else:
            node = ScratchPipe(ino, fd, above)
        self._tree.bind(ino, node)
        return node

    def number(self, on_disk: int) -> int:
        """Return the inode number of a file that has another one on the disk."""
        number = self._numbers.get(on_disk)
        if number is None:
            number = FIRST + on_disk
            taken = self._tree.bound(number)
            # a file that took the place of another keeps its number, though the disk gives it to the next
            is_free = taken is None or (isinstance(taken, ScratchNode) and taken.status().st_ino == on_disk)
            if on_disk >= FIRST or not is_free:
                number = self._numbers[on_disk] = self._tree.new_number()
        return number

    def give(self, ino: int, path: bytes, above: int) -> ScratchNode:
        """Make the file at ``path`` the one that the kernel knows as ``ino``."""
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._known += 1
        node = ScratchFile(ino, fd, above)
        self._numbers[os.fstat(fd).st_ino] = ino
        self._tree.bind(ino, node)
        return node

    def renumber(self, node: ScratchNode) -> None:
        """Give the other names of a file a number of their own: the one that it had has become something else's."""
        self._numbers[node.status().st_ino] = self._tree.new_number()

    def drop(self, node: ScratchNode) -> None:
        """Let go of a node that the kernel no longer knows, or that became something else."""
        on_disk = node.status().st_ino
        first = FIRST + on_disk
        taken = self._tree.bound(first)
        if self._numbers.get(on_disk) == node.ino and (taken is None or taken is node or on_disk >= FIRST):
            del self._numbers[on_disk]
        if self._tree.bound(node.ino) is node:
            self._tree.unbind(node.ino)
        os.close(node.fd)
        self._known -= 1

    # -- listing ---------------------------------------------------------------------------------------------------

    def entries(self, directory: Node, after: int) -> Iterator[Entry]:
        """Yield the entries of the scratch files in a directory, beyond position ``after``.

        A name's position is made of its hash: it holds whatever comes and goes.
        """
        place = self.place(directory)
        if place is None:
            return
        try:
            with os.scandir(place) as found:
                # the folders of tools are drawn, whatever lies in them
                drawn = isinstance(directory, NativeDirectory)
                names = [entry.name for entry in found if not (drawn and entry.is_dir(follow_symlinks=False))]
            if isinstance(directory, NativeDirectory):
                names = [name for name in names if not directory.has_session(os.fsdecode(name))]
        except FileNotFoundError:
            return
        for position, name in sorted((_position(name), name) for name in names):
            if position > after:
                node = self.node_at(place + b"/" + name, directory.ino)
                if node is not None:
                    yield Entry(position, name, node.attributes())


def _position(name: bytes) -> int:
    digest = hashlib.blake2b(name, digest_size=_KEY_BYTES).digest()
    return _FIRST_POSITION + int.from_bytes(digest)


def _spelled(path: str) -> bytes:
    """Return a path as one name, of which none is too long."""
    name = quote(path, safe=" ", errors="surrogatepass").encode()
    if len(name) <= _NAME_MAX:
        return name
    digest = hashlib.blake2b(path.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return name[:_NAME_MAX] + b"~" + digest.encode()

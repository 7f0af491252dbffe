"""Scratch: every name in the mount that is not part of a conversation, such as editors' and tools' own files.

They are real files, directories and links below ``scratch/`` in the store's directory, one folder there for each of the
mount's that has any. So they have modes, times and attributes, and survive a restart.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from pyfuse3 import ENOATTR, FUSEError

from fusefs.editing.programs import Program, Programs
from fusefs.tree.control import ImportDirectory, RootDirectory
from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.events import EventsDirectory
from fusefs.tree.native.files import NativeDirectory
from fusefs.tree.node import SHORT, Attributes, DirEntry, Entries, File, Node, OpenContent
from fusefs.tree.outputs import OutputsDirectory
from fusefs.tree.paths import CONVERSATIONS, HTML, IMPORT, TRANSCRIPTS
from fusefs.tree.projects import AsideTranscripts, ProjectDirectory, ProjectsDirectory, SubagentTranscripts
from fusefs.tree.resources import ResourceDirectory
from fusefs.tree.tree import Tree
from store.conversations.places import ASIDE
from store.disk import durable, files
from store.ids import hash_bytes
from store.paths import MOUNT_ROOT, SCRATCH

FIRST = 1 << 49
"""Inode numbers of scratch files are those on the disk, counted from here, if they are below it."""

_FIRST_POSITION = 1 << 51
_KEY_BYTES = 6
_NAME_MAX = 200
_LONGEST_PATH = 3600
"""Bytes of the path of a directory: a name in it must go into a path, too."""
_DEEP_KEPT = 16
_LEFT = re.compile(rb"[.#]*.+\.md(~|#|\.draft(-[0-9]+)?|\.sw[a-p]|\.un~|\.kate-swp)|\.#.+\.md", re.DOTALL)
"""Names of what editors keep beside a file while they edit it, and of drafts of what could not be saved."""


class ScratchPlace(NamedTuple):
    """A name that a scratch file has, and the inode number of the directory ``above`` it.

    ``folder`` is that directory: a path on the disk for one of the mount's own, else a node, so that the name holds
    wherever that is moved.
    """

    folder: bytes | ScratchDirectory
    name: bytes
    above: int

    @property
    def path(self) -> bytes:
        """A path that leads there now."""
        return (self.folder if isinstance(self.folder, bytes) else self.folder.inside) + b"/" + self.name


class ScratchNode(Node):
    """A scratch file of any kind, found by a name that it has. Without one, a descriptor holds it (``O_PATH``)."""

    __slots__ = ("fd", "on_disk", "others", "place")

    def __init__(self, ino: int, on_disk: int, place: ScratchPlace) -> None:
        super().__init__(ino)
        self.on_disk = on_disk
        """Its inode number there."""
        self.place = place
        self.others: list[ScratchPlace] | None = None
        """Further names that it is known to have."""
        self.fd = -1

    @property
    def path(self) -> bytes:
        """A path that leads to it now."""
        if self.fd >= 0:
            return _by_descriptor(self.fd)
        return self.place.path

    def status(self) -> os.stat_result:
        """Return its status on the disk. Raises ESTALE if it is gone: the kernel then looks again."""
        if self.fd >= 0:
            return os.fstat(self.fd)
        while True:
            try:
                status = os.lstat(self.path)
                if status.st_ino == self.on_disk:
                    return status
            except (FileNotFoundError, NotADirectoryError):
                pass
            if not self.others:
                raise OSError(errno.ESTALE, "the file has gone")
            self.place = self.others.pop()

    @contextmanager
    def held(self) -> Iterator[bytes]:
        """Give a path by which it is found whatever its names are, and is not mistaken; raises as :meth:`status`."""
        if self.fd >= 0:
            yield self.path
            return
        self.status()
        fd = _descriptor(self.path)
        try:
            if os.fstat(fd).st_ino != self.on_disk:
                raise OSError(errno.ESTALE, "the file has gone")
            yield _by_descriptor(fd)
        finally:
            os.close(fd)

    def called(self, place: ScratchPlace) -> None:
        """Record a name that it has."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        elif self.place != place and not isinstance(self, ScratchDirectory):
            self.others = [*(other for other in self.others or () if other != place), self.place]
        self.place = place

    def not_called(self, place: ScratchPlace) -> None:
        """Record that it no longer has a name."""
        others = [other for other in self.others or () if other != place]
        if self.place == place and others:
            self.place = others.pop()
        self.others = others or None

    @contextmanager
    def losing(self, place: ScratchPlace) -> Iterator[None]:
        """Run a block that takes a name away; with the last one, a descriptor holds the file if one can be had."""
        held = -1
        if self.fd < 0 and not self.others:
            self.hold()
            held = self.fd
        try:
            yield
        except BaseException:
            if held >= 0:
                os.close(held)
                self.fd = -1
            raise
        self.not_called(place)

    def hold(self) -> None:
        """Hold the file by a descriptor if there is one to spare: its name is about to go."""
        with suppress(OSError):
            self.status()
            self.fd = files.lend(_descriptor(self.path))

    def attributes(self) -> Attributes:
        return status_attributes(self.ino, self.status())

    def xattr(self, name: bytes) -> bytes:
        """Return an extended attribute; those that programs may set are kept on the disk."""
        if name.startswith(b"system.posix_acl_"):
            raise FUSEError(errno.EOPNOTSUPP)
        if not name.startswith(b"user.") or isinstance(self, ScratchLink):
            raise FUSEError(ENOATTR)
        with self.held() as path:
            return os.getxattr(path, name)

    def xattr_names(self) -> list[bytes]:
        """Return the names of the extended attributes that programs have set."""
        if isinstance(self, ScratchLink):
            return []
        with self.held() as path:
            return [os.fsencode(name) for name in os.listxattr(path) if name.startswith("user.")]


def status_attributes(ino: int, status: os.stat_result, timeout: float = SHORT) -> Attributes:
    """Return the attributes of a file of the disk."""
    return Attributes(ino, status.st_mode, status.st_size, 0, status.st_nlink, timeout, status)


class ScratchFile(ScratchNode, File):
    """A regular scratch file."""

    __slots__ = ("successor",)

    def __init__(self, ino: int, on_disk: int, place: ScratchPlace) -> None:
        super().__init__(ino, on_disk, place)
        self.successor: ScratchFile | None = None
        """The file of the disk that the kernel knows under the same number by now."""

    def open(self) -> OpenContent:
        return ScratchContent(self, self.opened(os.O_RDONLY))

    def opened(self, flags: int) -> int:
        """Return a descriptor of the file, for a program. Raises EMFILE, too, where there are too many."""
        with self.held() as path:
            return files.lend(os.open(path, flags | os.O_CLOEXEC))


class ScratchContent:
    """A scratch file that is open; closed when nobody holds it any more.

    All programs share the kernel's pages of an inode. One that went on to read a file that another has taken the place
    of would fill them with what is no longer there.
    """

    __slots__ = ("fd", "node")

    def __init__(self, node: ScratchFile, fd: int) -> None:
        self.fd = fd
        self.node = node

    def __del__(self) -> None:
        os.close(self.fd)

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        while self.node.successor is not None:
            self.node = self.node.successor
            before, self.fd = self.fd, self.node.opened(os.O_RDONLY)
            os.close(before)
        return os.pread(self.fd, size, offset)


class ScratchLink(ScratchNode):
    """A symbolic link in scratch."""

    __slots__ = ()

    def target(self) -> bytes:
        """Return its destination."""
        if self.fd >= 0:
            return os.readlink(b"", dir_fd=self.fd)
        self.status()
        return os.readlink(self.path)


class ScratchDirectory(ScratchNode, Entries):
    """A directory in scratch."""

    __slots__ = ("scratch",)

    def __init__(self, ino: int, on_disk: int, place: ScratchPlace, scratch: Scratch) -> None:
        super().__init__(ino, on_disk, place)
        self.scratch = scratch

    @property
    def inside(self) -> bytes:
        """A path for names in it. Where there is none that is short enough, it holds until some others are asked."""
        return self.path if self.fd >= 0 else self.scratch.path_of(self)

    @property
    def parent(self) -> int:
        """The inode number of the directory that it is in."""
        return self.place.above

    def lookup(self, name: str) -> int | None:
        node = self.scratch.find(self, os.fsencode(name))
        return None if node is None else node.ino

    def entries(self, after: int) -> Iterator[DirEntry]:
        return self.scratch.entries(self, after)


_KINDS: dict[int, type[ScratchNode]] = {
    stat.S_IFDIR: ScratchDirectory,
    stat.S_IFLNK: ScratchLink,
    stat.S_IFREG: ScratchFile,
}
"""Any others are named pipes and sockets. The kernel opens them itself; opening one here would block."""


class Scratch:
    """All scratch files of one mount."""

    def __init__(self, tree: Tree, programs: Programs) -> None:
        self._tree = tree
        self._programs = programs
        self._makers: dict[bytes, Program] = {}
        """By path: the programs that made files that are not listed without them."""
        self.root = tree.store.root / SCRATCH
        if not tree.store.files.read_only:
            durable.make_directory(self.root)
        self._numbers: dict[int, int] = {}
        """Inode numbers by those on the disk, where they differ."""
        self._folder = b""
        self._deep: OrderedDict[ScratchDirectory, int] = OrderedDict()
        """Descriptors of directories whose paths are too long, of those that were asked for last."""

    def place(self, directory: Node) -> bytes | None:
        """Return the path of the directory on the disk for names in one of the mount's; None where there is none."""
        if isinstance(directory, ScratchDirectory):
            return directory.inside
        if isinstance(directory, NativeDirectory):
            return os.fsencode(directory.on_disk()) if directory.tool else None
        key = self._key(directory)
        return None if key is None else os.fsencode(self.root) + b"/" + key

    def _key(self, directory: Node) -> bytes | None:
        match directory:
            case (
                ConversationDirectory()
                | EventsDirectory()
                | ResourceDirectory()
                | OutputsDirectory()
                | SubagentTranscripts()
            ):
                view = directory.view
                return None if view.version is not None else self._view_key(directory, view.entry.id)
            case RootDirectory():
                return MOUNT_ROOT.encode()
            case ImportDirectory():
                return IMPORT.encode()
            case ProjectDirectory() | ProjectsDirectory() if directory.key == HTML:
                return None
            case ProjectDirectory() | AsideTranscripts():
                return _spelled("/".join((directory.key, directory.project, *directory.path[2:])))
            case ProjectsDirectory():
                return _spelled(directory.key)
        return None

    def move(self, directory: ProjectDirectory, to: str) -> bool:
        """Take along what is in the directories of a project that becomes another; names that are taken there stay.

        Return whether any did.
        """
        for each in (f"{CONVERSATIONS}/%s", f"{TRANSCRIPTS}/%s", f"{TRANSCRIPTS}/%s/{ASIDE}"):
            old, new = (self.root / os.fsdecode(_spelled(each % project)) for project in (directory.project, to))
            for path in list(old.iterdir()) if old.is_dir() else ():
                durable.make_directory(new)
                if not os.path.lexists(new / path.name):
                    path.rename(new / path.name)
        return directory.project in self.projects()

    def projects(self) -> set[str]:
        """Return the projects that have scratch files of their own; some of names that are too long are left out."""
        before = os.fsdecode(_spelled(f"{CONVERSATIONS}/"))
        try:
            with os.scandir(self.root) as found:
                names = [entry.name for entry in found if entry.name.startswith(before)]
        except FileNotFoundError:
            return set()
        some = [name for name in names if len(name) <= _NAME_MAX and any((self.root / name).iterdir())]
        return {unquote(name.removeprefix(before), errors="surrogatepass") for name in some}

    def _view_key(self, directory: Node, context: int) -> bytes:
        match directory:
            case EventsDirectory():
                return b"%d-events" % context
            case ResourceDirectory():
                return _spelled(f"{context}-resources/{directory.path}".rstrip("/"))
            case OutputsDirectory():
                return f"{context}-{directory.outputs.directory}".encode()
            case SubagentTranscripts():
                return b"%d-transcripts" % context
        return b"%d" % context

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
        path = place + b"/" + name
        if isinstance(directory, EventsDirectory) and _LEFT.fullmatch(name):
            maker = self._programs.asking()
            if maker is not None:
                self._makers[path] = maker
        return path

    def make_folder(self, folder: Path) -> None:
        """Make a directory on the disk, and those that it is in up to the one of all scratch files."""
        if folder != self.root and not folder.is_dir():
            self.make_folder(folder.parent)
            durable.make_directory(folder)

    def find(self, directory: Node, name: bytes) -> ScratchNode | None:
        """Return the scratch file with a name in a directory, None if there is none."""
        path = self.at(directory, name)
        return None if path is None else self.node_at(path, directory.ino)

    def node_at(self, path: bytes, above: int) -> ScratchNode | None:
        """Return the node of a file on the disk that is in directory ``above``; None if there is none."""
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return self._node(status, self.place_of(path, above))

    def place_of(self, path: bytes, above: int) -> ScratchPlace:
        """Return a name of a file as nodes have it."""
        folder, name = os.path.split(path)
        return ScratchPlace(self._in_folder(folder, above), name, above)

    def _in_folder(self, folder: bytes, above: int) -> bytes | ScratchDirectory:
        node = self._tree.bound(above)
        if isinstance(node, ScratchDirectory):
            return node
        # one and the same for all that is in it
        if folder != self._folder:
            self._folder = folder
        return self._folder

    def path_of(self, directory: ScratchDirectory) -> bytes:
        """Return a path that leads to a directory, which has a name."""
        names: list[bytes] = []
        at: ScratchDirectory | bytes = directory
        while isinstance(at, ScratchDirectory):
            fd = at.fd if at.fd >= 0 else self._deep.get(at, -1)
            if fd >= 0:
                if at in self._deep:
                    self._deep.move_to_end(at)
                at = _by_descriptor(fd)
                break
            names.append(at.place.name)
            at = at.place.folder
        path = at
        names.reverse()
        whole = b"/".join((path, *names))
        return whole if len(whole) <= _LONGEST_PATH else self._deep_path(directory, path, names)

    def _deep_path(self, directory: ScratchDirectory, path: bytes, names: list[bytes]) -> bytes:
        """Return a path that leads to a directory which has no path that is short enough."""
        fd = -1
        for number, name in enumerate(names):
            path += b"/" + name
            if len(path) > _LONGEST_PATH or number == len(names) - 1:
                below = _descriptor(path)
                if fd >= 0:
                    os.close(fd)
                fd, path = below, _by_descriptor(below)
        self._deep[directory] = fd
        if len(self._deep) > _DEEP_KEPT:
            os.close(self._deep.popitem(last=False)[1])
        return path

    def _node(self, status: os.stat_result, place: ScratchPlace) -> ScratchNode:
        on_disk, kind = status.st_ino, _KINDS.get(stat.S_IFMT(status.st_mode), ScratchNode)
        ino = self.number(on_disk)
        known = self._tree.bound(ino)
        if type(known) is kind:
            assert isinstance(known, ScratchNode)
            known.called(place)
            return known
        if isinstance(known, ScratchNode):
            # the disk reuses the number of a removed file for the next one
            self.drop(known)
        node = ScratchDirectory(ino, on_disk, place, self) if kind is ScratchDirectory else kind(ino, on_disk, place)
        self._tree.bind(ino, node)
        return node

    def number(self, on_disk: int) -> int:
        """Return the inode number of a file that has another one on the disk."""
        number = self._numbers.get(on_disk) or (FIRST + on_disk if on_disk < FIRST else 0)
        taken = self._tree.bound(number)
        # a file that took the place of another keeps its number, though the disk gives it to the next
        is_free = taken is None or (isinstance(taken, ScratchNode) and taken.on_disk == on_disk)
        if not number or not is_free:
            number = self._numbers[on_disk] = self._tree.new_number()
        return number

    def give(self, ino: int, path: bytes, above: int) -> ScratchFile:
        """Make the file at ``path`` the one that the kernel knows as ``ino``."""
        on_disk = os.lstat(path).st_ino
        node = ScratchFile(ino, on_disk, self.place_of(path, above))
        self._numbers[on_disk] = ino
        self._tree.bind(ino, node)
        return node

    def renumber(self, node: ScratchNode) -> None:
        """Give the other names of a file a number of their own: the one that it had has become something else's."""
        self._numbers[node.on_disk] = self._tree.new_number()

    def drop(self, node: ScratchNode) -> None:
        """Drop a node that the kernel no longer knows, or that became something else."""
        if self._numbers.get(node.on_disk) == node.ino:
            del self._numbers[node.on_disk]
        if self._tree.bound(node.ino) is node:
            self._tree.unbind(node.ino)
        if node.fd >= 0:
            os.close(node.fd)
            node.fd = -1
        if isinstance(node, ScratchDirectory) and node in self._deep:
            os.close(self._deep.pop(node))

    def entries(self, directory: Node, after: int) -> Iterator[DirEntry]:
        """Yield the scratch files in a directory beyond position ``after``, which is made of a name's hash."""
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
            if isinstance(directory, EventsDirectory):
                names = self._without_left(directory, place, names)
        except FileNotFoundError:
            return
        folder = self._in_folder(place, directory.ino)
        # what a file may become is found out when it is looked up, before it is opened
        timeout = 0.0 if isinstance(directory, EventsDirectory | NativeDirectory) else SHORT
        for position, name in sorted((_position(name), name) for name in names):
            if position > after:
                at = ScratchPlace(folder, name, directory.ino)
                try:
                    status = os.lstat(at.path)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                yield DirEntry(position, name, status_attributes(self._node(status, at).ino, status, timeout))

    def _without_left(self, directory: EventsDirectory, place: bytes, names: list[bytes]) -> list[bytes]:
        """Return names in ``events/`` without those that programs have left there which do not run any more."""
        left = [name for name in names if _LEFT.fullmatch(name) and not self._is_made_by_one(place + b"/" + name)]
        if left:
            conversation = directory.view.entry
            told = ", ".join(sorted(name.decode(errors="replace") for name in left))
            path = f"{conversation.project}/{conversation.name}/events"
            self._tree.errors.add(path, f"left by programs that have ended, and not listed: {told}")
        return [name for name in names if name not in left] if left else names

    def _is_made_by_one(self, path: bytes) -> bool:
        program = self._makers.get(path)
        if program is not None and program.is_running:
            return True
        self._makers.pop(path, None)
        return False


def _descriptor(path: bytes) -> int:
    """Return a descriptor of a file that opens nothing, be it a link."""
    return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)


def _by_descriptor(fd: int) -> bytes:
    return b"/proc/self/fd/%d" % fd


def _position(name: bytes) -> int:
    return _FIRST_POSITION + int.from_bytes(hash_bytes(name)[:_KEY_BYTES])


def _spelled(path: str) -> bytes:
    """Return a path as one name, of which none is too long."""
    name = quote(path, safe=" ", errors="surrogatepass").encode()
    if len(name) <= _NAME_MAX:
        return name
    # imported here, as few are so long, and it loads all of OpenSSL
    import hashlib

    digest = hashlib.blake2b(path.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return name[:_NAME_MAX] + b"~" + digest.encode()

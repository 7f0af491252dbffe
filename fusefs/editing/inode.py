"""Inodes: the state of each beyond what its number says, its open handles for writing, and how it changes.

The number of a file that can be saved is computed. But a file that is renamed onto another takes that one's place, and
the kernel then knows the place under the file's inode; the file there before loses its name, and keeps its bytes for
the programs that have it open. A handle does what its role says: when the inode becomes something else, the role of its
handles changes, too.
"""

import errno
import os
import queue
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from pyfuse3 import FUSEError

from fusefs.editing.scratch import Scratch, ScratchNode
from fusefs.inodes import Lookups
from fusefs.tree.changes import Stale
from fusefs.tree.node import FILE, Attributes, File, Node, OpenContent
from fusefs.tree.tree import Tree
from store.ids import now_ms

R = TypeVar("R", bound="Role")
C = TypeVar("C", bound="Candidate")

LARGEST = 64 << 20
"""The most bytes that an edited text may have: a record has no more."""


class Buffer:
    """A file that grows and shrinks as files do."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes = b"") -> None:
        self._data = bytearray(data)

    def __len__(self) -> int:
        return len(self._data)

    def __bytes__(self) -> bytes:
        return bytes(self._data)

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of it."""
        return bytes(self._data[offset : offset + size])

    def write(self, offset: int, data: bytes) -> None:
        """Write at ``offset``; what lies between the end and there becomes NULs. Raises EFBIG."""
        end = offset + len(data)
        check_size(end)
        if offset > len(self._data):
            self._data.extend(bytes(offset - len(self._data)))
        self._data[offset:end] = data

    def truncate(self, size: int) -> None:
        """Make it ``size`` bytes long. Raises EFBIG."""
        check_size(size)
        if size < len(self._data):
            del self._data[size:]
        else:
            self._data.extend(bytes(size - len(self._data)))


def check_size(size: int) -> None:
    """Raise EFBIG for a text too large to edit."""
    if size > LARGEST:
        raise FUSEError(errno.EFBIG)


class OrphanFile(File):
    """A file without a name. It keeps its bytes for the programs that have it open."""

    __slots__ = ("content", "size", "time_ms")

    def __init__(self, ino: int, content: OpenContent, size: int) -> None:
        super().__init__(ino)
        self.content = content
        self.size = size
        self.time_ms = now_ms()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, FILE, self.size, self.time_ms, links=0)

    def open(self) -> OpenContent:
        return self.content


LARGEST_SCRATCH = 1 << 40
"""Bytes that a scratch file may have."""


class Role(Protocol):
    """The behaviour of an open file, which depends on its inode."""

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""

    def write(self, offset: int, data: bytes) -> int:
        """Write, and return how much was written."""

    def truncate(self, size: int) -> None:
        """Make it ``size`` bytes long."""

    def flush(self) -> None:
        """Handle a descriptor's close: the last chance to report an error."""

    def sync(self, *, data_only: bool) -> None:
        """Make all writes durable."""

    def release(self) -> None:
        """Finish when the last descriptor is closed."""


class ScratchRole:
    """A scratch file that is open for writing; ``appends``: it was opened for whatever is written to go to its end."""

    __slots__ = ("appends", "fd")

    def __init__(self, fd: int, *, appends: bool = False) -> None:
        self.fd = fd
        self.appends = appends

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self.fd, size, offset)

    def write(self, offset: int, data: bytes) -> int:
        if offset + len(data) > LARGEST_SCRATCH:
            raise FUSEError(errno.EFBIG)
        return os.pwrite(self.fd, data, offset)

    def truncate(self, size: int) -> None:
        if size > LARGEST_SCRATCH:
            raise FUSEError(errno.EFBIG)
        os.ftruncate(self.fd, size)

    def flush(self) -> None:
        """Do nothing: all writes are in the file already."""

    def sync(self, *, data_only: bool) -> None:
        (os.fdatasync if data_only else os.fsync)(self.fd)

    def release(self) -> None:
        os.close(self.fd)


class Kernel:
    """The kernel's lookups, and messages to it. ``tell`` makes it forget something at once, without blocking."""

    def __init__(self, tell: Callable[[Stale], None]) -> None:
        self.lookups = Lookups()
        self.changed: queue.SimpleQueue[int | Stale | None] = queue.SimpleQueue()
        """The conversations that have changed, and what else the kernel is to forget once no handler is at work."""
        self._tell = tell

    def invalidate(self, stale: Stale) -> None:
        """Make the kernel forget something once no handler is at work."""
        self.changed.put(stale)

    def refresh(self, ino: int) -> None:
        """Make the kernel ask for the attributes of a file again; handlers may call this."""
        self._tell(Stale(ino))


class State(Enum):
    """The state of an inode. LAYOUT.md says which request leads from which state to which."""

    DRAWN = "drawn"
    VANISHED = "vanished"
    WRITTEN = "being written"
    SAVED = "saved"
    ORPHAN = "orphan"
    SCRATCH = "scratch"
    NEW_EVENT = "new event"
    NEW_SESSION = "new session"


class Candidate(Protocol):
    """The thing that a scratch file becomes when it is closed, because of its name."""

    state: ClassVar[State]
    """The state of its inode until then."""


class Known(Protocol):
    """A file that the kernel may know by another number than its own."""

    @property
    def ino(self) -> int:
        """Its own number."""

    def node(self, ino: int) -> Node:
        """Return the node that shows it under a number."""


class Handle:
    """One opening of an inode for writing. It behaves as its role, which is that of the inode."""

    __slots__ = ("ino", "opened_as", "role")

    def __init__(self, ino: int, role: Role) -> None:
        self.ino = self.opened_as = ino
        self.role = role


class Inodes:
    """The inodes of one mount that are open for writing, or known to the kernel by other numbers than their own."""

    def __init__(self, tree: Tree, kernel: Kernel, scratch: Scratch) -> None:
        self.tree = tree
        self.kernel = kernel
        self._lookups = kernel.lookups
        self.scratch = scratch
        self._handles: dict[int, list[Handle]] = {}
        self._candidates: dict[int, Candidate] = {}

    def open(self, ino: int, role: Role) -> Handle:
        """Return a new handle of an inode that is open for writing."""
        handle = Handle(ino, role)
        self._handles.setdefault(ino, []).append(handle)
        return handle

    def close(self, handle: Handle) -> None:
        """Remove a handle that has no descriptor left, then release its role."""
        self._remove(handle)
        handle.role.release()

    def _remove(self, handle: Handle) -> None:
        handles = self._handles[handle.ino]
        handles.remove(handle)
        if not handles:
            del self._handles[handle.ino]

    def is_open(self, ino: int) -> bool:
        """Return whether a file is open for writing."""
        return ino in self._handles

    def roles(self, kind: type[R], ino: int | None = None) -> Iterator[R]:
        """Yield the roles of a kind of all open files; ``ino``: those of one inode."""
        for handles in self._handles.values() if ino is None else (self._handles.get(ino, ()),):
            for handle in handles:
                if isinstance(handle.role, kind):
                    yield handle.role

    def open_paths(self) -> set[Path]:
        """Return the paths of the files on the disk that are open for writing."""
        roles = self.roles(ScratchRole)
        return {Path(os.readlink(f"/proc/self/fd/{role.fd}")) for role in roles if role.fd >= 0}

    def state(self, ino: int) -> State:
        """Return the state of an inode."""
        node = self.tree.bound(ino)
        if isinstance(node, OrphanFile):
            return State.ORPHAN
        if isinstance(node, ScratchNode):
            candidate = self._candidates.get(ino)
            return candidate.state if candidate else State.SCRATCH
        if (shown := self.tree.served.get(ino)) is not None:
            # the kernel may keep attributes only of a committed file
            return State.SAVED if shown.timeout else State.WRITTEN
        return State.VANISHED if self.tree.has_vanished(ino) else State.DRAWN

    def change(self, ino: int, kind: type[R], role: Callable[[R], Role]) -> None:
        """Replace each role of ``kind`` on a file's handles by one made from it."""
        for handle in self._handles.get(ino, ()):
            if isinstance(handle.role, kind):
                handle.role = role(handle.role)

    def take_over(self, to: int, kind: type[R], role: Callable[[int, R], Role | None]) -> None:
        """Move handles to inode ``to`` if ``role``, called with their inode and role, returns a new role."""
        for handle in [handle for handles in self._handles.values() for handle in handles]:
            if isinstance(handle.role, kind) and (new := role(handle.ino, handle.role)) is not None:
                self._remove(handle)
                handle.ino, handle.role = to, new
                self._handles.setdefault(to, []).append(handle)

    def candidate(self, ino: int, kind: type[C]) -> C | None:
        """Return the candidate of a file, if it is of a kind."""
        candidate = self._candidates.get(ino)
        return candidate if isinstance(candidate, kind) else None

    def candidates(self, kind: type[C]) -> list[tuple[int, C]]:
        """Return all candidates of a kind, by inode."""
        return [(ino, candidate) for ino, candidate in self._candidates.items() if isinstance(candidate, kind)]

    def be_candidate(self, ino: int, candidate: Candidate | None) -> None:
        """Set the thing that a file becomes when it is closed, None for nothing else."""
        if candidate is not None:
            self._candidates[ino] = candidate
        else:
            self._candidates.pop(ino, None)

    def drawn_again(self, ino: int) -> None:
        """Record that a file is no longer shown as it was written. The kernel may still believe that."""
        self.tree.unsettle(ino)
        self.kernel.refresh(ino)
        self.kernel.invalidate(Stale(ino, content=True))

    def known(self, target: Known) -> int:
        """Return the number that a file is known by."""
        return self.tree.known.get(target.ino, target.ino)

    def orphan(self, ino: int, target: Known, content: OpenContent, size: int) -> None:
        """Move the file known as ``ino`` to another number; programs that have it open keep ``content``."""
        # a number that the kernel does not know stays the file's: its own may be that of an earlier orphan
        if ino in self._lookups:
            self.tree.own.pop(ino, None)
            self.tree.bind(ino, OrphanFile(ino, content, size))
            self._give(self.tree.new_number(), target)

    def become(self, ino: int, target: Known) -> None:
        """Make ``ino``, a scratch file's, the number by which the kernel knows a file."""
        node = self.tree.bound(ino)
        if isinstance(node, ScratchNode):
            self.scratch.drop(node)
        if ino == target.ino:
            self.tree.known.pop(ino, None)
            return
        earlier = self.tree.known.get(target.ino)
        if earlier is not None and earlier not in self._lookups:
            self._take_back(earlier, target.ino)
        self._give(ino, target)

    def make_scratch(self, ino: int, target: Known, path: bytes, above: int) -> None:
        """Make ``ino``, by which the kernel knows a file, the number of a scratch file with the same content."""
        self.tree.own.pop(ino, None)
        self.scratch.give(ino, path, above)
        self._give(self.tree.new_number(), target)

    def forget(self, ino: int) -> None:
        """Drop everything kept for an inode that the kernel no longer knows."""
        node = self.tree.bound(ino)
        own = self.tree.own.get(ino)
        if isinstance(node, ScratchNode):
            candidate = self._candidates.get(ino)
            if candidate and candidate.state is State.NEW_EVENT:
                # a file may be a session even if the kernel has forgotten it
                self.be_candidate(ino, None)
            self.scratch.drop(node)
        elif isinstance(node, OrphanFile):
            self.tree.unbind(ino)
        elif own is not None and self.tree.known.get(own) != ino:
            self.tree.own.pop(ino)
            self.tree.unbind(ino)
        elif own is not None and own not in self._lookups:
            # unless somebody still holds the earlier file
            self._take_back(ino, own)
        other = self.tree.known.get(ino)
        if other is not None and other not in self._lookups:
            self._take_back(other, ino)

    def _give(self, ino: int, target: Known) -> None:
        self.tree.known[target.ino] = ino
        self.tree.own[ino] = target.ino
        self.tree.bind(ino, target.node(ino))

    def _take_back(self, ino: int, own: int) -> None:
        del self.tree.known[own]
        del self.tree.own[ino]
        self.tree.unbind(ino)

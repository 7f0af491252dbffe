"""Conversations that a program copies within the mount (``cp -r``): each copy is a fork.

A program that copies a directory makes the new one, and then lists the old one (``cp``, Midnight Commander, GNOME
Files); or it lists the old one first, makes the new one, and goes on to list the directories in the old one (Python's
``shutil.copytree``). As soon as it does, the new, empty conversation is a fork of the listed one. The program then sees
an empty directory, in which it makes all over again what the fork has already: that is answered as if it were new, and
what is written is compared with what is there. So a copy that ends half-way is a whole fork, and only what differs is a
save.
"""

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

from pyfuse3 import FUSEError

from fusefs.editing.delays import Clock
from fusefs.editing.inode import Role
from fusefs.editing.records import EventCommits
from fusefs.editing.scratch import Scratch, ScratchNode
from fusefs.inodes import Place
from fusefs.tree.conversation import ConversationDirectory, ForksDirectory
from fusefs.tree.documents import MetadataFile
from fusefs.tree.node import Directory, File, Link, Node, OpenContent
from fusefs.tree.router import Router
from fusefs.tree.view_node import ViewDirectory, ViewNode
from store.editing.editor import Editor

_SOON_SECONDS = 5.0
"""How soon after it has made a conversation a program lists the one that it copies, or the other way round."""
_MOST_LISTED = 100


class _Empty(NamedTuple):
    """A conversation that a thread has just made: its view, when, and the view that it had listed before (0: none)."""

    view: int
    made: float
    listed: int


class _Copy:
    """A conversation that ``thread`` makes as a copy of the view ``source``."""

    def __init__(self, thread: int, source: int) -> None:
        self.thread = thread
        self.source = source
        self.made: set[tuple[int, bytes]] = set()
        """The names that the program has made, each with the inode number of its directory."""
        self.links: set[int] = set()
        """The inode numbers of links of the source that it has made again."""


class CopyRole:
    """A file that is there, and is written by a program that copies it. ``differs`` returns what takes other bytes."""

    def __init__(self, content: OpenContent, size: int, differs: Callable[[], Role]) -> None:
        self._content = content
        self._size = size
        self._differs = differs
        self._instead: Role | None = None

    def read(self, offset: int, size: int) -> bytes:
        return (self._instead or self._content).read(offset, size)

    def write(self, offset: int, data: bytes) -> int:
        if self._instead is None:
            if self._content.read(offset, len(data)) == data:
                return len(data)
            self._other(offset)
        assert self._instead is not None
        return self._instead.write(offset, data)

    def truncate(self, size: int) -> None:
        # to nothing, before it is written, or to what it has
        if self._instead is None and size not in (0, self._size):
            self._other(size)
        if self._instead is not None:
            self._instead.truncate(size)

    def _other(self, same: int) -> None:
        """Go on as a file that has the first bytes of what is there."""
        self._instead = self._differs()
        self._instead.write(0, self._content.read(0, same))

    def flush(self) -> None:
        if self._instead is not None:
            self._instead.flush()

    def sync(self, *, data_only: bool) -> None:
        if self._instead is not None:
            self._instead.sync(data_only=data_only)

    def release(self) -> None:
        if self._instead is not None:
            self._instead.release()


class Copies:
    """The conversations that programs are copying. A program is told by its thread: all that copy so have one."""

    def __init__(self, router: Router, records: EventCommits, scratch: Scratch, clock: Clock) -> None:
        self._router = router
        self._tree = router.tree
        self._records = records
        self._scratch = scratch
        self._clock = clock
        self._editor = Editor(router.tree.store)
        self._listed: dict[int, tuple[int, float]] = {}
        """By thread: the view of the conversation that it has listed last, and when; the latest threads last."""
        self._empty: dict[int, _Empty] = {}
        """By thread."""
        self._copies: dict[int, _Copy] = {}
        """By view."""

    @property
    def busy(self) -> bool:
        """True if a program copies."""
        return bool(self._copies)

    def made(self, thread: int, view_id: int) -> None:
        """Record that a thread has made an empty conversation."""
        now = self._clock()
        self._empty = {one: kept for one, kept in self._empty.items() if now - kept.made <= _SOON_SECONDS}
        listed, when = self._listed.get(thread, (0, 0.0))
        if thread:
            self._empty[thread] = _Empty(view_id, now, listed if now - when <= _SOON_SECONDS else 0)

    @property
    def expects(self) -> bool:
        """Whether somebody who has made an empty conversation may go on to list the one to be copied."""
        now = self._clock()
        return any(now - kept.made <= _SOON_SECONDS for kept in self._empty.values())

    def lists(self, thread: int, node: ViewDirectory) -> None:
        """Make a conversation that a thread has just made a fork of the one that it begins to list."""
        is_whole = isinstance(node, ConversationDirectory)
        empty = self._empty.get(thread)
        if empty is not None and empty.view != node.view_id and (is_whole or empty.listed == node.view_id):
            del self._empty[thread]
            self._fork(thread, empty, node)
        if is_whole and thread:
            self._listed.pop(thread, None)
            self._listed[thread] = node.view_id, self._clock()
            if len(self._listed) > _MOST_LISTED:
                del self._listed[next(iter(self._listed))]

    def _fork(self, thread: int, empty: _Empty, node: ViewDirectory) -> None:
        context, source = self._records.context(empty.view), node.view
        is_empty = not self._tree.store.writer.head(context).tip and not self._has_scratch(empty.view)
        if self._clock() - empty.made > _SOON_SECONDS or not is_empty or not source.head:
            return
        self._editor.copy(source.entry.id, source.head, context)
        self._tree.renew(empty.view)
        self._copies[empty.view] = _Copy(thread, node.view_id)

    def _has_scratch(self, view_id: int) -> bool:
        places = (Place.CONVERSATION, Place.EVENTS)
        nodes = (self._router.place(view_id, place) for place in places)
        return any(True for node in nodes for _entry in self._scratch.entries(node, 0))

    def hides(self, thread: int, directory: Directory, name: bytes, node: Node) -> bool:
        """Return whether a thread must find the name of ``node`` free, as it has not copied that yet."""
        copy = None if isinstance(node, ScratchNode) else self._of(thread, directory)
        return copy is not None and (directory.ino, name) not in copy.made

    def writes(self, thread: int, node: Node) -> bool:
        """Return whether a node is of a conversation that a thread makes as a copy, or a link that it has copied."""
        if isinstance(node, Link):
            return any(copy.thread == thread and node.ino in copy.links for copy in self._copies.values())
        return self._of(thread, node) is not None

    def make(self, thread: int, directory: Directory, name: bytes) -> Node | None:
        """Return what a name stands for that a thread makes as a copy; None if it is nothing of the fork's."""
        copy = self._of(thread, directory)
        if copy is None:
            return None
        source = directory
        if isinstance(directory, ForksDirectory):
            # of the copy there are none; links are not followed
            found = self._router.place(copy.source, Place.FORKS)
            assert isinstance(found, Directory)
            source = found
        try:
            node = self._router.find(source, name.decode())
        except UnicodeDecodeError:
            return None
        if isinstance(node, ViewNode | Link):
            copy.made.add((directory.ino, name))
            if isinstance(node, Link):
                copy.links.add(node.ino)
            return node
        return None

    def role(self, node: Node, differs: Callable[[], Role]) -> Role:
        """Return the role of a file that a program writes as a copy; ``differs`` is that of any other text."""
        copy = self._copies[node.view_id] if isinstance(node, ViewNode) else None
        if not isinstance(node, File) or copy is None:
            raise FUSEError(errno.EEXIST)
        # it says which conversation it is of
        like = self._router.place(copy.source, Place.METADATA) if isinstance(node, MetadataFile) else node
        assert isinstance(like, File)
        return CopyRole(like.open(), like.attributes().size, differs)

    def _of(self, thread: int, node: Node) -> _Copy | None:
        copy = self._copies.get(node.view_id) if isinstance(node, ViewNode) else None
        return copy if copy is not None and copy.thread == thread else None

    def tick(self) -> None:
        """Forget the copies of programs that have ended."""
        for view_id, copy in list(self._copies.items()):
            if not os.path.exists(f"/proc/{copy.thread}"):
                del self._copies[view_id]

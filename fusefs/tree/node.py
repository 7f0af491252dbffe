"""Nodes of the tree: files, directories and links, each under an inode number.

A node knows no other nodes. Directories answer with inode numbers, and :mod:`fusefs.tree.router` makes nodes of these.
"""

from __future__ import annotations

import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct

from store.ids import Hash

DIRECTORY = stat.S_IFDIR | 0o700
FILE = stat.S_IFREG | 0o600
DERIVED_FILE = stat.S_IFREG | 0o400
LINK = stat.S_IFLNK | 0o777

UNCOUNTED = 1
"""The link count of a directory whose subdirectories nobody counted, as on btrfs: ``find`` then looks for itself."""

LONG = 3600.0
"""Seconds for which the kernel may keep names and attributes: changes invalidate them."""

SHORT = 1.0
"""The same for what changes with any conversation: the top of the tree, and names in it that later ones may take."""


FIRST_POSITION = 3
"""Directory position of the first entry that is not ``.`` or ``..``."""


class Attributes(Struct, frozen=True, gc=False):
    """Attributes for ``stat``. ``time_ms`` is Unix milliseconds, for all three times; ``timeout`` is in seconds.

    ``time_ns`` takes the place of ``time_ms`` where it is not 0, in nanoseconds. ``status`` is that of the file on
    disk which is shown as it is, if it is one.
    """

    ino: int
    mode: int
    size: int
    time_ms: int
    links: int = 1
    timeout: float = LONG
    status: os.stat_result | None = None
    time_ns: int = 0


class DirEntry(Struct, frozen=True, gc=False):
    """One entry of a directory. ``position`` identifies it for good: a listing goes on after it, whatever changed."""

    position: int
    name: bytes
    attributes: Attributes


class OpenContent(Protocol):
    """An open file."""

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes from ``offset`` on, ``size`` of them unless the file ends before."""


class Served(OpenContent, Protocol):
    """A file that is shown as it was written."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    @property
    def time_ns(self) -> int:
        """When it was written, in Unix nanoseconds; 0 where it shows the time that is drawn."""

    @property
    def timeout(self) -> float:
        """The time that the kernel may believe that, in seconds."""


class Bytes(Struct, frozen=True):
    """The content of an open file that is all there."""

    data: bytes

    def read(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


class Lazy:
    """The content of an open file that ``begin`` returns once it is first read."""

    __slots__ = ("_begin", "_content")

    def __init__(self, begin: Callable[[], OpenContent]) -> None:
        self._begin = begin
        self._content: OpenContent | None = None

    def read(self, offset: int, size: int) -> bytes:
        if self._content is None:
            self._content = self._begin()
        return self._content.read(offset, size)


class Node:
    """Anything that has an inode number. It is no ABC: every request asks what a node is, which takes longer of one."""

    __slots__ = ("ino",)

    def __init__(self, ino: int) -> None:
        self.ino = ino

    @abstractmethod
    def attributes(self) -> Attributes:
        """Return the attributes, without touching content."""

    def xattrs(self) -> Mapping[str, str]:
        """Return the extended attributes, without the ``user.convfs.`` before each name."""
        return {}

    def content_hash(self) -> Hash | None:
        """Return the hash of the content that others may hold, too; None where no one can."""
        return None

    def listed(self) -> Attributes:
        """Return the attributes that a listing shows: this waits for nothing."""
        return self.attributes()


class Directory(Node):
    """A node with others in it."""

    __slots__ = ()

    @property
    @abstractmethod
    def parent(self) -> int:
        """The inode number of the directory that it is in."""

    @abstractmethod
    def lookup(self, name: str) -> int | None:
        """Return the inode number of what has that name, listed or not; None if there is nothing."""

    def opened(self) -> Directory:
        """Return the directory to list while it is open: itself, or a copy of it as it is now."""
        return self


class Entries(Directory):
    """A directory that makes its entries with all attributes: of many files, or of files on the disk."""

    __slots__ = ()

    @abstractmethod
    def entries(self, after: int) -> Iterator[DirEntry]:
        """Yield the listed entries, by position, from the first beyond ``after`` (0: from the beginning)."""


class Item(NamedTuple):
    """An entry: where it stands for good, counted from 1; its inode number; its attributes, where these are at hand."""

    position: int
    ino: int
    attributes: Attributes | None = None


class Listing(Directory):
    """A directory that says by name what is in it; who lists it asks the nodes for attributes that are not at hand."""

    __slots__ = ()

    @abstractmethod
    def items(self) -> Mapping[str, Item]:
        """Return what is listed, by name."""

    def lookup(self, name: str) -> int | None:
        item = self.items().get(name)
        return None if item is None else item.ino


class OpenListing(Listing):
    """A directory as it was when it was opened. ``numbers`` are inode numbers by name, in the order of the listing."""

    __slots__ = ("_items", "_of")

    def __init__(self, of: Directory, numbers: Mapping[str, int]) -> None:
        super().__init__(of.ino)
        self._of = of
        self._items = {name: Item(at, ino) for at, (name, ino) in enumerate(numbers.items(), 1)}

    @property
    def parent(self) -> int:
        return self._of.parent

    def attributes(self) -> Attributes:
        return self._of.attributes()

    def items(self) -> Mapping[str, Item]:
        return self._items


class File(Node):
    """A node with content. ``direct`` files are read past the page cache: their size is known only when read."""

    __slots__ = ()

    direct: bool = False

    @abstractmethod
    def open(self) -> OpenContent:
        """Return the content; what is costly is done when it is read."""


class DerivedFile(File):
    """A file that is made of two answers: its size and its time, in Unix milliseconds; and its content.

    A ``direct`` one may say something else each time, others always say the same. ``digest`` is that of its content.
    """

    def __init__(
        self,
        ino: int,
        facts: Callable[[], tuple[int, int]],
        begin: Callable[[], OpenContent],
        *,
        direct: bool = True,
        digest: Hash | None = None,
    ) -> None:
        super().__init__(ino)
        self.direct = direct
        self._facts = facts
        self._begin = begin
        self._digest = digest

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DERIVED_FILE, *self._facts(), timeout=0.0 if self.direct else LONG)

    def content_hash(self) -> Hash | None:
        return self._digest

    def open(self) -> OpenContent:
        return self._begin()


class Link(Node):
    """A symbolic link. ``made`` says that people make such links: `cp -a` of one sets its time."""

    __slots__ = ("links", "made", "time_ms", "timeout", "to")

    def __init__(
        self, ino: int, to: str, time_ms: int, timeout: float = LONG, links: int = 1, *, made: bool = False
    ) -> None:
        super().__init__(ino)
        self.links = links
        self.made = made
        self.to = to.encode()
        self.time_ms = time_ms
        self.timeout = timeout

    def attributes(self) -> Attributes:
        return Attributes(self.ino, LINK, len(self.to), self.time_ms, self.links, self.timeout)

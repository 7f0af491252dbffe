"""What every node of the tree can do: say its attributes, list and look up, open, point somewhere."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

DIRECTORY = stat.S_IFDIR | 0o700
FILE = stat.S_IFREG | 0o600
DERIVED_FILE = stat.S_IFREG | 0o400
LINK = stat.S_IFLNK | 0o777

UNCOUNTED = 1
"""The link count of a directory whose subdirectories nobody counted, as on btrfs: ``find`` then looks for itself."""

LONG = 3600.0
"""Seconds for which the kernel may keep names and attributes: what changes is invalidated."""

SHORT = 1.0
"""The same for what changes with any conversation: the top of the tree, and names in it that later ones may take."""


HELD_BY = "held_by"
"""The extended attribute that says who else holds what a file does."""


class Attributes(NamedTuple):
    """What ``stat`` shows. ``time_ms`` is Unix milliseconds, for all three times; ``timeout`` is in seconds.

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


class Entry(NamedTuple):
    """One entry of a directory. ``position`` identifies it for good: a listing goes on after it, whatever changed."""

    position: int
    name: bytes
    attributes: Attributes


class Content(Protocol):
    """An open file."""

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes from ``offset`` on, ``size`` of them unless the file ends before."""


class Bytes:
    """The content of an open file that is all there."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the data."""
        return self.data[offset : offset + size]


class Through:
    """An open file that asks for every part anew, and so shows its node as it is then."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        return self._read(offset, size)


class Lazy:
    """The content of an open file that is fetched as a whole when it is first read."""

    __slots__ = ("_data", "_load")

    def __init__(self, load: Callable[[], bytes]) -> None:
        self._load = load
        self._data: bytes | None = None

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the data."""
        if self._data is None:
            self._data = self._load()
        return self._data[offset : offset + size]


class InParts:
    """The content of an open file that is read in parts by what ``begin`` returns, once it is first read."""

    __slots__ = ("_begin", "_content")

    def __init__(self, begin: Callable[[], Content]) -> None:
        self._begin = begin
        self._content: Content | None = None

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        if self._content is None:
            self._content = self._begin()
        return self._content.read(offset, size)


class Node(ABC):
    """Anything that has an inode number."""

    __slots__ = ("ino",)

    def __init__(self, ino: int) -> None:
        self.ino = ino

    @abstractmethod
    def attributes(self) -> Attributes:
        """Return what ``stat`` shows, without touching content."""

    def xattrs(self) -> Mapping[str, str]:
        """Return the extended attributes, without the ``user.convfs.`` before each name."""
        return {}

    def unlisted_xattr(self, name: str) -> str | None:
        """Return an extended attribute that is there when it is asked for by its name, since it costs work."""
        return None


class Directory(Node):
    """A node with others in it."""

    __slots__ = ()

    @property
    @abstractmethod
    def parent(self) -> int:
        """The inode number of the directory that it is in."""

    @abstractmethod
    def lookup(self, name: str) -> Node | None:
        """Return the node with that name, listed or not; None if there is none."""

    def opened(self) -> Directory:
        """Return what is listed while the directory is open: itself, or what it is at this moment."""
        return self

    @abstractmethod
    def entries(self, after: int) -> Iterator[Entry]:
        """Yield the listed entries, by position, from the first beyond ``after`` (0: from the beginning)."""


class File(Node):
    """A node with content. ``direct`` files are read past the page cache: their size is known only when read."""

    __slots__ = ()

    direct: bool = False

    @abstractmethod
    def open(self) -> Content:
        """Return the content; what is costly is done when it is read."""


class Link(Node):
    """A symbolic link."""

    __slots__ = ("links", "time_ms", "timeout", "to")

    def __init__(self, ino: int, to: str, time_ms: int, timeout: float = LONG, links: int = 1) -> None:
        super().__init__(ino)
        self.links = links
        self.to = to.encode()
        self.time_ms = time_ms
        self.timeout = timeout

    def attributes(self) -> Attributes:
        return Attributes(self.ino, LINK, len(self.to), self.time_ms, self.links, self.timeout)

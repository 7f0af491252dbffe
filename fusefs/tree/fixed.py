"""The root and ``README.md``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fusefs.text.readme import README
from fusefs.tree.by_resource import BY_RESOURCE
from fusefs.tree.imports import IMPORT
from fusefs.tree.labels import BY_LABEL
from fusefs.tree.links import BY_DATE
from fusefs.tree.node import DERIVED_FILE, DIRECTORY, SHORT, Attributes, Bytes, Content, Entry, File, Node
from fusefs.tree.paths import CONTROL, CONVERSATIONS, TRANSCRIPTS
from fusefs.tree.search import SEARCH
from fusefs.tree.top_directory import TopDirectory
from fusefs.tree.view import FIRST_POSITION

if TYPE_CHECKING:
    pass

README_NAME = "README.md"
RECENT = "recent"

_DIRECTORIES = (BY_DATE, BY_LABEL, CONVERSATIONS, IMPORT, RECENT, SEARCH, TRANSCRIPTS)
_LISTED = (README_NAME, *_DIRECTORIES)
_UNLISTED = (BY_RESOURCE, CONTROL)

_README = README.encode()


class RootDirectory(TopDirectory):
    """The root of the mount."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 2 + len(_DIRECTORIES), SHORT)

    def lookup(self, name: str) -> Node | None:
        return self.tree.fixed((name,)) if name in _LISTED or name in _UNLISTED else None

    def entries(self, after: int) -> Iterator[Entry]:
        for position, name in enumerate(_LISTED, FIRST_POSITION):
            if position > after:
                yield Entry(position, name.encode(), self.tree.fixed((name,)).attributes())


class ReadmeFile(File):
    """``README.md``: what this is, for whoever finds it."""

    __slots__ = ("time_ms",)

    def __init__(self, ino: int, time_ms: int) -> None:
        super().__init__(ino)
        self.time_ms = time_ms

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DERIVED_FILE, len(_README), self.time_ms)

    def open(self) -> Content:
        return Bytes(_README)

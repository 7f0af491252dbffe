"""``import/``: what is copied into it is imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fusefs import inodes
from fusefs.tree.node import DIRECTORY, SHORT, UNCOUNTED, Attributes, Directory, Entry, Node

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

IMPORT = "import"


class ImportDirectory(Directory):
    """``import/``. What is in it are scratch files, until they have been imported."""

    __slots__ = ("tree",)

    def __init__(self, tree: Tree, ino: int) -> None:
        super().__init__(ino)
        self.tree = tree

    @property
    def parent(self) -> int:
        """The inode number of the root."""
        return inodes.ROOT

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.mounted_ms, UNCOUNTED, SHORT)

    def lookup(self, name: str) -> Node | None:
        return None

    def entries(self, after: int) -> Iterator[Entry]:
        return iter(())

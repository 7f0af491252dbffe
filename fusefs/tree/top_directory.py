"""What the directories in the root of a mount, and the root itself, have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusefs import inodes
from fusefs.tree.node import Directory

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree


class TopDirectory(Directory):
    """A directory whose parent is the root."""

    __slots__ = ("tree",)

    def __init__(self, tree: Tree, ino: int) -> None:
        super().__init__(ino)
        self.tree = tree

    @property
    def parent(self) -> int:
        """The inode number of the root."""
        return inodes.ROOT

"""``import/``: what is copied into it is imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fusefs.tree.node import DIRECTORY, SHORT, UNCOUNTED, Attributes, Entry, Node
from fusefs.tree.top_directory import TopDirectory

if TYPE_CHECKING:
    pass

IMPORT = "import"


class ImportDirectory(TopDirectory):
    """``import/``. What is in it are scratch files, until they have been imported."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.mounted_ms, UNCOUNTED, SHORT)

    def lookup(self, name: str) -> Node | None:
        return None

    def entries(self, after: int) -> Iterator[Entry]:
        return iter(())

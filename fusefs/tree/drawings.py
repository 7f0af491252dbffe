"""What is drawn of many conversations: by a thread, and again only when something has changed since."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from fusefs.tree.node import DERIVED_FILE, Attributes, Bytes, Content, File
from fusefs.tree.waiting import Work
from store.ids import now_ms

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

_KEPT = 32


class Drawing(Struct):
    """What is being drawn, or was, when so many ``changes`` had been told of; whether somebody was ``given`` it."""

    work: Work[bytes]
    changes: int
    time_ms: int
    given: bool = False


class Drawings:
    """The drawings of one mount, by the files that they are in."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._drawn: OrderedDict[int, Drawing] = OrderedDict()

    def of(self, ino: int, draw: Callable[[], bytes]) -> Drawing:
        """Return the drawing in a file, drawn by a thread. Raises Later while it is; StoreBusy if that takes long."""
        drawn = self._drawn.get(ino)
        # who waited for one gets that, however much has changed meanwhile
        if drawn is None or (drawn.given and drawn.changes != self._tree.changes):
            drawn = self._drawn[ino] = Drawing(self._tree.workers.begin(draw), self._tree.changes, now_ms())
        self._drawn.move_to_end(ino)
        if len(self._drawn) > _KEPT:
            self._drawn.popitem(last=False)
        drawn.work.result()
        drawn.given = True
        return drawn


class DrawnFile(File):
    """A file with a drawing."""

    __slots__ = ("_draw", "tree")

    # what is shown may be another one from one reading to the next, of another size
    direct = True

    def __init__(self, tree: Tree, ino: int, draw: Callable[[], bytes]) -> None:
        super().__init__(ino)
        self.tree = tree
        self._draw = draw

    def attributes(self) -> Attributes:
        drawn = self.tree.drawings.of(self.ino, self._draw)
        return Attributes(self.ino, DERIVED_FILE, len(drawn.work.result()), drawn.time_ms, timeout=0.0)

    def listed(self) -> Attributes:
        """Return what a listing shows, which waits for nothing: the kernel asks for the size when somebody wants it."""
        return Attributes(self.ino, DERIVED_FILE, 0, self.tree.mounted_ms, timeout=0.0)

    def open(self) -> Content:
        return Bytes(self.tree.drawings.of(self.ino, self._draw).work.result())

"""``resources/``: every attachment, and every file that a tool returned, at a path made from its URI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.text import resource_names
from fusefs.tree.node import (
    DIRECTORY,
    FILE,
    HELD_BY,
    SHORT,
    Attributes,
    Content,
    Directory,
    Entry,
    File,
    Lazy,
    Node,
    Through,
)
from fusefs.tree.resource_tree import Folder
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.view_node import NumberedNode, ViewNode
from store.errors import NotFound
from store.events.conversation import ResourceRow
from store.ids import Hash

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree


def resource_node(tree: Tree, view_id: int, ino: int) -> Node:
    """Return the node of space RESOURCE with that inode number. Raises NotFound."""
    found = tree.view(view_id).resources.by_number(ino & inodes.MAX_NUMBER)
    if isinstance(found, Folder):
        return ResourceDirectory(tree, ino, view_id, found.path)
    return ResourceFile(tree, ino, view_id, ino & inodes.MAX_NUMBER)


class ResourceDirectory(ViewNode, Directory):
    """``resources/`` itself (``path`` is ""), or a directory in it."""

    __slots__ = ("path",)

    def __init__(self, tree: Tree, ino: int, view_id: int, path: str = "") -> None:
        super().__init__(tree, ino, view_id)
        self.path = path

    @property
    def parent(self) -> int:
        """The inode number of the directory above."""
        if not self.path:
            return self.place(Place.CONVERSATION)
        return self._folder_ino(self.view.resources.folders[self.path.rpartition("/")[0]])

    def _folder_ino(self, folder: Folder) -> int:
        if not folder.path:
            return self.place(Place.RESOURCES)
        return inodes.base(Space.RESOURCE, self.view_id) + self.view.resources.folder_number(folder.path)

    @property
    def _folder(self) -> Folder:
        folder = self.view.resources.folders.get(self.path)
        if folder is None:
            raise NotFound(f"resources/{self.path} is no longer there")
        return folder

    def attributes(self) -> Attributes:
        return self._attributes(self._folder)

    def _attributes(self, folder: Folder) -> Attributes:
        return Attributes(self._folder_ino(folder), DIRECTORY, 0, self.view.time_ms, 2 + len(folder.folders), SHORT)

    def lookup(self, name: str) -> Node | None:
        folder = self._folder
        inside = folder.folders.get(name)
        if inside is not None:
            return ResourceDirectory(self.tree, self._folder_ino(inside), self.view_id, inside.path)
        row = folder.files.get(name)
        if row is None:
            path = f"{self.path}/{name}" if self.path else name
            row = resource_names.resolve_numbered(path, self.view.resources.rows)
        if row is None:
            return None
        return self._file(row)

    def _file(self, row: ResourceRow) -> ResourceFile:
        number = self.view.resources.number(row)
        own = inodes.base(Space.RESOURCE, self.view_id) + number
        return ResourceFile(self.tree, self.tree.known.get(own, own), self.view_id, number)

    def entries(self, after: int) -> Iterator[Entry]:
        folder = self._folder
        resources = self.view.resources
        inside = [
            *((resources.number(row), name, self._file(row).attributes_of(row)) for name, row in folder.files.items()),
            *(
                (resources.folder_number(below.path), name, self._attributes(below))
                for name, below in folder.folders.items()
            ),
        ]
        for number, name, attributes in sorted(inside):
            if number + FIRST_POSITION > after:
                yield Entry(number + FIRST_POSITION, name.encode(), attributes)


class ResourceFile(NumberedNode, File):
    """One resource. ``ino`` may be another number than its own."""

    __slots__ = ()

    def label(self) -> str:
        return f"resources/{self.view.resources.path(self.row)}"

    @property
    def row(self) -> ResourceRow:
        """The resource's row."""
        found = self.view.resources.by_number(self.number)
        if isinstance(found, Folder):
            raise NotFound("a directory has taken this resource's place")
        return found

    def attributes(self) -> Attributes:
        return self.attributes_of(self.row)

    def attributes_of(self, row: ResourceRow) -> Attributes:
        """Return the attributes that it has by its row."""
        shown = self.as_served(Attributes(self.ino, FILE, row.size, row.time_ms))
        # a later resource with the same URI takes the name
        return shown._replace(timeout=min(shown.timeout, SHORT))

    def xattrs(self) -> Mapping[str, str]:
        row = self.row
        return {
            "uri": row.uri,
            "mime": row.mime,
            "hash": row.hash.hex(),
            "turn": str(row.turn),
            "event": str(row.number),
        }

    def unlisted_xattr(self, name: str) -> str | None:
        return self.tree.resources.held_by(Hash(self.row.hash)) if name == HELD_BY else None

    def open(self) -> Content:
        return Through(self.shown(Lazy(lambda: self.tree.store.resource(self.row)).read))

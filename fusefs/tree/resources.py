"""``resources/``: every attachment, and every file that a tool returned, at a path made from its URI."""

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from fusefs import inodes
from fusefs.inodes import FIRST_DERIVED, Place, Space
from fusefs.text import resource_names
from fusefs.tree.node import DERIVED_FILE, DIRECTORY, FILE, SHORT, UNCOUNTED, Attributes, Item, Listing
from fusefs.tree.tree import Tree
from fusefs.tree.view import Folder, ResourceTree
from fusefs.tree.view_node import NumberedNode, ServedFile, ViewNode
from fusefs.tree.waiting import Work
from store.errors import NotFound
from store.events.conversation import ResourceRow
from store.ids import Hash
from store.worktree.known_files import FileRow


class ResourceNode(ViewNode):
    """A node in ``resources/``. Its calls raise Later while a thread looks for what is there."""

    __slots__ = ()

    @property
    def _resources(self) -> ResourceTree:
        return self.tree.resources(self.view_id)


class ResourceDirectory(ResourceNode, Listing):
    """``resources/`` itself (``path`` is ""), or a directory in it."""

    def __init__(self, tree: Tree, ino: int, view_id: int, path: str = "") -> None:
        super().__init__(tree, ino, view_id)
        self.path = path

    @property
    def parent(self) -> int:
        if not self.path:
            return self.place(Place.CONVERSATION)
        return self._ino(self._resources.folders[self.path.rpartition("/")[0]])

    def _ino(self, item: Folder | ResourceRow) -> int:
        if isinstance(item, Folder) and not item.path:
            return self.place(Place.RESOURCES)
        own = inodes.base(Space.RESOURCE, self.view_id) + self._resources.number(item)
        return own if isinstance(item, Folder) else self.tree.known.get(own, own)

    @property
    def _folder(self) -> Folder:
        folder = self._resources.folders.get(self.path)
        if folder is None:
            raise NotFound(f"resources/{self.path} is no longer there")
        return folder

    def attributes(self) -> Attributes:
        if not self.path:
            # whoever lists a conversation need not wait for what is in here
            return Attributes(self.ino, DIRECTORY, 0, self.view.time_ms, UNCOUNTED, SHORT)
        return self._attributes(self._folder)

    def _attributes(self, item: Folder | ResourceRow) -> Attributes:
        ino = self._ino(item)
        if isinstance(item, Folder):
            return Attributes(ino, DIRECTORY, 0, self.view.time_ms, 2 + len(item.folders), SHORT)
        return resource_file(self.tree, ino, self.view_id, self._resources.number(item)).attributes_of(item)

    def lookup(self, name: str) -> int | None:
        folder = self._folder
        found = folder.folders.get(name) or folder.files.get(name)
        if found is None:
            path = f"{self.path}/{name}" if self.path else name
            found = resource_names.resolve_numbered(path, self._resources.rows)
        return None if found is None else self._ino(found)

    def items(self) -> Mapping[str, Item]:
        folder, number = self._folder, self._resources.number
        there: dict[str, Folder | ResourceRow] = {**folder.files, **folder.folders}
        return {name: Item(number(item), self._ino(item), self._attributes(item)) for name, item in there.items()}


class ResourceFile(ResourceNode, NumberedNode, ServedFile):
    """One resource. ``ino`` may be another number than its own."""

    def __init__(self, tree: Tree, ino: int, view_id: int, number: int) -> None:
        super().__init__(tree, ino, view_id, number)
        self._data: bytes | None = None

    def label(self) -> str:
        return f"resources/{self._resources.path(self.row)}"

    @property
    def row(self) -> ResourceRow:
        found = self._resources.by_number(self.number)
        if isinstance(found, Folder):
            raise NotFound("a directory has taken this resource's place")
        return found

    def attributes(self) -> Attributes:
        return self.attributes_of(self.row)

    def attributes_of(self, row: ResourceRow) -> Attributes:
        """Return the attributes that it has by its row."""
        shown = self.as_served(Attributes(self.ino, FILE, row.size, row.time_ms))
        # a later resource with the same URI takes the name
        return replace(shown, timeout=min(shown.timeout, SHORT))

    def xattrs(self) -> Mapping[str, str]:
        row = self.row
        return {
            "uri": row.uri,
            "mime": row.mime,
            "hash": row.hash.hex(),
            "turn": str(row.turn),
            "event": str(row.number),
        }

    def content_hash(self) -> Hash:
        return Hash(self.row.hash)

    def draw(self, offset: int, size: int) -> bytes:
        if self._data is None:
            self._data = self.tree.store.records.resource(self.row)
        return self._data[offset : offset + size]


class KnownFile(ResourceFile):
    """A file as the conversation knew it that no record holds: put together by a thread, and never written."""

    def __init__(self, tree: Tree, ino: int, view_id: int, number: int) -> None:
        super().__init__(tree, ino, view_id, number)
        self._work: Work[bytes] | None = None

    def attributes_of(self, row: ResourceRow) -> Attributes:
        return replace(super().attributes_of(row), mode=DERIVED_FILE)

    def draw(self, offset: int, size: int) -> bytes:
        if self._data is None and self._work is None:
            view, row, files = self.view, self.row, self.tree.store.known_files
            assert isinstance(row, FileRow)
            asked = view.entry.id, view.head, row, view.known
            self._data = files.content_at_once(*asked)
            if self._data is None:
                self._work = self.tree.workers.begin(partial(files.content, *asked))
        if self._work is not None:
            self._data, self._work = self._work.result(), None
        assert self._data is not None
        return self._data[offset : offset + size]


def resource_file(tree: Tree, ino: int, view_id: int, number: int) -> ResourceFile:
    """Return the file with a number."""
    return (KnownFile if number >= FIRST_DERIVED else ResourceFile)(tree, ino, view_id, number)

"""Nodes by where they belong: to one view, to one record of it, or to no conversation."""

from abc import abstractmethod
from collections.abc import Mapping

from msgspec.structs import replace

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.node import DIRECTORY, SHORT, Attributes, Bytes, Directory, File, Item, Listing, Node, OpenContent
from fusefs.tree.tree import FixedPath, Tree
from fusefs.tree.view import View
from store.events.conversation import EventRow
from store.ids import Hash

_NOTHING = Bytes(b"")
_DOCUMENTS = {
    int(Place.CHANGES): "changes.diff",
    int(Place.CONTEXT): "context.json",
    int(Place.EVENTS_JSON): "events.json",
    int(Place.METADATA): "metadata.json",
}


class FixedDirectory(Directory):
    """A directory at a path that belongs to no conversation."""

    timeout = SHORT

    def __init__(self, tree: Tree, ino: int, path: FixedPath) -> None:
        super().__init__(ino)
        self.tree = tree
        self.path = path

    @property
    def parent(self) -> int:
        return self.tree.ino(self.path[:-1])

    @property
    def links(self) -> int:
        """The link count: of a directory without others in it."""
        return 2

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), self.links, self.timeout)

    def below(self, name: str) -> int:
        return self.tree.ino((*self.path, name))


class NamesDirectory(FixedDirectory, Listing):
    """A directory of others at fixed paths. ``names`` are those in it, in order, where they never change."""

    names: tuple[str, ...] = ()

    def items(self) -> Mapping[str, Item]:
        return {name: Item(at, self.below(name)) for at, name in enumerate(self.names, 1)}


class BranchesDirectory(FixedDirectory, Listing):
    """A directory of others that come and go, with as many links."""

    @property
    def links(self) -> int:
        return 2 + len(self.branches())

    @abstractmethod
    def branches(self) -> Mapping[str, str]:
        """Return the last names of their paths, by the names that they are shown under."""

    def items(self) -> Mapping[str, Item]:
        return {name: Item(ino := self.below(path), ino) for name, path in self.branches().items()}


class ViewNode(Node):
    """A node of one view. It finds the view anew each time, so that it never shows a state that has passed."""

    __slots__ = ("tree", "view_id")

    def __init__(self, tree: Tree, ino: int, view_id: int) -> None:
        # called for almost every request, so not by way of others
        self.ino = ino
        self.tree = tree
        self.view_id = view_id

    @property
    def view(self) -> View:
        """The view as it is now. Raises NotFound once there is none."""
        return self.tree.view(self.view_id)

    @property
    def number(self) -> int:
        """The last part of the inode number: the number of a record, a resource, a place."""
        return self.ino & inodes.MAX_NUMBER

    def label(self) -> str:
        """Return the name of this node in its conversation, for messages."""
        space, _view, number = inodes.split(self.ino)
        if space == Space.PLACE:
            return _DOCUMENTS.get(number) or Place(number).name.lower()
        return f"{Space(space).name.lower()}-{number:05}"

    def as_served(self, attributes: Attributes) -> Attributes:
        """Return attributes as they are where something is shown in place of what would be drawn."""
        served = self.tree.served.get(self.ino)
        if served is None:
            return attributes
        return replace(attributes, size=served.size, time_ns=served.time_ns, timeout=served.timeout)

    def instead(self) -> OpenContent | None:
        """Return the contents read in place of the drawn ones, None if those are read.

        The file may now be known under another number: this one keeps its contents. Else it may have been written.
        """
        tree = self.tree
        now = tree.bound(self.ino)
        if now is not None and not isinstance(now, type(self)):
            return now.open() if isinstance(now, File) else _NOTHING
        return tree.served.get(self.ino)

    def place(self, place: Place) -> int:
        return inodes.base(Space.PLACE, self.view_id) + place


class ServedFile(ViewNode, File):
    """A file that is read anew each time: what is shown in its place, or else what is drawn."""

    __slots__ = ()

    def open(self) -> OpenContent:
        return self

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file as it is now."""
        instead = self.instead()
        return self.draw(offset, size) if instead is None else instead.read(offset, size)

    @abstractmethod
    def draw(self, offset: int, size: int) -> bytes:
        """Return a part of the drawn file."""


class NumberedNode(ViewNode):
    """A node with a number of its own: the kernel may know it under an inode number that says another."""

    __slots__ = ("_number",)

    def __init__(self, tree: Tree, ino: int, view_id: int, number: int) -> None:
        self.ino = ino
        self.tree = tree
        self.view_id = view_id
        self._number = number

    @property
    def number(self) -> int:
        return self._number


class RowNode(ViewNode):
    """A node that is one record of its view."""

    __slots__ = ()

    @property
    def row(self) -> EventRow:
        """The record's row as it is now. Raises NotFound once there is none."""
        return self.view.row(self.number)

    def content_hash(self) -> Hash | None:
        return self.tree.store.turns.get(self.row.turn).payload_hash

    def turn_xattrs(self, row: EventRow) -> dict[str, str]:
        """Return the extended attributes that say which turn this is."""
        store = self.tree.store
        turn = store.turns.get(row.turn)
        return {
            "turn": str(row.turn),
            "hash": turn.payload_hash.hex(),
            "type": store.contents.type_name(turn.type_tag),
            "event": str(row.number),
        }


class ViewDirectory(ViewNode, Directory):
    """A directory in the conversation's own, unless it says otherwise."""

    __slots__ = ()

    @property
    def parent(self) -> int:
        return self.place(Place.CONVERSATION)

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.view.time_ms, 2)

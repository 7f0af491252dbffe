"""What the nodes of one view have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.node import DIRECTORY, HELD_BY, Attributes, Directory, File, Node
from fusefs.tree.view import View
from store.events.conversation import EventRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusefs.tree.tree import Tree

    Read = Callable[[int, int], bytes]


class ViewNode(Node):
    """A node of one view. It finds the view anew each time, so that it never shows a state that has passed."""

    __slots__ = ("tree", "view_id")

    def __init__(self, tree: Tree, ino: int, view_id: int) -> None:
        super().__init__(ino)
        self.tree = tree
        self.view_id = view_id

    @property
    def view(self) -> View:
        """The view as it is now. Raises NotFound once there is none."""
        return self.tree.view(self.view_id)

    @property
    def number(self) -> int:
        """What the inode number says last: the number of a record, a resource, a place."""
        return self.ino & inodes.MAX_NUMBER

    def label(self) -> str:
        """Return what this node is, in its conversation, for messages."""
        space, _view, number = inodes.split(self.ino)
        return Place(number).name.lower() if space == Space.PLACE else f"{Space(space).name.lower()}-{number:05}"

    def as_served(self, attributes: Attributes) -> Attributes:
        """Return attributes as they are where something is shown in place of what would be drawn."""
        served = self.tree.served.get(self.ino)
        if served is None:
            return attributes
        return attributes._replace(size=served.size, time_ns=served.time_ns, timeout=served.timeout)

    def shown(self, draw: Read) -> Read:
        """Return what reads a file as it is shown at any time; ``draw`` reads what is drawn."""

        def read(offset: int, size: int) -> bytes:
            now = self.tree.bound(self.ino)
            if now is not None and not isinstance(now, type(self)):
                # the file is known under another number by now, and this one keeps what it had
                return now.open().read(offset, size) if isinstance(now, File) else b""
            served = self.tree.served.get(self.ino)
            return draw(offset, size) if served is None else served.read(offset, size)

        return read

    def place(self, place: Place) -> int:
        """Return the inode number of a place in this view."""
        return inodes.base(Space.PLACE, self.view_id) + place


class NumberedNode(ViewNode):
    """A node with a number of its own: the kernel may know it under an inode number that says another."""

    __slots__ = ("_number",)

    def __init__(self, tree: Tree, ino: int, view_id: int, number: int) -> None:
        super().__init__(tree, ino, view_id)
        self._number = number

    @property
    def number(self) -> int:
        """The number of a record, or a resource."""
        return self._number


class RowNode(ViewNode):
    """A node that is one record of its view."""

    __slots__ = ()

    @property
    def row(self) -> EventRow:
        """The record's row as it is now. Raises NotFound once there is none."""
        return self.view.row(self.number)

    def unlisted_xattr(self, name: str) -> str | None:
        if name != HELD_BY:
            return None
        return self.tree.resources.held_by(self.tree.store.turn(self.row.turn).payload_hash)

    def turn_xattrs(self, row: EventRow) -> dict[str, str]:
        """Return the extended attributes that say which turn this is."""
        store = self.tree.store
        turn = store.turn(row.turn)
        return {
            "turn": str(row.turn),
            "hash": turn.payload_hash.hex(),
            "type": store.type_name(turn.type_tag),
            "event": str(row.number),
        }


class ViewDirectory(ViewNode, Directory):
    """A directory in the conversation's own, unless it says otherwise."""

    __slots__ = ()

    @property
    def parent(self) -> int:
        """The inode number of the conversation's directory."""
        return self.place(Place.CONVERSATION)

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.view.time_ms, 2)

"""Names in the directories of a mount: what one stands for, and whether there may be a new one."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyfuse3 import FUSEError

from fusefs.editing.appending import Candidate, new_event
from fusefs.editing.scratch import ScratchFile, ScratchNode
from fusefs.inodes import Place
from fusefs.text.names import parse_event_name
from fusefs.tree.changes import Stale
from fusefs.tree.events import EventFile, EventsDirectory
from fusefs.tree.native.files import NativeDirectory
from fusefs.tree.node import Directory, Node
from fusefs.tree.view_node import ViewNode

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk
    from fusefs.editing.removal import Removals
    from fusefs.editing.vanishing import Vanishing


class Names:
    """Looks up the names of one mount, as they are while much is being written, removed and moved."""

    def __init__(self, desk: Desk, removals: Removals, vanishing: Vanishing) -> None:
        self._desk = desk
        self._removals = removals
        self._vanishing = vanishing

    def find(self, directory: Directory, name: bytes) -> Node | None:
        """Return what a name in a directory stands for, None if it is free."""
        try:
            node = directory.lookup(name.decode())
        except UnicodeDecodeError:
            node = None
        if node is not None and not self._desk.tree.has_vanished(node.ino):
            return node
        node = self._desk.scratch.find(directory, name)
        if isinstance(node, ScratchFile):
            self.named(node, directory, name)
        return node

    def named(self, node: ScratchNode, directory: Directory, name: bytes) -> Candidate | None:
        """Take note of a name of a scratch file; return what it may become under it."""
        if isinstance(directory, NativeDirectory) and isinstance(node, ScratchFile):
            self._desk.new_sessions.named(node, directory, name)
        else:
            self._desk.new_sessions.forget(node.ino)
        if not isinstance(directory, EventsDirectory):
            self._desk.appending.forget(node.ino)
            return None
        return self._desk.appending.consider(node.ino, directory.view_id, name.decode(errors="replace"))

    def removed(self, directory: Directory, name: bytes) -> Node | None:
        """Return the file that had this name and is being removed; or the event that had it, and was deleted."""
        text = name.decode(errors="replace")
        if not isinstance(directory, EventsDirectory):
            tree = self._desk.tree
            node = directory.lookup(text) if tree.vanished and isinstance(directory, ViewNode) else None
            return node if node is not None and tree.has_vanished(node.ino) else None
        overlay = self._desk.tree.overlays.get(directory.view_id)
        number = (overlay and overlay.aliases.get(text)) or parse_event_name(text)
        if number is None or not ((overlay and number in overlay.hidden) or self._is_deleted(directory, number)):
            return None
        return self._desk.tree.event(directory.view_id, number)

    def _is_deleted(self, directory: EventsDirectory, number: int) -> bool:
        return (
            self._desk.is_head(directory.view_id)
            and number <= directory.view.records
            and directory.view.row(number).deleted
        )

    def hide(self, node: ViewNode) -> None:
        """Take note that a file has been removed, or moved away."""
        if isinstance(node, EventFile):
            self._removals.hide(node)
        else:
            self._vanishing.hide(node, node)

    def look_again(self, node: Node, name: bytes) -> None:
        """Have the kernel look where the listed name of an event leads, if another one was moved or removed."""
        if isinstance(node, EventFile) and node.name.encode() != name:
            self._desk.invalidate(Stale(node.place(Place.EVENTS), node.name.encode()))

    def come_back(self, node: Node) -> bool:
        """Take note that a file is there again; say whether it was being removed, or was gone."""
        if isinstance(node, EventFile):
            return self._removals.cancel(node.view_id, node.number) or node.row.deleted
        return isinstance(node, ViewNode) and self._vanishing.cancel(node)

    def new_path(self, directory: Directory, name: bytes) -> bytes:
        """Return the path on the disk for a new name. Raises what is wrong with making one here."""
        path = self._desk.scratch.make_place(directory, name)
        if path is None:
            raise FUSEError(refusal(directory))
        if isinstance(directory, EventsDirectory):
            self._check_number(directory, name.decode(errors="replace"))
        return path

    def _check_number(self, directory: EventsDirectory, name: str) -> None:
        """Raise EEXIST for the name of a new event whose number is taken, EINVAL for one that no event can have."""
        number = parse_event_name(name)
        if number is not None and number <= directory.view.records:
            raise FUSEError(errno.EEXIST)
        if number is not None and new_event(name) is None:
            raise FUSEError(errno.EINVAL)

    def node(self, path: bytes, directory: Directory) -> ScratchNode:
        node = self._desk.scratch.node_at(path, directory.ino)
        if node is None:
            raise FUSEError(errno.ENOENT)
        return node

    def path(self, directory: Directory, name: bytes) -> bytes:
        path = self._desk.scratch.at(directory, name)
        assert path is not None
        return path


def refusal(node: Node) -> int:
    """Return the errno for a name that cannot be changed: in an earlier version none can."""
    return errno.EROFS if isinstance(node, ViewNode) else errno.EPERM

"""Conversations that are removed: what is in one vanishes file by file, and then the directory goes, in one removal.

What has vanished and was not followed by its directory is there again after a while: a conversation's own files cannot
be removed one by one.
"""

from __future__ import annotations

import time

from fusefs.editing.desk import Desk
from fusefs.tree.node import Node
from fusefs.tree.view_node import ViewNode

_SECONDS = 5.0


class Vanishing:
    """What is not shown, because it is being removed."""

    def __init__(self, desk: Desk) -> None:
        self._tree = desk.tree
        self._since: dict[int, tuple[float, set[int]]] = {}
        """By view: when something vanished last, and all that has."""

    def hide(self, directory: ViewNode, node: Node) -> None:
        """Take note that what a directory of a conversation holds was removed."""
        _when, inos = self._since.get(directory.view_id, (0.0, set()))
        own = self._tree.own.get(node.ino, node.ino)
        inos.add(own)
        self._tree.vanished.add(own)
        self._since[directory.view_id] = (time.monotonic(), inos)

    def begun(self, view_id: int) -> bool:
        """Say whether something of a conversation has vanished already: what else is removed goes with it."""
        return view_id in self._since

    def cancel(self, node: ViewNode) -> bool:
        """Take note that a file is there again; say whether it had vanished."""
        own = self._tree.own.get(node.ino, node.ino)
        if own not in self._tree.vanished:
            return False
        self._tree.vanished.discard(own)
        self._since[node.view_id][1].discard(own)
        return True

    def show(self, view_id: int) -> None:
        """Show everything of a conversation again: it was removed as a whole, or not at all."""
        _when, inos = self._since.pop(view_id, (0.0, set()))
        self._tree.vanished.difference_update(inos)

    def tick(self) -> None:
        """Show again what no removal followed."""
        now = time.monotonic()
        for view_id, (when, _inos) in list(self._since.items()):
            if when < now - _SECONDS:
                self.show(view_id)

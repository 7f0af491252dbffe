"""Which files can be saved, and as what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusefs.editing import event_target, json_target, metadata_target, resource_target
from fusefs.editing.event_target import EventTarget
from fusefs.editing.json_target import JsonTarget
from fusefs.editing.metadata_target import MetadataTarget
from fusefs.editing.resource_target import ResourceTarget
from fusefs.inodes import FIRST_HANDED_OUT_VIEW
from fusefs.tree.documents import EventsJson, MetadataFile
from fusefs.tree.events import EventFile
from fusefs.tree.resources import ResourceFile

if TYPE_CHECKING:
    from fusefs.editing.records import Records
    from fusefs.editing.target import Target
    from fusefs.tree.node import Node
    from fusefs.tree.tree import Tree


class Targets:
    """Finds the target for a file, and for a draft."""

    def __init__(self, tree: Tree, records: Records) -> None:
        self._tree = tree
        self._records = records

    def of(self, node: Node | None) -> Target | None:
        """Return what a node is saved as; None where it cannot be, as in earlier versions."""
        match node:
            case EventFile() if self.is_head(node.view_id):
                return EventTarget(self._tree, self._records, node.view_id, node.number)
            case EventsJson() if self.is_head(node.view_id):
                return JsonTarget(self._tree, self._records, node.view_id)
            case MetadataFile() if self.is_head(node.view_id):
                return MetadataTarget(self._tree, node.view_id)
            case ResourceFile() if self.is_head(node.view_id):
                row = node.row
                return ResourceTarget(self._tree, self._records, node.view_id, row.number, row.seq)
        return None

    def keyed(self, view_id: int, key: str) -> Target | None:
        """Return the target with a key; None if nothing has it."""
        if key.startswith(event_target.KEY):
            return EventTarget(self._tree, self._records, view_id, int(key.removeprefix(event_target.KEY)))
        if key == json_target.KEY:
            return JsonTarget(self._tree, self._records, view_id)
        if key == metadata_target.KEY:
            return MetadataTarget(self._tree, view_id)
        if resource := resource_target.KEY(key):
            return ResourceTarget(self._tree, self._records, view_id, int(resource[1]), int(resource[2]))
        return None

    def is_head(self, view_id: int) -> bool:
        """Say whether a view is a conversation as it is now, which can be changed, and no earlier version."""
        return view_id < FIRST_HANDED_OUT_VIEW or self._tree.view(view_id).version is None

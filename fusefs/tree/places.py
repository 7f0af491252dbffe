"""What there is once in every view: the node of each place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fusefs.inodes import Place
from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.documents import ContextFile, EventsJson, MetadataFile, Transcript
from fusefs.tree.events import EventsDirectory
from fusefs.tree.family import family_drawing
from fusefs.tree.forks import ForksDirectory, fork_link
from fusefs.tree.links import make_link
from fusefs.tree.native.files import SessionFile
from fusefs.tree.node import Node
from fusefs.tree.outputs import OutputsDirectory
from fusefs.tree.records import RecordsDirectory
from fusefs.tree.resources import ResourceDirectory
from fusefs.tree.versions import VersionsDirectory

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

_PLACES: dict[Place, Callable[[Tree, int, int], Node]] = {
    Place.CONVERSATION: ConversationDirectory,
    Place.EVENTS: EventsDirectory,
    Place.EVENTS_JSON: EventsJson,
    Place.RESOURCES: ResourceDirectory,
    Place.METADATA: MetadataFile,
    Place.VERSIONS: VersionsDirectory,
    Place.RECORDS: RecordsDirectory,
    Place.TRANSCRIPT: Transcript,
    Place.FORKS: ForksDirectory,
    Place.ARTIFACTS: OutputsDirectory,
    Place.AGENTS: OutputsDirectory,
    Place.NATIVE: SessionFile,
    Place.CONTEXT: ContextFile,
    Place.FAMILY: family_drawing,
}


def placed(tree: Tree, ino: int, view_id: int, place: Place) -> Node:
    """Return the node at a place of a view, under the inode number ``ino``."""
    if place in (Place.DAY_LINK, Place.LABEL_LINK, Place.RECENT_LINK):
        return make_link(tree, place, tree.view(view_id).conversation)
    if place is Place.FORK_LINK:
        return fork_link(tree, tree.view(view_id).conversation)
    return _PLACES[place](tree, ino, view_id)

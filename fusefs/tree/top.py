"""What stands at the paths that belong to no conversation: the top of the tree, and the ways into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusefs.tree.by_resource import BY_RESOURCE, ResourcesDirectory
from fusefs.tree.control import control_node
from fusefs.tree.fixed import README_NAME, RECENT, ReadmeFile, RootDirectory
from fusefs.tree.imports import IMPORT, ImportDirectory
from fusefs.tree.labels import BY_LABEL, LabelDirectory, LabelsDirectory
from fusefs.tree.links import BY_DATE, DatesDirectory, DayDirectory, RecentDirectory
from fusefs.tree.node import Node
from fusefs.tree.paths import CONTROL, CONVERSATIONS, TRANSCRIPTS
from fusefs.tree.projects import ProjectDirectory, ProjectsDirectory, TranscriptsDirectory
from fusefs.tree.search import SEARCH, search_node
from store.errors import NotFound

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

Key = tuple[str, ...]
"""The path of a directory or file that belongs to no conversation."""

_DAY_LENGTH = len("2026-03-05")


def top_node(tree: Tree, ino: int, key: Key) -> Node:
    """Return the node at a path that belongs to no conversation. Raises NotFound where there is none."""
    match key:
        case ():
            return RootDirectory(tree, ino)
        case (name,) if name == README_NAME:
            return ReadmeFile(ino, tree.mounted_ms)
        case (name,) if name == IMPORT:
            return ImportDirectory(tree, ino)
        case (name,) if name == RECENT:
            return RecentDirectory(tree, ino)
        case (name,) if name in (CONVERSATIONS, TRANSCRIPTS):
            return ProjectsDirectory(tree, ino, name)
        case (name, project) if name == CONVERSATIONS:
            return ProjectDirectory(tree, ino, project)
        case (name, project) if name == TRANSCRIPTS:
            return TranscriptsDirectory(tree, ino, project)
        case (name,) if name == BY_LABEL:
            return LabelsDirectory(tree, ino)
        case (name, label) if name == BY_LABEL:
            return LabelDirectory(tree, ino, label)
        case (name, *rest) if name == BY_DATE:
            date = rest[0] if rest else ""
            return DayDirectory(tree, ino, date) if len(date) == _DAY_LENGTH else DatesDirectory(tree, ino, date)
        case (name, *rest) if name == BY_RESOURCE:
            return ResourcesDirectory(tree, ino, tuple(rest))
        case (name, *rest) if name == SEARCH:
            return search_node(tree, ino, tuple(rest))
        case (name, *rest) if name == CONTROL:
            return control_node(tree, ino, tuple(rest))
    raise NotFound(f"there is no {'/'.join(key)}")

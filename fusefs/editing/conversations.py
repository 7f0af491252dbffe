"""Making, forking, renaming and removing whole conversations."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from pyfuse3 import FUSEError

from fusefs.editing.desk import Desk
from fusefs.editing.labels import Labels
from fusefs.editing.new_names import new_name
from fusefs.editing.outputs.moves import OutputMoves
from fusefs.editing.removal import Removals
from fusefs.editing.vanishing import Vanishing
from fusefs.inodes import Place
from fusefs.tree.control import TrashDirectory
from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.events import EventsDirectory
from fusefs.tree.forks import ForksDirectory, fork_name
from fusefs.tree.labels import LabelDirectory, LabelsDirectory
from fusefs.tree.node import Directory, Entry, Link, Node
from fusefs.tree.outputs import OutputsDirectory
from fusefs.tree.paths import CONVERSATIONS
from fusefs.tree.projects import ProjectDirectory, ProjectsDirectory
from fusefs.tree.resources import ResourceDirectory
from fusefs.tree.view_node import ViewNode
from store.editing.editor import Editor


class Conversations:
    """What directories mean that are conversations, or hold some."""

    def __init__(self, desk: Desk, removals: Removals, outputs: OutputMoves) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._removals = removals
        self._outputs = outputs
        self._editor = Editor(desk.tree.store)
        self.vanishing = Vanishing(desk)
        self.labels = Labels(desk)

    # -- making ----------------------------------------------------------------------------------------------------

    def make(self, directory: Directory, name: bytes) -> Node | None:
        """Make what a new directory means here: a project, a conversation, a fork, a label; else None."""
        match directory:
            case ProjectsDirectory() if directory.key == CONVERSATIONS:
                project = new_name(name)
                self._tree.new_projects.add(project)
                self._tree.forget_projects()
                return self._tree.fixed((CONVERSATIONS, project))
            case ProjectDirectory() if directory.key == CONVERSATIONS:
                head = self._editor.create(directory.project, new_name(name), format="claude-code")
            case ForksDirectory() if self._desk.is_head(directory.view_id):
                fork, at = fork_name(new_name(name))
                head = self._editor.fork(directory.view.conversation.id, fork, at=at)
            case ForksDirectory():
                raise FUSEError(errno.EROFS)
            case LabelsDirectory():
                return directory.make(new_name(name))
            case _:
                return None
        view_id = self._tree.view_id(head.context)
        self._tree.renew(view_id)
        return self._tree.place(view_id, Place.CONVERSATION)

    # -- moving ----------------------------------------------------------------------------------------------------

    def move(self, source: ConversationDirectory, old: Directory, new: Directory, name: bytes) -> None:
        """Give a conversation another name or project, or bring it back from the trash."""
        if not self._desk.is_head(source.view_id):
            raise FUSEError(errno.EROFS)
        if not isinstance(new, ProjectDirectory) or new.key != CONVERSATIONS:
            raise FUSEError(errno.EPERM)
        context = self._desk.records.context(source.view_id)
        self._stays(old)
        if isinstance(old, TrashDirectory):
            self._editor.bring_back(context, project=new.project, name=new_name(name))
        else:
            self._editor.rename(context, new.project, new_name(name))
        self._tree.renew(source.view_id)

    # -- removing --------------------------------------------------------------------------------------------------

    def remove(self, parent: Directory, node: Node) -> None:
        """Remove an empty directory: of a conversation, a whole conversation, a project or a label."""
        match node:
            case ConversationDirectory() if self._desk.is_head(node.view_id) and not isinstance(parent, TrashDirectory):
                self._check_empty(node)
                self._removals.drop(node.view_id)
                self._outputs.drop(node.view_id)
                self._stays(parent)
                self._editor.remove(self._desk.records.context(node.view_id))
                self.vanishing.show(node.view_id)
                self._tree.renew(node.view_id)
            case EventsDirectory() | ResourceDirectory() | ForksDirectory() | OutputsDirectory() if self._desk.is_head(
                node.view_id
            ):
                self._check_empty(node)
                self.vanishing.hide(node, node)
            case ProjectDirectory() if node.key == CONVERSATIONS:
                self._check_empty(node)
                self._tree.new_projects.discard(node.project)
                self._tree.forget_projects()
            case LabelDirectory():
                self.labels.remove(node)
            case _:
                raise FUSEError(errno.EROFS if isinstance(node, ViewNode) else errno.EPERM)

    def unlink(self, directory: Directory, name: bytes, link: Link) -> None:
        """Remove a link: from a label's directory, or with all of a conversation from its ``forks/``."""
        match directory:
            case LabelDirectory():
                self.labels.unlink(directory, name)
            case ForksDirectory() if self._desk.is_head(directory.view_id):
                self.vanishing.hide(directory, link)
            case _:
                raise FUSEError(errno.EROFS if isinstance(directory, ViewNode) else errno.EPERM)

    def _stays(self, directory: Directory) -> None:
        """Keep a project for as long as the mount lasts, though its last conversation goes."""
        if isinstance(directory, ProjectDirectory):
            self._tree.new_projects.add(directory.project)

    def _check_empty(self, directory: Directory) -> None:
        if next(self._shown(directory), None) is not None:
            raise FUSEError(errno.ENOTEMPTY)

    def _shown(self, directory: Directory) -> Iterator[Entry]:
        for entry in directory.entries(0):
            if not self._tree.has_vanished(entry.attributes.ino):
                yield entry
        yield from self._desk.scratch.entries(directory, 0)

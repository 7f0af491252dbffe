"""Making, forking, renaming and removing whole conversations."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from pyfuse3 import FUSEError

from fusefs.editing.desk import Desk
from fusefs.editing.removal import Removals
from fusefs.editing.vanishing import Vanishing
from fusefs.inodes import Place
from fusefs.text.names import NAME_MAX, safe_name
from fusefs.tree.control import TrashDirectory
from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.events import EventsDirectory
from fusefs.tree.forks import ForksDirectory, fork_name
from fusefs.tree.node import Directory, Entry, Node
from fusefs.tree.projects import CONVERSATIONS, ProjectDirectory, ProjectsDirectory
from fusefs.tree.resources import ResourceDirectory
from fusefs.tree.view_node import ViewNode
from store.editing.editor import Editor

_LONGEST = NAME_MAX - 25


class Conversations:
    """What directories mean that are conversations, or hold some."""

    def __init__(self, desk: Desk, removals: Removals) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._removals = removals
        self._editor = Editor(desk.tree.store)
        self.vanishing = Vanishing(desk)

    # -- making ----------------------------------------------------------------------------------------------------

    def make(self, directory: Directory, name: bytes) -> Node | None:
        """Make what a new directory means here: a project, a conversation, a fork; None where it is none of these."""
        match directory:
            case ProjectsDirectory() if directory.key == CONVERSATIONS:
                project = _checked(name)
                self._tree.new_projects.add(project)
                self._tree.forget_projects()
                return self._tree.fixed((CONVERSATIONS, project))
            case ProjectDirectory() if directory.key == CONVERSATIONS:
                head = self._editor.create(directory.project, _checked(name), format="claude-code")
            case ForksDirectory() if self._desk.is_head(directory.view_id):
                fork, at = fork_name(_checked(name))
                head = self._editor.fork(directory.view.conversation.id, fork, at=at)
            case ForksDirectory():
                raise FUSEError(errno.EROFS)
            case _:
                return None
        return self._tree.place(self._tree.view_id(head.context), Place.CONVERSATION)

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
            self._editor.bring_back(context, project=new.project, name=_checked(name))
        else:
            self._editor.rename(context, new.project, _checked(name))
        self._tree.renew(source.view_id)

    # -- removing --------------------------------------------------------------------------------------------------

    def remove(self, parent: Directory, node: Node) -> None:
        """Remove an empty directory: of a conversation, a whole conversation, or a project."""
        match node:
            case ConversationDirectory() if self._desk.is_head(node.view_id) and not isinstance(parent, TrashDirectory):
                self._check_empty(node)
                self._removals.drop(node.view_id)
                self._stays(parent)
                self._editor.remove(self._desk.records.context(node.view_id))
                self.vanishing.show(node.view_id)
                self._tree.renew(node.view_id)
            case EventsDirectory() | ResourceDirectory() | ForksDirectory() if self._desk.is_head(node.view_id):
                self._check_empty(node)
                self.vanishing.hide(node)
            case ProjectDirectory() if node.key == CONVERSATIONS:
                self._check_empty(node)
                self._tree.new_projects.discard(node.project)
                self._tree.forget_projects()
            case _:
                raise FUSEError(errno.EROFS if isinstance(node, ViewNode) else errno.EPERM)

    def _stays(self, directory: Directory) -> None:
        """Keep a project for as long as the mount lasts, though its last conversation goes."""
        if isinstance(directory, ProjectDirectory):
            self._tree.new_projects.add(directory.project)

    def _check_empty(self, directory: Directory) -> None:
        if next(self._shown(directory), None) is not None:
            raise FUSEError(errno.ENOTEMPTY)

    def _shown(self, directory: Directory) -> Iterator[Entry]:
        for entry in directory.entries(0):
            if entry.attributes.ino not in self._tree.vanished:
                yield entry
        yield from self._desk.scratch.entries(directory, 0)


def _checked(name: bytes) -> str:
    """Return a name that a project or conversation is shown under as it stands; EINVAL for any other."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        raise FUSEError(errno.EINVAL) from None
    if len(name) > _LONGEST:
        raise FUSEError(errno.ENAMETOOLONG)
    if safe_name(text, limit=_LONGEST) != text or text.startswith("."):
        raise FUSEError(errno.EINVAL)
    return text

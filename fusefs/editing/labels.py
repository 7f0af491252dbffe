"""Labels, given and taken by gestures: links made and removed in ``by-label/``, and extended attributes."""

from __future__ import annotations

import errno
from typing import NoReturn

from pyfuse3 import ENOATTR, FUSEError

from fusefs.editing.desk import Desk
from fusefs.editing.new_names import new_name
from fusefs.inodes import Place
from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.labels import BY_LABEL, LabelDirectory, LabelsDirectory
from fusefs.tree.links import link_names, make_link
from fusefs.tree.node import Directory, Node
from fusefs.tree.paths import CONVERSATIONS
from fusefs.tree.projects import ProjectDirectory
from store.editing.editor import Editor
from store.index.catalogue import Called


class Labels:
    """Gives conversations labels, and takes them away."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._editor = Editor(desk.tree.store)

    # -- links -----------------------------------------------------------------------------------------------------

    def link(self, directory: LabelDirectory, name: bytes, target: bytes) -> Node:
        """Give the conversation that a new link leads to the label of the directory that it is in.

        Raises EINVAL if it leads to no conversation, or is not called as the conversation; the reason is noted.
        """
        path = f"{BY_LABEL}/{directory.label}/{name.decode(errors='replace')}"
        conversation = self._target(target)
        if conversation is None:
            self._refuse(
                path, f"{target.decode(errors='replace')} is no conversation: link to {CONVERSATIONS}/PROJECT/NAME"
            )
        links = link_names([*directory.names().values(), conversation])
        named = next(named for named, linked in links.items() if linked.id == conversation.id)
        if name.decode(errors="replace") not in (named, f"{named}@{conversation.project}"):
            self._refuse(path, f"a link to this conversation must be called {named}")
        self._change(conversation.id, add=directory.label)
        return make_link(self._tree, Place.LABEL_LINK, self._tree.store.conversation(conversation.id))

    def _refuse(self, path: str, reason: str) -> NoReturn:
        self._tree.errors.add(path, reason)
        raise FUSEError(errno.EINVAL)

    def _target(self, target: bytes) -> Called | None:
        """Return the conversation that a link leads to, by the end of its path: from wherever it was meant to lead."""
        try:
            path = [part for part in target.decode().split("/") if part not in ("", ".")]
        except UnicodeDecodeError:
            return None
        if path[-3:-2] == [CONVERSATIONS]:
            project = self._tree.projects().get(path[-2])
            directory = None if project is None else self._tree.fixed((CONVERSATIONS, project))
            if isinstance(directory, ProjectDirectory) and (found := directory.find(path[-1])) is not None:
                return Called(found.id, found.project, found.name)
        return None

    def unlink(self, directory: LabelDirectory, name: bytes) -> None:
        """Take the label of a directory from the conversation that a link in it leads to."""
        self._stays(directory)
        self._change(self._linked(directory, name).id, remove=directory.label)

    def move(self, source: Node, old: Directory, old_name: bytes, new: Directory, new_name: bytes) -> None:
        """Give a conversation another label in place of one; or all that have it, if its directory is moved.

        Raises EPERM for what is moved anywhere else, and for links that are to be called otherwise.
        """
        match source, old, new:
            case _, LabelDirectory(), LabelDirectory() if old is not new and old_name == new_name:
                self._stays(old)
                self._change(self._linked(old, old_name).id, add=new.label, remove=old.label)
            case LabelDirectory(), LabelsDirectory(), LabelsDirectory():
                self._rename(source, old, new_name)
            case _:
                raise FUSEError(errno.EPERM)

    def _linked(self, directory: LabelDirectory, name: bytes) -> Called:
        conversation = directory.names().get(name.decode(errors="replace"))
        if conversation is None:
            raise FUSEError(errno.ENOENT)
        return conversation

    # -- directories -----------------------------------------------------------------------------------------------

    def remove(self, directory: LabelDirectory) -> None:
        """Remove the directory of a label that no conversation has any more."""
        if directory.names():
            raise FUSEError(errno.ENOTEMPTY)
        self._all().remove(directory.label)

    def _rename(self, directory: LabelDirectory, parent: LabelsDirectory, name: bytes) -> None:
        label = new_name(name)
        for conversation in directory.names().values():
            self._change(conversation.id, add=label, remove=directory.label)
        parent.remove(directory.label)
        parent.make(label)

    def _stays(self, directory: LabelDirectory) -> None:
        """Keep a label's directory for as long as the mount lasts, though its last link goes."""
        self._all().make(directory.label)

    def _all(self) -> LabelsDirectory:
        directory = self._tree.fixed((BY_LABEL,))
        assert isinstance(directory, LabelsDirectory)
        return directory

    # -- extended attributes ---------------------------------------------------------------------------------------

    def set(self, node: ConversationDirectory, label: str) -> None:
        """Give a conversation a label."""
        self._change(node.view.conversation.id, add=label)

    def unset(self, node: ConversationDirectory, label: str) -> None:
        """Take a label from a conversation. Raises ENODATA if it does not have it."""
        if label not in node.view.conversation.labels:
            raise FUSEError(ENOATTR)
        self._change(node.view.conversation.id, remove=label)

    def _change(self, context: int, *, add: str | None = None, remove: str | None = None) -> None:
        self._editor.relabel(context, add=() if add is None else [add], remove=() if remove is None else [remove])
        view_id = self._tree.view_id(context)
        self._tree.renew(view_id)
        self._desk.check(view_id)
        self._desk.unsettle(view_id)

"""Whole conversations, made, forked, renamed, removed, and given labels: by directories, links and attributes."""

import errno
from typing import NamedTuple, NoReturn

from pyfuse3 import ENOATTR, FUSEError

from fusefs.editing.desk import Desk
from fusefs.editing.removal import Removals, Vanishing
from fusefs.editing.stand_in import PATIENCE_SECONDS
from fusefs.inodes import Place
from fusefs.tree.control import TrashDirectory
from fusefs.tree.conversation import ConversationDirectory, ForksDirectory, fork_name
from fusefs.tree.events import EventsDirectory
from fusefs.tree.links import LabelDirectory, LabelsDirectory, make_link
from fusefs.tree.node import Directory, Link, Node
from fusefs.tree.outputs import OutputsDirectory
from fusefs.tree.paths import BY_LABEL, CONVERSATIONS, TRANSCRIPTS
from fusefs.tree.projects import FormerName, ProjectDirectory, ProjectsDirectory, SubagentsDirectory
from fusefs.tree.resources import ResourceDirectory
from fusefs.tree.view_node import FixedDirectory, ViewNode
from fusefs.tree.waiting import Later, Work
from store.commit import patience
from store.conversations.places import ASIDE, distinct
from store.editing.editor import Editor
from store.filenames import LONGEST_SHOWN, safe_name
from store.index.catalogue import Called

_FEW = 16
"""So many conversations are given a label while others wait."""
_SHOWN_AT_ONCE = 100
"""So many that a thread has given one are looked at while others wait."""


def new_name(name: bytes) -> str:
    """Return a name under which a new file will be shown unchanged; EINVAL or ENAMETOOLONG for any other."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        raise FUSEError(errno.EINVAL) from None
    if len(name) > LONGEST_SHOWN:
        raise FUSEError(errno.ENAMETOOLONG)
    if safe_name(text, limit=LONGEST_SHOWN) != text or text.startswith("."):
        raise FUSEError(errno.EINVAL)
    return text


def refusal(node: Node) -> int:
    """Return the errno for a name that cannot be changed: in an earlier version none can."""
    return errno.EROFS if isinstance(node, ViewNode) else errno.EPERM


class Renaming(NamedTuple):
    """A label that a thread gives another name, with the conversations that had it and are still shown with it."""

    label: str
    to: str
    contexts: list[int]
    work: Work[None]


class Labels:
    """Gives conversations labels, and takes them away."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._editor = Editor(desk.tree.store)
        self._renaming: dict[tuple[bytes, bytes], Renaming] = {}
        """By the names of the directories."""
        self._changing: dict[tuple[int, str, bool], Work[object]] = {}
        """By the conversation, its label, and whether that is given."""

    def link(self, directory: LabelDirectory, name: bytes, target: bytes) -> Node:
        """Give a link's conversation the label of its directory; EINVAL for any other link, and the reason is noted."""
        path = f"{BY_LABEL}/{directory.label}/{name.decode(errors='replace')}"
        conversation = self._target(target)
        if conversation is None:
            self._refuse(
                path, f"{target.decode(errors='replace')} is no conversation: link to {CONVERSATIONS}/PROJECT/NAME"
            )
        links = distinct([*directory.names().values(), conversation])
        named = next(named for named, linked in links.items() if linked.id == conversation.id)
        if name.decode(errors="replace") not in (named, f"{named}@{conversation.project}"):
            self._refuse(path, f"a link to this conversation must be called {named}")
        self._change(conversation.id, add=directory.label)
        return make_link(self._tree, Place.LABEL_LINK, self._tree.store.library.conversation(conversation.id))

    def _refuse(self, path: str, reason: str) -> NoReturn:
        self._tree.errors.add(path, reason)
        raise FUSEError(errno.EINVAL)

    def _target(self, target: bytes) -> Called | None:
        """Return the conversation that a link leads to, by the end of its path: from wherever it was meant to lead."""
        try:
            path = [part for part in target.decode().split("/") if part not in ("", ".")]
        except UnicodeDecodeError:
            return None
        if CONVERSATIONS not in path:
            return None
        _conversations, *names = path[len(path) - 1 - path[::-1].index(CONVERSATIONS) :]
        node: Node | None = self._desk.router.fixed(CONVERSATIONS)
        for name in names:
            if isinstance(node, ProjectDirectory) and (found := node.find(name)) is not None:
                # also by the place that it had before it was in another
                node = self._desk.router.place(self._tree.view_id(found.id), Place.CONVERSATION)
            else:
                node = self._desk.router.find(node, name) if isinstance(node, Directory) else None
        if not isinstance(node, ConversationDirectory) or node.view.version is not None:
            return None
        found = self._tree.store.catalogue.entry(node.view.entry.id)
        return Called(found.id, found.project, found.name)

    def unlink(self, directory: LabelDirectory, name: bytes) -> None:
        """Remove the label of a directory from the conversation that a link in it leads to."""
        self._stays(directory)
        self._change(self._linked(directory, name).id, remove=directory.label)

    def move(self, source: Node, old: Directory, name: bytes, new: Directory, to_name: bytes) -> None:
        """Give a conversation, or all with a label, another label instead; EPERM for any other move."""
        match source, old, new:
            case _, LabelDirectory(), LabelDirectory() if old is not new and name == to_name:
                self._stays(old)
                self._change(self._linked(old, name).id, add=new.label, remove=old.label)
            case LabelDirectory(), LabelsDirectory(), LabelsDirectory():
                self._rename(old, source, name, new_name(to_name))
            case _:
                raise FUSEError(errno.EPERM)

    def _rename(self, all_labels: LabelsDirectory, source: LabelDirectory, name: bytes, label: str) -> None:
        """Give all with a label another one instead; a thread does where they are many, see :meth:`renamed`."""
        before = source.label
        labelled = self._tree.store.catalogue.labelled
        contexts: list[int] = []
        # its directory stays until then
        all_labels.make(before)

        def relabel() -> None:
            contexts.extend(conversation.id for conversation in labelled(before))
            with patience.at_most(PATIENCE_SECONDS):
                self._editor.relabel_all(contexts, add=[label], remove=[before])

        if len(labelled(before, _FEW + 1)) <= _FEW:
            work = Work(relabel)
            work.run()
        else:
            work = self._tree.workers.begin(relabel)
        self._renaming[name, label.encode()] = Renaming(before, label, contexts, work)
        self.renamed(all_labels, name, label.encode())

    def renamed(self, all_labels: Directory, name: bytes, to_name: bytes) -> bool:
        """Return whether a label that was to be renamed now has another name. Raises Later, or StoreBusy after a while.

        It is asked before anything else that is asked of these names, which both mean something meanwhile.
        """
        begun = self._renaming.get((name, to_name))
        if begun is None or all_labels is not self._all():
            return False
        begun.work.await_done()
        if begun.work.is_done:
            for _ in range(min(len(begun.contexts), _SHOWN_AT_ONCE)):
                self._changed(begun.contexts.pop())
            if begun.contexts:
                # others are answered in between
                raise Later(self._tree.workers.begin(lambda: None))
        del self._renaming[name, to_name]
        begun.work.result()
        self._all().remove(begun.label)
        self._all().make(begun.to)
        return True

    def _linked(self, directory: LabelDirectory, name: bytes) -> Called:
        conversation = directory.names().get(name.decode(errors="replace"))
        if conversation is None:
            raise FUSEError(errno.ENOENT)
        return conversation

    def remove(self, directory: LabelDirectory) -> None:
        """Remove the directory of a label that no conversation has any more."""
        if directory.names():
            raise FUSEError(errno.ENOTEMPTY)
        self._all().remove(directory.label)

    def _stays(self, directory: LabelDirectory) -> None:
        """Keep a label's directory for as long as the mount lasts, though its last link goes."""
        self._all().make(directory.label)

    def _all(self) -> LabelsDirectory:
        directory = self._desk.router.fixed(BY_LABEL)
        assert isinstance(directory, LabelsDirectory)
        return directory

    def set(self, node: ConversationDirectory, label: str) -> None:
        """Give a conversation a label; a thread does, and Later is raised until it has."""
        self._change_later(node.view.entry.id, label, given=True)

    def unset(self, node: ConversationDirectory, label: str) -> None:
        """Remove a label from a conversation, as :meth:`set` gives it. Raises ENODATA if it does not have it."""
        context = node.view.entry.id
        if label not in node.view.entry.labels and (context, label, False) not in self._changing:
            raise FUSEError(ENOATTR)
        self._change_later(context, label, given=False)

    def _change_later(self, context: int, label: str, *, given: bool) -> None:
        asked = (context, label, given)
        work = self._changing.get(asked)
        # who asked for one that was done a while ago was interrupted
        if work is None or work.is_old:

            def change() -> None:
                with patience.at_most(PATIENCE_SECONDS):
                    self._editor.relabel(context, add=[label] * given, remove=[label] * (not given))

            work = self._changing[asked] = self._tree.workers.begin(change)
        work.await_done()
        if work.is_done:
            del self._changing[asked]
        work.result()
        self._changed(context)

    def _change(self, context: int, *, add: str | None = None, remove: str | None = None) -> None:
        self._editor.relabel(context, add=() if add is None else [add], remove=() if remove is None else [remove])
        self._changed(context)

    def _changed(self, context: int) -> None:
        view_id = self._tree.view_id(context)
        self._tree.renew(view_id)
        self._desk.check(view_id)
        self._desk.saves.unsettle(view_id)


class Conversations:
    """Operations on directories that are conversations, or hold some."""

    def __init__(self, desk: Desk, removals: Removals) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._removals = removals
        self._editor = Editor(desk.tree.store)
        self.vanishing = Vanishing(desk.saves)
        self.labels = Labels(desk)

    def make(self, directory: Directory, name: bytes) -> Node | None:
        """Make the thing that a new directory means here: a project, conversation, fork or label; else None."""
        match directory:
            case ProjectsDirectory() | ProjectDirectory() if name.startswith(b".") and name != ASIDE.encode():
                # what git, Syncthing and editors of notes keep beside the files that they are about
                return None
            case ProjectsDirectory() if directory.key == CONVERSATIONS:
                project = new_name(name)
                self._tree.new_projects.add(project)
                self._tree.forget_projects()
                return self._desk.router.fixed(CONVERSATIONS, project)
            case ProjectDirectory() if directory.key == CONVERSATIONS:
                head = self._editor.create(directory.project, new_name(name), format="claude-code")
                self._desk.copies.made(self._desk.programs.thread, self._tree.view_id(head.context))
            case ForksDirectory() if self._desk.targets.is_head(directory.view_id):
                fork, at = fork_name(new_name(name))
                head = self._editor.fork(directory.view.entry.id, fork, at=at)
            case ForksDirectory():
                raise FUSEError(errno.EROFS)
            case LabelsDirectory():
                return self._desk.router.node(directory.make(new_name(name)))
            case _:
                return None
        view_id = self._tree.view_id(head.context)
        self._tree.renew(view_id)
        return self._desk.router.place(view_id, Place.CONVERSATION)

    def move(self, source: ConversationDirectory, old: Directory, new: Directory, name: bytes) -> None:
        """Give a conversation another name or project, or bring it back from the trash."""
        if not self._desk.targets.is_head(source.view_id):
            raise FUSEError(errno.EROFS)
        context = self._desk.records.context(source.view_id)
        entry = self._tree.store.catalogue.entry(context)
        if isinstance(new, ProjectDirectory) and new.key == CONVERSATIONS:
            project, own_place = new.project, True
        elif self._is_inside(new, context):
            project, own_place = str(entry.metadata.get("project", "")), False
        else:
            raise FUSEError(errno.EPERM)
        self._stays(old)
        change = self._editor.bring_back if "trashed_ms" in entry.metadata else self._editor.rename
        change(context, project=project, name=new_name(name), own_place=own_place)
        self._tree.renew(source.view_id)

    def move_project(
        self, source: ProjectDirectory, new: Directory, name: bytes, there: ProjectDirectory | None
    ) -> None:
        """Give a project another name; or move it into another one, which all its conversations go to."""
        if there is not None:
            # it may have been one before, or be one without conversations
            self._check_empty(there)
        match new:
            case ProjectsDirectory() if new.key == source.key == CONVERSATIONS:
                to = new_name(name)
            case ProjectDirectory() if new.key == source.key == CONVERSATIONS:
                to = new.project
            case _:
                raise FUSEError(errno.EPERM)
        self._editor.move_project(source.project, to)
        if self._desk.scratch.move(source, to):
            self._tree.new_projects.add(source.project)
        else:
            self._tree.new_projects.discard(source.project)
        if isinstance(new, ProjectsDirectory):
            for top in (CONVERSATIONS, TRANSCRIPTS):
                for node in self._tree.move((top, source.project), (top, to)):
                    if isinstance(node, FixedDirectory):
                        node.path = (top, to, *node.path[2:])
            self._tree.new_projects.add(to)
        self._tree.changes += 1
        self._tree.forget_projects()

    def _is_inside(self, directory: Directory, context: int) -> bool:
        """Return whether a directory is that for the subagents of the session that started one."""
        if not isinstance(directory, SubagentsDirectory) or directory.number != Place.SUBAGENTS:
            return False
        return context in self._tree.store.catalogue.started_by(directory.view.entry.id)

    def forget_name(self, link: FormerName) -> None:
        """Drop a former name of a conversation, so that another conversation may have it."""
        self._editor.forget_name(link.context, link.project, link.name)
        self._tree.renew(self._tree.view_id(link.context))

    def remove(self, parent: Directory, node: Node) -> None:
        """Remove an empty directory: of a conversation, a whole conversation, a project or a label."""
        match node:
            case ConversationDirectory() if self._desk.targets.is_head(node.view_id) and not isinstance(
                parent, TrashDirectory
            ):
                self._check_empty(node)
                try:
                    self._editor.remove(self._desk.records.context(node.view_id))
                finally:
                    # all of it is removed now, or there again
                    self._removals.drop(node.view_id)
                    self._desk.outputs.drop(node.view_id)
                    self.vanishing.show(node.view_id)
                self._stays(parent)
                if isinstance(parent, SubagentsDirectory):
                    self._tree.emptied.add(parent.view_id)
                self._tree.renew(node.view_id)
            case EventsDirectory() | ResourceDirectory() | ForksDirectory() | OutputsDirectory() if (
                self._desk.targets.is_head(node.view_id)
            ):
                self._check_empty(node)
                self.vanishing.hide(node, node)
            case SubagentsDirectory() if node.number == Place.SUBAGENTS:
                self._check_empty(node)
                self._tree.emptied.discard(node.view_id)
            case ProjectDirectory() if node.key == CONVERSATIONS:
                self._check_empty(node)
                self._tree.new_projects.discard(node.project)
                self._tree.forget_projects()
            case LabelDirectory():
                self.labels.remove(node)
            case _:
                raise FUSEError(refusal(node))

    def unlink(self, directory: Directory, name: bytes, link: Link) -> None:
        """Remove a link: from a label's directory, or with all of a conversation from its ``forks/``."""
        match directory:
            case LabelDirectory():
                self.labels.unlink(directory, name)
            case ForksDirectory() if self._desk.targets.is_head(directory.view_id):
                self.vanishing.hide(directory, link)
            case _:
                raise FUSEError(refusal(directory))

    def _stays(self, directory: Directory) -> None:
        """Keep a project for as long as the mount lasts, though its last conversation goes."""
        if isinstance(directory, ProjectDirectory):
            self._tree.new_projects.add(directory.project)

    def _check_empty(self, directory: Directory) -> None:
        drawn = (entry.attributes.ino for entry in self._desk.router.entries(directory, 0))
        if not all(map(self._tree.has_vanished, drawn)) or any(True for _ in self._desk.scratch.entries(directory, 0)):
            raise FUSEError(errno.ENOTEMPTY)

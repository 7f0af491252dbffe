"""``by-date/``, ``by-label/``, ``by-tool/``, ``by-branch/`` and ``recent/``: symbolic links into ``conversations/``."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.node import LONG, SHORT, UNCOUNTED, Attributes, Item, Link, Listing
from fusefs.tree.paths import Paths, shown_distinct
from fusefs.tree.tree import FixedPath, Tree
from fusefs.tree.view_node import BranchesDirectory, FixedDirectory
from store.conversations.places import distinct
from store.events.conversation import Conversation
from store.filenames import Named
from store.index.catalogue import Called, ContextEntry

RECENT_COUNT = 50
"""The number of conversations in ``recent/``."""

N = TypeVar("N", bound=Named)

_DEPTHS_AND_TIMEOUTS = {
    Place.BRANCH_LINK: (2, SHORT),
    Place.DAY_LINK: (4, LONG),
    Place.LABEL_LINK: (2, 0.0),
    Place.MODEL_LINK: (2, SHORT),
    Place.RECENT_LINK: (1, SHORT),
    Place.TOOL_LINK: (2, SHORT),
}


def make_link(tree: Tree, place: Place, conversation: Conversation | ContextEntry) -> Link:
    """Return the link of a conversation in one of the directories here."""
    depth, timeout = _DEPTHS_AND_TIMEOUTS[place]
    ino = inodes.base(Space.PLACE, tree.view_id(conversation.id)) + place
    target = "../" * depth + Paths(tree.store).conversation(conversation)
    # one link stands in the directories of all labels
    is_label = place is Place.LABEL_LINK
    links = len(conversation.labels) if is_label else 1
    return Link(ino, target, conversation.updated_ms, timeout, links, made=is_label)


class LinksDirectory(FixedDirectory, Listing, Generic[N]):
    """A directory of links to conversations. What is in it is looked for anew after a change."""

    link: Place

    def __init__(self, tree: Tree, ino: int, path: FixedPath) -> None:
        super().__init__(tree, ino, path)
        self._items: dict[str, Item] = {}
        self._items_of: object = None

    @abstractmethod
    def _conversations(self) -> Sequence[N]: ...

    def _attributes(self, conversation: N) -> Attributes | None:
        return None

    def names(self) -> dict[str, N]:
        """Return the conversations that are in it, by their names here."""
        return distinct(self._conversations())

    def items(self) -> Mapping[str, Item]:
        if self._items_of != self._stamp:
            # without the conversations themselves: there may be very many
            self._items = {name: self._item(conversation) for name, conversation in self.names().items()}
            # what is not measured yet may turn out to be left out
            self._items_of = None if self.tree.store.catalogue.unmeasured() else self._stamp
        return self._items

    @property
    def _stamp(self) -> object:
        """A state: while it stays the same, so do the entries."""
        return self.tree.changes

    def _item(self, conversation: N) -> Item:
        ino = inodes.base(Space.PLACE, self.tree.view_id(conversation.id)) + self.link
        return Item(conversation.id, ino, self._attributes(conversation))


class RecentDirectory(LinksDirectory[ContextEntry]):
    """``recent/``: the conversations that changed last, and all that are pinned; none of the archive."""

    link = Place.RECENT_LINK

    def _conversations(self) -> Sequence[ContextEntry]:
        return self.tree.store.catalogue.recent(RECENT_COUNT)

    def _attributes(self, conversation: ContextEntry) -> Attributes:
        return make_link(self.tree, self.link, conversation).attributes()


class DayDirectory(RecentDirectory):
    """``by-date/2026/03/05/``: the conversations that began on one day (UTC)."""

    link = Place.DAY_LINK

    def _conversations(self) -> Sequence[ContextEntry]:
        return self.tree.store.catalogue.by_day("-".join(self.path[1:]))


class ToolDirectory(RecentDirectory):
    """``by-tool/TOOL/``: the conversations that a tool has written."""

    link = Place.TOOL_LINK

    def _conversations(self) -> Sequence[ContextEntry]:
        return self.tree.store.catalogue.of_tool(self.path[1])


class BranchDirectory(RecentDirectory):
    """``by-branch/BRANCH/``: the conversations on a branch of a repository."""

    link = Place.BRANCH_LINK

    def _conversations(self) -> Sequence[ContextEntry]:
        return self.tree.store.catalogue.on_branch(self.path[1])


class ModelDirectory(RecentDirectory):
    """``by-model/MODEL/``: the conversations that a model has answered in, as far as its answers are counted."""

    link = Place.MODEL_LINK

    @property
    def _stamp(self) -> object:
        return self.tree.changes, self.tree.store.insight.counted

    def _conversations(self) -> Sequence[ContextEntry]:
        store = self.tree.store
        return store.catalogue.listed(store.insight.answered_by(self.path[1]))


class GroupsDirectory(BranchesDirectory):
    """A directory of directories of links. What is in it is looked for anew after a change."""

    def __init__(self, tree: Tree, ino: int, path: FixedPath) -> None:
        super().__init__(tree, ino, path)
        self._branches: dict[str, str] = {}
        self._branches_of: object = None

    def branches(self) -> Mapping[str, str]:
        if self._branches_of != self._stamp:
            self._branches = self._groups()
            self._branches_of = self._stamp
        return self._branches

    @property
    def _stamp(self) -> object:
        """A state: while it stays the same, so do the entries."""
        return self.tree.changes

    @abstractmethod
    def _groups(self) -> dict[str, str]: ...


class DatesDirectory(GroupsDirectory):
    """``by-date/``, a year or a month in it."""

    def _groups(self) -> dict[str, str]:
        dates = self.tree.store.catalogue.days("-".join(self.path[1:]))
        return {name: name for name in (date.rpartition("-")[2] for date in dates)}

    def items(self) -> Mapping[str, Item]:
        return {name: Item(int(name), self.below(name)) for name in self.branches()}


class UncountedGroups(GroupsDirectory):
    """Such a directory whose groups are told only by looking at every conversation: not before it is listed."""

    links = UNCOUNTED


class ToolsDirectory(UncountedGroups):
    """``by-tool/``: a directory a tool."""

    def _groups(self) -> dict[str, str]:
        return shown_distinct(self.tree.store.catalogue.tools())


class ModelsDirectory(UncountedGroups):
    """``by-model/``: a directory a model."""

    @property
    def _stamp(self) -> object:
        return self.tree.store.insight.counted

    def _groups(self) -> dict[str, str]:
        return shown_distinct(self.tree.store.insight.models())


class WorkBranchesDirectory(UncountedGroups):
    """``by-branch/``: a directory a branch."""

    def _groups(self) -> dict[str, str]:
        return shown_distinct(self.tree.store.catalogue.branches())


class LabelsDirectory(GroupsDirectory):
    """``by-label/``: a directory a label.

    Labels change with a word, and nothing in these may be shown longer than it holds: the kernel keeps none of the
    names. ``made`` are labels whose directories stay though no conversation has them, until unmount.
    """

    def __init__(self, tree: Tree, ino: int, path: FixedPath) -> None:
        super().__init__(tree, ino, path)
        self.made: set[str] = set()

    def _groups(self) -> dict[str, str]:
        return shown_distinct([*dict.fromkeys([*self.tree.store.catalogue.labels(), *sorted(self.made)])])

    def make(self, label: str) -> int:
        """Make the directory of a label that no conversation has yet; return its inode number."""
        self.made.add(label)
        self._branches_of = None
        return self.below(label)

    def remove(self, label: str) -> None:
        self.made.discard(label)
        self._branches_of = None


class LabelDirectory(LinksDirectory[Called]):
    """``by-label/LABEL/``. A link that is made here gives a conversation the label, one that is removed takes it."""

    link = Place.LABEL_LINK
    timeout = 0.0

    @property
    def label(self) -> str:
        return self.path[1]

    def _conversations(self) -> Sequence[Called]:
        return self.tree.store.catalogue.labelled(self.label)

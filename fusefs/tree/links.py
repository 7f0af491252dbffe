"""``by-date/``, ``by-label/`` and ``recent/``: symbolic links into ``conversations/``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.text.names import safe_name, unique
from fusefs.tree.node import DIRECTORY, LONG, SHORT, Attributes, Directory, Entry, Link, Node
from fusefs.tree.paths import CONVERSATIONS
from fusefs.tree.shown_names import Named, shown_name
from fusefs.tree.view import FIRST_POSITION
from store.index.catalogue import Entry as Described

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

BY_DATE = "by-date"

RECENT_COUNT = 50
"""How many conversations ``recent/`` shows."""

_NAME_LIMIT = 230

N = TypeVar("N", bound=Named)

_DEPTHS_AND_TIMEOUTS = {Place.DAY_LINK: (4, LONG), Place.LABEL_LINK: (2, 0.0), Place.RECENT_LINK: (1, SHORT)}


class Linked(Named, Protocol):
    """A conversation, as far as its links show it."""

    @property
    def updated_ms(self) -> int:
        """When it changed last, in Unix milliseconds."""

    @property
    def labels(self) -> list[str]:
        """Its labels."""


def link_names(conversations: Iterable[N]) -> dict[str, N]:
    """Return the conversations by the names of their links, oldest id first.

    A link is called as its conversation; a name that another project's conversation has already is followed by ``@``
    and the project.
    """
    names: dict[str, N] = {}
    for conversation in sorted(conversations, key=lambda conversation: conversation.id):
        name = shown_name(conversation)
        if name in names:
            name = unique(safe_name(f"{name}@{conversation.project}", limit=_NAME_LIMIT), names)
        names[name] = conversation
    return names


def make_link(tree: Tree, place: Place, conversation: Linked) -> Link:
    """Return the link of a conversation in one of the directories here."""
    depth, timeout = _DEPTHS_AND_TIMEOUTS[place]
    ino = inodes.base(Space.PLACE, tree.view_id(conversation.id)) + place
    target = f"{'../' * depth}{CONVERSATIONS}/{tree.project_name(conversation.project)}/{shown_name(conversation)}"
    # one link stands in the directories of all labels
    links = len(conversation.labels) if place is Place.LABEL_LINK else 1
    return Link(ino, target, conversation.updated_ms, timeout, links)


class LinksDirectory(Directory, Generic[N]):
    """A directory of links to conversations."""

    __slots__ = ("_names", "_names_of", "tree")

    def __init__(self, tree: Tree, ino: int) -> None:
        super().__init__(ino)
        self.tree = tree
        self._names: dict[str, N] = {}
        self._names_of = -1

    @abstractmethod
    def _conversations(self) -> Sequence[N]: ...

    @abstractmethod
    def _link(self, conversation: N) -> Link: ...

    def names(self) -> dict[str, N]:
        """Return the conversations by the names of their links, made anew after a change."""
        if self._names_of != self.tree.changes:
            self._names = link_names(self._conversations())
            self._names_of = self.tree.changes
        return self._names

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 2, SHORT)

    def lookup(self, name: str) -> Node | None:
        conversation = self.names().get(name)
        return self._link(conversation) if conversation else None

    def entries(self, after: int) -> Iterator[Entry]:
        for name, conversation in self.names().items():
            position = conversation.id + FIRST_POSITION - 1
            if position > after:
                yield Entry(position, name.encode(), self._link(conversation).attributes())


class RecentDirectory(LinksDirectory[Described]):
    """``recent/``: the conversations that changed last, and all that are pinned; none of the archive."""

    __slots__ = ()

    @property
    def parent(self) -> int:
        """The inode number of the root."""
        return inodes.ROOT

    def _conversations(self) -> Sequence[Described]:
        return self.tree.store.recent(RECENT_COUNT)

    def _link(self, conversation: Described) -> Link:
        return make_link(self.tree, Place.RECENT_LINK, conversation)


class DayDirectory(LinksDirectory[Described]):
    """``by-date/2026/03/05/``: the conversations that began on one day (UTC)."""

    __slots__ = ("day",)

    def __init__(self, tree: Tree, ino: int, day: str) -> None:
        super().__init__(tree, ino)
        self.day = day

    @property
    def parent(self) -> int:
        """The inode number of the month's directory."""
        return self.tree.fixed((BY_DATE, self.day[:-3])).ino

    def _conversations(self) -> Sequence[Described]:
        return self.tree.store.by_day(self.day)

    def _link(self, conversation: Described) -> Link:
        return make_link(self.tree, Place.DAY_LINK, conversation)


class DatesDirectory(Directory):
    """``by-date/``, a year or a month in it: ``prefix`` is "", ``2026`` or ``2026-03``."""

    __slots__ = ("prefix", "tree")

    def __init__(self, tree: Tree, ino: int, prefix: str) -> None:
        super().__init__(ino)
        self.tree = tree
        self.prefix = prefix

    @property
    def parent(self) -> int:
        """The inode number of the directory above."""
        return self.tree.fixed((BY_DATE, self.prefix[:-3])).ino if self.prefix else inodes.ROOT

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 2 + len(self._dates()), SHORT)

    def lookup(self, name: str) -> Node | None:
        date = self._dates().get(name)
        return self.tree.fixed((BY_DATE, date)) if date else None

    def entries(self, after: int) -> Iterator[Entry]:
        for name, date in self._dates().items():
            position = int(name) + FIRST_POSITION
            if position > after:
                yield Entry(position, name.encode(), self.tree.fixed((BY_DATE, date)).attributes())

    def _dates(self) -> dict[str, str]:
        return {date.rpartition("-")[2]: date for date in self.tree.store.days(self.prefix)}

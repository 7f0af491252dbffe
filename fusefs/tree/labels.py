"""``by-label/``: a directory a label, with links to the conversations that have it.

Labels change with a word, and nothing here may be shown longer than it holds: the kernel keeps none of these names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fusefs import inodes
from fusefs.inodes import Place
from fusefs.tree.links import LinksDirectory, make_link
from fusefs.tree.node import DIRECTORY, SHORT, Attributes, Directory, Entry, Link, Node
from fusefs.tree.shown_names import shown_distinct
from fusefs.tree.view import FIRST_POSITION
from store.index.catalogue import Called

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

BY_LABEL = "by-label"


class LabelsDirectory(Directory):
    """``by-label/``. ``made`` are labels whose directories stay though no conversation has them, until unmount."""

    __slots__ = ("_labels", "_labels_of", "made", "tree")

    def __init__(self, tree: Tree, ino: int) -> None:
        super().__init__(ino)
        self.tree = tree
        self.made: set[str] = set()
        self._labels: dict[str, str] = {}
        self._labels_of = -1

    @property
    def parent(self) -> int:
        """The inode number of the root."""
        return inodes.ROOT

    def labels(self) -> Mapping[str, str]:
        """Return all labels by the names of their directories, made anew after a change."""
        if self._labels_of != self.tree.changes:
            self._labels = shown_distinct([*dict.fromkeys([*self.tree.store.labels(), *sorted(self.made)])])
            self._labels_of = self.tree.changes
        return self._labels

    def make(self, label: str) -> Node:
        """Make the directory of a label that no conversation has yet, and return it."""
        self.made.add(label)
        self._labels_of = -1
        return self.tree.fixed((BY_LABEL, label))

    def remove(self, label: str) -> None:
        """Remove the directory of a label, which is empty."""
        self.made.discard(label)
        self._labels_of = -1

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 2 + len(self.labels()), SHORT)

    def lookup(self, name: str) -> Node | None:
        label = self.labels().get(name)
        return None if label is None else self.tree.fixed((BY_LABEL, label))

    def entries(self, after: int) -> Iterator[Entry]:
        found = [(name, self.tree.fixed((BY_LABEL, label))) for name, label in self.labels().items()]
        for name, node in sorted(found, key=lambda item: item[1].ino):
            position = FIRST_POSITION + node.ino
            if position > after:
                yield Entry(position, name.encode(), node.attributes())


class LabelDirectory(LinksDirectory[Called]):
    """``by-label/LABEL/``. A link that is made here gives a conversation the label, one that is removed takes it."""

    __slots__ = ("label",)

    def __init__(self, tree: Tree, ino: int, label: str) -> None:
        super().__init__(tree, ino)
        self.label = label

    @property
    def parent(self) -> int:
        """The inode number of ``by-label/``."""
        return self.tree.fixed((BY_LABEL,)).ino

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 2, timeout=0.0)

    def _conversations(self) -> Sequence[Called]:
        return self.tree.store.labelled(self.label)

    def _link(self, conversation: Called) -> Link:
        # asked for one by one: a label may have very many
        return make_link(self.tree, Place.LABEL_LINK, self.tree.store.entry(conversation.id))

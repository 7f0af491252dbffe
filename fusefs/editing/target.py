"""What can be saved: a file of a conversation that programs write as they write any file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.node import Bytes, Content, Directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusefs.tree.tree import Tree
    from fusefs.tree.view import View
    from fusefs.tree.view_node import ViewNode


class Prepared(Protocol):
    """What a save will change: all worked out, nothing committed."""

    @property
    def result(self) -> str:
        """The state that committing it leads to; "" where that is not known before."""

    @property
    def touches(self) -> Sequence[int]:
        """The computed inode numbers of other files that will have other content, but those that show all records."""

    def commit(self) -> str:
        """Make one version of it and return the state that the file is then in.

        Raises Conflict if the file is no longer in the state that this was prepared for.
        """


class Target(ABC):
    """A file that can be saved, by the place that it has, whatever inode it is known under.

    A *state* is a short text that names what the file shows: as long as it is the same, so is the content.
    """

    keeps_text = True
    """Whether what was saved is shown as it was written, until it is forgotten or changed; else it is drawn."""

    def __init__(self, tree: Tree, view_id: int) -> None:
        self.tree = tree
        self.view_id = view_id
        """The view that it belongs to."""

    @property
    def view(self) -> View:
        """The view as it is now."""
        return self.tree.view(self.view_id)

    @property
    @abstractmethod
    def ino(self) -> int:
        """The inode number that is computed for it. The kernel may know it under another."""

    @property
    @abstractmethod
    def key(self) -> str:
        """What it is among the files of its conversation, for drafts: ``event/7``, ``events.json``."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its file."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Its path in the conversation, for messages."""

    @abstractmethod
    def directory(self) -> Directory:
        """Return the directory that it is in; what is refused is kept there, beside it."""

    @abstractmethod
    def node(self, ino: int) -> ViewNode:
        """Return the node that shows it under an inode number."""

    @abstractmethod
    def size(self) -> int:
        """Return the size of what is drawn of it. Raises NotFound, as all of these do, if it is gone."""

    @abstractmethod
    def drawn(self) -> bytes:
        """Return all that is drawn of it."""

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of what is drawn of it."""
        return self.drawn()[offset : offset + size]

    def snapshot(self) -> Content:
        """Return what is drawn of it now, to be read whatever becomes of it."""
        return Bytes(self.drawn())

    @abstractmethod
    def state(self) -> str:
        """Return its state, as everything stands that is committed."""

    @abstractmethod
    def prepare(self, state: str, data: bytes) -> Prepared | None:
        """Work out what ``data`` makes of it, which was in ``state``; None where that is the same.

        Raises Conflict if it can no longer become that, and ParseError or UsageError for what cannot be.
        """

    def draws(self, data: bytes) -> bool:
        """Say whether what is drawn of it is ``data``."""
        return self.size() == len(data) and self.drawn() == data


class WholeTarget(Target):
    """A file that tells of a conversation as a whole, and has a place of its own in it."""

    place: ClassVar[Place]
    file_name: ClassVar[str]

    @property
    def ino(self) -> int:
        return inodes.base(Space.PLACE, self.view_id) + self.place

    @property
    def key(self) -> str:
        return self.file_name

    @property
    def name(self) -> str:
        return self.file_name

    @property
    def path(self) -> str:
        return self.file_name

    def directory(self) -> Directory:
        return place_directory(self.tree, self.view_id, Place.CONVERSATION)


def place_directory(tree: Tree, view_id: int, place: Place) -> Directory:
    """Return the directory at a place of a conversation."""
    directory = tree.place(view_id, place)
    assert isinstance(directory, Directory)
    return directory

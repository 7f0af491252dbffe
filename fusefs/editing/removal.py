"""Removing events and whole conversations, a moment later.

Programs that save remove a file and create it again, or move it away and write a new one: that is one edit, not a
removal. So a removed event is hidden at once, and gets a tombstone a second later if it has not come back.

A conversation is removed file by file, and then its directory. Its files vanish meanwhile, and are there again if the
directory does not follow within seconds: they cannot be removed one by one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import ClassVar, Generic, TypeVar

from fusefs.editing.delays import Clock, Delayed
from fusefs.editing.drafts import Drafts
from fusefs.editing.records import Base
from fusefs.editing.saves import Saves
from fusefs.tree.changes import Stale
from fusefs.tree.events import EventFile
from fusefs.tree.node import Node
from fusefs.tree.tree import Tree
from fusefs.tree.view_node import ViewNode
from store.errors import ConvfsError, NotFound
from store.events.event import DELETED

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

DELAY_SECONDS = 1.0
_VANISHED_SECONDS = 5.0


class Vanishing:
    """The files and directories hidden because they are being removed: their own numbers, by view."""

    def __init__(self, tree: Tree, clock: Clock) -> None:
        self._tree = tree
        self._vanished: Delayed[int, int, None] = Delayed(_VANISHED_SECONDS, clock)

    def hide(self, directory: ViewNode, node: Node) -> None:
        """Hide something that a directory of a conversation holds."""
        own = self._tree.own.get(node.ino, node.ino)
        self._tree.vanished.add(own)
        self._vanished.hide(directory.view_id, own, None)

    def begun(self, view_id: int) -> bool:
        """Return whether part of a conversation has vanished already: further removals go with it."""
        return view_id in self._vanished

    def cancel(self, node: ViewNode) -> bool:
        """Show a file that is there again; say whether it had vanished."""
        own = self._tree.own.get(node.ino, node.ino)
        self._tree.vanished.discard(own)
        return self._vanished.come_back(node.view_id, own)

    def show(self, view_id: int) -> None:
        """Show everything of a conversation again: it was removed as a whole, or not at all."""
        self._tree.vanished.difference_update(self._vanished.take(view_id))

    def tick(self) -> None:
        """Show the files again whose directory was not removed after them."""
        for view_id in self._vanished.due():
            self.show(view_id)


class Removing(ABC, Generic[K, V]):
    """Parts of conversations that are removed a moment later, unless they come back: by view, each with a value."""

    what: ClassVar[str]

    def __init__(self, clock: Clock, drafts: Drafts) -> None:
        self._drafts = drafts
        self._removed: Delayed[int, K, V] = Delayed(DELAY_SECONDS, clock)

    @abstractmethod
    def commit(self, view_id: int) -> None:
        """Finish the removals of one conversation now. Raises the store's errors."""

    def tick(self, waits: Callable[[int], bool] = lambda _view_id: False) -> None:
        """Remove what has not come back, except from conversations that wait."""
        for view_id in self._removed.due():
            if not waits(view_id):
                self._commit_quietly(view_id)

    def close(self) -> None:
        """Remove everything that is being removed."""
        for view_id in self._removed.groups():
            self._commit_quietly(view_id)

    def _commit_quietly(self, view_id: int) -> None:
        try:
            self.commit(view_id)
        except ConvfsError as error:
            with suppress(NotFound):
                self._drafts.note(view_id, self.what, f"what was removed is there again: {error}")


class Removals(Removing[int, Base]):
    """The events that are being removed, by number, and the state that each was in."""

    what = "events"

    def __init__(self, saves: Saves) -> None:
        super().__init__(saves.clock, saves.drafts)
        self._tree = saves.tree
        self._saves = saves
        self._records = saves.records

    def hide(self, file: EventFile) -> None:
        """Remove an event, or one that was moved away, unless it comes back."""
        self._tree.overlay(file.view_id).hidden.add(file.number)
        self._removed.hide(file.view_id, file.number, self._records.base(file.view_id, file.number))

    def cancel(self, view_id: int, number: int) -> bool:
        """Keep an event that has come back; say whether it was being removed."""
        self._tree.overlay(view_id).hidden.discard(number)
        return self._removed.come_back(view_id, number)

    def commit(self, view_id: int) -> None:
        """Finish the removals of one conversation now. A file that became something else meanwhile stays."""
        removed = self._removed.take(view_id)
        if not removed:
            return
        overlay = self._tree.overlay(view_id)

        def remove() -> None:
            left = [number for number, base in sorted(removed.items()) if self._records.base(view_id, number) == base]
            if left:
                self._records.change(view_id, dict.fromkeys(left, DELETED))

        try:
            self._records.anew(view_id, remove)
            self._saves.unsettle(view_id)
        except ConvfsError:
            for number in removed:
                self._saves.inodes.kernel.invalidate(Stale(self._tree.event(view_id, number), content=True))
            raise
        finally:
            overlay.hidden.difference_update(removed)

    def drop(self, view_id: int) -> None:
        """Cancel the removals in a conversation: all of it is removed."""
        self._tree.overlay(view_id).hidden.difference_update(self._removed.take(view_id))

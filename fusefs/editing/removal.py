"""Removing events and whole conversations, a moment later.

Programs that save remove a file and create it again, or move it away and write a new one: that is one edit, not a
removal. So a removed event is hidden at once, and gets a tombstone a second later if it has not come back. While the
space of a replica is away, it stays hidden until it can get one, over any restart.

A conversation is removed file by file, and then its directory. Its files vanish meanwhile, and are there again if the
directory does not follow within seconds: they cannot be removed one by one.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec

from fusefs.editing.delays import Clock, Delayed
from fusefs.editing.drafts import REMOVED, Draft, Drafts, remove_quietly
from fusefs.editing.records import CHANGED, Base
from fusefs.editing.saves import Saves
from fusefs.editing.targets import EventTarget, state_of
from fusefs.tree.changes import Stale
from fusefs.tree.events import EventFile
from fusefs.tree.node import Node
from fusefs.tree.tree import Tree
from fusefs.tree.view_node import ViewNode
from store import typed
from store.errors import ConvfsError, NotFound, Unreachable
from store.events.event import DELETED

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

DELAY_SECONDS = 1.0
_VANISHED_SECONDS = 5.0


class Vanishing:
    """The files and directories hidden because they are being removed: their own numbers, by view."""

    def __init__(self, saves: Saves) -> None:
        self._saves = saves
        self._tree = saves.tree
        self._vanished: Delayed[int, int, None] = Delayed(_VANISHED_SECONDS, saves.clock)

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
        self._saves.take_back(own)
        return self._vanished.come_back(node.view_id, own)

    def show(self, view_id: int) -> None:
        """Show everything of a conversation again: it was removed as a whole, or not at all."""
        vanished = self._vanished.take(view_id)
        self._tree.vanished.difference_update(vanished)
        for own in vanished:
            self._saves.take_back(own)

    def tick(self) -> None:
        """Show the files again whose directory was not removed after them."""
        for view_id in self._vanished.due():
            self.show(view_id)


class Removing(ABC, Generic[K, V]):
    """Parts of conversations that are removed a moment later, unless they come back: by view, each with a value."""

    what: ClassVar[str]

    def __init__(self, tree: Tree, clock: Clock, drafts: Drafts) -> None:
        self._tree = tree
        self._drafts = drafts
        self._removed: Delayed[int, K, V] = Delayed(DELAY_SECONDS, clock)
        self._notes: dict[int, str] = {}
        """The notes of removals that wait until the space is back, by view."""

    def commit(self, view_id: int) -> None:
        """Finish the removals of one conversation now. Raises the store's errors; with Unreachable, they wait."""
        self._remove(view_id)
        self._waits_no_more(view_id)

    @abstractmethod
    def _remove(self, view_id: int) -> None:
        """Finish the removals of one conversation, as :meth:`commit` does."""

    def _waits_no_more(self, view_id: int) -> None:
        if note := self._notes.pop(view_id, None):
            self._drafts.withdraw(note)

    def _put_back(self, view_id: int, removed: Mapping[K, V]) -> None:
        """Have removals that could not be finished wait."""
        for key, value in removed.items():
            self._removed.hide(view_id, key, value)

    def tick(self, waits: Callable[[int], bool] = lambda _view_id: False) -> None:
        """Remove what has not come back, except from conversations that wait."""
        away = self._tree.store.writer.order.away
        for view_id in self._removed.due():
            if not waits(view_id) and not (away and view_id in self._notes):
                self._commit_quietly(view_id)

    def close(self) -> None:
        """Remove everything that is being removed."""
        for view_id in self._removed.groups():
            self._commit_quietly(view_id)

    def _commit_quietly(self, view_id: int) -> None:
        try:
            self.commit(view_id)
        except Unreachable as error:
            if view_id not in self._notes:
                reason = f"{error}; what was removed is hidden, and removed once it can be"
                self._notes[view_id] = self._drafts.note(view_id, self.what, reason)
        except ConvfsError as error:
            self._notes.pop(view_id, None)
            with suppress(NotFound):
                self._drafts.note(view_id, self.what, f"what was removed is there again: {error}")


class Removals(Removing[int, Base]):
    """The events that are being removed, by number, and the state that each was in."""

    what = "events"

    def __init__(self, saves: Saves) -> None:
        super().__init__(saves.tree, saves.clock, saves.drafts)
        self._saves = saves
        self._records = saves.records
        self._kept: dict[int, Path] = {}
        """The drafts of removals that wait, by view."""

    def hide(self, file: EventFile) -> None:
        """Remove an event, or one that was moved away, unless it comes back."""
        self._tree.overlay(file.view_id).hidden.add(file.number)
        self._removed.hide(file.view_id, file.number, self._records.base(file.view_id, file.number))
        if file.view_id in self._kept:
            self._keep(file.view_id)

    def hides(self, view_id: int, own: int) -> bool:
        """Return whether the event with an own inode number is being removed."""
        return any(self._tree.own_number(view_id, number) == own for number in self._removed.of(view_id))

    def take_up(self, path: Path, view_id: int, text: bytes) -> bool:
        """Go on with the removals that an earlier mount has left in a draft; return whether any wait."""
        for number, state in typed.decode(text, dict[int, str]).items():
            target = EventTarget(self._records, view_id, number)
            if target.is_in(state):
                self.hide(target.node(target.ino))
            elif not target.view.row(number).deleted:
                self._drafts.note(view_id, target.path, f"what was removed is there again: event {number} {CHANGED}")
        if removed := self._removed.of(view_id):
            self._kept[view_id] = path
        return bool(removed)

    def cancel(self, view_id: int, number: int) -> bool:
        """Keep an event that has come back; say whether it was being removed."""
        self._tree.overlay(view_id).hidden.discard(number)
        self._saves.take_back(self._tree.own_number(view_id, number))
        was_hidden = self._removed.come_back(view_id, number)
        if view_id in self._kept:
            self._keep(view_id)
        return was_hidden

    def _remove(self, view_id: int) -> None:
        """Finish the removals of one conversation. A file that became something else meanwhile stays."""
        removed = self._removed.take(view_id)
        if not removed:
            return
        gone: list[int] = []

        def remove() -> None:
            gone[:] = [number for number, was in sorted(removed.items()) if self._records.base(view_id, number) == was]
            if gone:
                self._records.change(view_id, dict.fromkeys(gone, DELETED))

        try:
            self._records.anew(view_id, remove)
            self._saves.unsettle(view_id)
        except Unreachable:
            self._put_back(view_id, removed)
            raise
        except ConvfsError:
            gone.clear()
            for number in removed:
                self._saves.inodes.kernel.invalidate(Stale(self._tree.event(view_id, number), content=True))
            raise
        finally:
            if view_id not in self._removed:
                self._end(view_id, removed, gone)

    def _end(self, view_id: int, removed: Mapping[int, Base], gone: Collection[int]) -> None:
        """Hide no longer what was being removed; all but what is ``gone`` is there again."""
        self._tree.overlay(view_id).hidden.difference_update(removed)
        for number in removed:
            own = self._tree.own_number(view_id, number)
            if number in gone:
                self._saves.removed(own)
            else:
                self._saves.take_back(own)
        if (path := self._kept.pop(view_id, None)) is not None:
            remove_quietly(path)

    def _put_back(self, view_id: int, removed: Mapping[int, Base]) -> None:
        super()._put_back(view_id, removed)
        self._keep(view_id)

    def _keep(self, view_id: int) -> None:
        """Keep the removals of a conversation in a draft, over a restart; no draft if there are none."""
        if not self._removed.of(view_id):
            remove_quietly(self._kept.pop(view_id))
            return
        states = {number: state_of(base) for number, base in self._removed.of(view_id).items()}
        draft = Draft(self._records.context(view_id), REMOVED, self.what, "", "", True, "")
        try:
            self._kept[view_id] = self._drafts.keep(draft, msgspec.json.encode(states), self._kept.get(view_id))
        except OSError as error:
            log.error("what is removed is there again after a restart: %s", error)

    def drop(self, view_id: int) -> None:
        """Cancel the removals in a conversation: all of it is removed, or nothing."""
        self._end(view_id, self._removed.take(view_id), ())
        self._waits_no_more(view_id)

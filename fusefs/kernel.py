"""What the kernel keeps for the mount: filling its page cache ahead, and taking back what changed."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyfuse3
import trio

from fusefs import inodes
from fusefs.flow import Flow
from fusefs.inodes import Lookups, Space
from fusefs.tree.changes import Shown, Stale, stale_since
from fusefs.tree.shown_names import shown_name
from fusefs.tree.tree import Tree
from store.errors import ConvfsError
from store.events.conversation import EventRow

log = logging.getLogger(__name__)

A = TypeVar("A")
R = TypeVar("R")

# -- filling the page cache ahead --------------------------------------------------------------------------------------

_FIRST_WINDOW = 16
_LARGEST_WINDOW = 256
_WINDOW_BYTES = 2 << 20
_FILE_BYTES = 256 << 10
_GAP = 8
"""How many records without a file, or large ones, may lie between two events for the second to follow the first."""


class Prefetch:
    """Pushes event files into the page cache before they are read.

    When a file is opened that the kernel does not have, those that follow it in the directory are drawn with it in one
    pass over the packs and pushed, so that a ``grep -r`` is a few such passes. How many is doubled as long as opens
    go on where the last window ended. A push for a page that a read waits for would never return, so only inodes
    without an open handle are pushed; and only ones that the kernel knows, which it does once a reply that named them
    has gone out. Everything here happens within one handler: nothing can come in between.
    """

    def __init__(self, tree: Tree, lookups: Lookups) -> None:
        self._tree = tree
        self._lookups = lookups
        self._open: dict[int, int] = {}
        self._there: set[int] = set()
        """Inodes that the page cache should hold: pushed or read, and neither read again nor forgotten since."""
        self._windows: dict[int, tuple[int, int]] = {}
        """By view: where the next window should begin, and how long the last one was."""

    def opening(self, ino: int) -> None:
        """Take note that ``ino`` is about to be opened; push it, and what follows it, if that is worth it."""
        if ino not in self._there and ino not in self._open and inodes.split(ino)[0] == Space.EVENT:
            try:
                self._push(ino)
            except Exception:
                # whatever is wrong will be told to the one who reads it
                log.exception("nothing was pushed for %d", ino)
        self._open[ino] = self._open.get(ino, 0) + 1

    def holding(self, ino: int) -> None:
        """Take note that ``ino`` is about to be opened for writing: nothing may be pushed for it."""
        self._open[ino] = self._open.get(ino, 0) + 1

    def released(self, ino: int) -> None:
        """Take note that one handle of ``ino`` is closed for good."""
        left = self._open[ino] - 1
        if left:
            self._open[ino] = left
        else:
            del self._open[ino]

    def missed(self, ino: int, offset: int) -> None:
        """Take note that the kernel asks for content of ``ino``."""
        if offset == 0:
            if ino in self._there:
                # it was there and was dropped; so, most likely, were its neighbours
                self._there.difference_update(range(ino + 1, ino + _LARGEST_WINDOW))
            self._there.add(ino)

    def forget(self, ino: int) -> None:
        """Take note that the kernel no longer knows ``ino``."""
        self._there.discard(ino)

    def forget_all(self) -> None:
        """Take note that the page cache holds nothing that is to be believed."""
        self._there.clear()

    def _push(self, ino: int) -> None:
        _space, view_id, number = inodes.split(ino)
        view = self._tree.view(view_id)
        begin, length = self._windows.get(view_id, (number, _FIRST_WINDOW // 2))
        length = min(length * 2, _LARGEST_WINDOW) if begin <= number <= begin + _GAP else _FIRST_WINDOW
        rows: list[EventRow] = []
        size = 0
        first = ino - number
        served = self._tree.served
        known = self._tree.known
        for row in view.rows[number - 1 : number - 1 + length * _GAP]:
            candidate = first + row.number
            if candidate in served or candidate in known:
                # what is written there is not what would be drawn
                continue
            if candidate in self._lookups and candidate not in self._open and candidate not in self._there:
                if 0 < row.file_size <= _FILE_BYTES:
                    rows.append(row)
                    size += row.file_size
                if len(rows) == length or size >= _WINDOW_BYTES:
                    break
        if len(rows) < 2 or rows[0].number != number:
            return
        self._windows[view_id] = (rows[-1].number + 1, length)
        for row, data in view.drawn_events(rows):
            if isinstance(data, ConvfsError) or len(data) != row.file_size:
                continue
            candidate = first + row.number
            try:
                pyfuse3.notify_store(candidate, 0, data)
            except FileNotFoundError:
                # the reply that named it never arrived, because whoever asked was killed
                self._lookups.drop(candidate)
            except OSError as error:
                log.warning("the page cache takes nothing: %s", error)
                return
            else:
                self._there.add(candidate)


# -- taking back what changed ------------------------------------------------------------------------------------------


_Called = tuple[int, Stale, str, str]
"""A context, an entry by which the kernel knows it, and the project and name that this was of."""

_EVERYTHING = Stale(0)
"""Stands for all that the kernel knows."""
_END_SECONDS = 1.0
_PAUSE_SECONDS = 0.005
"""Where much changes, what changes within so little of something else is told with it."""
_MOST_AT_ONCE = 64
"""Of so many conversations the loop takes note at a time, before it goes on to answer."""


class Invalidations:
    """Follows the store, and has the kernel forget what a change has made untrue.

    A thread of its own does it, not a handler: taking back an entry waits for every request in that directory, and
    taking back pages for every read of them, each of which waits for the loop. What is new is measured here too, so
    that the loop finds it done. Changes that come in quick succession are told of together: what they cost grows with
    how many conversations have changed, and with what was added to these.
    """

    def __init__(self, tree: Tree, lookups: Lookups) -> None:
        self._tree = tree
        self._lookups = lookups
        self._changed: queue.SimpleQueue[int | Stale | None] = queue.SimpleQueue()
        self._settling: set[int] = set()
        """What the kernel has been told of, and is not noted as settled yet."""
        self.changed: Callable[[int], None] = lambda view_id: None
        """Called in the loop with the view that was changed, before the kernel is told."""
        self.forget_all: Callable[[], None] = lambda: None
        """Called in the loop when contents have become others for good, before the kernel is told."""
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=self._run, name="invalidations", daemon=True)
        self._flow = Flow(tree, lookups, _invalidate)

    def start(self) -> None:
        """Begin; called in the loop that answers requests."""
        self._token = trio.lowlevel.current_trio_token()
        self._tree.store.subscribe(lambda change: self._changed.put(change.context_id))
        self._tree.store.forgetting.append(lambda: self._changed.put(_EVERYTHING))
        self._thread.start()
        self._flow.start()

    def put(self, stale: Stale) -> None:
        """Have the kernel forget something that no commit has changed."""
        self._changed.put(stale)

    def end(self) -> None:
        """Let the thread end when it has done what it is at; called when the loop has ended, before the mount does.

        Waits a little only: the kernel may keep the thread until the mount has ended.
        """
        self._changed.put(None)
        self._flow.end()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        while None not in (changed := self._next()):
            # a conversation once, however often it has changed
            contexts = list(dict.fromkeys(one for one in changed if isinstance(one, int)))
            try:
                if _EVERYTHING in changed:
                    for known in self._in_loop(self._take_everything, None):
                        _invalidate(known)
                for start in range(0, len(contexts), _MOST_AT_ONCE):
                    self._follow(contexts[start : start + _MOST_AT_ONCE])
                for one in changed:
                    if isinstance(one, Stale) and one is not _EVERYTHING:
                        _invalidate(one)
                        self._settling.add(one.ino)
                if self._settling:
                    self._in_loop(self._settle, self._settling)
            except trio.RunFinishedError:
                return
            except Exception:
                log.exception("what has changed (%r) may be shown late", changed)
            if len(changed) > 1:
                # there will be more
                time.sleep(_PAUSE_SECONDS)

    def _next(self) -> list[int | Stale | None]:
        """Wait for a change; return all that are there."""
        changed = [self._changed.get()]
        changed += [self._changed.get() for _ in range(self._changed.qsize())]
        return changed

    def _follow(self, contexts: Sequence[int]) -> None:
        looked_into, stale, called = self._in_loop(self._take, contexts)
        for context_id in looked_into:
            try:
                self._tree.store.conversation(context_id)
            except ConvfsError as error:
                log.info("what is new in context %d cannot be measured: %s", context_id, error)
        shown: list[Shown] = []
        if looked_into:
            shown, more = self._in_loop(self._take_shown, looked_into)
            stale += more
        for one in stale:
            _invalidate(one)
        for context_id, entry, project, name in called:
            if not self._is_called(context_id, project, name):
                _invalidate(entry)
        differ: list[Stale] = []
        for earlier in shown:
            try:
                differ += stale_since(self._tree.store, earlier)
            except ConvfsError as error:
                log.warning("what has changed in context %d may be shown late: %s", earlier.context, error)
        if differ:
            for one in self._in_loop(self._as_known, differ):
                _invalidate(one)

    def _is_called(self, context_id: int, project: str, name: str) -> bool:
        try:
            now = self._tree.store.entry(context_id)
        except ConvfsError:
            return False
        return (now.project, shown_name(now)) == (project, name)

    def _take(self, contexts: Sequence[int]) -> tuple[list[int], list[Stale], list[_Called]]:
        """Take note of changes; return those of conversations that were looked into, and what is stale of the others.

        And these others' entries, which are stale if they are called otherwise by now.
        """
        tree = self._tree
        looked_into: list[int] = []
        stale: list[Stale] = []
        called: list[_Called] = []
        for context_id in contexts:
            view_id = tree.view_id(context_id)
            if tree.has_shown(view_id):
                looked_into.append(context_id)
            else:
                tree.renew(view_id)
                stale += self._known(view_id)
                called += ((context_id, *entry) for entry in tree.entries_of(view_id))
        return looked_into, stale, called

    def _take_everything(self, _nothing: None) -> list[Stale]:
        """Take note that all contents may be others; return all that the kernel knows, but for what is being saved."""
        self.forget_all()
        return [Stale(ino, content=True) for ino in self._lookups.counts if ino not in self._tree.served]

    def _take_shown(self, contexts: Sequence[int]) -> tuple[list[Shown], list[Stale]]:
        tree = self._tree
        shown: list[Shown] = []
        stale: list[Stale] = []
        for context_id in contexts:
            view_id = tree.view_id(context_id)
            shown += tree.changed(view_id)
            stale += self._known(view_id)
        return shown, stale

    def _known(self, view_id: int) -> list[Stale]:
        """Return what of a conversation that has changed the kernel knows, and believes wrongly."""
        tree = self._tree
        self._settling |= tree.unsettled
        self.changed(view_id)
        places = [stale for stale in tree.places_known(view_id) if stale.ino not in tree.served]
        return [stale for stale in (*places, *tree.streams.stale(view_id)) if stale.ino in self._lookups]

    def _as_known(self, differ: Sequence[Stale]) -> list[Stale]:
        known = (self._tree.as_known(stale) for stale in differ)
        return [stale for stale in known if stale is not None]

    def _settle(self, inos: set[int]) -> None:
        """Take note that the kernel has been told, unless there is more to tell it: of the same files, perhaps."""
        if self._changed.empty():
            self._tree.unsettled -= inos
            inos.clear()

    def _in_loop(self, function: Callable[[A], R], argument: A) -> R:
        return trio.from_thread.run_sync(function, argument, trio_token=self._token)


def refresh(ino: int) -> None:
    """Have the kernel ask for the attributes of a file anew; this waits for nothing, so handlers may call it."""
    _invalidate(Stale(ino))


def _invalidate(stale: Stale) -> None:
    try:
        if stale.name is None:
            pyfuse3.invalidate_inode(stale.ino, attr_only=not stale.content)
        else:
            pyfuse3.invalidate_entry(stale.ino, stale.name)
    except FileNotFoundError:
        pass  # the kernel does not know it, or not any more
    except OSError as error:
        log.warning("%r could not be invalidated: %s", stale, error)

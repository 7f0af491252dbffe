"""Open turns seen as they grow: the kernel is told, at once after a pause, and then a few times a second.

Pieces may come much faster than anybody reads. What has come meanwhile is told of together, and where drawing it takes
long, that is done less often: so a text of any size that grows word by word takes a small part of the processor.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

import trio

from fusefs import inodes
from fusefs.inodes import Lookups, Place, Space
from fusefs.tree.changes import Stale
from fusefs.tree.tree import Tree
from store.store import Change

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.02
_PAUSES_AS_LONG = 4
"""How many times as long as telling took the pause is, at least."""
_END_SECONDS = 1.0


class Flow:
    """Follows the open turns of a store, and has ``invalidate`` tell the kernel, in a thread of its own."""

    def __init__(self, tree: Tree, lookups: Lookups, invalidate: Callable[[Stale], None]) -> None:
        self._tree = tree
        self._lookups = lookups
        self._invalidate = invalidate
        self._grown: set[int] = set()
        """The contexts whose open turns have grown since."""
        self._lock = threading.Lock()
        self._something = threading.Event()
        self._ended = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)

    def start(self) -> None:
        """Begin; called in the loop that answers requests."""
        self._token = trio.lowlevel.current_trio_token()
        self._tree.store.subscribe(self._changed, texts=True)
        self._thread.start()

    def end(self) -> None:
        """Let the thread end; the loop has ended."""
        self._tree.store.unsubscribe(self._changed)
        self._ended.set()
        self._something.set()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def _changed(self, change: Change) -> None:
        """Take note of a change; called by the thread that has made it durable."""
        # of moves and metadata is told elsewhere, and of open turns with them
        if change.streamed and not change.moved:
            with self._lock:
                self._grown.add(change.context_id)
            self._something.set()

    def _run(self) -> None:
        while self._something.wait() and not self._ended.is_set():
            self._something.clear()
            with self._lock:
                grown, self._grown = self._grown, set()
            began = time.monotonic()
            for context in grown:
                try:
                    self._tell(context)
                except trio.RunFinishedError:
                    return
                except Exception:
                    log.exception("how context %d goes on may be shown late", context)
            self._ended.wait(max(_PAUSE_SECONDS, _PAUSES_AS_LONG * (time.monotonic() - began)))

    def _tell(self, context: int) -> None:
        for stale in trio.from_thread.run_sync(partial(self._stale, context), trio_token=self._token):
            self._invalidate(stale)

    def _stale(self, context: int) -> list[Stale]:
        """Return what the kernel knows otherwise; called in the loop. Nothing is drawn that nobody has looked at."""
        tree, lookups = self._tree, self._lookups
        view_id = tree.view_id(context)
        places = inodes.base(Space.PLACE, view_id)
        if places + Place.TRANSCRIPT not in lookups and places + Place.EVENTS not in lookups:
            return []
        return [stale for stale in tree.streams.stale(view_id) if stale.ino in lookups]

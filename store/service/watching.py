"""Watching contexts: whoever asks is told of every move of a head and every change of metadata, once it is durable.

Who reads slowly is told less often, of several moves at once, and misses none: only the latest state is sent.
"""

from __future__ import annotations

from functools import partial

import trio
from msgspec import Struct, json

from store.errors import NotFound, UsageError
from store.service.hub import Hub
from store.service.link import Link
from store.service.protocol import Request
from store.store import Change, Store

_MOST_AT_ONCE = 1000


WATCH = 290
"""The message: its parameters are :class:`WatchParams`, every item is a list of :class:`Moved`, and it never ends."""


class WatchParams(Struct, frozen=True, forbid_unknown_fields=True):
    """Which contexts are watched; none named: all."""

    contexts: tuple[int, ...] = ()


class Moved(Struct, frozen=True):
    """The state that a context has come to: the tip of its branch (``store.ids``), and the depth of its head.

    ``created`` says that it is new. Context 0 stands for the beginning of the watching.
    """

    context: int
    tip: int = 0
    depth: int = 0
    created: bool = False


class _Watcher:
    """One who watches, and what it is to be told."""

    def __init__(self, contexts: tuple[int, ...]) -> None:
        self.contexts = frozenset(contexts)
        self.pending: dict[int, bool] = {}
        self.something = trio.Event()

    def note(self, change: Change) -> None:
        if not self.contexts or change.context_id in self.contexts:
            self.pending[change.context_id] = change.created or self.pending.get(change.context_id, False)
            self.something.set()


class Watchers:
    """All who watch one store."""

    def __init__(self, store: Store, hub: Hub) -> None:
        self._store = store
        self._hub = hub
        self._watchers: set[_Watcher] = set()
        store.subscribe(self._changed)

    async def watch(self, link: Link, request: Request) -> None:
        """Tell a peer, until it is gone."""
        watcher = _Watcher(json.decode(request.body or b"{}", type=WatchParams).contexts)
        for context in watcher.contexts:
            if context <= 0:
                raise UsageError(f"{context} is no context")
            self._store.head(context)
        self._watchers.add(watcher)
        try:
            moves = [Moved(0)]
            while True:
                if moves:
                    self._hub.item(link, request, json.encode(moves))
                    self._hub.finish()
                await link.room()
                await watcher.something.wait()
                some = list(watcher.pending.items())[:_MOST_AT_ONCE]
                for context, _created in some:
                    del watcher.pending[context]
                if not watcher.pending:
                    watcher.something = trio.Event()
                moves = [moved for context, created in some if (moved := self._moved(context, created))]
        finally:
            self._watchers.discard(watcher)

    def _moved(self, context: int, created: bool) -> Moved | None:
        try:
            head = self._store.head(context)
        except NotFound:
            return None
        return Moved(context, head.tip, head.depth, created)

    def _changed(self, change: Change) -> None:
        """Take note of a change; called by the thread that has made it durable."""
        if self._watchers:
            self._hub.returns.put(partial(self._tell, change))

    def _tell(self, change: Change) -> None:
        for watcher in self._watchers:
            watcher.note(change)

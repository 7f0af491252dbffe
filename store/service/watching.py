"""Watching contexts: whoever asks is told of what is changed of them, once it is durable.

Who reads slowly is told less often, of several changes at once, and misses none: they are put together until then.
"""

from __future__ import annotations

from functools import partial

import trio
from msgspec import json

from store.errors import UsageError
from store.events.change import Change
from store.service.hub import Hub
from store.service.link import Link
from store.service.protocol import Request
from store.service.watch_message import LISTENING, WatchParams
from store.service.wire_fields import parameters
from store.store import Store

_MOST_AT_ONCE = 1000


class _Watcher:
    """One who watches, and what it is to be told."""

    def __init__(self, params: WatchParams) -> None:
        self.pending: dict[int, Change] = {}
        self.something = trio.Event()
        self._contexts = frozenset(params.contexts)
        self._texts = params.texts

    def note(self, change: Change) -> None:
        if self._contexts and change.context_id not in self._contexts:
            return
        if change.created or change.moved or change.described or change.deleted or self._texts:
            before = self.pending.get(change.context_id)
            self.pending[change.context_id] = change if before is None else both(before, change)
            self.something.set()

    def take(self) -> list[Change]:
        some = list(self.pending)[:_MOST_AT_ONCE]
        changes = [self.pending.pop(context) for context in some]
        if not self.pending:
            self.something = trio.Event()
        return changes


class Watchers:
    """All who watch one store, until it is closed."""

    def __init__(self, store: Store, hub: Hub) -> None:
        self._store = store
        self._hub = hub
        self._watchers: set[_Watcher] = set()
        store.subscribe(self._changed, texts=True)

    def close(self) -> None:
        """Follow the store no more."""
        self._store.unsubscribe(self._changed)

    async def watch(self, link: Link, request: Request) -> None:
        """Tell a peer, until it is gone."""
        params = parameters(request.body, WatchParams)
        for context in params.contexts:
            if context <= 0:
                raise UsageError(f"{context} is no context")
            self._store.head(context)
        watcher = _Watcher(params)
        self._watchers.add(watcher)
        try:
            changes = [LISTENING]
            while True:
                self._hub.item(link, request, json.encode(changes))
                self._hub.finish()
                await link.room()
                await watcher.something.wait()
                changes = watcher.take()
        finally:
            self._watchers.discard(watcher)

    def _changed(self, change: Change) -> None:
        """Take note of a change; called by the thread that has made it durable."""
        if self._watchers:
            self._hub.returns.put(partial(self._tell, change))

    def _tell(self, change: Change) -> None:
        for watcher in self._watchers:
            watcher.note(change)


def both(one: Change, other: Change) -> Change:
    """Return two changes of a context as one."""
    last = max(one, other, key=lambda change: change.seq)
    return Change(
        one.context_id,
        one.created or other.created,
        one.moved or other.moved,
        one.described or other.described,
        one.streamed or other.streamed,
        last.tip,
        last.depth,
        last.seq,
        one.deleted or other.deleted,
    )

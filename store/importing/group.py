"""Sessions whose last commits are made together: many small ones cost one sync, and are compressed with each other."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from store.commit.request import NewTurn, Request
from store.conversations.viewer import Measured
from store.events.conversation import EventRow, ResourceRow
from store.importing.appender import Appender
from store.index.views import Measure
from store.store import Store

_BYTES = 4 << 20
_SESSIONS = 256


class _Ending(Struct):
    """What is left to be committed of one session."""

    appender: Appender
    context: int | None
    changes: dict[str, object]
    turns: list[NewTurn]


class Group:
    """Collects what is left of sessions until it is worth a commit. ``load`` is what their appenders write to."""

    def __init__(self, store: Store) -> None:
        self.load = store.load()
        self.names: set[tuple[str, str]] = set()
        """The projects and names of new conversations that wait."""
        self.arrived: set[bytes] = set()
        """The foreign digests that records name and whose content the store has."""
        self._store = store
        self._endings: list[_Ending] = []
        self._size = 0

    def __len__(self) -> int:
        return len(self._endings)

    @property
    def full(self) -> bool:
        """Whether it is time to commit."""
        return self._size >= _BYTES or len(self._endings) >= _SESSIONS

    def end(self, appender: Appender, context: int | None, changes: dict[str, object]) -> None:
        """Have what waits in ``appender`` committed, and the head of ``context`` (None: a new one) moved to it.

        ``changes`` is metadata; a record that told its time becomes its ``updated_ms``.
        """
        self._size += appender.size
        self.arrived |= appender.arrived
        self._endings.append(_Ending(appender, context, changes, appender.turns()))

    def commit(self) -> list[Exception | None]:
        """Commit everything, each session by itself: return what is wrong with each, in order. Raises StoreFailed."""
        endings, self._endings, self._size = self._endings, [], 0
        self.names = set()
        self.load.sync()
        types = {name for ending in endings for name in ending.appender.types}
        if unknown := self._store.types_for(types):
            # before all that use them, and not one of them, which may be refused
            self._store.submit(Request(0, types=unknown, move_head=False))
        requests: list[Request] = []
        measured: list[Measured] = []
        for ending in endings:
            appender = ending.appender
            measured.append(appender.measure())
            if appender.last_ms:
                ending.changes["updated_ms"] = appender.last_ms
            requests.append(
                Request(
                    ending.context,
                    parent=appender.parent,
                    turns=ending.turns,
                    changes=msgspec.json.encode(ending.changes),
                    action="import",
                    aliases=tuple(appender.aliases.values()),
                )
            )
        self._store.submit_all(requests)
        rows: list[EventRow] = []
        resources: list[ResourceRow] = []
        sums: list[tuple[int, Measure]] = []
        for ending, request, seen in zip(endings, requests, measured, strict=True):
            if request.error is None:
                more_rows, more_resources = ending.appender.file(request, seen)
                rows += more_rows
                resources += more_resources
                if ending.appender.sums is not None:
                    sums.append((request.head.context, ending.appender.sums))
        self._store.views.add(rows, resources, sums)
        return [request.error for request in requests]

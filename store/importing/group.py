"""Sessions whose last commits are made together: many small ones cost one sync, and are compressed with each other."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from store.commit.request import NewTurn, Request
from store.conversations.viewer import Measured
from store.editing.merge import bring
from store.errors import Conflict, ConvfsError
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
    imported: int
    turns: list[NewTurn]


class Group:
    """Collects what is left of sessions until it is worth a commit. ``load`` is what their appenders write to."""

    def __init__(self, store: Store) -> None:
        self.load = store.load()
        self.names: set[tuple[str, str]] = set()
        """The projects and names of new conversations that wait."""
        self.arrived: set[bytes] = set()
        """The foreign digests that records name and whose content the store has."""
        self.begins: set[str] = set()
        """What new conversations that wait are known by."""
        self._told: list[Exception | None] = []
        self._store = store
        self._endings: list[_Ending] = []
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether it is time to commit."""
        return self._size >= _BYTES or len(self._endings) >= _SESSIONS

    def end(self, appender: Appender, context: int | None, changes: dict[str, object], imported: int) -> None:
        """Have what waits in ``appender`` committed, and the head of ``context`` (None: a new one) moved to it.

        ``changes`` is metadata; a record that told its time becomes its ``updated_ms``. ``imported`` is the turn that
        the import before moved the head to: if it is the context's no more, people have edited it, and what is new is
        brought into that.
        """
        self._size += appender.size
        self.arrived |= appender.arrived
        begins = changes.get("begins")
        self.begins.update(begins if isinstance(begins, list) else ())
        self._endings.append(_Ending(appender, context, changes, imported, appender.turns()))

    def hurry(self) -> None:
        """Commit what waits so far: somebody needs it. What is wrong with any of it is told as of the others."""
        self._told += self._commit()

    def commit(self) -> list[Exception | None]:
        """Commit everything, each session by itself: return what is wrong with each, in order. Raises StoreFailed."""
        told, self._told = self._told + self._commit(), []
        return told

    def _commit(self) -> list[Exception | None]:
        endings, self._endings, self._size = self._endings, [], 0
        self.names, self.begins = set(), set()
        self.load.sync()
        types = {name for ending in endings for name in ending.appender.types}
        if unknown := self._store.types_for(types):
            # before all that use them, and not one of them, which may be refused
            self._store.submit(Request(0, types=unknown, move_head=False))
        requests: list[Request] = []
        measured: list[Measured] = []
        for ending in endings:
            appender = ending.appender
            measured.append(appender.measure(ending.turns))
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
                    expected_head=self._expected(ending),
                )
            )
        self._store.submit_all(requests)
        errors: list[Exception | None] = []
        rows: list[EventRow] = []
        resources: list[ResourceRow] = []
        sums: list[tuple[int, Measure]] = []
        edited: list[tuple[int, _Ending]] = []
        for ending, request, seen in zip(endings, requests, measured, strict=True):
            appender, error, brought = ending.appender, request.error, False
            if isinstance(error, Conflict) and ending.context is not None:
                request, brought = _aside(ending), True
                self._store.submit_all([request])
                error = request.error
            errors.append(error)
            if error is not None:
                continue
            appender.context = ending.context or request.head.context
            more_rows, more_resources = appender.file(request, seen)
            rows += more_rows
            resources += more_resources
            if brought:
                edited.append((len(errors) - 1, ending))
            elif appender.sums is not None:
                sums.append((request.head.context, appender.sums))
        self._store.views.add(rows, resources, sums)
        for position, ending in edited:
            errors[position] = self._bring(ending)
        return errors

    def _expected(self, ending: _Ending) -> int | None:
        """Return the tip that the context of a session must have for its head to be moved."""
        if ending.context is None:
            return None
        head = self._store.head(ending.context)
        # what only goes on from the last import leaves the patches of what was there as they are
        goes_on = head.turn == ending.imported == (ending.appender.base or 0)
        return head.tip if goes_on else ending.imported

    def _bring(self, ending: _Ending) -> Exception | None:
        """Bring what was committed aside into a conversation that was edited; return what is wrong with it."""
        try:
            bring(self._store, ending.context or 0, ending.imported, ending.appender.parent or 0, ending.changes)
        except (ConvfsError, OSError) as error:
            return error
        return None


def _aside(ending: _Ending) -> Request:
    """Return the request for the turns of a session, and nothing that shows them."""
    appender = ending.appender
    aliases = tuple(appender.aliases.values())
    return Request(0, parent=appender.parent, turns=ending.turns, move_head=False, aliases=aliases)

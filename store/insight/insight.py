"""The one facade of insight: what :class:`store.store.Store` is to conversations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path

from store.errors import ConvfsError, StoreFailed, UsageError
from store.index.beside import erase_database, open_beside, remove_database
from store.index.database import Database
from store.insight.counting import Counting
from store.insight.ledger import Ledger
from store.insight.packing import PackSums
from store.insight.report import Report, report
from store.insight.schema import INSIGHT
from store.store import Store

FILE_NAME = "insight.db"

_VERSION = 1
"""Raised with whatever changes what is counted; what was counted before is then counted again."""

_OF: dict[Store, Insight] = {}
_MAKING = threading.Lock()


class Insight:
    """Counts what one store holds, in ``insight.db``. Safe to call from any thread.

    :meth:`of` gives the same one to all who ask for it. A file that turns out to be damaged is made anew.
    """

    def __init__(self, store: Store) -> None:
        if store.viewer.renderer is None:
            raise UsageError("this store was opened without a renderer: nothing in it can be counted")
        self._store = store
        self._lock = threading.Lock()
        self._parts: _Parts | None = None
        self._closed = False
        store.closing.append(self.close)

    @classmethod
    def of(cls, store: Store) -> Insight:
        """Return the insight into a store; UsageError where it was opened without a renderer."""
        with _MAKING:
            found = _OF.get(store)
            if found is None:
                found = _OF[store] = cls(store)
            return found

    def step(self) -> bool:
        """Count a little of what was not yet; return whether there is more to count."""
        parts = self._opened()
        return parts.counting.count_some() or parts.packs.sum_some()

    def count(self, progress: Callable[[int, int], None] | None = None, *, seconds: float = inf) -> None:
        """Count everything that was not yet, for so many seconds at most.

        ``progress`` is told how many turns of how many are done.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.step():
            if progress is not None:
                progress(self._opened().ledger.last, self._store.files.turns.count)

    def report(self) -> Report:
        """Return what is known by now."""
        parts = self._opened()
        return report(self._store, parts.ledger, parts.packs)

    def close(self) -> None:
        """Bring what was counted to disk; the store does so when it is closed."""
        with _MAKING:
            _OF.pop(self._store, None)
        with self._lock:
            # who is counting in another thread must not open it again
            self._closed = True
            parts, self._parts = self._parts, None
            if parts is None:
                return
            with suppress(ConvfsError):
                parts.db.close(sync=not parts.db.damaged)
            if parts.db.damaged:
                remove_database(self._path)

    def renew(self) -> None:
        """Forget what was counted, and leave nothing of it on the disk; all is counted once more."""
        with self._lock:
            if self._parts is not None:
                self._parts.db.close()
                self._parts = None
            erase_database(self._path)

    @property
    def _path(self) -> Path:
        return self._store.root / FILE_NAME

    def _opened(self) -> _Parts:
        with self._lock:
            parts = self._parts
            if parts is not None and parts.db.damaged:
                parts.db.close()
                remove_database(self._path)
                parts = None
            if parts is None:
                if self._closed:
                    raise StoreFailed("the store has been closed")
                parts = self._parts = _Parts(self._store, self._open())
            return parts

    def _open(self) -> Database:
        store = self._store

        def usable(db: Database) -> bool:
            # what it knows of may be gone where logs had to be cut
            return db.number("turn") <= store.files.turns.count and db.number("heads") <= store.files.heads.length

        return open_beside(
            self._path,
            store.files.index.db.boot,
            INSIGHT,
            {"store": store.store_id.hex(), "counted_by": _VERSION},
            usable,
        )


class _Parts:
    """The open database and what works on it."""

    def __init__(self, store: Store, db: Database) -> None:
        self.db = db
        self.ledger = Ledger(db)
        self.counting = Counting(store, self.ledger)
        self.packs = PackSums(store, db)

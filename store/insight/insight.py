"""Insight: the content and cost of a store, counted in a file of its own."""

import time
from collections.abc import Callable
from math import inf

from store import paths
from store.conversations.library import Library
from store.errors import UsageError
from store.index.database import Database, asked_again, held_if_full
from store.insight.counter import TurnCounter
from store.insight.ledger import INSIGHT, Tally
from store.insight.pack_sums import PackSums
from store.insight.report import StatsReport, report
from store.settings import Settings
from store.upkeep.derived import Derived
from store.upkeep.recovery import Files

_VERSION = 2
"""Raised whenever the counting changes; then everything is counted again."""


class Insight(Derived):
    """Counts the content of one store. Safe to call from any thread. UsageError if it was opened without a renderer."""

    def __init__(self, files: Files, library: Library, settings: Settings) -> None:
        super().__init__(files, library, paths.INSIGHT, INSIGHT, "turn")
        self._settings = settings
        self._parts: _Parts | None = None
        self.reached = 0
        """As of :class:`store.upkeep.idle.Reading`."""

    def _own(self) -> dict[str, str | int]:
        if self.library.viewer.renderer is None:
            raise UsageError("this store was opened without a renderer: nothing in it can be counted")
        return {"counted_by": _VERSION}

    def _opened(self) -> "_Parts":
        with self._opening:
            db = self.db
            if self._parts is None or self._parts.db is not db:
                self._parts = _Parts(self.files, self.library, db)
            return self._parts

    @asked_again
    @held_if_full
    def step(self) -> bool:
        """Count a few new turns; return whether there is more to count."""
        parts = self._opened()
        counted = parts.counting.count_some()
        self.reached = parts.ledger.last
        return counted or parts.packs.sum_some()

    def count(self, progress: Callable[[int, int], None] | None = None, *, seconds: float = inf) -> None:
        """Count what is new, for ``seconds`` at most; ``progress`` gets the number of turns done and of all turns."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.step():
            if progress is not None:
                progress(self._opened().ledger.last, self.files.turns.count)

    @property
    @asked_again
    def counted(self) -> int:
        """The last turn that is counted."""
        return self._opened().ledger.last

    @asked_again
    def models(self) -> list[str]:
        """Return the models that have answered, as far as answers are counted."""
        return [row[0] for row in self.db.query("SELECT DISTINCT model FROM accounts WHERE model != '' ORDER BY 1")]

    @asked_again
    def answered_by(self, model: str) -> list[int]:
        """Return the conversations that a model has answered in, as far as answers are counted."""
        return [row[0] for row in self.db.query("SELECT DISTINCT context FROM accounts WHERE model = ?", (model,))]

    @asked_again
    def report(self) -> StatsReport:
        """Return a report on everything counted so far."""
        parts = self._opened()
        return report(self.files, self.library.catalogue, self._settings.prices, parts.ledger, parts.packs)


class _Parts:
    def __init__(self, files: Files, library: Library, db: Database) -> None:
        self.db = db
        self.ledger = Tally(db)
        self.counting = TurnCounter(files, library, self.ledger)
        self.packs = PackSums(files.packs, library.contents.blobs, db)

"""What is gone for good, in the index: contexts that were deleted, versions, and turns that nothing leads to."""

import sqlite3
from collections.abc import Mapping

from store.errors import DamageError
from store.ids import tip_of
from store.index.database import Database
from store.index.origins import origin, pruned_origins
from store.index.sums import holds, sum_of

_OF_CONTEXT = ("labels", "origins", "versions", "superseded", "keys", "open_turns", "pruned_versions", "measures")
"""Tables that have a column ``context``, and whose rows go with it."""
_OF_TURN = ("views", "resources")


class Pruned:
    """Reads what is remembered of that. Raises DamageError where it is damaged."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def by_origin(self, kind: str, *names: str) -> int:
        """Return the id of the newest context that was deleted and was found by an origin, 0 if none was."""
        row = self._db.one(
            "SELECT * FROM pruned WHERE origin = ? ORDER BY context DESC LIMIT 1", (origin(kind, *names),)
        )
        return self._db.checked("pruned", row)[1] if row else 0

    def versions(self, context: int) -> int:
        """Return how many of a context's versions are gone."""
        row = self._db.one("SELECT * FROM pruned_versions WHERE context = ?", (context,))
        return self._db.checked("pruned_versions", row)[1] if row else 0

    def last_context(self) -> int:
        """Return the highest id of a context that was deleted, 0 if none was."""
        return self.by_origin("")


def delete(sql: sqlite3.Connection, context: int, time_ms: int, metadata: Mapping[str, object]) -> None:
    """Drop all that is filed of a context, and remember what it was found by: ``metadata`` is what was said of it."""
    rows = [(name, context, time_ms) for name in dict.fromkeys((origin(""), *pruned_origins(metadata)))]
    sql.executemany("INSERT OR REPLACE INTO pruned VALUES (?, ?, ?, ?)", [(*row, sum_of(row)) for row in rows])
    for table in _OF_CONTEXT:
        sql.execute(f"DELETE FROM {table} WHERE context = ?", (context,))
    sql.execute("DELETE FROM contexts WHERE id = ?", (context,))


def prune_versions(sql: sqlite3.Connection, context: int, last: int) -> None:
    """Drop the versions of a context that began up to seq ``last``, but for its newest.

    DamageError where the row that counts those is damaged.
    """
    newest = "SELECT max(seq) FROM versions WHERE context = :context"
    gone = f"DELETE FROM versions WHERE context = :context AND seq <= :last AND seq < ({newest})"
    count = sql.execute(gone, {"context": context, "last": last}).rowcount
    if not count:
        return
    known = sql.execute("SELECT * FROM pruned_versions WHERE context = ?", (context,)).fetchone()
    if known is not None and not holds(known):
        raise DamageError("a row of pruned_versions is damaged")
    row = (context, count + (known[1] if known else 0))
    sql.execute("INSERT OR REPLACE INTO pruned_versions VALUES (?, ?, ?)", (*row, sum_of(row)))


def forget_turns(sql: sqlite3.Connection, first: int, last: int) -> None:
    """Drop what is filed of the turns from ``first`` to ``last``, also as they were seen through patches."""
    sql.execute("DELETE FROM fs_roots WHERE turn BETWEEN ? AND ?", (first, last))
    patched = sql.execute("SELECT number, turn FROM patches WHERE turn BETWEEN ? AND ?", (first, last)).fetchall()
    seen = [(tip_of(turn, number),) for number, turn in patched]
    for table in _OF_TURN:
        sql.execute(f"DELETE FROM {table} WHERE turn BETWEEN ? AND ?", (first, last))
        sql.executemany(f"DELETE FROM {table} WHERE turn = ?", seen)

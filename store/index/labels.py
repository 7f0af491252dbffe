"""Which conversations have which labels, and how they rank among what was changed last: from their metadata."""

import sqlite3
from collections.abc import Mapping

from store.index.sums import sum_of

PINNED, USUAL, ARCHIVED = 1, 0, -1
"""How a conversation ranks: the pinned ones come first, those in the archive are not among the latest."""


def rank_of(metadata: Mapping[str, object]) -> int:
    """Return how a conversation ranks."""
    if metadata.get("archived") is True:
        return ARCHIVED
    return PINNED if metadata.get("pinned") is True else USUAL


def file_labels(sql: sqlite3.Connection, context: int, before: list[str], now: list[str]) -> None:
    """File the labels that a conversation has ``now``, in place of those that it had ``before``."""
    sql.executemany(
        "DELETE FROM labels WHERE name = ? AND context = ?", [(label, context) for label in before if label not in now]
    )
    rows = [(label, context) for label in now if label not in before]
    sql.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?, ?)", [(*row, sum_of(row)) for row in rows])

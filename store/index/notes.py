"""Notes in the index: idempotency keys, the file system roots of turns, turns that are still being written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from store.disk.head_format import Frame
from store.disk.note_format import Appended, Closed, FsRoot, Opened
from store.ids import Hash
from store.index.database import Database
from store.index.sums import sum_of

KEPT_MS = 24 * 3600 * 1000
"""How long an idempotency key holds."""
_SLACK_MS = 3600 * 1000

# what is taken out follows from the frames alone, in whatever batches they come
_OLDEST = "SELECT min(time_ms) FROM keys"


class Notes:
    """Reads the ``keys``, ``fs_roots`` and ``open_turns`` tables. Raises DamageError where these are damaged."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def key(self, context: int, key: bytes) -> tuple[int, int] | None:
        """Return which turn a client appended under a key, and when; None if that is not known."""
        row = self._db.one("SELECT * FROM keys WHERE context = ? AND key = ?", (context, key))
        if row is None:
            return None
        _context, _key, turn, time_ms = self._db.checked("keys", row)
        return turn, time_ms

    def fs_root(self, turn: int) -> Hash | None:
        """Return the root of the files of a turn."""
        row = self._db.one("SELECT * FROM fs_roots WHERE turn = ?", (turn,))
        return Hash(self._db.checked("fs_roots", row)[1]) if row else None

    def open_turns(self) -> dict[int, tuple[int, int]]:
        """Return of each turn that is not closed, by number, its context, and where in the head log it was opened."""
        rows = self._db.query("SELECT * FROM open_turns ORDER BY number")
        return {number: (context, at) for number, context, at in (self._db.checked("open_turns", row) for row in rows)}


def file_notes(sql: sqlite3.Connection, frames: Iterable[Frame]) -> None:
    """File what notes say, in the order of the log."""
    keys: list[tuple[int, bytes, int, int]] = []
    oldest: int | None = None
    for frame in frames:
        body = frame.body
        if isinstance(body, Appended):
            if oldest is None:
                oldest = _oldest(sql, body.time_ms)
            if oldest < body.time_ms - KEPT_MS - _SLACK_MS:
                _put_keys(sql, keys)
                keys = []
                oldest = _oldest(sql, body.time_ms)
                if oldest < body.time_ms - KEPT_MS - _SLACK_MS:
                    sql.execute("DELETE FROM keys WHERE time_ms < ?", (body.time_ms - KEPT_MS,))
                    oldest = _oldest(sql, body.time_ms)
            keys.append((frame.context, body.key, body.turn, body.time_ms))
            oldest = min(oldest, body.time_ms)
        elif isinstance(body, FsRoot):
            root = (body.turn, body.root)
            sql.execute("INSERT OR REPLACE INTO fs_roots VALUES (?, ?, ?)", (*root, sum_of(root)))
        elif isinstance(body, Opened):
            opened = (frame.seq, frame.context, frame.offset)
            sql.execute("INSERT OR REPLACE INTO open_turns VALUES (?, ?, ?, ?)", (*opened, sum_of(opened)))
        elif isinstance(body, Closed):
            sql.execute("DELETE FROM open_turns WHERE number = ?", (body.number,))
    _put_keys(sql, keys)


def _oldest(sql: sqlite3.Connection, otherwise: int) -> int:
    found: int | None = sql.execute(_OLDEST).fetchone()[0]
    return otherwise if found is None else found


def _put_keys(sql: sqlite3.Connection, keys: list[tuple[int, bytes, int, int]]) -> None:
    sql.executemany("INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?)", [(*key, sum_of(key)) for key in keys])

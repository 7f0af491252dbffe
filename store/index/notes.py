"""Notes in the index: idempotency keys, the file system roots of turns, turns that are still being written."""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain

from store.disk.head_format import AppendNoted, Closed, FsRoot, HeadFrame, TurnOpened
from store.errors import DamageError
from store.ids import Hash
from store.index.database import Database, holds, put

KeyPlace = tuple[int, bytes]
"""A context, and a key that is a client's own in it."""

KEPT_MS = 24 * 3600 * 1000
"""The time that an idempotency key holds."""
_SLACK_MS = 3600 * 1000

_KEYS_AT_ONCE = 64
_CONTEXTS_BEYOND = 1 << 63
# one search for each: "(context, key) IN (VALUES …)" would look through the whole table
_KEYS = (
    "WITH asked (asked_context, asked_key) AS (VALUES {}) SELECT keys.* FROM asked CROSS JOIN keys"
    " ON context = asked_context AND key = asked_key"
)

# what is taken out follows from the frames alone, in whatever batches they come
_OLDEST = "SELECT min(time_ms) FROM keys"


class Notes:
    """Reads the ``keys``, ``fs_roots`` and ``open_turns`` tables. Raises DamageError where these are damaged."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def keys(self, places: Sequence[KeyPlace]) -> dict[KeyPlace, tuple[int, int] | DamageError]:
        """Return the turn that a client appended under each of these keys, and when; unknown keys are missing.

        If the note of a key is damaged, the damage is returned in its place.
        """
        found: dict[KeyPlace, tuple[int, int] | DamageError] = {}
        # no row holds a number beyond these, and one that is asked for would have the others not found
        places = [place for place in places if place[0] < _CONTEXTS_BEYOND]
        for start in range(0, len(places), _KEYS_AT_ONCE):
            some = places[start : start + _KEYS_AT_ONCE]
            for row in self._db.query(_KEYS.format(", ".join(["(?, ?)"] * len(some))), [*chain.from_iterable(some)]):
                try:
                    context, key, turn, time_ms = self._db.checked("keys", row)
                    found[context, key] = (turn, time_ms)
                except DamageError as error:
                    found[row[0], row[1]] = error
        return found

    def fs_root(self, turn: int) -> Hash | None:
        """Return the root of the files of a turn."""
        row = self._db.one("SELECT * FROM fs_roots WHERE turn = ?", (turn,))
        return Hash(self._db.checked("fs_roots", row)[1]) if row else None

    @property
    def has_fs_roots(self) -> bool:
        """True if any turn has files."""
        return self._db.one("SELECT 1 FROM fs_roots LIMIT 1") is not None

    def fs_roots(self, first: int, count: int) -> dict[int, Hash]:
        """Return the roots of the files of turns from ``first`` on, in their order."""
        rows = self._db.query(
            "SELECT * FROM fs_roots WHERE turn BETWEEN ? AND ? ORDER BY turn", (first, first + count - 1)
        )
        return {turn: Hash(root) for turn, root in (self._db.checked("fs_roots", row) for row in rows)}

    def open_turns(self) -> dict[int, tuple[int, int]]:
        """Return of each turn that is not closed, by number, its context, and where in the head log it was opened."""
        rows = self._db.query("SELECT * FROM open_turns ORDER BY number")
        return {number: (context, at) for number, context, at in (self._db.checked("open_turns", row) for row in rows)}


def file_notes(sql: sqlite3.Connection, frames: Iterable[HeadFrame]) -> None:
    """File notes, in the order of the log. DamageError if that would take out a damaged row."""
    keys: list[tuple[int, bytes, int, int]] = []
    oldest: int | None = None
    for frame in frames:
        body = frame.body
        if isinstance(body, AppendNoted):
            if oldest is None:
                oldest = _oldest(sql, body.time_ms)
            if oldest < body.time_ms - KEPT_MS - _SLACK_MS:
                put(sql, "keys", keys)
                keys = []
                oldest = _oldest(sql, body.time_ms)
                if oldest < body.time_ms - KEPT_MS - _SLACK_MS:
                    _drop_keys(sql, body.time_ms - KEPT_MS)
                    oldest = _oldest(sql, body.time_ms)
            keys.append((frame.context, body.key, body.turn, body.time_ms))
            oldest = min(oldest, body.time_ms)
        elif isinstance(body, FsRoot):
            put(sql, "fs_roots", [(body.turn, body.root)])
        elif isinstance(body, TurnOpened):
            put(sql, "open_turns", [(frame.seq, frame.context, frame.offset)])
        elif isinstance(body, Closed):
            sql.execute("DELETE FROM open_turns WHERE number = ?", (body.number,))
    put(sql, "keys", keys)


def _oldest(sql: sqlite3.Connection, otherwise: int) -> int:
    found: int | None = sql.execute(_OLDEST).fetchone()[0]
    return otherwise if found is None else found


def _drop_keys(sql: sqlite3.Connection, before_ms: int) -> None:
    """Delete the keys of before; DamageError if one of them only seems to be that old."""
    if not all(map(holds, sql.execute("SELECT * FROM keys WHERE time_ms < ?", (before_ms,)))):
        raise DamageError("a row of keys is damaged")
    sql.execute("DELETE FROM keys WHERE time_ms < ?", (before_ms,))

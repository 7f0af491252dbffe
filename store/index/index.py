"""The index: what the logs and packs say, filed for look-up.

:meth:`Index.apply` takes the frames of the head log in order, live and when rebuilding alike, so that an index made
anew equals one that grew.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import store.disk.head_format as heads
from store.ids import Hash, hash_key
from store.index.database import Database
from store.index.schema import SCHEMA_VERSION

Place = tuple[int, int, int]
"""Where a blob lies: pack number, offset of the record in it, member of the group (0 if it is none)."""

_LOOKUPS_AT_ONCE = 500


class Index:
    """``index.db`` of one store."""

    def __init__(self, path: Path) -> None:
        self.db = Database(path)

    @property
    def usable(self) -> bool:
        """Whether the tables are of this version (else the index must be rebuilt)."""
        return self.db.state("schema") == SCHEMA_VERSION

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    # -- blobs ---------------------------------------------------------------------------------------------------

    def add_blobs(self, places: Iterable[tuple[Hash, Place]]) -> None:
        """File where blobs lie."""
        with self.db.writing() as sql:
            sql.executemany(
                "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?)",
                [(hash_key(digest), *place) for digest, place in places],
            )

    def locate(self, digests: Sequence[Hash]) -> dict[Hash, list[Place]]:
        """Return, for each hash, the places that may hold it (usually one; hashes not filed are left out)."""
        found: dict[Hash, list[Place]] = {}
        reader = self.db.reader
        if len(digests) == 1:
            places = reader.execute(
                "SELECT pack, offset, member FROM blobs WHERE key = ?", (hash_key(digests[0]),)
            ).fetchall()
            return {digests[0]: places} if places else {}
        by_key = {hash_key(digest): digest for digest in digests}
        keys = list(by_key)
        for start in range(0, len(keys), _LOOKUPS_AT_ONCE):
            some = keys[start : start + _LOOKUPS_AT_ONCE]
            rows = reader.execute(
                f"SELECT key, pack, offset, member FROM blobs WHERE key IN ({','.join('?' * len(some))})", some
            )
            for key, pack, offset, member in rows:
                found.setdefault(by_key[key], []).append((pack, offset, member))
        return found

    def alias(self, algorithm: str, digest: bytes) -> Hash | None:
        """Return the blob that is also known as ``digest`` in another hash algorithm, None if none is."""
        row = self.db.reader.execute(
            "SELECT hash FROM aliases WHERE algorithm = ? AND digest = ?", (algorithm, digest)
        ).fetchone()
        return row[0] if row else None

    def type_names(self) -> dict[int, str]:
        """Return the names of all registered payload types by tag."""
        return {tag & 0xFFFF_FFFF_FFFF_FFFF: name for tag, name in self.db.reader.execute("SELECT * FROM types")}

    def dictionaries(self) -> list[tuple[int, Hash]]:
        """Return (type tag, hash) of the registered compression dictionaries."""
        rows = self.db.reader.execute("SELECT tag, hash FROM dictionaries")
        return [(tag & 0xFFFF_FFFF_FFFF_FFFF, Hash(digest)) for tag, digest in rows]

    # -- frames of the head log ----------------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The sequence number up to which frames have been applied."""
        value = self.db.state("seq")
        return value if isinstance(value, int) else 0

    def apply(self, frames: Iterable[heads.Frame]) -> None:
        """File what ``frames`` say; they come in the order of the log."""
        with self.db.writing() as sql:
            last = 0
            for frame in frames:
                _apply(sql, frame)
                last = frame.seq
            if last:
                sql.execute("INSERT OR REPLACE INTO state VALUES ('seq', ?)", (last,))


def _apply(sql: sqlite3.Connection, frame: heads.Frame) -> None:
    body, context = frame.body, frame.context
    if isinstance(body, heads.HeadMoved):
        records = body.depth + 1 if body.turn else 0
        sql.execute(
            "UPDATE contexts SET head = ?, records = ?, updated_ms = ? WHERE id = ?",
            (body.turn, records, body.time_ms, context),
        )
        if body.action != "append":
            sql.execute(
                "INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?, ?)",
                (context, frame.seq, body.time_ms, body.turn, records, body.action),
            )
    elif isinstance(body, heads.Metadata):
        _apply_metadata(sql, context, body.changes)
    elif isinstance(body, heads.ContextCreated):
        sql.execute(
            "INSERT OR IGNORE INTO contexts (id, head, records, created_ms, updated_ms) VALUES (?, 0, 0, ?, ?)",
            (context, body.created_ms, body.created_ms),
        )
    elif isinstance(body, heads.TypeRegistered):
        sql.execute("INSERT OR REPLACE INTO types VALUES (?, ?)", (_signed(body.tag), body.name))
    elif isinstance(body, heads.Alias):
        sql.execute("INSERT OR REPLACE INTO aliases VALUES (?, ?, ?)", (body.algorithm, body.digest, body.hash))
    elif isinstance(body, heads.Dictionary):
        sql.execute("INSERT OR IGNORE INTO dictionaries VALUES (?, ?)", (_signed(body.tag), body.hash))


def _apply_metadata(sql: sqlite3.Connection, context: int, changes: bytes) -> None:
    row = sql.execute("SELECT metadata, created_ms, updated_ms FROM contexts WHERE id = ?", (context,)).fetchone()
    if row is None:
        return
    changed = msgspec.json.decode(changes)
    metadata = merge(msgspec.json.decode(row[0]), changed)
    created = metadata.get("started_ms") or row[1]
    updated = changed.get("updated_ms") or row[2]
    sql.execute(
        "UPDATE contexts SET project = ?, name = ?, title = ?, format = ?, source = ?, created_ms = ?,"
        " updated_ms = ?, day = ?, metadata = ? WHERE id = ?",
        (
            metadata.get("project"),
            metadata.get("name"),
            metadata.get("title", ""),
            metadata.get("format", ""),
            metadata.get("source", ""),
            created,
            updated,
            day_of(created),
            msgspec.json.encode(metadata, order="sorted").decode(),
            context,
        ),
    )


def merge(metadata: dict[str, object], changes: dict[str, object]) -> dict[str, object]:
    """Return ``metadata`` with ``changes`` made: keys replace, null removes."""
    return {key: value for key, value in {**metadata, **changes}.items() if value is not None}


def day_of(time_ms: object) -> str:
    """Return the UTC day of a time in Unix milliseconds as ``2026-03-05``, "" where there is none."""
    if not isinstance(time_ms, int):
        return ""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return ""


def _signed(tag: int) -> int:
    return tag - (1 << 64) if tag >= 1 << 63 else tag

"""The connection to ``index.db``: one writer, a reader a thread, no syncs."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.index.schema import SCHEMA_VERSION, TABLES

_PRAGMAS = ("journal_mode = WAL", "synchronous = OFF", "temp_store = MEMORY", "cache_size = -8192")


class Database:
    """Opens ``path``; makes the tables where there are none.

    Writers take :meth:`writing`, one at a time; :attr:`reader` is the calling thread's own connection and sees
    what was last committed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._lock = threading.RLock()
        self._writer = self._connect()
        self.fresh = not self._writer.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        if self.fresh:
            self._writer.executescript("BEGIN;" + TABLES + "COMMIT;")
            self.set_state("schema", SCHEMA_VERSION)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=60
        )
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").fetchone()
        return connection

    @property
    def reader(self) -> sqlite3.Connection:
        """The calling thread's connection for reading."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            with self._lock:
                self._readers.append(connection)
        return connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the writer in one transaction; rolled back if the block raises."""
        with self._lock:
            if self._writer.in_transaction:
                yield self._writer
                return
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")

    def state(self, key: str) -> object:
        """Return the value kept under ``key``, None if there is none."""
        row = self.reader.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def set_state(self, key: str, value: str | int) -> None:
        """Keep ``value`` under ``key``."""
        with self.writing() as sql:
            sql.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))

    def close(self) -> None:
        """Close every connection; SQLite folds its write-ahead log into the file."""
        with self._lock:
            for connection in self._readers:
                connection.close()
            self._writer.close()

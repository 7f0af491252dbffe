"""The connection to ``index.db``: one writer, a reader a thread, no syncs but where it says whether it can be trusted.

SQLite without syncs loses rows after a power failure, or keeps half of a change, and its own check says ok. So the
first change after an opening notes, synced, in which boot of the machine it is made; closing takes that note back
once everything is on disk. A database with a note of another boot is not to be trusted.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from store.disk import durable
from store.errors import ConvfsError, DamageError, StoreFailed
from store.index.schema import SCHEMA_VERSION, TABLES
from store.index.sums import holds, numbered_holds, sum_of

_PRAGMAS = ("journal_mode = WAL", "synchronous = OFF", "temp_store = MEMORY")
_CACHED_KIB = 8192
_READER_CACHED_KIB = 2048
"""There is a reader a thread, and what it has cached holds only until the next change."""

_DISTRUSTED = "changing"
"""Noted instead of a boot: that of no machine."""

# What a damaged database makes of its text, Python cannot always decode, nor the message about it.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)

Row = tuple[Any, ...]
"""A row of any table: what its columns hold is the schema's to say."""


class Schema(NamedTuple):
    """What a database holds: the statements that make its tables, ``state`` among them, and their version.

    ``pragmas`` are what matters to SQLite before there is anything in it.
    """

    version: int
    tables: str
    pragmas: tuple[str, ...] = ()


INDEX = Schema(SCHEMA_VERSION, TABLES)


class _Reader:
    """One thread's connection for reading, closed when the thread ends or the database is closed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


class Database:
    """Opens ``path``; makes the tables where there are none.

    Writers take :meth:`writing`, one at a time; :meth:`query` and :meth:`one` use the calling thread's own connection
    and see what was last committed. What SQLite complains of is a DamageError: everything here can be made anew.
    ``boot`` names this boot of the machine ("": no notes are kept, for a database that nobody opens again).
    """

    def __init__(self, path: Path, boot: str = "", schema: Schema = INDEX) -> None:
        """Open the database. Raises DamageError if the file is none."""
        self.path = path
        self.boot = boot
        self._pragmas = (*schema.pragmas, *_PRAGMAS)
        self._local = threading.local()
        self._readers: weakref.WeakSet[_Reader] = weakref.WeakSet()
        self._lock = threading.RLock()
        self._closed = False
        self._noted = True
        self.damaged = False
        """Whether it turned out, since it was opened, that it must be made anew."""
        self._writer = self._connect(_CACHED_KIB)
        try:
            if not self._writer.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                self._writer.executescript("BEGIN;" + schema.tables + "COMMIT;")
                self.set_state("schema", schema.version)
                self.set_state("tables", self._tables())
                self.set_state("boot", boot)
            noted = self._writer.execute("SELECT value FROM state WHERE key = 'boot'").fetchone()
            made = dict(
                self._writer.execute("SELECT key, value FROM state WHERE key IN ('schema', 'tables')").fetchall()
            )
            self.current = made == {"schema": schema.version, "tables": self._tables()}
            """Whether its tables are those of this version, as they were made."""
        except BaseException as error:
            self._writer.close()
            if isinstance(error, _FAULTS):
                raise self._error(error) from error
            raise
        self._noted = not boot or noted == (boot,)
        self.clean = noted == ("",)
        """Whether it was on disk, all of it, when it was last closed."""
        self.trusted = self.clean or noted == (boot,)
        """Whether every change that was made to it is there."""

    def _tables(self) -> int:
        return sum_of(
            self._writer.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
        )

    def _connect(self, cached_kib: int) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=60
            )
            for pragma in (*self._pragmas, f"cache_size = -{cached_kib}"):
                connection.execute(f"PRAGMA {pragma}").fetchone()
        except _FAULTS as error:
            if connection is not None:
                connection.close()
            raise self._error(error) from error
        return connection

    def _error(self, error: Exception) -> ConvfsError:
        if self._closed:
            return self._refusal()
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return StoreFailed(f"{self.path}: {error}: free space, then open the store again")
        return self.damage(str(error))

    def damage(self, what: str) -> DamageError:
        """Take note that the database is damaged; return what to raise."""
        self.damaged = True
        return DamageError(f"{self.path}: {what}: run convfs reindex")

    def _check(self) -> None:
        if self._closed:
            raise self._refusal()

    def _refusal(self) -> StoreFailed:
        return StoreFailed(f"{self.path}: the store has been closed")

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def _reader(self) -> sqlite3.Connection:
        reader: _Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            self._check()
            reader = self._local.reader = _Reader(self._connect(_READER_CACHED_KIB))
            reader.connection.execute("PRAGMA query_only = ON")
            with self._lock:
                self._readers.add(reader)
        return reader.connection

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a SELECT; none where a parameter is a number too large for any row to hold."""
        try:
            return self._reader.execute(sql, parameters).fetchall()
        except _FAULTS as error:
            raise self._error(error) from error
        except OverflowError:
            return []

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Row]:
        """As :meth:`query`, for more rows than should be in memory: what is read is as it was at the first."""
        try:
            yield from self._reader.execute(sql, parameters)
        except _FAULTS as error:
            raise self._error(error) from error

    def one(self, sql: str, parameters: Sequence[object] = ()) -> Row | None:
        """Return the first row of a SELECT, None if there is none."""
        rows = self.query(sql, parameters)
        return rows[0] if rows else None

    def checked(self, table: str, row: Row) -> Row:
        """Return a row without the checksum that it ends in (``store.index.sums``); DamageError if it is wrong."""
        if not holds(row):
            raise self.damage(f"a row of {table} is damaged")
        return row[:-1]

    def checked_numbered(self, table: str, row: Row) -> Row:
        """As :meth:`checked`, for the tables of what was measured."""
        if not numbered_holds(row):
            raise self.damage(f"a row of {table} is damaged")
        return row[:-1]

    def problems(self) -> Iterator[str]:
        """Look through all pages, and yield what is wrong with them."""
        try:
            found = self.query("PRAGMA integrity_check")
        except DamageError as error:
            found = [(str(error),)]
        yield from (problem for (problem,) in found if problem != "ok")

    def state(self, key: str) -> object:
        """Return the value kept under ``key``, None if there is none."""
        row = self.one("SELECT value FROM state WHERE key = ?", (key,))
        return row[0] if row else None

    def number(self, key: str) -> int:
        """Return the number kept under ``key``, 0 if there is none."""
        value = self.state(key)
        return value if isinstance(value, int) else 0

    # -- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the writer in one transaction; rolled back if the block raises."""
        with self._lock:
            self._check()
            if self._writer.in_transaction:
                yield self._writer
                return
            try:
                if not self._noted:
                    self._note(self.boot)
                    self._noted = True
                self._writer.execute("BEGIN IMMEDIATE")
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException as error:
                self._roll_back()
                if isinstance(error, _FAULTS):
                    raise self._error(error) from error
                raise

    def set_state(self, key: str, value: str | int) -> None:
        """Keep ``value`` under ``key``."""
        with self.writing() as sql:
            sql.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))

    def _roll_back(self) -> None:
        # some errors end the transaction by themselves
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except _FAULTS:
            return

    @contextmanager
    def distrusted(self) -> Iterator[None]:
        """Have the tables made anew, should the process be killed within the block: what they follow from changes."""
        with self._lock:
            self._check()
            self._note(_DISTRUSTED)
            self._noted = True
        try:
            yield
        except BaseException:
            self.damaged = True
            raise
        with self._lock:
            self._check()
            self._note(self.boot)

    def compact(self) -> None:
        """Make the file as small as its rows are. Nobody else writes meanwhile: some 10 ms for each megabyte of it."""
        with self._lock:
            with self.writing():
                # notes, if nothing has yet, that there are changes
                pass
            try:
                self._writer.execute("VACUUM")
            except _FAULTS as error:
                raise self._error(error) from error

    def purge(self) -> None:
        """Leave nothing in the file, or in SQLite's log, of rows that are no more.

        What the file gets shorter by, and what the log took, is free on the disk afterwards. DamageError where the
        database is damaged.
        """
        with self._lock:
            self._check()
            try:
                self._writer.execute("PRAGMA secure_delete = ON").fetchone()
                self._writer.execute("VACUUM")
                busy, _pages, _folded = self._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
                if not busy:
                    self._erase_log()
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._writer.execute("PRAGMA secure_delete = OFF").fetchone()
            except _FAULTS as error:
                raise self._error(error) from error

    def _erase_log(self) -> None:
        """Write zeros over the log of SQLite. All of it is in the file: nobody reads it, the next change begins it."""
        try:
            fd = durable.open_file(self.path.with_name(self.path.name + "-wal"))
        except FileNotFoundError:
            return
        try:
            durable.overwrite(fd)
        finally:
            os.close(fd)

    def _note(self, boot: str) -> bool:
        """Say, on disk, in which boot changes are being made; "" that all are on disk.

        Return whether that is in the file itself. In SQLite's log alone it would be lost when that begins anew, which
        is not synced: then the file would look as it did before, and part of it could be.
        """
        self._writer.execute("PRAGMA synchronous = FULL")
        self._writer.execute("INSERT OR REPLACE INTO state VALUES ('boot', ?)", (boot,))
        busy, _pages, _folded = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._writer.execute("PRAGMA synchronous = OFF")
        return not busy

    def close(self, *, sync: bool = False) -> None:
        """Close every connection; SQLite folds its write-ahead log into the file.

        With ``sync``, bring everything to disk and note that. Without, only the rest of this boot may trust it.
        """
        with self._lock:
            self._closed = True
            for reader in list(self._readers):
                reader.connection.close()
            try:
                if sync and self._noted and self.boot:
                    self._sync()
            finally:
                self._writer.close()

    def _sync(self) -> None:
        try:
            # the note once more, so that there is something to fold in: only then is the file itself synced
            if self._note(self.boot):
                self._note("")
                self._writer.execute("PRAGMA synchronous = FULL")
        except _FAULTS:
            # untrusted, it is made anew after the next boot
            return

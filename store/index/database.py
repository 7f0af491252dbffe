"""The connection to ``index.db``: one writer, one reader a thread, and syncs only of the note that it can be trusted.

The state of SQLite's write-ahead log that connections share is in the heap of this process, the only one that has the
database open (SQLite's ``unix-excl``). In a mapped file, the default, a page that the disk has no room for would raise
SIGBUS and end the process.

If the disk has no room for changes, they are *held* in memory, in a transaction that stays open, and all threads read
through its connection. The transaction ends when there is room for all of it. If the process is killed before that, the
database is as it was when the disk became full: the missing rows follow from the logs.

SQLite without syncs loses rows after a power failure, or keeps half of a change, and its own check says ok. So the
first change after an opening notes, synced, in which boot of the machine it is made; closing takes that note back
once everything is on disk. A database with a note of another boot is not to be trusted.

In the tables of the index, a hash is filed under its first eight bytes only, as a signed integer: half the size of
the whole hash, and the whole one is checked where the location points anyway. SQLite has no checksums, so rows that
nothing else vouches for carry one.
"""

import os
import re
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import msgspec
from isal.isal_zlib import crc32

from store.disk import durable
from store.errors import ConvfsError, DamageError, StoreFailed, StoreFull

SCHEMA_VERSION = 13

TABLES = """
CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE blobs (
    key INTEGER NOT NULL, pack INTEGER NOT NULL, offset INTEGER NOT NULL, member INTEGER NOT NULL,
    PRIMARY KEY (key, pack, offset, member)
) WITHOUT ROWID;

-- Of which packs, and up to where, all blobs are in that table.
CREATE TABLE packs (number INTEGER PRIMARY KEY, length INTEGER NOT NULL, sum INTEGER NOT NULL);

-- By which new content finds stored content that it resembles (store.content.delta). What a row says is checked where
-- it leads. After a rebuild it is empty, and fills as content comes.
CREATE TABLE sketches (feature INTEGER PRIMARY KEY, hash BLOB NOT NULL);

CREATE TABLE aliases (
    algorithm TEXT NOT NULL, digest BLOB NOT NULL, hash BLOB NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (algorithm, digest)
) WITHOUT ROWID;

CREATE TABLE types (
    tag INTEGER NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (tag, version)
) WITHOUT ROWID;

CREATE TABLE dictionaries (tag INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (tag, hash)) WITHOUT ROWID;

-- head_sum covers what changes with the head (id, head, records, updated_ms, imported: the head that the last import
-- made), sum all the rest with the id. What is in the trash has no project and no name here.
CREATE TABLE contexts (
    id INTEGER PRIMARY KEY,
    head INTEGER NOT NULL, records INTEGER NOT NULL, updated_ms INTEGER NOT NULL, imported INTEGER NOT NULL,
    head_sum INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    project TEXT, name TEXT, title TEXT NOT NULL,
    format TEXT NOT NULL, source TEXT NOT NULL,
    day TEXT NOT NULL,
    trashed_ms INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    described_ms INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    sum INTEGER NOT NULL
);
CREATE UNIQUE INDEX contexts_by_name ON contexts (project, name) WHERE name IS NOT NULL;
CREATE INDEX contexts_by_day ON contexts (day, project, name) WHERE name IS NOT NULL;
CREATE INDEX contexts_by_update ON contexts (updated_ms) WHERE name IS NOT NULL;
CREATE INDEX contexts_pinned ON contexts (updated_ms) WHERE name IS NOT NULL AND rank = 1;
CREATE INDEX contexts_by_source ON contexts (source) WHERE source != '';
CREATE INDEX contexts_in_trash ON contexts (trashed_ms) WHERE trashed_ms != 0;
CREATE INDEX contexts_nameless ON contexts (id) WHERE name IS NULL AND trashed_ms = 0;
CREATE INDEX contexts_by_forked ON contexts (json_extract(metadata, '$.forked_from.context'))
    WHERE json_extract(metadata, '$.forked_from.context') IS NOT NULL;

-- How many conversations are in each project, for projects that have any.
CREATE TABLE projects (name TEXT PRIMARY KEY, conversations INTEGER NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;

-- Only of conversations that have a name.
CREATE TABLE labels (
    name TEXT NOT NULL, context INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (name, context)
) WITHOUT ROWID;

-- What imports find contexts by.
CREATE TABLE origins (
    origin TEXT NOT NULL, context INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (origin, context)
) WITHOUT ROWID;

-- Conversations that are not listed among others: parent is the one that a subagent's is in (0: none); for kind, see
-- store.index.asides.
CREATE TABLE asides (
    context INTEGER PRIMARY KEY, parent INTEGER NOT NULL, kind INTEGER NOT NULL, sum INTEGER NOT NULL
);
CREATE INDEX asides_by_parent ON asides (parent) WHERE parent != 0;

-- Of contexts that were deleted, what imports would find them by; and each under the name "".
CREATE TABLE pruned (
    origin TEXT NOT NULL, context INTEGER NOT NULL, time_ms INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (origin, context)
) WITHOUT ROWID;

-- How many of a context's versions were pruned, if any were.
CREATE TABLE pruned_versions (context INTEGER PRIMARY KEY, count INTEGER NOT NULL, sum INTEGER NOT NULL);

CREATE TABLE versions (
    context INTEGER NOT NULL, seq INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    head INTEGER NOT NULL, records INTEGER NOT NULL, action TEXT NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (context, seq)
) WITHOUT ROWID;

-- What became of turns that are no longer in a branch: new and those after it, or 0 for nothing.
CREATE TABLE superseded (
    context INTEGER NOT NULL, seq INTEGER NOT NULL, old INTEGER NOT NULL, new INTEGER NOT NULL,
    count INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (context, seq, old)
) WITHOUT ROWID;

-- What patches say of turns, each of which has one row or more. A patch that was lost has one, of turn 0.
CREATE TABLE patches (
    number INTEGER NOT NULL, turn INTEGER NOT NULL, context INTEGER NOT NULL, previous INTEGER NOT NULL,
    hash BLOB NOT NULL, flags INTEGER NOT NULL, created_ms INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (number, turn)
) WITHOUT ROWID;

-- Under which keys clients appended turns, for a day.
CREATE TABLE keys (
    context INTEGER NOT NULL, key BLOB NOT NULL, turn INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    sum INTEGER NOT NULL, PRIMARY KEY (context, key)
) WITHOUT ROWID;
CREATE INDEX keys_by_time ON keys (time_ms);

CREATE TABLE fs_roots (turn INTEGER PRIMARY KEY, root BLOB NOT NULL, sum INTEGER NOT NULL);

-- Turns that are being written, by the seq of the frame that opened each, and where that frame lies in heads.log.
CREATE TABLE open_turns (
    number INTEGER PRIMARY KEY, context INTEGER NOT NULL, offset INTEGER NOT NULL, sum INTEGER NOT NULL
);

-- What a renderer measured. Rows of another renderer version are replaced when the conversation is next listed.
CREATE TABLE views (
    turn INTEGER PRIMARY KEY, kind INTEGER NOT NULL, tool TEXT NOT NULL, parent INTEGER NOT NULL,
    time_ms INTEGER NOT NULL, file_size INTEGER NOT NULL, section_size INTEGER NOT NULL,
    json_size INTEGER NOT NULL, payload_size INTEGER NOT NULL, deleted INTEGER NOT NULL, sum INTEGER NOT NULL
);
CREATE TABLE resources (
    turn INTEGER NOT NULL, seq INTEGER NOT NULL, uri TEXT NOT NULL, mime TEXT NOT NULL, size INTEGER NOT NULL,
    hash BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (turn, seq)
) WITHOUT ROWID;
CREATE TABLE measures (
    context INTEGER PRIMARY KEY, head INTEGER NOT NULL, events INTEGER NOT NULL,
    transcript_size INTEGER NOT NULL, json_size INTEGER NOT NULL, said INTEGER NOT NULL, sum INTEGER NOT NULL
);
"""

DERIVED_FROM_LOGS = (
    "aliases",
    "types",
    "dictionaries",
    "contexts",
    "projects",
    "labels",
    "origins",
    "asides",
    "pruned",
    "pruned_versions",
    "versions",
    "superseded",
    "patches",
    "keys",
    "fs_roots",
    "open_turns",
)
"""Tables that follow from heads.log alone; with ``blobs`` and ``packs`` (the packs) they are the index proper."""

DERIVED_FROM_RENDERER = ("views", "resources", "measures")
"""Tables that follow from payloads and the renderer's version."""


_encode = msgspec.msgpack.Encoder().encode


def sum_of(values: Sequence[object]) -> int:
    """Return the checksum of a row: the CRC-32 of its values as msgpack."""
    return crc32(_encode(values))


def numbered_sum(values: Sequence[object]) -> int:
    """Return the checksum of a row that begins with a number: that number plus the checksum of the rest.

    So SQLite itself can file what was measured of one turn for another: what it adds to the one it adds to the other.
    """
    number = values[0]
    assert isinstance(number, int)
    return number + crc32(_encode(values[1:]))


def numbered_holds(row: Sequence[Any]) -> bool:
    """As :func:`holds`, for a row with a :func:`numbered_sum`."""
    try:
        return bool(row[-1] - row[0] == crc32(_encode(row[1:-1])))
    except (OverflowError, TypeError, UnicodeEncodeError):
        return False


def put(
    sql: sqlite3.Connection,
    table: str,
    rows: Iterable[Sequence[object]],
    summed: Callable[[Sequence[object]], int] = sum_of,
) -> None:
    """File rows, in place of others with the same keys, each with its checksum behind it."""
    whole = [(*row, summed(row)) for row in rows]
    if whole:
        marks = ", ".join("?" * len(whole[0]))
        sql.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", whole)


def holds(row: Sequence[object]) -> bool:
    """Return whether a row that ends in its checksum is as it was written."""
    try:
        return row[-1] == crc32(_encode(row[:-1]))
    except (OverflowError, TypeError, UnicodeEncodeError):
        return False


def _warn(message: str, path: Path) -> None:
    # here, as a full disk is rare, and commands that only look should start fast
    import logging

    logging.getLogger(__name__).warning(message, path)


_PRAGMAS = ("journal_mode = WAL", "synchronous = OFF", "temp_store = MEMORY")
_CACHED_KIB = 8192
_READER_CACHED_KIB = 2048
"""There is one reader a thread, and its cache is valid only until the next change."""

_FETCHED_AT_ONCE = 16
"""The rows that are read at a time where there may be very many."""

_ROOM_BYTES = 1 << 20
"""With less room than this on the disk, changes are held."""
_PAGES_A_ROW = 16
"""The most pages that changing a row may touch, in its table and the indexes of that."""
_LEAST_PAGES = 64
_PATIENCE_SECONDS = 1.0
"""The time after a failed write, or a count of held changes, in which no write is tried again."""

_WAY_SECONDS = 0.1
_WAKING_SECONDS = 0.0001

_DISTRUSTED = "changing"
"""Noted instead of a boot: that of no machine."""

_UNWRITTEN = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
}
"""SQLite's errors where the disk does not take a change. All but the first are what quotas and limits come out as."""

_UNPLAIN = re.compile(r"[^/\w.-]", re.ASCII)
# What a damaged database makes of its text, Python cannot always decode, nor the message about it.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)

Row = tuple[Any, ...]
"""A row of any table; the schema defines its columns."""

P = ParamSpec("P")
T = TypeVar("T")


def held_if_full(change: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that changes a database to run again if its disk is full: its changes are then held."""

    @wraps(change)
    def done(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return change(*args, **kwargs)
        except StoreFull:
            return change(*args, **kwargs)

    return done


def among(values: Collection[T]) -> tuple[str, list[T]]:
    """Return what stands between the brackets of ``IN``, for one of some values, and the parameters for it.

    The last value stands there several times: SQLite keeps each statement, in a hundred bytes a value, so there are
    lists of few lengths.
    """
    given = [*values]
    missing = (1 << (len(given) - 1).bit_length()) - len(given) if given else 0
    return ",".join("?" * (len(given) + missing)), given + given[-1:] * missing


class Renewed(StoreFailed):
    """A database was begun anew while it was asked: it has nothing of what was there, and is to be asked again."""


def asked_again(ask: Callable[P, T]) -> Callable[P, T]:
    """Decorate a question that is put from its beginning if the database is begun anew meanwhile."""

    @wraps(ask)
    def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return ask(*args, **kwargs)
            except Renewed:
                continue

    return answer


class Schema(NamedTuple):
    """The schema of a database: the statements that make its tables, ``state`` among them, and their version.

    ``pragmas`` are what matters to SQLite before there is anything in it.
    """

    version: int
    tables: str
    pragmas: tuple[str, ...] = ()


INDEX = Schema(SCHEMA_VERSION, TABLES)


class _Reader:
    """One thread's connection for reading, closed when the thread ends or the database is closed.

    ``lock`` is held while SQLite reads: a process does not survive that another thread closes the connection then.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.cursor = connection.cursor()
        """For answers that are read at once: of each new one, the connection would keep a small object for a while."""
        self.lock = threading.Lock()

    def stop(self) -> None:
        """Take the lock, to close the connection: what it reads is waited for, but not for long."""
        if not self.lock.acquire(timeout=_PATIENCE_SECONDS):
            self.connection.interrupt()
            self.lock.acquire()

    def __del__(self) -> None:
        self.connection.close()


def _shrink(connection: sqlite3.Connection) -> None:
    with suppress(*_FAULTS):
        connection.execute("PRAGMA shrink_memory").fetchone()


def _uri(path: Path, parameters: str) -> str:
    """Return the URI of a file for SQLite."""
    spelled = "".join(map(chr, os.fsencode(path.absolute())))
    return f"file:{_UNPLAIN.sub(lambda found: f'%{ord(found[0]):02x}', spelled)}?{parameters}"


def _made(connection: sqlite3.Connection) -> int:
    """Return the checksum of a database's tables, as they were made."""
    return sum_of(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall())


class Database:
    """Opens ``path``; makes the tables where there are none.

    Writers take :meth:`writing`, one at a time; :meth:`query` and :meth:`one` use the calling thread's own connection
    and see what was last committed. SQLite's complaints become DamageError: everything here can be rebuilt.
    ``boot`` names this boot of the machine ("": no notes are kept, for a database that nobody opens again).
    """

    def __init__(self, path: Path, boot: str = "", schema: Schema = INDEX) -> None:
        """Open the database. Raises DamageError if the file is none."""
        self.path = path
        self._directory = path.parent
        self.boot = boot
        self._pragmas = schema.pragmas
        self._local = threading.local()
        self._readers: weakref.WeakSet[_Reader] = weakref.WeakSet()
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()
        self._cursors_lock = threading.Lock()
        self._lock = threading.RLock()
        self._wanting: deque[None] = deque()
        """As many as there are threads that wait for the writer."""
        self._closed = False
        self.renewed = False
        """True if it is closed, and another begun in its place."""
        self._noted = True
        self._writing = False
        self.held = False
        """True if there are changes in memory only."""
        self._short_until = 0.0
        self._changes = 0
        """The number of rows that had been changed when changes began to be held."""
        self.lost = False
        """True if held changes could not be written after all: they did not happen then."""
        self.damaged = False
        """True if it has turned out, since it was opened, that it must be rebuilt."""
        # before any connection: what closes a file takes SQLite's locks of it along
        durable.make_file(path)
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
            """True if its tables are those of this version, as they were made."""
        except BaseException as error:
            self._writer.close()
            if isinstance(error, _FAULTS):
                raise self._error(error) from error
            raise
        self._file = os.stat(path)
        if self._file.st_mode & 0o077:
            # of an earlier version
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.chmod(f"{path}{suffix}", 0o600)
        self._noted = not boot or noted == (boot,)
        self.clean = noted == ("",)
        """True if all of it was on disk when it was last closed."""
        self.trusted = self.clean or noted == (boot,)
        """True if no change that was made to it can be missing."""

    def _tables(self) -> int:
        return _made(self._writer)

    def _connect(self, cached_kib: int) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                _uri(self.path, "vfs=unix-excl"),
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
                timeout=60,
            )
            # what matters to a new one would be written to another, and synced
            first = () if self.path.exists() and self.path.stat().st_size else self._pragmas
            for pragma in (*first, *_PRAGMAS, f"cache_size = -{cached_kib}"):
                connection.execute(f"PRAGMA {pragma}").fetchone()
        except _FAULTS as error:
            if connection is not None:
                connection.close()
            raise self._error(error) from error
        return connection

    def _error(self, error: Exception) -> ConvfsError:
        if self._closed:
            return self._refusal()
        if getattr(error, "sqlite_errorcode", None) in _UNWRITTEN:
            return self._no_room(error)
        return self.damage(str(error))

    def _no_room(self, error: Exception) -> StoreFull:
        self._short_until = time.monotonic() + _PATIENCE_SECONDS
        return StoreFull(f"{self.path}: it cannot be written ({error}): free space on its disk, then try again")

    def damage(self, what: str) -> DamageError:
        """Mark the database as damaged; return the error to raise."""
        self.damaged = True
        return DamageError(f"{self.path}: {what}: run convfs reindex")

    def check(self) -> None:
        """Raise StoreFailed if it has been closed, Renewed if another was begun in its place."""
        if self._closed:
            raise self._refusal()

    def _refusal(self) -> StoreFailed:
        if self.renewed:
            return Renewed(f"{self.path}: it has been begun anew, as by a redaction: ask again")
        return StoreFailed(f"{self.path}: the store has been closed")

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def _reader(self) -> _Reader:
        reader: _Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            self.check()
            # before, too: a connection to another database would remove that one's ``-wal`` when it closes
            self._check_path()
            found = _Reader(self._connect(_READER_CACHED_KIB))
            self._check_path()
            found.connection.execute("PRAGMA query_only = ON")
            with self._lock:
                self.check()
                self._readers.add(found)
            reader = self._local.reader = found
        return reader

    def _check_path(self) -> None:
        if self._is_replaced():
            raise StoreFailed(f"{self.path} is another file by now: end this process, and open the store again")

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a SELECT; none where a parameter is a number too large for any row to hold."""
        try:
            if self.held:
                with self._lock:
                    return self._writer.execute(sql, parameters).fetchall()
            reader = self._reader
            with reader.lock:
                return reader.cursor.execute(sql, parameters).fetchall()
        except _FAULTS as error:
            raise self._error(error) from error
        except OverflowError:
            return []

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Row]:
        """As :meth:`query`, for more rows than should be in memory: what is read is as it was at the first."""
        if self.held:
            # held changes belong to one connection, so that no other could write meanwhile
            yield from self.query(sql, parameters)
            return
        try:
            reader = self._reader
            with reader.lock:
                cursor = reader.connection.execute(sql, parameters)
            with self._cursors_lock:
                self._cursors.add(cursor)
            while True:
                with reader.lock:
                    some = cursor.fetchmany(_FETCHED_AT_ONCE)
                if not some:
                    return
                yield from some
        except _FAULTS as error:
            raise self._error(error) from error

    def one(self, sql: str, parameters: Sequence[object] = ()) -> Row | None:
        """Return the first row of a SELECT, None if there is none."""
        rows = self.query(sql, parameters)
        return rows[0] if rows else None

    def checked(self, table: str, row: Row, sound: Callable[[Row], bool] = holds) -> Row:
        """Return a row without the checksum that it ends in (``store.index.database``); DamageError if it is wrong."""
        self.check_all(table, (row,), sound)
        return row[:-1]

    def check_all(self, table: str, rows: Sequence[Row], sound: Callable[[Row], bool] = holds) -> None:
        """Raise DamageError if the checksum that any of some rows ends in is wrong."""
        if not all(map(sound, rows)):
            raise self.damage(f"a row of {table} is damaged")

    def problems(self) -> Iterator[str]:
        """Check all pages, and yield their faults."""
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

    @property
    def is_busy(self) -> bool:
        """True while another thread changes it, for which whoever is to change it waits."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return False
        return True

    @contextmanager
    def writing(self, *, hold: bool = True) -> Iterator[sqlite3.Connection]:
        """Hold the writer in one transaction; rolled back if the block raises.

        Raises StoreFull where the disk has no room for what the block has changed: nothing is changed then, and when
        the same is done once more (:func:`held_if_full`), it is held. With ``hold`` unset, nothing is: StoreFull for as
        long as there is no room, for changes that nobody may rely on before a kill can no longer undo them.
        """
        self._wanting.append(None)
        waits = True
        try:
            with self._lock:
                self._wanting.pop()
                waits = False
                self.check()
                if self._writing:
                    yield self._writer
                    return
                self._writing = True
                try:
                    self._begin(hold=hold)
                    yield self._writer
                    if self.held:
                        self._writer.execute("RELEASE change")
                        self._write_held()
                    else:
                        self._writer.execute("COMMIT")
                except BaseException as error:
                    self._roll_back()
                    if isinstance(error, _FAULTS):
                        raise self._error(error) from error
                    raise
                finally:
                    self._writing = False
        finally:
            if waits:
                self._wanting.pop()

    def give_way(self) -> None:
        """Have those go first that wait for the writer, but not for long. For who is about to change more.

        To begin anew at once would be to go first: they have not woken up by then.
        """
        until = time.monotonic() + _WAY_SECONDS
        while self._wanting and time.monotonic() < until:
            time.sleep(_WAKING_SECONDS)

    def _begin(self, *, hold: bool) -> None:
        """Begin a change: within the held transaction, if there is one or little room."""
        if self.held and not hold:
            self._write_held(at_once=True)
        short = time.monotonic() < self._short_until or durable.free_bytes(self._directory) < _ROOM_BYTES
        if not self.held and short:
            if not hold:
                raise StoreFull(f"{self.path}: there is hardly any room left on its disk: free space, then try again")
            self._hold()
        if self.held:
            if not hold:
                raise StoreFull(f"{self.path}: changes wait to be written: free space on its disk, then try again")
            self._writer.execute("SAVEPOINT change")
            return
        if not self._noted:
            self._note(self.boot)
            self._noted = True
        self._writer.execute("BEGIN IMMEDIATE")

    def _hold(self) -> None:
        """Keep changes in memory from now on."""
        # nothing of it may go to disk before all of it does
        self._writer.execute("PRAGMA cache_spill = OFF")
        if not self._noted:
            self._writer.execute("PRAGMA synchronous = FULL")
        self._writer.execute("BEGIN IMMEDIATE")
        if not self._noted:
            self._writer.execute("INSERT OR REPLACE INTO state VALUES ('boot', ?)", (self.boot,))
        self._changes = self._writer.total_changes
        self.held = True
        _warn("%s: its disk is full: what is filed is held in memory until there is room", self.path)

    def _write_held(self, *, at_once: bool = False) -> None:
        """Write held changes if there is room; ``at_once``: even if that was tried just now."""
        now = time.monotonic()
        if now < self._short_until and not at_once:
            return
        self._short_until = now + _PATIENCE_SECONDS
        pages = self._writer.execute("PRAGMA page_count").fetchone()[0]
        changed = min(pages, (self._writer.total_changes - self._changes) * _PAGES_A_ROW + _LEAST_PAGES)
        size = 2 * changed * self._writer.execute("PRAGMA page_size").fetchone()[0]
        try:
            # quotas and limits do not show in the free space
            fd = durable.open_file(self.path.with_name(self.path.name + "-wal"), create=True)
            try:
                # what was reserved before, and could not be given back as somebody read, is room, too
                reserved = min(size, os.fstat(fd).st_blocks * 512)
                if durable.free_bytes(self._directory) + reserved < size + _ROOM_BYTES:
                    return
                durable.reserve(fd, size)
            finally:
                os.close(fd)
        except OSError:
            return
        try:
            self._writer.execute("COMMIT")
        except _FAULTS as error:
            self._let_go()
            self.lost = True
            raise self._error(error) from error
        self._let_go()
        # the note must be in the file itself, see _note; and what was reserved is free for others
        with suppress(*_FAULTS):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._noted = True
        self._writer.execute("PRAGMA synchronous = OFF")
        _warn("%s: what was held in memory is on the disk", self.path)

    def _write_all(self) -> None:
        """Write held changes. Raises StoreFull."""
        if self.held:
            self._write_held(at_once=True)
        if self.held:
            raise StoreFull(f"{self.path}: changes wait to be written: free space on its disk, then try again")

    def _let_go(self) -> None:
        self.held = False
        self._writer.execute("PRAGMA cache_spill = ON")
        self._short_until = 0.0

    def set_state(self, key: str, value: str | int) -> None:
        """Keep ``value`` under ``key``."""
        with self.writing() as sql:
            sql.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))

    def _roll_back(self) -> None:
        # some errors end the transaction by themselves
        try:
            if self.held and self._writer.in_transaction:
                self._writer.execute("ROLLBACK TO change")
                self._writer.execute("RELEASE change")
            elif self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            elif self.held:
                self._let_go()
                self.lost = True
        except _FAULTS:
            return

    @contextmanager
    def distrusted(self) -> Iterator[None]:
        """Mark the tables for a rebuild in case the process is killed within the block, which changes their sources."""
        with self._lock:
            self.check()
            self._write_all()
            self._note(_DISTRUSTED)
            self._noted = True
        try:
            yield
        except BaseException:
            self.damaged = True
            raise
        with self._lock:
            self.check()
            self._write_all()
            self._note(self.boot)

    def compact(self) -> None:
        """Make the file as small as its rows are. Nobody else writes meanwhile: some 10 ms for each megabyte of it."""
        with self._lock:
            with self.writing(hold=False):
                # notes, if nothing has yet, that there are changes
                pass
            try:
                self._writer.execute("VACUUM")
            except _FAULTS as error:
                raise self._error(error) from error

    def give_back(self, most: int) -> None:
        """Give up to ``most`` free pages of the file, if it is one that can, back to the system."""
        with self.writing() as sql:
            (free,) = sql.execute("PRAGMA freelist_count").fetchone()
            for _page in range(min(free, most)):
                # one is all that sqlite3 does of it, whatever number is named: it takes no row for a sign of more
                sql.execute("PRAGMA incremental_vacuum(1)").fetchall()

    def purge(self) -> None:
        """Erase deleted rows from the file and from SQLite's log.

        The space that the file and the log give up is free on the disk afterwards. DamageError if the database is
        damaged.
        """
        with self._lock:
            self.check()
            self._write_all()
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
        """Record on disk the boot in which changes are being made; "" means that all are on disk.

        Return whether the note is in the file itself. In SQLite's log alone it would be lost when that log is
        restarted, which is not synced: then the file would look as it did before, and part of it could be.
        """
        self._writer.execute("PRAGMA synchronous = FULL")
        self._writer.execute("INSERT OR REPLACE INTO state VALUES ('boot', ?)", (boot,))
        busy, _pages, _folded = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._writer.execute("PRAGMA synchronous = OFF")
        return not busy

    def shrink(self) -> None:
        """Give back the memory of pages that all connections have read."""
        with self._lock:
            if self._closed or self._writing or self.held:
                return
            readers = list(self._readers)
            _shrink(self._writer)
        for reader in readers:
            # nobody waits for one that reads just now
            if reader.lock.acquire(blocking=False):
                try:
                    _shrink(reader.connection)
                finally:
                    reader.lock.release()

    def close(self, *, sync: bool = False, renewed: bool = False) -> None:
        """Close every connection; SQLite folds its write-ahead log into the file.

        With ``sync``, bring everything to disk and note that. Without, only the rest of this boot may trust it.
        Whoever asks from now on is told that the store has been closed or, with ``renewed``, to ask again (Renewed).
        """
        with self._lock:
            self.renewed = renewed
            self._closed = True
            if self._is_replaced():
                # imported here, as hardly any process comes here
                import ctypes

                # SQLite removes ``-wal`` by its path when it closes: here that would be another database's
                for kept in (self._writer, *self._readers):
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
                return
            with self._cursors_lock:
                unread = list(self._cursors)
            readers = list(self._readers)
            for reader in readers:
                reader.stop()
            try:
                # one that is not read to the end would go on reading, and the log could not be folded into the file
                for cursor in unread:
                    with suppress(sqlite3.Error):
                        cursor.close()
                for reader in readers:
                    reader.connection.close()
            finally:
                for reader in readers:
                    reader.lock.release()
            try:
                if self.held:
                    with suppress(ConvfsError):
                        self._write_held(at_once=True)
                if sync and self._noted and self.boot and not self.held:
                    self._sync()
            finally:
                # held changes go with it
                self._writer.close()

    def _is_replaced(self) -> bool:
        try:
            return not os.path.samestat(os.stat(self.path), self._file)
        except OSError:
            return False

    def _sync(self) -> None:
        try:
            # the note once more, so that there is something to fold in: only then is the file itself synced
            if self._note(self.boot):
                self._note("")
                self._writer.execute("PRAGMA synchronous = FULL")
        except _FAULTS:
            # untrusted, it is rebuilt after the next boot
            return


class Unchanging(Database):
    """A database that nobody has open, read as it is; nothing of it may be changed. For one thread."""

    def __init__(self, path: Path, schema: Schema = INDEX) -> None:
        """Open the file. DamageError if it cannot be, is another version's, or was not closed in order."""
        self.path = path
        self.held = self.damaged = self._closed = self.renewed = False
        try:
            self._writer = sqlite3.connect(_uri(path, "mode=ro&immutable=1"), uri=True, isolation_level=None)
            self._only = _Reader(self._writer)
        except sqlite3.Error as error:
            raise self._error(error) from error
        try:
            noted = (self.state("boot"), self.state("schema"), self.state("tables"))
            if path.with_name(path.name + "-wal").exists() or noted != ("", schema.version, _made(self._writer)):
                raise self.damage("it was not closed in order")
        except BaseException:
            self._writer.close()
            raise

    @property
    def _reader(self) -> _Reader:
        return self._only

    def close(self, *, sync: bool = False, renewed: bool = False) -> None:
        """Close it."""
        self._closed = True
        self._writer.close()

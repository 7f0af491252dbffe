"""Tools that keep conversations in an SQLite database: read without a lock, seen as lines, edited cell by cell.

Another program may be writing to the database. SQLite's readers lock, or write to the shared memory beside a
write-ahead log. So the files are copied, and the copy is good if none of them was written to meanwhile, but for appends
to a log.

A conversation is imported as lines of JSON. A line has the cells of a row, or some of them, that make up one event, and
rows that it refers to::

    {"table":"parts","key":{"id":7},"cells":{"type":"text","text":"Hi"},"about":{"role":"user"}}

``begins`` stands in the first line of each conversation. Cells that hold a JSON document stand as they are under
``json``, those that hold bytes in base64 under ``blobs``. ``about`` has values of other rows, for showing them.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sqlite3
import stat
import time
from abc import abstractmethod
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain, islice, pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any
from urllib.parse import quote

import msgspec
from blake3 import blake3
from msgspec import Raw, Struct
from msgspec.structs import replace

from store.content import zstd
from store.disk import durable
from store.disk.files import temporary_folder
from store.errors import DamageError, UsageError
from store.formats.core.budget import LARGEST_WHOLE, LEAST_BYTES, RATIO, Budget, check_file
from store.formats.core.format import AS_READ, About, Format, Mark, Part, Source, Span, Titled
from store.formats.core.json_spans import value_end
from store.formats.core.json_view import is_strict_json
from store.formats.core.large_cells import LARGE_BYTES, LARGEST_HELD, LargeCell, forget, pieces_of
from store.formats.core.look import DATABASE, Look, open_regular

_MARK = "\0json:"
"""A mark that Hermes puts before JSON in a column of texts."""
_WAL, _JOURNAL, _SHARED = "-wal", "-journal", "-shm"
_WAL_HEADER = 32
_BESIDE_WRITERS = "mode=ro&readonly_shm=1"
"""Opens a database with a log as a reader that no writer waits for, and that writes nothing."""
_ATTEMPTS, _FEW_ATTEMPTS, _PAUSE_S = 100, 5, 0.05
_LEAST_PUT_OFF_S = 0.1
_CLOCK_TICK_NS = 20_000_000
"""The clock that stamps files goes in steps of up to 10 ms: a file may change again within one."""
_LEAST_STEPS, _STEPS_A_BYTE, _STEPS_AT_ONCE = 200_000_000, 100, 1_000_000
_created = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?(\w+)").findall
_SEARCHED = 1 << 20


def files_beside(path: Path) -> tuple[Path, ...]:
    """Return the paths of the existing files beside a database that hold a part of its contents."""
    return tuple(_beside(path, suffix) for suffix in (_WAL, _JOURNAL))


def tables_of(path: Path, head: bytes) -> set[str]:
    """Return the names of a database's tables (``head`` begins it); none where it is none, or is too damaged."""
    if not head.startswith(DATABASE):
        return set()
    names: set[str] = set()
    with suppress(sqlite3.Error, UnicodeError, OSError), _looked_into(path) as (database, with_log):
        names = {str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if with_log:
            return names
    # the newest tables may be in the log alone
    with suppress(OSError), open_regular(_beside(path, _WAL)) as file:
        names |= {name.decode() for name in _created(head + file.read(_SEARCHED))}
    return names or {name.decode() for name in _created(head)}


def may_have(path: Path, wanted: Mapping[str, Set[str]]) -> bool:
    """Return whether the tables of a database have these columns each; true for tables that cannot be read yet.

    Two programs easily share names of tables, but not those of columns with them.
    """
    with suppress(sqlite3.Error, UnicodeError, OSError), _looked_into(path) as (database, _with_log):
        for table, columns in wanted.items():
            found = {row[0] for row in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}
            if found and not found >= columns:
                return False
    return True


def is_damaged(path: Path) -> bool:
    """Return whether something is wrong with a database; it is read whole."""
    try:
        with closing(_connect(path, "immutable=1")) as database:
            return bool(database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
    except (sqlite3.Error, UnicodeError):
        return True


def may_find(path: Path, queries: Iterable[str]) -> bool:
    """Return whether one of some queries finds a row; true where its tables cannot be read, or a log says more."""
    if _size_of(_beside(path, _WAL)):
        return True
    unread = False
    with suppress(sqlite3.Error, UnicodeError), closing(_connect(path, "immutable=1")) as database:
        database.set_authorizer(_plain_reading)
        for query in queries:
            try:
                if database.execute(f"SELECT 1 FROM ({query}) LIMIT 1").fetchone():
                    return True
            except sqlite3.OperationalError as error:
                unread |= not str(error).startswith("no such table")
        return unread
    return True


@contextmanager
def reading(path: Path, scratch: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading, as it is now: a copy of it and of the files beside it, ``AS_READ`` in ``scratch``.

    Text that is no UTF-8 is read as bytes. Raises UsageError where the database cannot be copied or opened, or is
    written to all the time.
    """
    copy = scratch / AS_READ / path.name
    durable.make_directories(copy.parent)
    _copy(path, copy)
    with opened(copy, scratch) as database:
        yield database


@contextmanager
def opened(path: Path, scratch: Path) -> Iterator[sqlite3.Connection]:
    """Open a database that nobody writes to, as :func:`reading` does, and leave it as it is."""
    with temporary_folder(scratch) as folder:
        unfinished = any(map(_size_of, files_beside(path)))
        try:
            if unfinished:
                # SQLite would finish the work in them, and write to the database
                _copy_all(path, Path(folder, path.name))
                path = Path(folder, path.name)
            with closing(_connect(path, "mode=rw" if unfinished else "immutable=1")) as database:
                # tables that are described well are read though others are not
                database.execute("PRAGMA writable_schema = ON")
                database.set_authorizer(_plain_reading)
                database.execute("SELECT count(*) FROM sqlite_master").fetchone()
                yield database
        except (sqlite3.Error, UnicodeError, KeyError) as error:
            # names of columns may be damaged, too, or those of another version
            raise UsageError(f"{path.name} is no database that can be read: {error}") from error


@contextmanager
def in_place(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open a database where it lies, to read a little of it; None where that needs a copy.

    With a log, the program that has it open is at work: then a reader takes part, by a lock that no writer waits for,
    and writes nothing. Else nobody may write meanwhile. Raises UsageError for what cannot be read, or was written to.
    """
    try:
        logged, undone, shared = _sizes_beside(path)
        with open_regular(path) as file:
            is_one = file.read(len(DATABASE)) == DATABASE
        if not is_one or undone or (logged and not shared):
            yield None
            return
        before = _state(path)
        if not logged and time.time_ns() - before[0][1] < _CLOCK_TICK_NS:
            time.sleep(_CLOCK_TICK_NS / 1e9)
        with closing(_connect(path, _BESIDE_WRITERS if logged else "immutable=1")) as database:
            database.set_authorizer(_plain_reading)
            database.execute("BEGIN")
            yield database
        after = _state(path)
    except (sqlite3.Error, UnicodeError, OSError) as error:
        raise UsageError(f"{path.name} cannot be read now: {error}") from error
    if after[1:] != before[1:] or (not logged and after != before):
        raise UsageError(f"{path.name} was written to while it was read")


@contextmanager
def _looked_into(path: Path) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """Open a database to see what it has: with its log, if the program that has it open is at work, else as it lies.

    Where nobody is at work, a small one is copied with its log: that may be all of it. Yields whether this is with all
    that it has.
    """
    logged, undone, shared = _sizes_beside(path)
    with ExitStack() as stack:
        database = _beside_writers(path) if logged and shared and not undone else None
        whole = database is not None or not (logged or undone)
        if logged and not whole and path.stat().st_size + logged + undone <= LEAST_BYTES:
            copy = Path(stack.enter_context(TemporaryDirectory()), path.name)
            _copy_all(path, copy)
            database, whole = _connect(copy, "mode=rw"), True
        database = database or _connect(path, "immutable=1")
        with closing(database):
            yield database, whole


def _beside_writers(path: Path) -> sqlite3.Connection | None:
    """Open a database with a log that the program at work has prepared for readers; None where nobody is at work."""
    database = _connect(path, _BESIDE_WRITERS)
    try:
        database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.Error:
        database.close()
        return None
    return database


def _sizes_beside(path: Path) -> tuple[int, ...]:
    return tuple(_size_of(_beside(path, suffix)) for suffix in (_WAL, _JOURNAL, _SHARED))


def _size_of(path: Path) -> int:
    """Return the size of a regular file; 0 of none, and of anything else, which is never opened: it may block."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _connect(path: Path, how: str) -> sqlite3.Connection:
    database = sqlite3.connect(f"file:{quote(os.fsencode(path.absolute()))}?{how}", uri=True, isolation_level=None)
    database.text_factory = _text
    limit(database, path.stat().st_size)
    return database


def limit(database: sqlite3.Connection, size: int) -> None:
    """Keep a database of ``size`` bytes from running code for long; a cell over 256 MiB is a sqlite3.DataError."""
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_WHOLE)
    steps = _LEAST_STEPS + size * _STEPS_A_BYTE
    left = iter(range(steps // _STEPS_AT_ONCE))
    database.set_progress_handler(lambda: next(left, None) is None, _STEPS_AT_ONCE)
    with suppress(sqlite3.DatabaseError):
        # SQLite before 3.41 takes no index over json_extract() from a schema that it is told not to trust; to learn of
        # it runs none. What is wrong will be told to the one who reads
        database.execute("SELECT 1 FROM sqlite_master LIMIT 0")
    database.execute("PRAGMA trusted_schema = OFF")


def _plain_reading(action: int, _one: str | None, _two: str | None, _database: str | None, source: str | None) -> int:
    """Allow reads of tables, but not of views in their places: these are programs, which may have no end."""
    return sqlite3.SQLITE_DENY if source is not None or action == sqlite3.SQLITE_RECURSIVE else sqlite3.SQLITE_OK


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _copy(path: Path, copy: Path) -> None:
    try:
        for _ in range(_ATTEMPTS):
            before, now = _state(path), time.time_ns()
            if now - before[0][1] > _CLOCK_TICK_NS:
                _copy_all(path, copy)
                if _state(path) == before:
                    return
            time.sleep(_PAUSE_S)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    raise UsageError(f"{path} is being written to all the time: import it once its program rests")


def _copy_all(path: Path, copy: Path) -> None:
    durable.make_file(copy)
    beside = [(one, other, one.is_file()) for one, other in zip(files_beside(path), files_beside(copy), strict=True)]
    for one in (path, *(one for one, _other, is_there in beside if is_there)):
        with suppress(FileNotFoundError), open_regular(one) as file:
            check_file(file, one, copy.parent)
    shutil.copyfile(path, copy)
    for one, other, is_there in beside:
        other.unlink(missing_ok=True)
        if is_there:
            durable.make_file(other)
            with suppress(FileNotFoundError):
                shutil.copyfile(one, other)


def _state(path: Path) -> tuple[tuple[int, int, int], bytes, tuple[int, int, int] | None]:
    """Return what differs once a database was written to. A log that only grew has the same beginning."""
    log = b""
    with suppress(OSError), open_regular(_beside(path, _WAL)) as file:
        log = file.read(_WAL_HEADER)
    journal = None
    with suppress(OSError):
        journal = _stamp(_beside(path, _JOURNAL))
    return _stamp(path), log, journal


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


Cell = str | int | float | None
Found = Mapping[str, object]
"""A row as SQLite gives it: cells by column."""

_REFUSED = (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_TOOBIG)
_MARKED_FROM = 1024
HEADER = b'{"begins":'
"""The beginning of a conversation's first line."""


class Begins(Struct, frozen=True, omit_defaults=True):
    """A description of a conversation: fields as in :class:`store.formats.core.format.Part` and :class:`About`."""

    key: str
    title: str = ""
    project: str = ""
    started_ms: int = 0
    extra: dict[str, str] = {}
    forked_from: str = ""
    base: int = -1
    shared: int = 0


class Row(Struct, frozen=True, omit_defaults=True):
    """One line, see above."""

    begins: Begins | None = None
    table: str = ""
    key: dict[str, Cell] = {}
    cells: dict[str, Cell] = {}
    json: dict[str, Raw] = {}
    blobs: dict[str, str] = {}
    about: dict[str, str | bool] = {}
    rows: tuple[Row, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns whose cells it has."""
        return [*self.cells, *self.json, *self.blobs]

    def everything(self) -> Iterator[Row]:
        """Yield it and the rows in it that name a table."""
        yield self
        for row in self.rows:
            yield from row.everything()


_encode_row = msgspec.json.Encoder().encode
_encode_cells = msgspec.msgpack.Encoder().encode
_decode_row = msgspec.json.Decoder(Row).decode
_escapes = re.compile(rb"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD]([89a-fA-F]..)|\\.").sub


def _in_whole_characters(text: bytes) -> bytes:
    """Return a text of JSON of the same length, and with no half of a character."""
    return _escapes(lambda found: b"\\ue" + found[2] if found[2] else found[0], text)


def fits_a_line(document: bytes) -> bool:
    """Return whether a document on one line can stand in that of a row: :func:`decode_row` reads it."""
    return is_strict_json(document) or is_strict_json(_in_whole_characters(document))


def encode_row(row: Row) -> bytes:
    """Return the line that a row is."""
    return b"".join(pieces_of(_encode_row(row)))


def decode_row(line: bytes) -> Row:
    """Return the row that a line is. Raises msgspec's DecodeError or ValidationError where it is none.

    Documents in it may hold half a character, as those of programs do that cut texts.
    """
    try:
        return _decode_row(line)
    except msgspec.DecodeError:
        # what is in the documents is taken from the line itself
        whole = _in_whole_characters(line)
        row = _decode_row(whole)
        starts = {column: whole.find(raw) for column, raw in row.json.items()}
        return replace(row, json={one: Raw(line[at : at + len(bytes(row.json[one]))]) for one, at in starts.items()})


def row_of(record: bytes | None) -> Row:
    """Return the row that a record is, an empty one where it is none."""
    try:
        return decode_row(record or b"{}")
    except (msgspec.DecodeError, msgspec.ValidationError):
        return Row()


def cells_of(
    table: str,
    found: Found,
    keys: Sequence[str],
    columns: Iterable[str] | None = None,
    *,
    documents: AbstractSet[str] = frozenset(),
    about: Mapping[str, str | bool] | None = None,
    rows: Iterable[Row] = (),
) -> Row:
    """Return a row of ``table`` as a line: its key, and of its other cells those in ``columns`` (None: all).

    Cells of the columns in ``documents`` are JSON where they hold an object or a list on one line.
    """
    cells: dict[str, Cell] = {}
    json: dict[str, Raw] = {}
    blobs: dict[str, str] = {}
    for column in found if columns is None else columns:
        if column in keys or column not in found:
            continue
        value = found[column]
        if isinstance(value, LargeCell):
            if column in documents and (marked := value.in_json()) is not None:
                json[column] = Raw(marked)
            elif (mark := value.in_cells()) is not None:
                cells[column] = mark
            else:
                blobs[column] = value.in_blobs()
        elif column in documents and (document := _document(value)) is not None:
            json[column] = document
        elif isinstance(value, bytes):
            blobs[column] = b2a_base64(value, newline=False).decode()
        else:
            cells[column] = plain(value)
    key = {name: plain(found[name]) for name in keys}
    return Row(None, table, key, cells, json, blobs, dict(about or {}), tuple(rows))


def dictionaries(database: sqlite3.Connection, query: str, *parameters: object) -> Iterator[dict[str, object]]:
    """Yield the rows that a query finds, as far as the database can be read."""
    try:
        cursor = database.execute(query, parameters)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in _REFUSED:
            raise
        # to sort them, all of them would have to be read
        cursor = database.execute(query.partition(" ORDER BY ")[0], parameters)
    names = [description[0] for description in cursor.description]
    try:
        for found in cursor:
            yield dict(zip(names, found, strict=True))
    except (sqlite3.DatabaseError, UnicodeError) as error:
        if getattr(error, "sqlite_errorcode", 0) in _REFUSED:
            raise
        # a damaged page ends its table: the rows before it are kept
        return


def rows_of(database: sqlite3.Connection, table: str, rest: str, *parameters: object) -> Iterator[dict[str, object]]:
    """Yield the rows of a table as :func:`dictionaries`; ``rest`` of the query says which.

    Once a row is too long for the database's limit, its large cells, and those of the rows after it, are LargeCells.
    """
    of = f"FROM {quoted(table)} {rest}"

    def numbers() -> Iterator[tuple[int, dict[str, object]]]:
        for (number,) in _all(database, f"SELECT rowid {of}", *parameters):
            yield number, {}

    yield from _with_large_cells(database, table, dictionaries(database, f"SELECT * {of}", *parameters), numbers())


def rows_found(
    database: sqlite3.Connection, table: str, keys: Sequence[str], query: str, *parameters: object
) -> Iterator[dict[str, object]]:
    """Yield the rows of a table that a query finds, as :func:`rows_of`: whole ones, with ``keys`` and more columns."""

    def numbers() -> Iterator[tuple[int, dict[str, object]]]:
        there = columns_of(database, table)
        shown = database.execute(f"SELECT * FROM ({query}) LIMIT 0", parameters).description
        names = [str(name) for name, *_rest in shown if name in keys or name not in there]
        where = " AND ".join(f"{quoted(key)} IS ?" for key in keys)
        # what it looks into may be as long as what is held as a whole
        most = database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_HELD)
        every = _all(database, f"SELECT {', '.join(map(quoted, names))} FROM ({query})", *parameters)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
        for found in every:
            row = dict(zip(names, found, strict=True))
            # by itself: if it were in the query, whole rows would be sorted
            own = f"SELECT rowid FROM {quoted(table)} WHERE {where} LIMIT 1"
            for (number,) in _all(database, own, *(row[key] for key in keys)):
                yield number, row

    yield from _with_large_cells(database, table, dictionaries(database, query, *parameters), numbers())


def _all(database: sqlite3.Connection, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    return database.execute(query, parameters).fetchall()


def _with_large_cells(
    database: sqlite3.Connection,
    table: str,
    rows: Iterable[dict[str, object]],
    numbers: Iterable[tuple[int, dict[str, object]]],
) -> Iterator[dict[str, object]]:
    """Yield rows of a table; once one is too long, those of its ``numbers``, each with what it has beside its cells."""
    count = 0
    try:
        for row in rows:
            count += 1
            yield row
        return
    except sqlite3.DataError as error:
        _check_too_big(error)
    columns = _columns(database, table)
    for number, more in islice(numbers, count, None):
        yield more | dict(_cells(database, table, columns, number, LARGE_BYTES))


def rows_worked_out(
    database: sqlite3.Connection,
    table: str,
    key: str,
    query: str,
    beside: Mapping[str, tuple[str, str]],
    *parameters: object,
) -> Iterator[dict[str, object]]:
    """Yield the rows that a query works out of those of a table as :func:`dictionaries`; ``key`` tells them apart.

    Once one is too long, it and those after it have marks for cells of tables ``beside``, in documents; one that is too
    long all the same has its key alone. Of each of these tables, the columns are named that have the key of a row, and
    an own one.
    """
    seen: set[object] = set()
    try:
        for row in dictionaries(database, query, *parameters):
            seen.add(row[key])
            yield row
        return
    except sqlite3.DataError as error:
        _check_too_big(error)
    where = f"FROM ({query}) WHERE {quoted(key)} IS ?{len(parameters) + 1}"
    for (name,) in _all(database, f"SELECT {quoted(key)} FROM {quoted(table)} ORDER BY rowid"):
        if name in seen or not _is_found(database, f"SELECT 1 {where}", *parameters, name):
            continue
        with ExitStack() as stack:
            for other, (of, own) in beside.items():
                stack.enter_context(_with_marks(database, other, of, own, name))
            try:
                yield from dictionaries(database, f"SELECT * {where}", *parameters, name)
            except sqlite3.DataError as error:
                _check_too_big(error)
                yield {key: name}


def _is_found(database: sqlite3.Connection, query: str, *parameters: object) -> bool:
    """Return whether a query finds something; what it looks into may be longer than what it works out."""
    most = database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_HELD // 3)
    try:
        return bool(_all(database, query, *parameters))
    except sqlite3.DataError as error:
        _check_too_big(error)
        return False
    finally:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)


def _check_too_big(error: sqlite3.DataError) -> None:
    if error.sqlite_errorcode != sqlite3.SQLITE_TOOBIG:
        raise error


@contextmanager
def _with_marks(database: sqlite3.Connection, table: str, of: str, own: str, name: object) -> Iterator[None]:
    """Have queries find of a table only rows of a name, with marks for cells of more than 1 KB."""
    columns, numbers = _columns(database, table), f"SELECT rowid FROM {quoted(table)} WHERE {quoted(of)} IS ?"
    rows = [dict(_cells(database, table, columns, at, _MARKED_FROM)) for (at,) in _all(database, numbers, name)]
    cells = [[one.in_document() if isinstance(one, LargeCell) else one for one in row.values()] for row in rows]
    instead = f"temp.{quoted(table)}"
    database.execute(f"CREATE TABLE {instead} ({', '.join(map(quoted, columns))})")
    try:
        database.executemany(f"INSERT INTO {instead} VALUES ({', '.join('?' * len(columns))})", cells)
        database.execute(f'CREATE INDEX temp."to find" ON {quoted(table)} ({quoted(own)})')
        yield
    finally:
        database.execute(f"DROP TABLE {instead}")
        # what the queries found has been written
        forget(chain.from_iterable(cells))


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in database.execute(f"PRAGMA table_info({quoted(table)})")]


def _cells(
    database: sqlite3.Connection, table: str, columns: Sequence[str], number: int, most: int
) -> Iterator[tuple[str, object]]:
    def told(what: str) -> Sequence[object]:
        found: Sequence[object] = database.execute(
            f"SELECT {what} FROM {quoted(table)} WHERE rowid = ?", [number]
        ).fetchone()
        return found

    [(encoding,)] = database.execute("PRAGMA encoding")
    kinds = told(", ".join(f"typeof({quoted(column)})" for column in columns))
    for column, kind in zip(columns, kinds, strict=True):
        if kind in ("text", "blob"):
            cell = LargeCell(database, table, column, number, encoding if kind == "text" else "")
            if cell.size > most:
                yield column, cell
                continue
        yield column, told(quoted(column))[0]


def last_row(database: sqlite3.Connection, table: str, columns: Iterable[str]) -> tuple[object, ...]:
    """Return columns of the row of a table that has the highest number; nothing if there is none, or it is damaged."""
    query = f"SELECT {', '.join(columns)} FROM {quoted(table)} WHERE rowid = (SELECT max(rowid) FROM {quoted(table)})"
    return next((tuple(found.values()) for found in dictionaries(database, query)), ())


def columns_of(database: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns; none where there is no such table."""
    return set(_columns(database, table))


def write_lines(rows: Iterable[Row], scratch: Path, *read: Path) -> Path:
    """Write lines of a database, copied to ``scratch``, or of files ``read``, to a new file there; return its path."""
    copies = read or sorted((scratch / AS_READ).iterdir())
    budget = Budget(copies[0].name, sum(copy.stat().st_size for copy in copies), scratch)
    with NamedTemporaryFile(prefix="rendition-", suffix=".jsonl", dir=scratch, delete=False) as file:
        # what stands around the file takes longer than it does
        write = file.file.write
        for row in rows:
            for piece in pieces_of(_encode_row(row)):
                budget.spend(len(piece))
                write(piece)
            write(b"\n")
    return Path(file.name)


def parts_of(data: memoryview, spans: Sequence[Span], titled: Callable[[Row], Titled]) -> list[Part]:
    """Return the conversations that lines make up, as their first lines say, by which ``titled`` judges titles."""
    starts = [at for at, span in enumerate(spans) if bytes(data[span.start : span.start + len(HEADER)]) == HEADER]
    parts: list[Part] = []
    for start, end in pairwise((*starts, len(spans))):
        first = _first_row(data, spans[start])
        begins = first.begins
        assert begins is not None
        about = About(
            begins.title,
            begins.project,
            begins.started_ms,
            begins.key,
            begins.extra,
            begins.forked_from,
            titled(first),
            bool(begins.project),
        )
        parts.append(Part(begins.key, range(start, end), about, begins.base, begins.shared))
    return parts


def _first_row(data: memoryview, span: Span) -> Row:
    """Return a conversation's first line; of one with a large cell, what it says of that."""
    if span.end - span.start <= LARGE_BYTES:
        return decode_row(bytes(data[span.start : span.end]))
    beginning = bytes(data[span.start : span.start + LARGE_BYTES])
    return decode_row(beginning[: value_end(beginning, len(HEADER))] + b"}")


def unpacked(data: bytes) -> str | None:
    """Return the text in a cell of bytes, as it is or compressed by zstd; None if it holds other things."""
    with suppress(DamageError, UnicodeDecodeError):
        if data.startswith(zstd.MAGIC):
            most = min(max(LEAST_BYTES, len(data) * RATIO), LARGEST_WHOLE)
            return zstd.expand_up_to(data, most).decode()
        return data.decode()
    return None


def _as_held(value: Cell | bytes, present: object) -> Cell | bytes:
    """Return a value in the way in which a cell holds what is ``present``: bytes may be a text, compressed or not."""
    if isinstance(present, str) and present.startswith(_MARK) and isinstance(value, str) and value[:1] in ("{", "["):
        return _MARK + value
    if not isinstance(value, str) or not isinstance(present, bytes):
        return value
    if not present.startswith(zstd.MAGIC):
        return value.encode()
    return present if unpacked(present) == value else zstd.compress(value.encode())


def _document(value: object) -> Raw | None:
    """Return the JSON that a cell holds, as it is or compressed, if that is an object or a list on one line."""
    text = unpacked(value) if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return None
    text = text.removeprefix(_MARK)
    if text[:1] not in ("{", "[") or "\n" in text or "\r" in text:
        return None
    document = text.encode()
    return Raw(document) if is_strict_json(document) else None


def plain(value: object) -> Cell:
    """Return a cell's value as JSON can say it."""
    if value is None or isinstance(value, (str, int)):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


Change = Callable[[sqlite3.Connection, Row], None]
"""Changes a database on account of a line."""


def restore(
    original: Path,
    before: Iterable[bytes],
    rendition: Path,
    target: Path,
    delete: Change,
    link: Change = lambda _database, _row: None,
    written: Change = lambda _database, _row: None,
) -> None:
    """Write to ``target`` the database ``original``, which said ``before``, so that it says ``rendition``.

    ``delete`` deletes the contents of a line, ``link`` puts a new one in its place among the others, ``written`` is
    told of each that has changed. Raises UsageError for lines that the database cannot hold.
    """
    try:
        _copy_all(original, target)
        with closing(_connect(target, "mode=rw")) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with closing(_connect(target, "mode=rw")) as database:
            # its triggers keep its indexes for full-text search
            database.execute("PRAGMA trusted_schema = ON")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("BEGIN IMMEDIATE")
            _Restoration(database, delete, link, written).run(before, rendition)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        raise UsageError(f"the database cannot be given what was edited: {error}") from error


_CASCADES = """
    SELECT child.name, key.id, group_concat(json_quote(key."from")), group_concat(json_quote(key."to"))
    FROM sqlite_master AS child, pragma_foreign_key_list(child.name) AS key
    WHERE child.type = 'table' AND key."table" = ? COLLATE NOCASE AND key.on_delete = 'CASCADE' GROUP BY 1, 2
"""


def remove_row(database: sqlite3.Connection, row: Row) -> None:
    """Delete the row that a line is made from, and those that the database's foreign keys have go with it."""
    where, parameters = _where(row)
    for child, _key, ours, theirs in database.execute(_CASCADES, (row.table,)).fetchall():
        # one that names no column is the table's primary key
        if theirs:
            of = f"SELECT {theirs} FROM {quoted(row.table)} WHERE {where}"
            database.execute(f"DELETE FROM {quoted(child)} WHERE ({ours}) IN ({of})", parameters)
    database.execute(f"DELETE FROM {quoted(row.table)} WHERE {where}", parameters)


def clear_cells(database: sqlite3.Connection, row: Row) -> None:
    """Empty the cells that a line has."""
    where, parameters = _where(row)
    changes = ", ".join(f"{quoted(column)} = NULL" for column in row.columns)
    database.execute(f"UPDATE {quoted(row.table)} SET {changes} WHERE {where}", parameters)


class _Restoration:
    def __init__(self, database: sqlite3.Connection, delete: Change, link: Change, written: Change) -> None:
        self._database = database
        self._delete = delete
        self._link = link
        self._written = written
        self._columns: dict[str, set[str]] = {}

    def run(self, before: Iterable[bytes], rendition: Path) -> None:
        """Change the database into what the rendition says."""
        said = {blake3(line).digest(): _identity(decode_row(line)) for line in before}
        kept: dict[bytes, set[str]] = {}
        changed: list[Row] = []
        for line in _lines(rendition):
            identity = said.get(blake3(line).digest())
            if identity is None:
                try:
                    changed.append(decode_row(line))
                except (msgspec.DecodeError, msgspec.ValidationError) as error:
                    raise UsageError(f"an edited record is no row of the database any more: {error}") from None
                identity = _identity(changed[-1])
            kept.setdefault(identity[0], set()).update(identity[1])
        for row in changed:
            # a row must exist before another refers to it
            for one in reversed(list(row.everything())):
                self._put(one)
            self._written(self._database, row)
        for encoded, columns in said.values():
            row = decode_row(encoded)
            if row.table and (encoded not in kept or (columns and kept[encoded].isdisjoint(columns))):
                self._delete(self._database, Row(None, row.table, row.key, dict.fromkeys(columns)))

    def _put(self, row: Row) -> None:
        if not row.table:
            return
        values = _values(row)
        if row.table not in self._columns:
            self._columns[row.table] = columns_of(self._database, row.table)
        if unknown := sorted((row.key.keys() | values.keys()) - self._columns[row.table]):
            raise UsageError(f"the database has no place for {unknown[0]!r} of an edited record")
        table, (where, parameters) = quoted(row.table), _where(row)
        names = ", ".join(map(quoted, values)) or "1"
        held = self._database.execute(f"SELECT {names} FROM {table} WHERE {where}", parameters).fetchone()
        if held is None:
            whole = {**row.key, **values}
            places = ", ".join("?" * len(whole))
            names = ", ".join(map(quoted, whole))
            self._database.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", list(whole.values()))
            self._link(self._database, row)
            return
        changed: dict[str, Cell | bytes] = {}
        for (column, value), present in zip(values.items(), held, strict=False):
            value = _as_held(value, present)
            if value != (present if isinstance(present, bytes) else plain(present)):
                changed[column] = value
        if changed:
            # in one go: a table may want some of them only together
            changes = ", ".join(f"{quoted(column)} = ?" for column in changed)
            self._database.execute(f"UPDATE {table} SET {changes} WHERE {where}", [*changed.values(), *parameters])


def _values(row: Row) -> dict[str, Cell | bytes]:
    values: dict[str, Cell | bytes] = {**row.cells}
    values |= {column: bytes(raw).decode() for column, raw in row.json.items()}
    return values | {column: a2b_base64(text) for column, text in row.blobs.items()}


def _where(row: Row) -> tuple[str, list[Cell]]:
    if not row.key:
        raise UsageError("an edited record does not say any more which row of the database it is")
    return " AND ".join(f"{quoted(column)} IS ?" for column in row.key), list(row.key.values())


def _identity(row: Row) -> tuple[bytes, tuple[str, ...]]:
    """Return the key of the row that a line is made from, as a line itself, and the names of its cells."""
    return encode_row(Row(None, row.table, row.key)), tuple(row.columns)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from (line for line in (line.rstrip(b"\n") for line in file) if line)


def quoted(identifier: str) -> str:
    """Return the name of a table or a column as SQL has it."""
    return '"' + identifier.replace('"', '""') + '"'


News = tuple[Iterator[Row], dict[str, Mark]]
"""Lines of conversations, and the marks up to which these are all."""

_REST = 1000
"""Conversations in which nothing seems to be new rest for so many times the processor time of reading them."""


_State = tuple[Mapping[str, Mark], Mapping[str, Mark], bytes]
"""Marks, those reached since, and the hash of rows that may be written anew."""


class _Read(Struct, frozen=True):
    """A reading of what may have changed since marks, in a state of the database, by which it seems to be the same."""

    state: _State
    rests_until: float
    put_off: bool = False


_read: dict[Path, _Read] = {}
"""The last readings of databases that are looked at again and again."""


def _seems_the_same(path: Path, state: _State) -> bool:
    """Return whether a database is in the state in which it was last read, a while ago at most: reading it waits."""
    read = _read.get(path)
    if read is None or read.state != state or time.monotonic() >= read.rests_until:
        return False
    _read[path] = replace(read, put_off=True)
    return True


class DatabaseFormat(Format):
    """A tool that keeps its conversations in a database, all of them in one."""

    schemas: Sequence[Mapping[str, Set[str]]]
    """The tables of each generation of its databases, with columns that tell them from another program's."""

    @abstractmethod
    def lines(self, database: sqlite3.Connection) -> Iterator[Row]:
        """Yield the lines of all conversations."""

    @abstractmethod
    def delete(self, database: sqlite3.Connection, row: Row) -> None:
        """Delete the contents of a line."""

    def link(self, database: sqlite3.Connection, row: Row) -> None:
        """Put a row that was inserted in its place among the others, where its cells do not say that."""

    @abstractmethod
    def titled(self, conversation: Row) -> Titled:
        """Return the quality of the title in a conversation's first line."""

    def claim(self, look: Look) -> Source | None:
        path = look.path
        look.tables = tables = tables_of(path, look.head) if look.tables is None else look.tables
        if not any(tables >= wanted.keys() and may_have(path, wanted) for wanted in self.schemas):
            return None
        return Source(self.name, path, path, beside=files_beside(path))

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        return About(session_id=source.path.stem)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        return parts_of(data, spans, self.titled)

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        with reading(source.main, scratch) as database:
            return write_lines(self.lines(database), scratch)

    def marks(self, database: sqlite3.Connection) -> dict[str, Mark]:
        """Return marks such as the number of the last row, by which :meth:`news` tells what is new."""
        return {}

    def news(self, path: Path, database: sqlite3.Connection, since: Mapping[str, Mark]) -> News | None:
        """Return the lines of all conversations that may have changed since marks, and new marks; None: read all."""
        return None

    def newest(self, database: sqlite3.Connection) -> Iterator[tuple[object, ...]]:
        """Yield rows that a tool may be writing anew, as those that were written last, to see whether it has."""
        return iter(())

    def rests(self, path: Path, since: Mapping[str, Mark]) -> bool:
        with suppress(UsageError), in_place(path) as database:
            if database is not None and (news := self.news(path, database, since)) is not None:
                return _seems_the_same(path, self._state(database, since, news[1]))
        return False

    def _state(self, database: sqlite3.Connection, since: Mapping[str, Mark], now: Mapping[str, Mark]) -> _State:
        return since, now, blake3(_encode_cells(list(self.newest(database)))).digest()

    def put_off(self, path: Path) -> float:
        read = _read.get(path)
        return max(read.rests_until - time.monotonic(), _LEAST_PUT_OFF_S) if read and read.put_off else 0.0

    def reached(self, source: Source) -> dict[str, Mark]:
        with suppress(UsageError), in_place(source.main) as database:
            return self.marks(database) if database is not None else {}
        return {}

    def changed(
        self, source: Source, since: Mapping[str, Mark], scratch: Path, *, again: bool = False
    ) -> tuple[Path, dict[str, Mark]] | None:
        for _ in range(_FEW_ATTEMPTS):
            began = time.thread_time()
            try:
                with in_place(source.main) as database:
                    if database is None or (news := self.news(source.main, database, since)) is None:
                        return None
                    lines, now = news
                    state = self._state(database, since, now)
                    rests = again and _seems_the_same(source.main, state)
                    rendered = write_lines(iter(()) if rests else lines, scratch, source.main)
                if not rests:
                    _read[source.main] = _Read(state, time.monotonic() + _REST * (time.thread_time() - began))
                return rendered, now
            except UsageError:
                time.sleep(_PAUSE_S)
        return None

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        with opened(original, target.parent) as database:
            restore(original, map(encode_row, self.lines(database)), rendition, target, self.delete, self.link)

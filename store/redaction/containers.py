"""Containers: archives and databases that were kept as imported, and hold data compressed or in pieces.

Their contents are searched as their programs would see them: the log of a database belongs to it, and an archive may
hold a database. A container that must change is rewritten: an archive member by member, a database cell by cell, and
without the bytes that SQLite has not overwritten yet.
"""

import io
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import chain, count
from pathlib import Path

import msgspec
from msgspec import Struct

from store import typed
from store.content.cuts import is_text
from store.disk import durable
from store.disk.files import temporary_folder
from store.disk.head_format import HeadFrame, Metadata
from store.disk.head_log import HeadLog
from store.errors import DamageError
from store.formats.core.budget import Budget
from store.formats.core.look import DATABASE
from store.formats.core.sqlite import limit
from store.ids import Hash
from store.redaction.secrets import MARK, Secrets

_ARCHIVE = b"PK\x03\x04"
_FAULTS = (zipfile.BadZipFile, zlib.error, sqlite3.Error, EOFError, RuntimeError, ValueError, DamageError)
_DEEPEST = 3
"""How deep containers may lie in containers to be looked into."""
_FTS_PARTS = ("data", "idx", "content", "docsize", "config", "segments", "segdir", "stat")

_Cell = str | bytes | int | float | None
Beside = Mapping[str, bytes]
"""The contents of the files beside a database that hold a part of it, by the ends of their names."""


class _WithOriginal(Struct):
    """Keys of metadata that may name files kept as imported, by their blobs in hex."""

    original: dict[str, str] | None = None


def originals(log: HeadLog) -> list[dict[str, Hash]]:
    """Return the files that were ever kept as imported: each with the files beside it, blobs by the ends of names.

    The end is empty for the file itself.
    """
    found: list[dict[str, Hash]] = []
    for frame in log.frames():
        if isinstance(frame, HeadFrame) and isinstance(frame.body, Metadata) and b'"original"' in frame.body.changes:
            with suppress(msgspec.DecodeError):
                kept = typed.decode(frame.body.changes, _WithOriginal).original or {}
                main = min(kept, key=len, default="")
                found.append({name.removeprefix(main): Hash(bytes.fromhex(hex_)) for name, hex_ in kept.items()})
    return [kept for kept in found if kept]


def is_one(data: bytes) -> bool:
    """Return whether bytes begin like such a file."""
    return data.startswith((_ARCHIVE, DATABASE))


def texts(data: bytes, scratch: Path, beside: Beside | None = None, depth: int = 0) -> Iterator[bytes]:
    """Yield everything that a container holds, as its program sees it; of other data, nothing.

    Raises DamageError for a container that cannot be read.
    """
    if not is_one(data) or depth == _DEEPEST:
        return
    try:
        for text in _members(data) if data.startswith(_ARCHIVE) else _cells(data, beside or {}, scratch):
            yield text
            with suppress(DamageError):
                yield from texts(text, scratch, depth=depth + 1)
    except _FAULTS as error:
        raise DamageError(f"it cannot be looked into: {error}") from error


def hold(data: bytes, secrets: Secrets, scratch: Path, beside: Beside | None = None) -> bool:
    """Return whether a file, with those beside it, holds a secret. Raises DamageError if it cannot be read."""
    return any(map(secrets.hold, chain((data,), (beside or {}).values(), texts(data, scratch, beside))))


def clean(data: bytes, secrets: Secrets, scratch: Path, beside: Beside | None = None, depth: int = 0) -> bytes:
    """Return a file without the secrets that it holds; an unreadable one becomes empty.

    A database then has in itself what was ``beside`` it.
    """
    if not is_one(data) or depth == _DEEPEST:
        return secrets.blanked(data)
    try:
        if data.startswith(_ARCHIVE):
            cleaned = _clean_archive(data, secrets, scratch, depth)
        else:
            cleaned = _clean_database(data, beside or {}, secrets, scratch, depth)
        return b"" if hold(cleaned, secrets, scratch) else cleaned
    except _FAULTS:
        return b""


# -- archives ----------------------------------------------------------------------------------------------------------


def _members(data: bytes) -> Iterator[bytes]:
    budget = Budget("it", len(data))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        yield archive.comment
        for member in archive.infolist():
            yield member.filename.encode()
            yield _member(archive, member, budget)


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, budget: Budget) -> bytes:
    with archive.open(member) as file:
        return b"".join(budget.pieces(file))


def _clean_archive(data: bytes, secrets: Secrets, scratch: Path, depth: int) -> bytes:
    written, budget = io.BytesIO(), Budget("it", len(data))
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(written, "w") as new:
        new.comment = secrets.blanked(archive.comment)
        for member in archive.infolist():
            content = _member(archive, member, budget)
            name = secrets.blanked(member.filename.encode()).decode()
            names = chain((name,), (f"{name}~{number}" for number in count(2)))
            member.filename = next(name for name in names if name not in new.NameToInfo)
            member.comment, member.extra = secrets.blanked(member.comment), secrets.blanked(member.extra)
            new.writestr(member, _cleaned_content(content, secrets, scratch, depth), member.compress_type)
    return written.getvalue()


def _cleaned_content(content: bytes, secrets: Secrets, scratch: Path, depth: int) -> bytes:
    if is_one(content):
        # what only begins like one is not emptied for that
        with suppress(DamageError):
            return clean(content, secrets, scratch, depth=depth + 1) if hold(content, secrets, scratch) else content
    return secrets.removed(content) if is_text(content) else secrets.blanked(content)


# -- databases ---------------------------------------------------------------------------------------------------------


def _cells(data: bytes, beside: Beside, scratch: Path) -> Iterator[bytes]:
    with _opened(data, beside, scratch) as (database, _path):
        database.text_factory = bytes
        yield from (sql for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
        for table in _tables(database):
            for row in database.execute(f"SELECT * FROM {table}"):
                yield from (value for value in row if isinstance(value, bytes))


def _clean_database(data: bytes, beside: Beside, secrets: Secrets, scratch: Path, depth: int) -> bytes:
    with _opened(data, beside, scratch) as (database, path):
        _Cleaning(database, secrets, scratch, depth).run()
        database.close()
        return path.read_bytes()


@contextmanager
def _opened(data: bytes, beside: Beside, scratch: Path) -> Iterator[tuple[sqlite3.Connection, Path]]:
    with temporary_folder(scratch) as folder:
        path = folder / "database"
        for end, content in (("", data), *beside.items()):
            durable.make_file(file := folder / f"database{end}")
            file.write_bytes(content)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            limit(database, len(data) + sum(map(len, beside.values())))
            yield database, path


class _Cleaning:
    """The rewriting of a database without secrets."""

    def __init__(self, database: sqlite3.Connection, secrets: Secrets, scratch: Path, depth: int) -> None:
        self._database = database
        self._secrets = secrets
        self._scratch = scratch
        self._depth = depth
        self._told_apart: dict[_Cell, _Cell] = {}
        """Substitutes of values that must differ from others, wherever they are: other rows refer to them."""

    def run(self) -> None:
        database = self._database
        database.create_function("cleaned", 1, self._cleaned, deterministic=True)
        # triggers keep indexes for full-text search; the mark need not be what a check asks for
        database.execute("PRAGMA trusted_schema = ON")
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.execute("PRAGMA journal_mode = DELETE")
        indexes = _text_indexes(database)
        parts = _parts(indexes)
        tables = [table for table in _tables(database) if table not in parts]
        self._tell_apart(tables)
        for table in tables:
            self._clean_table(table)
        for index in indexes:
            self._clean_index(index)
        self._clean_schema()
        database.execute("VACUUM")

    def _clean_table(self, table: str) -> None:
        for column in _columns(self._database, table):
            self._database.execute(
                f"UPDATE {table} SET {column} = cleaned({column})"
                f" WHERE {column} IS NOT NULL AND cleaned({column}) IS NOT {column}"
            )

    def _cleaned(self, value: _Cell) -> _Cell:
        if value in self._told_apart:
            return self._told_apart[value]
        return self._alone(value)

    def _alone(self, value: _Cell) -> _Cell:
        if isinstance(value, bytes):
            return _cleaned_content(value, self._secrets, self._scratch, self._depth)
        return self._secrets.removed(value.encode()).decode() if isinstance(value, str) else value

    def _tell_apart(self, tables: list[str]) -> None:
        """Number the values of columns without equal ones that only secrets tell apart."""
        taken: set[_Cell] = set()
        found: list[_Cell] = []
        for table in tables:
            for column in _unique_columns(self._database, table):
                for (value,) in self._database.execute(f"SELECT DISTINCT {column} FROM {table}"):
                    if self._alone(value) != value:
                        found.append(value)
                    elif isinstance(value, str) and MARK.decode() in value:
                        taken.add(value)
        for value in dict.fromkeys(found):
            mark = self._alone(value)
            numbered = (b"%b~%d" % (mark, n) if isinstance(mark, bytes) else f"{mark}~{n}" for n in count(2))
            self._told_apart[value] = next(one for one in chain((mark,), numbered) if one not in taken)
            taken.add(self._told_apart[value])

    def _clean_index(self, index: str) -> None:
        """Clean a table for full-text search: the texts that it keeps itself, and what it was made of."""
        quoted = _quoted(index)
        if _quoted(f"{index}_content") in _tables(self._database):
            with suppress(sqlite3.Error):
                self._clean_table(quoted)
        order = f"INSERT INTO {quoted} ({quoted}) VALUES (?)"
        with suppress(sqlite3.Error):
            try:
                self._database.execute(order, ("rebuild",))
            except sqlite3.Error:
                # it knows no texts to be made of again
                self._database.execute(order, ("delete-all",))
            self._database.execute(order, ("optimize",))

    def _clean_schema(self) -> None:
        database = self._database
        said = database.execute("SELECT coalesce(sql, '') || ' ' || name FROM sqlite_master").fetchall()
        if not any(self._secrets.hold(sql.encode()) for (sql,) in said):
            return
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "UPDATE sqlite_master SET name = cleaned(name), tbl_name = cleaned(tbl_name), sql = cleaned(sql)"
        )
        database.execute("PRAGMA writable_schema = RESET")


def _tables(database: sqlite3.Connection) -> list[str]:
    """Return the quoted names of the tables with data of their own."""
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL TABLE%'")
    decoded = (name if isinstance(name, str) else name.decode() for (name,) in names.fetchall())
    return [_quoted(name) for name in decoded if not name.startswith("sqlite_")]


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    """Return the quoted names of a table's columns that can be written."""
    return [_quoted(row[1]) for row in database.execute(f"PRAGMA table_xinfo({table})") if row[6] == 0]


def _unique_columns(database: sqlite3.Connection, table: str) -> list[str]:
    """Return the quoted names of columns that tell a table's rows apart."""
    found = [row[1] for row in database.execute(f"PRAGMA table_xinfo({table})") if row[5]]
    for row in database.execute(f"PRAGMA index_list({table})").fetchall():
        if row[2]:
            found += [name for _at, _column, name in database.execute(f"PRAGMA index_info({_quoted(row[1])})")]
    return [_quoted(name) for name in dict.fromkeys(found) if name]


def _text_indexes(database: sqlite3.Connection) -> list[str]:
    """Return the names of the tables for full-text search; their data is in other tables."""
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%USING fts%'")
    return [name for (name,) in found.fetchall()]


def _parts(indexes: list[str]) -> set[str]:
    """Return the quoted names of the tables that hold what the tables for full-text search hold."""
    return {_quoted(f"{index}_{part}") for index in indexes for part in _FTS_PARTS}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

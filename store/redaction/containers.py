"""Containers: archives and databases that were kept as imported, and hold data compressed or in pieces.

Their contents are searched as their programs would see them. A container that must change is rewritten: an archive
member by member, a database cell by cell, and without the bytes that SQLite has not overwritten yet.
"""

import io
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from store.content.cuts import is_text
from store.disk import durable
from store.disk.files import temporary_folder
from store.errors import DamageError
from store.formats.core.budget import Budget
from store.formats.core.sqlite import limit
from store.redaction.secrets import Secrets

_ARCHIVE = b"PK\x03\x04"
_DATABASE = b"SQLite format 3\0"
_FAULTS = (zipfile.BadZipFile, zlib.error, sqlite3.Error, EOFError, RuntimeError, ValueError, DamageError)

_Cell = str | bytes | int | float | None


def is_one(data: bytes) -> bool:
    """Return whether bytes begin like such a file."""
    return data.startswith((_ARCHIVE, _DATABASE))


def hold(data: bytes, secrets: Secrets, scratch: Path) -> bool:
    """Return whether a file holds a secret. Raises DamageError if it cannot be read."""
    if secrets.hold(data):
        return True
    try:
        if data.startswith(_ARCHIVE):
            return any(map(secrets.hold, _members(data)))
        if data.startswith(_DATABASE):
            return any(map(secrets.hold, _cells(data, scratch)))
    except _FAULTS as error:
        raise DamageError(f"it cannot be looked into: {error}") from error
    return False


def clean(data: bytes, secrets: Secrets, scratch: Path) -> bytes:
    """Return a file without the secrets that it holds; an unreadable one becomes empty."""
    try:
        if data.startswith(_ARCHIVE):
            return _clean_archive(data, secrets)
        if data.startswith(_DATABASE):
            return _clean_database(data, secrets, scratch)
    except _FAULTS:
        return b""
    return secrets.blanked(data)


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


def _clean_archive(data: bytes, secrets: Secrets) -> bytes:
    written, budget = io.BytesIO(), Budget("it", len(data))
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(written, "w") as new:
        new.comment = secrets.blanked(archive.comment)
        for member in archive.infolist():
            content = _member(archive, member, budget)
            member.filename = secrets.blanked(member.filename.encode()).decode()
            clean = secrets.removed(content) if is_text(content) else secrets.blanked(content)
            new.writestr(member, clean, member.compress_type)
    return written.getvalue()


def _cells(data: bytes, scratch: Path) -> Iterator[bytes]:
    with _opened(data, scratch) as (database, _path):
        for table, _columns in _tables(database):
            for row in database.execute(f"SELECT * FROM {table}"):
                for value in row:
                    if isinstance(value, str | bytes):
                        yield value if isinstance(value, bytes) else value.encode()


def _clean_database(data: bytes, secrets: Secrets, scratch: Path) -> bytes:
    with _opened(data, scratch) as (database, path):
        database.create_function("cleaned", 1, lambda value: _cleaned(value, secrets), deterministic=True)
        # its triggers keep its indexes for full-text search
        database.execute("PRAGMA trusted_schema = ON")
        for table, columns in _tables(database):
            for column in columns:
                with suppress(sqlite3.IntegrityError):
                    database.execute(
                        f"UPDATE {table} SET {column} = cleaned({column})"
                        f" WHERE {column} IS NOT NULL AND cleaned({column}) IS NOT {column}"
                    )
        for index in _text_indexes(database):
            for order in ("rebuild", "optimize"):
                with suppress(sqlite3.Error):
                    database.execute(f"INSERT INTO {_quoted(index)} ({_quoted(index)}) VALUES (?)", (order,))
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("VACUUM")
        database.close()
        return path.read_bytes()


@contextmanager
def _opened(data: bytes, scratch: Path) -> Iterator[tuple[sqlite3.Connection, Path]]:
    with temporary_folder(scratch) as folder:
        path = folder / "database"
        durable.make_file(path)
        path.write_bytes(data)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            limit(database, len(data))
            yield database, path


def _cleaned(value: _Cell, secrets: Secrets) -> _Cell:
    if isinstance(value, bytes):
        return secrets.blanked(value)
    return secrets.removed(value.encode()).decode() if isinstance(value, str) else value


def _tables(database: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Return the names of the tables with data of their own, and of their columns, quoted."""
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL TABLE%'")
    not_own = ("sqlite_", *(f"{index}_" for index in _text_indexes(database)))
    tables = [_quoted(name) for (name,) in names.fetchall() if not name.startswith(not_own)]
    return [
        (table, [_quoted(row[1]) for row in database.execute(f"PRAGMA table_xinfo({table})") if row[6] == 0])
        for table in tables
    ]


def _text_indexes(database: sqlite3.Connection) -> list[str]:
    """Return the names of the tables for full-text search; their data is in other tables."""
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%USING fts%'")
    return [name for (name,) in found.fetchall()]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

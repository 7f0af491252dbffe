"""Files that hold others, compressed or in pieces: archives and databases that were kept as they were imported.

What they hold is looked at as their programs would see it, and they are written anew where it must change: an archive
member by member, a database cell by cell, and then without what SQLite has not overwritten yet.
"""

from __future__ import annotations

import io
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from store.content.text import is_text
from store.errors import DamageError
from store.redaction.secrets import Secrets

_ARCHIVE = b"PK\x03\x04"
_DATABASE = b"SQLite format 3\0"
_FAULTS = (zipfile.BadZipFile, zlib.error, sqlite3.Error, EOFError, RuntimeError, ValueError)


_Cell = str | bytes | int | float | None


def is_one(data: bytes) -> bool:
    """Say whether some bytes begin as such a file does."""
    return data.startswith((_ARCHIVE, _DATABASE))


def hold(data: bytes, secrets: Secrets, scratch: Path) -> bool:
    """Say whether something that a file holds has a secret. DamageError where it cannot be read."""
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
    """Return a file without secrets in what it holds; nothing is left of one that cannot be read."""
    try:
        if data.startswith(_ARCHIVE):
            return _clean_archive(data, secrets)
        if data.startswith(_DATABASE):
            return _clean_database(data, secrets, scratch)
    except _FAULTS:
        return b""
    return secrets.blanked(data)


def _clean_text(data: bytes, secrets: Secrets) -> bytes:
    return secrets.removed(data) if is_text(data) else secrets.blanked(data)


def _members(data: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        yield archive.comment
        for member in archive.infolist():
            yield member.filename.encode()
            yield archive.read(member)


def _clean_archive(data: bytes, secrets: Secrets) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(written, "w") as new:
        new.comment = secrets.blanked(archive.comment)
        for member in archive.infolist():
            content = archive.read(member)
            member.filename = secrets.blanked(member.filename.encode()).decode()
            new.writestr(member, _clean_text(content, secrets), member.compress_type)
    return written.getvalue()


def _cells(data: bytes, scratch: Path) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory(prefix="redacted-", dir=_made(scratch)) as folder:
        path = Path(folder, "database")
        path.write_bytes(data)
        with closing(_connected(path)) as database:
            for table, _columns in _tables(database):
                for row in database.execute(f"SELECT * FROM {table}"):
                    yield from (_as_bytes(value) for value in row if isinstance(value, str | bytes))


def _clean_database(data: bytes, secrets: Secrets, scratch: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="redacted-", dir=_made(scratch)) as folder:
        path = Path(folder, "database")
        path.write_bytes(data)
        with closing(_connected(path)) as database:
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
        return path.read_bytes()


def _cleaned(value: _Cell, secrets: Secrets) -> _Cell:
    if isinstance(value, bytes):
        return secrets.blanked(value)
    return secrets.removed(value.encode()).decode() if isinstance(value, str) else value


def _as_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    # what a database brings along is not to be run
    database.execute("PRAGMA trusted_schema = OFF")
    return database


def _tables(database: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Return the names of the tables that hold something themselves, and of their columns, quoted."""
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL TABLE%'")
    not_own = ("sqlite_", *(f"{index}_" for index in _text_indexes(database)))
    tables = [_quoted(name) for (name,) in names.fetchall() if not name.startswith(not_own)]
    return [
        (table, [_quoted(row[1]) for row in database.execute(f"PRAGMA table_xinfo({table})") if row[6] == 0])
        for table in tables
    ]


def _text_indexes(database: sqlite3.Connection) -> list[str]:
    """Return the names of the tables for full-text search; they hold what they do in tables of their own."""
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%USING fts%'")
    return [name for (name,) in found.fetchall()]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _made(scratch: Path) -> Path:
    scratch.mkdir(mode=0o700, exist_ok=True)
    return scratch

"""Databases that another program may be writing to, read without a lock and without writing anything beside them.

SQLite itself would do one or the other: readers lock, or write to the shared memory beside a write-ahead log. So the
files are copied, and what was copied is good if none of them was written to meanwhile, but for appends to a log.
"""

import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from store.errors import UsageError
from store.formats.format import AS_READ

MAGIC = b"SQLite format 3\0"
_WAL, _JOURNAL = "-wal", "-journal"
_WAL_HEADER = 32
_ATTEMPTS, _PAUSE_S = 100, 0.05
_CLOCK_TICK_NS = 20_000_000
"""The clock that stamps files goes in steps of up to 10 ms: a file may change again within one."""
_created = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?(\w+)").findall
_SEARCHED = 1 << 20


class _State(Struct, frozen=True):
    """What shows that a database was written to. A log that only grew has the same beginning."""

    database: tuple[int, int, int]
    log: bytes
    journal: tuple[int, int, int] | None


def files_beside(path: Path) -> tuple[Path, ...]:
    """Return the paths of the files beside a database that hold a part of what it says, where they are there."""
    return tuple(_beside(path, suffix) for suffix in (_WAL, _JOURNAL))


def tables_of(path: Path, head: bytes) -> set[str]:
    """Return the names of a database's tables, as far as its first pages and its log tell; ``head`` begins it.

    Empty for a file that is no database, or too damaged to tell.
    """
    if not head.startswith(MAGIC):
        return set()
    names: set[str] = set()
    with suppress(sqlite3.Error, UnicodeError), closing(_connect(path, "immutable=1")) as database:
        names = {str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    # what was created last may be in the log alone
    with suppress(OSError), _beside(path, _WAL).open("rb") as file:
        names |= {name.decode() for name in _created(head + file.read(_SEARCHED))}
    return names or {name.decode() for name in _created(head)}


@contextmanager
def reading(path: Path, scratch: Path) -> Iterator[sqlite3.Connection]:
    """Open what a database holds now, to be read; it is copied, with what is beside it, to ``AS_READ`` in ``scratch``.

    Text that is no UTF-8 is read as bytes. Raises UsageError where the database cannot be copied or opened, or is
    written to all the time.
    """
    copy = scratch / AS_READ / path.name
    copy.parent.mkdir(exist_ok=True)
    _copy(path, copy)
    with opened(copy, scratch) as database:
        yield database


@contextmanager
def opened(path: Path, scratch: Path) -> Iterator[sqlite3.Connection]:
    """Open a database that nobody writes to, as :func:`reading` does, and leave it as it is."""
    with tempfile.TemporaryDirectory(prefix="database-", dir=scratch) as folder:
        unfinished = any(file.exists() for file in files_beside(path))
        try:
            if unfinished:
                # SQLite would finish what is in them, and write to the database
                _copy_all(path, Path(folder, path.name))
                path = Path(folder, path.name)
            with closing(_connect(path, "mode=rw" if unfinished else "immutable=1")) as database:
                # tables that are described well are read though others are not
                database.execute("PRAGMA writable_schema = ON")
                database.execute("SELECT count(*) FROM sqlite_master").fetchone()
                yield database
        except (sqlite3.Error, UnicodeError, KeyError) as error:
            # names of columns may be damaged, too, or those of another version
            raise UsageError(f"{path.name} is no database that can be read: {error}") from error


def merged(original: Path, target: Path) -> None:
    """Write to ``target`` the database ``original``, which nobody writes to, with what the files beside it say."""
    _copy_all(original, target)
    with closing(_connect(target, "mode=rw")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def writing(target: Path) -> sqlite3.Connection:
    """Open a database of our own, to be written to; the caller commits, and sees to it that it reaches the disk."""
    database = _connect(target, "mode=rw")
    # its triggers keep its indexes for full-text search
    database.execute("PRAGMA trusted_schema = ON")
    database.execute("PRAGMA synchronous = OFF")
    return database


def _connect(path: Path, how: str) -> sqlite3.Connection:
    database = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True, isolation_level=None)
    database.text_factory = _text
    # what a database brings along is not to be run
    database.execute("PRAGMA trusted_schema = OFF")
    return database


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
            if now - before.database[1] > _CLOCK_TICK_NS:
                _copy_all(path, copy)
                if _state(path) == before:
                    return
            time.sleep(_PAUSE_S)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    raise UsageError(f"{path} is being written to all the time: import it once its program rests")


def _copy_all(path: Path, copy: Path) -> None:
    shutil.copyfile(path, copy)
    for one, other in zip(files_beside(path), files_beside(copy), strict=True):
        other.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            shutil.copyfile(one, other)


def _state(path: Path) -> _State:
    log = b""
    with suppress(OSError), _beside(path, _WAL).open("rb") as file:
        log = file.read(_WAL_HEADER)
    journal = None
    with suppress(OSError):
        journal = _stamp(_beside(path, _JOURNAL))
    return _State(_stamp(path), log, journal)


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino

"""The connection to SQLite: threads, damage, and whether what is there can be trusted."""

import _sqlite3
import ctypes
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path

import pytest

from store.errors import DamageError, StoreFailed, StoreFull
from store.index.database import Database, Schema, Unchanging, among, holds, numbered_holds, numbered_sum, sum_of


def test_readers_see_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.db")
    with database.writing() as sql:
        sql.execute("INSERT INTO types VALUES (1, 0, 'x')")
        assert database.query("SELECT * FROM types") == []
        # within itself it is one transaction
        database.set_state("key", 5)
        assert database.state("key") is None
    assert database.query("SELECT * FROM types") == [(1, 0, "x")]
    assert database.state("key") == 5
    with pytest.raises(DamageError, match="no such column"), database.writing() as sql:
        sql.execute("DELETE FROM types WHERE tag = 1 OR nonesuch = 0")
    with suppress(ZeroDivisionError), database.writing() as sql:
        sql.execute("DELETE FROM types")
        raise ZeroDivisionError
    assert database.one("SELECT * FROM types") == (1, 0, "x")
    assert database.one("SELECT * FROM types WHERE tag = 2") is None
    database.close()


@pytest.mark.parametrize("name", [b"a b?c#d%41", b"x&y;+=~_-..", b"\xff\xc3\xa9", "é\N{HAMSTER FACE}".encode()])
def test_a_database_may_have_any_path(tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    path = folder / os.fsdecode(name)
    database = Database(path)
    with database.writing():
        database.set_state("key", 5)
    database.close()
    assert [one.name for one in folder.iterdir()] == [path.name]
    reader = Unchanging(path)
    assert reader.state("key") == 5
    reader.close()


def test_threads_that_have_ended_leave_no_connection_open(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.db")

    def look() -> None:
        database.query("SELECT * FROM types")

    look()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert len(os.listdir("/proc/self/fd")) <= before + 3
    database.close()


def test_questions_leave_nothing_behind(tmp_path: Path) -> None:
    def references() -> int:
        return sum(isinstance(one, weakref.ref) for one in gc.get_objects())

    database = Database(tmp_path / "db")
    database.state("schema")
    gc.collect()
    before = references()
    for _ in range(150):
        database.state("schema")
    assert references() - before < 50
    database.close()


def test_after_closing(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.db")
    database.query("SELECT 1")
    database.close()
    with pytest.raises(StoreFailed, match="closed"):
        database.query("SELECT 1")
    with pytest.raises(StoreFailed, match="closed"), database.writing():
        pass


_CLOSED_WHILE_READ = """
import sys, threading
from pathlib import Path
from store.errors import StoreFailed
from store.index.database import Database, Schema

def read(database):
    try:
        while True:
            database.query("SELECT sum(number) FROM numbers")
            assert len(list(database.rows("SELECT number FROM numbers LIMIT 50"))) == 50
    except StoreFailed:
        refused.append(database)

refused = []
schema = Schema(1, "CREATE TABLE state (key TEXT PRIMARY KEY, value); CREATE TABLE numbers (number);")
for turn in range(40):
    database = Database(Path(sys.argv[1]), "boot", schema)
    with database.writing() as sql:
        sql.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in range(100)])
    threads = [threading.Thread(target=read, args=(database,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    threading.Event().wait(0.02)
    database.close()
    for thread in threads:
        thread.join(20)
print(len(refused))
"""


def test_a_database_that_is_closed_while_others_read_it_refuses_them(tmp_path: Path) -> None:
    """SQLite does not look whether its connection is still there: the process would end."""
    script = [sys.executable, "-c", _CLOSED_WHILE_READ, tmp_path / "x.db"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "160\n", "")


def test_numbers_beyond_what_sqlite_holds_are_in_no_row(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.db")
    assert database.query("SELECT * FROM contexts WHERE id = ?", (1 << 70,)) == []
    database.close()


@pytest.mark.parametrize("data", [b"no database", b"SQLite format 3\0" + b"\xff" * 4080, bytes(range(256)) * 40])
def test_a_file_that_is_no_database(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "index.db").write_bytes(data)
    with pytest.raises(DamageError, match="run convfs reindex"):
        Database(tmp_path / "index.db")


def test_a_page_is_lost_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    Database(path).close()
    database = Database(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 40_000)
    with pytest.raises(DamageError, match="convfs reindex"):
        database.query(
            "SELECT (SELECT count(*) FROM types), (SELECT count(*) FROM views), (SELECT count(*) FROM blobs)"
        )
    assert database.damaged
    assert list(database.problems())
    database.close()


def noted(path: Path) -> object:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT value FROM state WHERE key = 'boot'").fetchone()[0]
    finally:
        connection.close()


def test_what_it_says_of_itself(tmp_path: Path) -> None:
    """Changed in this boot; all on disk; and changed again only from the first change on."""
    path = tmp_path / "index.db"
    database = Database(path, "boot 1")
    assert noted(path) == "boot 1"
    database.set_state("a", 1)
    database.close(sync=True)
    assert noted(path) == ""

    for boot in ("boot 1", "boot 2"):
        database = Database(path, boot)
        assert database.trusted
        assert database.clean
        assert noted(path) == ""
        database.query("SELECT * FROM types")
        database.close(sync=True)

    database = Database(path, "boot 2")
    database.set_state("a", 2)
    assert noted(path) == "boot 2"
    database.close()
    assert noted(path) == "boot 2"

    database = Database(path, "boot 2")
    assert database.trusted
    assert not database.clean
    database.close()
    database = Database(path, "boot 3")
    assert not database.trusted
    database.close()


def test_the_note_is_on_disk_before_any_change_and_taken_back_after_the_last(tmp_path: Path) -> None:
    """In what order SQLite is told to sync, and what: without this, no power failure would be noticed."""
    path = tmp_path / "index.db"
    Database(path, "boot").close(sync=True)
    database = Database(path, "boot")
    said: list[str] = []
    database._writer.set_trace_callback(said.append)
    database.set_state("a", 1)
    database.set_state("b", 2)
    database.close(sync=True)
    steps = [
        statement for statement in said if "state" in statement or "synchronous" in statement or "wal" in statement
    ]

    def note(boot: str) -> list[str]:
        insert = f"INSERT OR REPLACE INTO state VALUES ('boot', '{boot}')"
        return ["PRAGMA synchronous = FULL", insert, "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA synchronous = OFF"]

    assert steps == [
        *note("boot"),
        "INSERT OR REPLACE INTO state VALUES ('a', 1)",
        "INSERT OR REPLACE INTO state VALUES ('b', 2)",
        *note("boot"),
        *note(""),
        "PRAGMA synchronous = FULL",
    ]


def test_the_note_does_not_need_the_write_ahead_log(tmp_path: Path) -> None:
    """That begins anew, unsynced, when it was folded in: after a power failure it may hold nothing at all."""
    path = tmp_path / "index.db"
    Database(path, "boot 1").close(sync=True)
    database = Database(path, "boot 1")
    database.set_state("a", 1)
    left = tmp_path / "left.db"
    left.write_bytes(path.read_bytes())
    database.close()
    database = Database(left, "boot 2")
    assert not database.trusted
    database.close()


def test_checksums_of_rows() -> None:
    values = (1, "text", None, b"bytes", -(1 << 63), "ä")
    row = (*values, sum_of(values))
    assert holds(row)
    for position, other in ((0, 2), (1, "texT"), (2, 0), (3, b"bytez"), (4, (1 << 63) - 1), (5, "a"), (6, row[-1] ^ 1)):
        assert not holds((*row[:position], other, *row[position + 1 :]))
    assert not holds((1.5, 3))
    assert not holds((1 << 70, 3))


def test_checksums_of_rows_that_are_filed_for_other_turns() -> None:
    values = (7, "text", None, b"bytes")
    row = (*values, numbered_sum(values))
    assert numbered_holds(row)
    assert numbered_holds((row[0] + 5, *row[1:-1], row[-1] + 5))
    for position, other in ((0, 8), (1, "texT"), (2, 0), (3, b"bytez"), (4, row[-1] ^ 1)):
        assert not numbered_holds((*row[:position], other, *row[position + 1 :]))
    assert not numbered_holds((1.5, 3))
    assert not numbered_holds(("1", "a", 3))


@pytest.mark.logs("held in memory until there is room", "what was held in memory is on the disk")
def test_what_a_full_disk_does_not_take_is_held_and_written_once_there_is_room(small_disk: Path) -> None:
    path, full = small_disk / "index.db", small_disk / "full"
    db = Database(path, "this boot")
    try:
        db.set_state("before", 1)
        with full.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        for number in range(300):
            db.set_state(f"held {number}", "x" * 3000)
        assert db.held
        seen: list[object] = []
        every = "SELECT * FROM state"
        thread = threading.Thread(target=lambda: seen.extend((db.state("held 299"), len([*db.rows(every)]))))
        thread.start()
        thread.join()
        assert seen == ["x" * 3000, len(db.query("SELECT * FROM state"))]
        with pytest.raises(StoreFull, match=str(path)), db.writing(hold=False):
            pass
        with suppress(ZeroDivisionError), db.writing():
            db.set_state("held 299", "otherwise")
            raise ZeroDivisionError
        assert db.state("held 299") == "x" * 3000
        full.unlink()
        with db.writing(hold=False):
            db.set_state("after", 2)
        assert not db.held
    finally:
        db.close()
    again = Database(path, "this boot")
    try:
        assert again.trusted
        assert [again.state(key) for key in ("before", "held 0", "held 299", "after")] == [1, "x" * 3000, "x" * 3000, 2]
    finally:
        again.close()


def test_nothing_of_it_is_mapped(tmp_path: Path) -> None:
    """A page of a mapped file that the disk has no room for ends the process."""
    db = Database(tmp_path / "index.db")
    try:
        db.set_state("key", 1)
        assert db.state("key") == 1
        assert str(tmp_path) not in Path("/proc/self/maps").read_text()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["index.db", "index.db-wal"]
    finally:
        db.close()


def test_rows_that_nobody_reads_to_the_end_may_outlive_the_connection(tmp_path: Path) -> None:
    """Cursors that fail in the middle are forgotten when they are, by chance after the database is closed."""
    database = Database(tmp_path / "index.db")
    with database.writing() as sql:
        sql.executemany("INSERT INTO types VALUES (?, 0, 'x')", [(number,) for number in range(9)])
    rows = database.rows("SELECT * FROM types")
    assert next(rows) == (0, 0, "x")
    database.close()
    rows.close()  # type: ignore[attr-defined]  # it is a generator


def test_a_database_that_is_there_is_opened_without_a_write(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    tables = "CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    schema = Schema(1, tables, ("auto_vacuum = INCREMENTAL",))
    Database(path, "", schema).close()
    before = path.read_bytes()
    db = Database(path, "", schema)
    assert db.query("PRAGMA auto_vacuum") == [(2,)]
    wal = path.with_name("other.db-wal")
    assert not wal.exists() or not wal.stat().st_size
    db.close()
    assert path.read_bytes() == before


def test_there_are_few_lists_of_values(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.db")
    with database.writing() as sql:
        sql.executemany("INSERT INTO types VALUES (?, 0, 'x')", [(number,) for number in range(500)])
    lists: set[str] = set()
    for count in range(501):
        marks, parameters = among(range(count))
        lists.add(marks)
        rows = database.query(f"SELECT tag FROM types WHERE tag IN ({marks}) ORDER BY tag", parameters)
        assert [tag for (tag,) in rows] == [*range(count)]
    assert len(lists) == 11
    database.close()


def test_memory_of_pages_is_given_back_whoever_read_them(tmp_path: Path) -> None:
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_int64
    database = Database(tmp_path / "index.db")
    with database.writing() as sql:
        sql.executemany("INSERT INTO types VALUES (?, 0, ?)", [(number, "x" * 1000) for number in range(1500)])
    database.shrink()
    least: int = used()
    has_read, end = threading.Event(), threading.Event()

    def read() -> None:
        database.query("SELECT sum(length(name)) FROM types")
        has_read.set()
        end.wait()

    reader = threading.Thread(target=read)
    reader.start()
    has_read.wait()
    most = used()
    assert most > least + 1_000_000
    database.shrink()
    assert used() < (least + most) / 2
    end.set()
    reader.join()
    database.close()

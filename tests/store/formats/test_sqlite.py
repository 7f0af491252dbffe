import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.errors import UsageError
from store.formats.core import large_cells
from store.formats.core import sqlite as sqlite_module
from store.formats.core.format import Titled, line_spans
from store.formats.core.sqlite import (
    Begins,
    Row,
    cells_of,
    decode_row,
    dictionaries,
    encode_row,
    files_beside,
    parts_of,
    reading,
    remove_row,
    restore,
    rows_found,
    rows_of,
    tables_of,
    write_lines,
)

ODD = ["text", 7, 2.5, None, b"\0\xff", "lone \x1f é😀", '{"a": [1, 2]}', "{not json", '{"a":\n1}', 1 << 62, "inf"]


def database(path: Path, *, wal: bool = False, encoding: str = "UTF-8") -> sqlite3.Connection:
    found = sqlite3.connect(path, isolation_level=None)
    found.execute(f"PRAGMA encoding = '{encoding}'")
    found.execute("PRAGMA synchronous = OFF")
    found.execute(f"PRAGMA journal_mode = {'wal' if wal else 'delete'}")
    found.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x, y TEXT)")
    found.executemany("INSERT INTO t (x, y) VALUES (?, 'same')", [(value,) for value in ODD])
    time.sleep(0.03)
    return found


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}


def lines(found: sqlite3.Connection) -> Iterator[Row]:
    yield Row(Begins("all", title="All"))
    for row in dictionaries(found, "SELECT * FROM t ORDER BY id"):
        yield cells_of("t", row, ("id",), ("x",), documents={"x"})


def contents(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as found:
        return found.execute("SELECT id, x, y FROM t ORDER BY id").fetchall()


def edited(path: Path, tmp_path: Path, change: dict[bytes, bytes]) -> Path:
    """Return the database at ``path`` with bytes in its lines replaced, or lines taken out (by b"")."""
    tmp_path.mkdir(exist_ok=True)
    with reading(path, tmp_path) as found:
        before = [encode_row(row) for row in lines(found)]
    after = list(before)
    for old, new in change.items():
        assert sum(old in line for line in after) == 1
        after = [line.replace(old, new) if new else line for line in after if new or old not in line]
    rendition, target = tmp_path / "rendition", tmp_path / "target.db"
    rendition.write_bytes(b"".join(line + b"\n" for line in after))
    restore(path, before, rendition, target, remove_row)
    return target


def test_what_a_live_database_holds_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    path = home / "live.db"
    with closing(database(path, wal=True)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO t (x) VALUES ('not yet')")
        before = files(home)
        assert files_beside(path)[0].stat().st_size > 4096
        assert tables_of(path, path.read_bytes()[:65536]) == {"t"}
        with reading(path, tmp_path) as found:
            assert [row["x"] for row in dictionaries(found, "SELECT x FROM t ORDER BY id")] == ODD
            # nobody waits for the reader
            writer.execute("COMMIT")
        assert {name: before[name] for name in ("live.db",)} == {"live.db": files(home)["live.db"]}
        assert set(before) == set(files(home))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["as-read", "home"]
    copies = {path.name: path.read_bytes() for path in (tmp_path / "as-read").iterdir()}
    assert copies == {name: before[name][0] for name in ("live.db", "live.db-wal")}


def test_a_transaction_that_was_cut_off_is_undone_in_the_copy_alone(tmp_path: Path) -> None:
    path = tmp_path / "cut.db"
    database(path).close()
    program = f"""
import os, sqlite3
found = sqlite3.connect({str(path)!r}, isolation_level=None)
found.execute("PRAGMA cache_size = 1")
found.execute("BEGIN")
found.executemany("INSERT INTO t (x) VALUES (?)", [("x" * 3000,) for _ in range(200)])
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert (tmp_path / "cut.db-journal").stat().st_size > 0
    time.sleep(0.03)
    before = files(tmp_path)
    with reading(path, tmp_path) as found:
        assert [row["x"] for row in dictionaries(found, "SELECT x FROM t ORDER BY id")] == ODD
    assert files(tmp_path) == before
    assert {name: content for name, (content, _time) in before.items()} == {
        path.name: path.read_bytes() for path in (tmp_path / "as-read").iterdir()
    }


def test_a_database_that_is_written_to_all_the_time_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "busy.db"
    database(path).close()
    monkeypatch.setattr("store.formats.core.sqlite.time.sleep", lambda _seconds: os.utime(path))
    os.utime(path)
    with pytest.raises(UsageError, match="all the time"), reading(path, tmp_path):
        pass


@pytest.mark.parametrize("size", [0, 10, 100, 4096, 6000])
def test_damaged_databases_are_refused_or_read_as_far_as_they_go(tmp_path: Path, size: int) -> None:
    path = tmp_path / "damaged.db"
    with closing(database(path)) as found:
        found.executemany("INSERT INTO t (x) VALUES (?)", [("x" * 500,) for _ in range(100)])
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    time.sleep(0.03)
    assert tables_of(path, whole[:size]) in ({"t"}, set())
    try:
        with reading(path, tmp_path) as found:
            if tables_of(path, whole[:size]):
                assert len(list(dictionaries(found, "SELECT * FROM t"))) < 111
    except (UsageError, sqlite3.DatabaseError):
        pass
    with pytest.raises(UsageError), reading(tmp_path / "none.db", tmp_path):
        pass


def test_rows_become_lines_and_back(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    database(path).close()
    with reading(path, tmp_path) as found:
        rows = list(lines(found))
        written = write_lines(rows, tmp_path).read_bytes()
        assert write_lines(lines(found), tmp_path).read_bytes() == written
    assert [decode_row(line) for line in written.splitlines()] == rows
    assert bytes(rows[7].json["x"]) == b'{"a": [1, 2]}'
    assert (rows[5].blobs, rows[8].cells, rows[9].cells) == ({"x": "AP8="}, {"x": "{not json"}, {"x": '{"a":\n1}'})
    [part] = parts_of(memoryview(written), list(line_spans(memoryview(written), 0)), lambda _row: Titled.BY_TOOL)
    assert (part.key, part.about.title, list(part.records)) == ("all", "All", list(range(len(rows))))


@pytest.mark.parametrize("wal", [False, True])
def test_only_edited_cells_change(tmp_path: Path, wal: bool) -> None:
    path = tmp_path / "edited.db"
    with closing(database(path, wal=wal)):
        before = path.read_bytes()
        assert contents(edited(path, tmp_path / "same", {})) == contents(path)
        changes = {b'"x":"text"': b'"x":"Text"', b"[1, 2]": b"[1,  3]", b'"AP8="': b'"AP4="', b'"x":7}': b'"x":8}'}
        expected = [list(row) for row in contents(path)]
        for row, now in ((0, "Text"), (6, '{"a": [1,  3]}'), (4, b"\0\xfe"), (1, 8)):
            expected[row][1] = now
        target = edited(path, tmp_path / "edited", changes)
        assert [list(row) for row in contents(target)] == expected
        assert path.read_bytes() == before
        assert not target.with_name("target.db-wal").exists()
        gone = edited(path, tmp_path / "gone", {b'"x":2.5': b""})
        assert [row[0] for row in contents(gone)] == [row[0] for row in contents(path) if row[1] != 2.5]


def test_new_rows_are_added_and_impossible_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "added.db"
    database(path).close()
    added = b'"x":7}}\n{"table":"t","key":{"id":99},"cells":{"y":"b"},"rows":[{"table":"t","key":{"id":98}}]}'
    target = edited(path, tmp_path / "added", {b'"x":7}}': added})
    assert contents(target)[-2:] == [(98, None, None), (99, None, "b")]
    for line in (
        b'{"table":"t","key":{"id":1},"cells":{"z":1}}',
        b'{"table":"u","key":{"id":1}}',
        b"{",
        b'{"table":"t"}',
    ):
        with pytest.raises(UsageError):
            edited(path, tmp_path / "refused", {b'"x":7}}': b'"x":7}}\n' + line})


LARGE = [
    "a" * 9000,
    'line\n\x1f"é😀\\' * 900,
    "é" * 4500,
    '{"a": "' + "x" * 9000 + '"}',
    '{"a":\n"' + "x" * 9000 + '"}',
    "{no document" * 900,
    '["\0' + "x" * 9000,
    b"\0\xff" * 4500,
    '\0cell:0123456789abcdef0123456789abcdef" ' * 200,
]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_lines_with_large_cells_are_the_same_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    path = tmp_path / "large.db"
    with closing(database(path, encoding=encoding)) as found:
        many = [value for pair in zip(LARGE, ODD, strict=False) for value in pair]
        found.executemany("INSERT INTO t (x, y) VALUES (?, ?)", [(value, f"small {value!r}"[:20]) for value in many])
        # a text that is no UTF-8
        found.execute("INSERT INTO t (x, y) VALUES (CAST(? AS TEXT), 'bad')", [b"\xff" * 9000])
        found.text_factory = lambda data: data if b"\xff" in data else data.decode()

        def written(rows: Iterator[dict[str, object]]) -> bytes:
            lines = (cells_of("t", row, ("id",), documents={"x"}) for row in rows)
            return write_lines(lines, tmp_path, path).read_bytes()

        whole = written(dictionaries(found, "SELECT * FROM t ORDER BY id"))
        monkeypatch.setattr(sqlite_module, "LARGE_BYTES", 8000)
        monkeypatch.setattr(large_cells, "_PIECE", 300)
        found.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 8000)
        assert written(rows_of(found, "t", "ORDER BY id")) == whole
        assert not large_cells._marked
        # those of a query have further columns
        query = "SELECT *, id + ? AS next FROM t ORDER BY id"
        more = list(rows_found(found, "t", ["id"], query, 1))
        assert [row.pop("next") for row in more] == list(range(2, len(more) + 2))
        assert written(iter(more)) == whole
        numbers = [row["id"] for row in rows_of(found, "t", "WHERE id > ? ORDER BY id DESC", 5)]
        assert numbers == sorted(numbers, reverse=True)
        assert len(numbers) > len(LARGE)


def test_a_database_with_an_index_over_json_is_read(tmp_path: Path) -> None:
    """SQLite before 3.41 refuses all of its schema, if it is told first not to trust that."""
    path = tmp_path / "indexed.db"
    with closing(database(path)) as found:
        found.execute("CREATE INDEX by_role ON t (CASE WHEN json_valid(y) THEN json_extract(y, '$.role') END)")
    # the names of more tables than the first bytes have are in the schema alone
    assert tables_of(path, path.read_bytes()[:100]) == {"t"}
    with reading(path, tmp_path / "scratch") as found:
        assert len(list(rows_of(found, "t", "ORDER BY id"))) == len(ODD)
        assert found.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_a_large_cell_that_is_worked_out_is_left_out(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "large.db")) as found:
        found.executescript("CREATE TABLE t (id INTEGER, x AS (zeroblob(900))); INSERT INTO t VALUES (1)")
        found.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 500)
        assert list(rows_of(found, "t", "")) == [{"id": 1}]

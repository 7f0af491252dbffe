"""Databases: rendered as lines on their way in, kept whole, written back where something was edited."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.errors import UsageError
from store.formats.core.format import Source
from store.importing.importer import Importer
from store.store import Store
from tests.store.importing.parted_formats import Braid, Ledger, know
from tests.store.importing.sessions import exported, imported

ROWS = [(1, "a", "one"), (2, "b", "first"), (3, "a", "two"), (4, "b", "second")]
TYPE = "ledger.row.v1"


@pytest.fixture(autouse=True)
def _formats(monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, Braid(), Ledger())


def ledger(folder: Path, *rows: tuple[int, str, str], wal: bool = False) -> Path:
    """Write rows to a database, which is made if it is not there."""
    path = folder / "some.ledger"
    with closing(sqlite3.connect(path)) as db:
        if wal:
            db.execute("PRAGMA journal_mode=WAL")
        with db:
            db.execute("CREATE TABLE IF NOT EXISTS said (number INTEGER PRIMARY KEY, talk TEXT, text TEXT)")
            db.execute("CREATE TABLE IF NOT EXISTS nobodys (text TEXT)")
            db.executemany("INSERT OR REPLACE INTO said VALUES (?, ?, ?)", rows)
    return path


def rows(content: bytes, folder: Path) -> list[tuple[int, str, str]]:
    """Return the rows of a database."""
    path = folder / "looked-at"
    path.write_bytes(content)
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT * FROM said ORDER BY number").fetchall()
    path.unlink()
    return found


def talks(store: Store) -> dict[str, int]:
    """Return the conversations by title."""
    return {talk.title: talk.id for talk in store.library.conversations()}


def file(store: Store, context: int) -> bytes:
    with exported(store, store.library.conversation(context)) as files:
        return files["some.ledger"]


def record(number: int, talk: str, text: str) -> bytes:
    return json.dumps({"number": number, "talk": talk, "text": text}).encode()


def left_over(store: Store) -> list[Path]:
    scratch = store.root / "scratch"
    return list(scratch.rglob("*")) if scratch.exists() else []


def test_a_database_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    path = ledger(tmp_path, *ROWS)
    assert imported(store, path).imported == 2
    before = path.read_bytes()
    for context in talks(store).values():
        assert file(store, context) == before
    assert imported(store, path).unchanged == 1
    assert left_over(store) == []


def test_what_is_edited_is_written_into_it(store: Store, tmp_path: Path) -> None:
    path = ledger(tmp_path, *ROWS)
    imported(store, path)
    known, editor = talks(store), Editor(store)
    editor.edit(known["a"], {1: record(1, "a", "ONE")})
    editor.edit(known["b"], {2: DELETED})
    editor.append(known["b"], [Append(record(9, "b", "more"), TYPE)])
    expected = [(1, "a", "ONE"), (2, "b", "first"), (3, "a", "two"), (9, "b", "more")]
    for context in known.values():
        assert rows(file(store, context), tmp_path) == expected
    assert rows(path.read_bytes(), tmp_path) == ROWS
    assert left_over(store) == []


def test_a_database_that_has_grown_is_kept_anew(store: Store, tmp_path: Path) -> None:
    path = ledger(tmp_path, *ROWS)
    imported(store, path)
    ledger(tmp_path, (5, "b", "third"), (6, "c", "new"))
    report = imported(store, path)
    assert (report.imported, report.grown, report.unchanged, report.records) == (1, 1, 1, 2)
    assert file(store, talks(store)["a"]) == path.read_bytes()


def test_what_is_imported_as_it_grows_is_not_kept_each_time(store: Store, tmp_path: Path) -> None:
    path = ledger(tmp_path, *ROWS)
    Importer(store).run([path], by_hand=False)
    known = talks(store)
    with pytest.raises(UsageError, match="was not kept"):
        file(store, known["a"])
    # and is, as soon as somebody asks for it, although nothing has changed
    assert Importer(store).run([path], by_hand=False).unchanged == 1
    assert imported(store, path).unchanged == 1
    assert file(store, known["a"]) == path.read_bytes()
    ledger(tmp_path, (5, "b", "third"))
    Importer(store).run([path], by_hand=False)
    # the one that was kept then, with what has come since
    assert rows(file(store, known["a"]), tmp_path) == [*ROWS, (5, "b", "third")]
    assert file(store, known["a"]) != path.read_bytes()


def test_rows_that_are_nobodys_are_in_the_file(store: Store, tmp_path: Path) -> None:
    path = ledger(tmp_path, *ROWS)
    imported(store, path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO nobodys VALUES ('x')")
    assert imported(store, path).unchanged == 1
    assert file(store, talks(store)["a"]) == path.read_bytes()


def test_the_log_of_a_database_belongs_to_it(store: Store, tmp_path: Path) -> None:
    path = ledger(tmp_path, *ROWS, wal=True)
    imported(store, path)
    log = path.with_name("some.ledger-wal")
    assert not log.exists()
    assert imported(store, path).unchanged == 1
    with closing(sqlite3.connect(path)) as db:
        with db:
            db.execute("INSERT INTO said VALUES (5, 'a', 'three')")
        assert log.stat().st_size > 0
        # only the log has changed
        assert imported(store, path).grown == 1
        with exported(store, store.library.conversation(talks(store)["a"])) as files:
            assert files == {"some.ledger": path.read_bytes(), "some.ledger-wal": log.read_bytes()}
        Editor(store).edit(talks(store)["a"], {3: record(5, "a", "THREE")})
        with exported(store, store.library.conversation(talks(store)["a"])) as files:
            assert rows(files["some.ledger"], tmp_path) == [*ROWS, (5, "a", "THREE")]


def test_a_database_of_one_conversation(store: Store, tmp_path: Path) -> None:
    path = ledger(tmp_path, (1, "all", "one"), (2, "all", "two"))
    assert imported(store, path).imported == 1
    assert file(store, talks(store)["All 2"]) == path.read_bytes()


def test_a_file_that_is_written_to_meanwhile_is_not_kept(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ledger(tmp_path, *ROWS)
    real = Ledger.rendition

    def rendition(self: Ledger, source: Source, scratch: Path) -> Path:
        found = real(self, source, scratch)
        ledger(tmp_path, (5, "c", "late"))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "rendition", rendition)
        report = Importer(store).run([path])
    assert report.imported == 2
    assert "written to while it was read" in report.errors[0]
    assert imported(store, path).imported == 1
    assert file(store, talks(store)["a"]) == path.read_bytes()


@pytest.mark.parametrize("name", ["rendition-abcdefgh", "restored-a_b1c2d3", "redacted-aaaaaaaa", ".convfs-01234567"])
def test_what_an_interrupted_import_left_goes_when_the_store_is_opened(tmp_path: Path, name: str) -> None:
    Store.open(tmp_path / "other").close()
    scratch = tmp_path / "other" / "scratch"
    for path in (scratch / name / "lines", scratch / "restored-notes" / "mine"):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    Store.open(tmp_path / "other").close()
    assert [path.name for path in scratch.iterdir()] == ["restored-notes"]


def test_a_database_that_cannot_be_read_is_told(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "some.ledger"
    path.write_bytes(b"SQLite format 3\0" + b"?" * 5000)
    report = Importer(store).run([path])
    assert report.imported == 0
    assert "some.ledger" in report.errors[0]


def test_two_kinds_side_by_side(store: Store, tmp_path: Path) -> None:
    ledger(tmp_path, *ROWS)
    (tmp_path / "some.braid").write_bytes(b"a:one\n")
    assert imported(store, tmp_path).imported == 3
    assert sorted(talk.format for talk in store.library.conversations()) == ["braid", "ledger", "ledger"]


@pytest.fixture(autouse=True)
def _nothing_left(store: Store) -> Iterator[None]:
    yield
    assert left_over(store) == []

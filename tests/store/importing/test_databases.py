"""Databases of tools that keep all their conversations in one: in, edited, and out again."""

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from store.conversations.chain import Recorded
from store.conversations.contexts import Append
from store.editing.editor import Editor
from store.events.conversation import Conversation
from store.events.event import DELETED, Event, Kind
from store.formats.core import sqlite
from store.formats.core.sqlite import Row
from store.formats.opencode import Opencode
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.formats.databases import (
    LLM,
    LLM_NEWER,
    OPENCODE,
    PNG,
    T,
    dump,
    dumped,
    llm_database,
    opencode_database,
)
from tests.store.formats.edited import edit_of
from tests.store.formats.test_opencode import ROWS
from tests.store.importing.sessions import exported, imported


def titled(store: Store, title: str) -> Conversation:
    return next(conversation for conversation in store.library.conversations() if conversation.title == title)


def events(store: Store, title: str) -> list[tuple[int, Event]]:
    """Return the events of a conversation that are shown, with the numbers of their records."""
    rows = store.records.rows(titled(store, title).head)
    return [(row.number, event) for row, event in store.viewer.events(rows) if isinstance(event, Event) and event.kind]


def texts(store: Store, title: str) -> list[str | None]:
    return [event.blocks[-1].text for _number, event in events(store, title)]


def change(store: Store, title: str, old: str, new: str) -> None:
    """Give the text ``old`` of a conversation another content."""
    number, event = next(found for found in events(store, title) if old in [b.text for b in found[1].blocks])
    conversation = titled(store, title)
    row = store.records.rows(conversation.head)[number - 1]
    block = next(block for block in event.blocks if block.text == old)
    lens = store.viewer.lens(store.turns.get(row.turn))
    edited = lens.edit(
        store.contents.payload(row.turn), edit_of(block, new), Recorded(row.tool, row.parent, store.contents.aliased)
    )
    Editor(store).edit(conversation.id, {number: edited})


def out(store: Store, title: str, folder: Path) -> dict[str, bytes]:
    """Return the files that a conversation is exported as, which lie in ``folder`` afterwards."""
    folder.mkdir()
    with exported(store, titled(store, title)) as files:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return files


def test_conversations_of_llm_come_in_and_go_out(store: Store, tmp_path: Path) -> None:
    path = llm_database(tmp_path / "logs.db")
    report = imported(store, path)
    assert (report.imported, report.errors) == (5, [])
    assert {conversation.project for conversation in store.library.conversations()} == {"llm"}
    assert texts(store, "Names for pets")[1:3] == ["Name a pelican", "Percy"]
    shared = texts(store, "Birds")[:5]
    assert texts(store, "Fork") == [*shared, "Never mind"]
    assert [event.blocks[0].data for _number, event in events(store, "Birds")][2] == PNG
    for conversation in store.library.conversations():
        with exported(store, conversation) as files:
            assert files == {"logs.db": path.read_bytes()}
    assert imported(store, path).imported == 0


def test_what_is_edited_anywhere_is_in_the_one_database(store: Store, tmp_path: Path) -> None:
    path = llm_database(tmp_path / "logs.db")
    imported(store, path)
    change(store, "Names for pets", "Percy", "Pelle")
    change(store, "Birds", "Nothing.", "Something.")
    change(store, "Fork", "Be kind", "Be rude")
    out(store, "Fork", tmp_path / "out")
    before, after = (
        [line for line in dumped(database) if "_fts" not in line.split("(")[0]]
        for database in (path, tmp_path / "out" / "logs.db")
    )
    changed = [line for line in after if line not in before]
    assert len(after) == len(before)
    assert len(changed) == 3
    assert all(any(word in line for line in changed) for word in ("Pelle", "Something.", "Be rude"))
    with closing(sqlite3.connect(tmp_path / "out" / "logs.db")) as found:
        assert found.execute("SELECT count(*) FROM responses_fts WHERE responses_fts MATCH 'Pelle'").fetchone() == (1,)
        assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_llm_adds_is_brought_in_alone(store: Store, tmp_path: Path) -> None:
    path = llm_database(tmp_path / "logs.db")
    imported(store, path)
    with closing(sqlite3.connect(path)) as found:
        columns = "id, model, prompt, response, conversation_id"
        found.execute(f"INSERT INTO responses ({columns}) VALUES ('r9', 'gpt', 'A dog', 'Rex', 'c1')")
        found.execute("INSERT INTO messages VALUES ('m5', 'm4', 'user', NULL)")
        found.execute("INSERT INTO parts VALUES (99, 'm5', 0, 'text', NULL, 'And owls?', NULL)")
        found.execute("UPDATE threads SET tip_message_hash = 'm5' WHERE id = 't1'")
        found.commit()
    time.sleep(0.03)
    report = imported(store, path)
    assert (report.imported, report.grown, report.records) == (0, 2, 3)
    assert texts(store, "Names for pets")[-2:] == ["A dog", "Rex"]
    assert texts(store, "Birds")[-1] == "And owls?"


def test_a_database_of_llm_with_chains_is_read_when_they_have_changed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = llm_database(tmp_path / "logs.db")
    imported(store, path)
    copied: list[Path] = []
    copy = sqlite._copy_all
    monkeypatch.setattr(sqlite, "_copy_all", lambda one, other: copied.append(one) or copy(one, other))
    with closing(sqlite3.connect(path)) as found:
        for statement, new in (
            ("CREATE TABLE other (a)", False),
            ("INSERT INTO other VALUES (1)", False),
            ("INSERT INTO responses (id, prompt, response, conversation_id) VALUES ('r9', 'A dog', 'Rex', 'c1')", True),
            ("UPDATE threads SET name = 'Owls' WHERE id = 't1'", True),
            ("UPDATE threads SET tip_message_hash = 'm2' WHERE id = 't1'", True),
            ("INSERT INTO other VALUES (1)", False),
        ):
            found.execute(statement)
            found.commit()
            time.sleep(0.03)
            copied.clear()
            report = Importer(store).run([path], by_hand=False)
            assert (report.errors, report.grown > 0, bool(copied)) == ([], new, new), statement
    assert texts(store, "Owls")[-1] != "Nothing."
    assert fsck(store) == []


@contextmanager
def at_work(path: Path, statement: str) -> Iterator[None]:
    """Have another process run a statement, and keep the database open: within one, SQLite shares what it maps."""
    script = (
        "import sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('PRAGMA journal_mode = wal')\n"
        "database.execute(sys.argv[2])\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(path), statement]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline()
        yield
        program.communicate()


def test_a_live_database_is_read_whole_and_left_alone(store: Store, tmp_path: Path) -> None:
    path = opencode_database(tmp_path / "opencode.db")
    said = dump({"type": "text", "text": "Later"})
    with at_work(path, f"INSERT INTO part VALUES ('prt_98', 'msg_2', 'ses_1', {T}, {T}, '{said}')"):
        time.sleep(0.03)
        names = ("opencode.db", "opencode.db-wal", "opencode.db-shm")
        before = {name: (tmp_path / name).read_bytes() for name in names}
        imported(store, path)
        assert {name: (tmp_path / name).read_bytes() for name in names} == before
        assert texts(store, "Session 0")[-1] == "Later"
        files = out(store, "Session 0", tmp_path / "same")
        assert files == {name: before[name] for name in names[:2]}
        change(store, "Session 0", "Later", "Much later")
        files = out(store, "Session 0", tmp_path / "edited")
        assert set(files) == {"opencode.db"}
        expected = [line.replace('"Later"', '"Much later"') for line in dumped(path)]
        assert dumped(tmp_path / "edited" / "opencode.db") == expected


def test_what_is_written_while_a_database_is_read_comes_in_next_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = opencode_database(tmp_path / "opencode.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = wal")
        time.sleep(0.03)
        before = path.read_bytes()
        said = dump({"type": "text", "text": "Meanwhile"})
        row_lines = Opencode.lines

        def write_first(format_: Opencode, database: sqlite3.Connection) -> Iterator[Row]:
            writer.execute("INSERT OR REPLACE INTO part VALUES ('prt_98', 'msg_2', 'ses_1', ?, ?, ?)", (T, T, said))
            return row_lines(format_, database)

        monkeypatch.setattr(Opencode, "lines", write_first)
        imported(store, path)
        assert "Meanwhile" not in texts(store, "Session 0")
        assert out(store, "Session 0", tmp_path / "out") == {"opencode.db": before}
        time.sleep(0.03)
        imported(store, path)
        assert "Meanwhile" in texts(store, "Session 0")


def test_opencode_is_given_what_was_added_and_loses_what_was_deleted(store: Store, tmp_path: Path) -> None:
    path = opencode_database(tmp_path / "opencode.db")
    imported(store, path)
    conversation = titled(store, "Session 0")
    last = store.contents.payload(store.records.rows(conversation.head)[-1].turn)
    composed = ROWS.compose(Kind.USER, "One more thing", last, T + 5000)
    Editor(store).append(conversation.id, [Append(composed, "opencode.row.v1", 6)])
    number = next(number for number, event in events(store, "Session 0") if event.tool == "bash")
    Editor(store).edit(conversation.id, {number: DELETED})
    out(store, "Session 0", tmp_path / "out")
    exported_again = tmp_path / "out" / "opencode.db"
    with closing(sqlite3.connect(exported_again)) as found:
        assert found.execute("SELECT count(*) FROM part WHERE data LIKE '%\"c1\"%'").fetchone() == (0,)
        assert found.execute("SELECT count(*) FROM message").fetchone() == (4,)
        assert found.execute("SELECT count(*) FROM part WHERE data LIKE '%One more thing%'").fetchone() == (1,)


@pytest.mark.parametrize("keep", [0.3, 0.7])
def test_damaged_databases_stop_nothing(store: Store, tmp_path: Path, keep: float) -> None:
    whole = opencode_database(tmp_path / "whole.db").read_bytes()
    path = tmp_path / "opencode.db"
    path.write_bytes(whole[: int(len(whole) * keep)])
    time.sleep(0.03)
    report = Importer(store).run([path, tmp_path / "whole.db"])
    assert report.imported >= 2
    for conversation in store.library.conversations():
        if conversation.source == str(path):
            with exported(store, conversation) as files:
                assert files == {"opencode.db": path.read_bytes()}


@pytest.mark.parametrize(
    ("name", "filled", "tables"),
    [("logs.db", llm_database, LLM + LLM_NEWER), ("opencode.db", opencode_database, OPENCODE)],
)
def test_an_empty_database_has_no_conversations(
    store: Store, tmp_path: Path, name: str, filled: Callable[[Path], Path], tables: str
) -> None:
    path = tmp_path / name
    with closing(sqlite3.connect(path)) as found:
        found.executescript(tables)
    time.sleep(0.03)
    assert imported(store, path).imported == 0
    assert imported(store, path).unchanged == 1
    assert store.library.conversations() == []
    path.unlink()
    filled(path)
    imported(store, path)
    assert all(conversation.title for conversation in store.library.conversations())


@pytest.mark.parametrize("seed", range(12))
def test_damage_anywhere_in_a_database_stops_nothing(store: Store, tmp_path: Path, seed: int) -> None:
    made = opencode_database if seed % 2 else llm_database
    content, draw = bytearray(made(tmp_path / "whole.db").read_bytes()), random.Random(seed)
    for _ in range(1 + seed):
        content[draw.randrange(len(content))] = draw.randrange(256)
    path = tmp_path / "damaged.db"
    path.write_bytes(content)
    time.sleep(0.03)
    report = Importer(store).run([path])
    assert report.imported or report.errors
    for conversation in store.library.conversations():
        assert all(
            isinstance(event, Event) for _row, event in store.viewer.events(store.records.rows(conversation.head))
        )
        with exported(store, conversation) as files:
            assert files == {"damaged.db": bytes(content)}


@pytest.mark.parametrize(("name", "tables"), [("opencode.db", OPENCODE), ("logs.db", LLM + LLM_NEWER)])
def test_a_fresh_database_makes_no_conversation_and_is_imported_once_it_has_one(
    store: Store, tmp_path: Path, name: str, tables: str
) -> None:
    path = tmp_path / name
    with closing(sqlite3.connect(path)) as database:
        database.executescript(tables)
    for _ in range(2):
        assert imported(store, path).imported == 0
    assert store.catalogue.by_id(1) is None
    path.unlink()
    (opencode_database if name == "opencode.db" else llm_database)(path)
    assert imported(store, path).imported > 1
    before = path.read_bytes()
    conversation = store.library.conversations()[0]
    with exported(store, conversation) as files:
        assert files[name] == before

"""Databases that grow are read where they have changed, and the store has what a whole import would have brought."""

import itertools
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import UNSET

from fusefs.text.render import FileRenderer
from store.errors import UsageError
from store.events.event import Event
from store.formats.core import sqlite
from store.formats.declared.database import Sessions
from store.formats.registry import FORMATS, format_named
from store.importing.importer import Importer, ImportReport
from store.importing.walk import claim
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.formats.databases import LLM
from tests.store.formats.databases import OPENCODE as OLDER
from tests.store.formats.test_declared_databases import KIRO, ZED, asked
from tests.store.importing.test_web_exports import events

SESSIONS, MESSAGES = 50, 4
TEXT = "What is said at length, so that there is much to read. " * 200
"""A database of these has some megabytes."""
LEAST_OF_IT = 5

GOOSE = """CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, working_dir TEXT, created_at TEXT, updated_at TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content_json TEXT,
    created_timestamp INTEGER); CREATE INDEX of ON messages (session_id)"""
CRUSH = """CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT, created_at INTEGER, updated_at INTEGER);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, model TEXT, created_at INTEGER);
CREATE INDEX of ON messages (session_id)"""
OPENCODE = """CREATE TABLE session_v2 (id TEXT PRIMARY KEY, title TEXT, directory TEXT, parent_id TEXT,
    time_created INTEGER, time_updated INTEGER);
CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, data TEXT);
CREATE INDEX of ON session_message (session_id, seq)"""
CURSOR = """CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"""
HERMES = """CREATE TABLE sessions (id TEXT PRIMARY KEY, model TEXT, parent_session_id TEXT, started_at REAL, cwd TEXT,
    title TEXT, input_tokens INTEGER, output_tokens INTEGER, actual_cost_usd REAL);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content TEXT,
    tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL); CREATE INDEX of ON messages (session_id)"""
OPENCLAW = """CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT, display_name TEXT,
    started_at INTEGER); CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT,
    created_at INTEGER, PRIMARY KEY (session_id, seq))"""
WEBUI = """CREATE TABLE chat (id TEXT PRIMARY KEY, user_id TEXT, title TEXT, chat JSON, created_at BIGINT,
    updated_at BIGINT); CREATE INDEX updated_at_user_id_idx ON chat (updated_at, user_id)"""

Write = Callable[[sqlite3.Connection, int, int], None]
"""Writes a session as it is with so many messages."""


_clock = itertools.count(1_772_739_114)


def iso() -> str:
    return datetime.fromtimestamp(next(_clock), UTC).isoformat()


def words(session: int, message: int) -> str:
    return f"{session} says {message}: {TEXT}"


def goose(database: sqlite3.Connection, session: int, count: int) -> None:
    row = (f"s{session}", f"Session {session}", "/shop", "2026-03-05", iso())
    database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET updated_at = ?5", row)
    [(there,)] = database.execute("SELECT count(*) FROM messages WHERE session_id = ?", row[:1]).fetchall()
    for number in range(there, count):
        content = json.dumps([{"type": "text", "text": words(session, number)}])
        new = (row[0], "assistant" if number % 2 else "user", content, 1_772_739_114 + number)
        database.execute(
            "INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES (?, ?, ?, ?)", new
        )


def crush(database: sqlite3.Connection, session: int, count: int) -> None:
    row = (f"s{session}", f"Session {session}", 1_772_739_114, next(_clock))
    database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET updated_at = ?4", row)
    for number in range(count):
        parts = json.dumps([{"type": "text", "data": {"text": words(session, number)}}])
        new = (f"m{session}.{number}", row[0], "assistant" if number % 2 else "user", parts, "m", row[2] + number)
        database.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", new)


def opencode(database: sqlite3.Connection, session: int, count: int) -> None:
    row = (f"s{session}", f"Session {session}", "/shop", None, 1, next(_clock))
    database.execute(
        "INSERT INTO session_v2 VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET time_updated = ?6", row
    )
    for number in range(count):
        data = json.dumps({"text": words(session, number)})
        new = (f"m{session}.{number}", row[0], "assistant" if number % 2 else "user", number, data)
        database.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", new)


def cursor(database: sqlite3.Connection, session: int, count: int) -> None:
    headers = [{"bubbleId": f"b{number}", "type": 2 if number % 2 else 1} for number in range(count)]
    chat = {"composerId": f"c{session}", "name": f"Session {session}", "fullConversationHeadersOnly": headers}
    insert = "INSERT INTO cursorDiskKV VALUES (?, ?)"
    [(there,)] = database.execute(
        "SELECT count(*) FROM cursorDiskKV WHERE key GLOB ?", (f"bubbleId:c{session}:*",)
    ).fetchall()
    for number in range(there, count):
        bubble = {"type": 2 if number % 2 else 1, "bubbleId": f"b{number}", "text": words(session, number)}
        database.execute(insert, (f"bubbleId:c{session}:b{number}", json.dumps(bubble)))
    database.execute(insert, (f"composerData:c{session}", json.dumps(chat)))
    database.execute("INSERT INTO ItemTable VALUES ('window.size', ?)", (count,))


def zed(database: sqlite3.Connection, session: int, count: int) -> None:
    messages = [
        {"User": {"id": f"u{number}", "content": [{"Text": words(session, number)}]}}
        if number % 2 == 0
        else {"Agent": {"content": [{"Text": words(session, number)}], "tool_results": {}}}
        for number in range(count)
    ]
    data = json.dumps({"title": f"Session {session}", "messages": messages}).encode()
    row = (f"t{session}", f"Session {session}", iso(), "json", data, None, None, None)
    database.execute("INSERT OR REPLACE INTO threads VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def webui(database: sqlite3.Connection, session: int, count: int) -> None:
    messages = {
        f"m{number}": {
            "id": f"m{number}",
            "parentId": f"m{number - 1}" if number else None,
            "childrenIds": [f"m{number + 1}"] if number + 1 < count else [],
            "role": "assistant" if number % 2 else "user",
            "content": words(session, number),
        }
        for number in range(count)
    }
    chat = json.dumps({"title": "x", "history": {"messages": messages, "currentId": f"m{count - 1}"}})
    row = (f"c{session}", "ada", f"Session {session}", chat, 1, next(_clock))
    database.execute(
        "INSERT INTO chat VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET chat = ?4, updated_at = ?6", row
    )


def kiro(database: sqlite3.Connection, session: int, count: int) -> None:
    history: list[dict[str, object]] = []
    for number in range(0, count, 2):
        history.append({"user": asked(Prompt={"prompt": words(session, number)})})
        if number + 1 < count:
            history[-1]["assistant"] = {"Response": {"content": words(session, number + 1)}}
    value = json.dumps({"conversation_id": f"k{session}", "history": history})
    row = (f"/shop/{session}", f"k{session}", value, 1, next(_clock))
    database.execute(
        "INSERT INTO conversations_v2 VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = ?3, updated_at = ?5", row
    )


def amazon_q(database: sqlite3.Connection, session: int, count: int) -> None:
    history = [
        [
            {"content": {"Prompt": {"prompt": words(session, number)}}},
            {"Response": {"content": words(session, number + 1)}} if number + 1 < count else {},
        ]
        for number in range(0, count, 2)
    ]
    value = json.dumps({"conversation_id": f"q{session}", "history": history})
    database.execute("INSERT OR REPLACE INTO conversations VALUES (?, ?)", (f"/shop/{session}", value))


def older(database: sqlite3.Connection, session: int, count: int) -> None:
    row = (f"s{session}", "p", None, "x", "/shop", f"Session {session}", "1", None, 1, next(_clock))
    insert = f"INSERT INTO session VALUES ({', '.join('?' * len(row))}) ON CONFLICT DO UPDATE SET time_updated = ?"
    database.execute(insert, (*row, row[-1]))
    for number in range(count):
        message = json.dumps({"role": "assistant" if number % 2 else "user", "time": {"created": number + 1}})
        new = (f"m{session}.{number}", row[0], number + 1, 1, message)
        database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", new)
        part = json.dumps({"type": "text", "text": words(session, number)})
        database.execute(
            "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", (f"p{new[0]}", *new[:4], part)
        )


def hermes(database: sqlite3.Connection, session: int, count: int) -> None:
    row = (f"s{session}", "m", None, 1_772_739_114, "/shop", f"Session {session}", 0, 0, 0)
    database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
    [(there,)] = database.execute("SELECT count(*) FROM messages WHERE session_id = ?", row[:1]).fetchall()
    insert = "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)"
    for number in range(there, count):
        role = "assistant" if number % 2 else "user"
        database.execute(insert, (row[0], role, words(session, number), 1_772_739_114 + number))


def openclaw(database: sqlite3.Connection, session: int, count: int) -> None:
    row = (f"s{session}", f"agent:{session}", f"Session {session}", 1_772_739_114_000)
    database.execute("INSERT INTO session_windows VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
    for number in range(count):
        content = [{"type": "text", "text": words(session, number)}]
        message = {"role": "assistant" if number % 2 else "user", "content": content}
        event = json.dumps({"type": "message", "id": f"m{number}", "message": message})
        new = (row[0], number, event, number)
        database.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", new)


def llm(database: sqlite3.Connection, session: int, count: int) -> None:
    """Write a prompt with its answer for each two messages; of the last one there may be no answer."""
    key = f"c{session}"
    database.execute("INSERT INTO conversations VALUES (?, ?, 'm') ON CONFLICT DO NOTHING", (key, f"Session {session}"))
    [(there,)] = database.execute("SELECT count(*) FROM responses WHERE conversation_id = ?", (key,)).fetchall()
    insert = "INSERT INTO responses (id, model, prompt, response, conversation_id) VALUES (?, 'm', ?, ?, ?)"
    for number in range(there, count):
        said = (words(session, number), None) if number % 2 == 0 else (None, words(session, number))
        database.execute(insert, (f"r{next(_clock)}", *said, key))


MADE: dict[str, tuple[str, Write]] = {
    "opencode": (
        OLDER + "; CREATE INDEX of_message ON part (message_id); CREATE INDEX of_session ON message (session_id)",
        older,
    ),
    "goose": (GOOSE, goose),
    "crush": (CRUSH, crush),
    "opencode-v2": (OPENCODE, opencode),
    "cursor-ide": (CURSOR, cursor),
    "zed": (ZED, zed),
    "open-webui": (WEBUI, webui),
    "kiro-db": (KIRO, kiro),
    "amazon-q": (KIRO, amazon_q),
    # beside the tables of the older generation
    "opencode-both": (f"{OLDER}; {OPENCODE}", opencode),
    "hermes-db": (HERMES, hermes),
    "openclaw": (OPENCLAW, openclaw),
    "llm-logs": (LLM, llm),
}
FORMAT_OF = {"opencode-both": "opencode", "amazon-q": "kiro-db"}
"""The formats of those that are called otherwise."""


_NEWEST = "rowid = (SELECT max(rowid) FROM {0} WHERE (SELECT count(*) FROM {0} WHERE session_id = 's3') = 6)"
LAST = {
    "part": "id = 'pm3.5'",
    "messages": _NEWEST.format("messages"),
    "session_message": _NEWEST.format("session_message"),
    "cursorDiskKV": "key = 'bubbleId:c3:b5'",
    "transcript_events": "session_id = 's3' AND seq = 5",
    "responses": _NEWEST.format("responses").replace("session_id = 's3'", "conversation_id = 'c3'"),
}


def said(store: Store) -> list[list[tuple[object, str]]]:
    return sorted(events(store, one) for one in store.library.conversations())


def said_by_a_new_store(folder: Path, path: Path) -> list[list[tuple[object, str]]]:
    with Store.open(folder, renderer=FileRenderer()) as store:
        assert Importer(store).run([path], by_hand=False).errors == []
        return said(store)


def read_bytes() -> int:
    """Return how many bytes this process has read, from files or from the kernel's memory of them."""
    [line] = [line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")]
    return int(line.split()[1])


def taken(store: Store, path: Path) -> ImportReport:
    """Import as a watcher does."""
    report = Importer(store).run([path], by_hand=False)
    assert report.errors == []
    return report


@pytest.fixture(params=MADE)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, sqlite3.Connection, Write]]:
    """Yield a database, a connection of the program that writes to it, and what writes a session."""
    schema, write = MADE[request.param]
    path = tmp_path / "tool" / "data.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.executescript(schema)
        for session in range(SESSIONS):
            write(database, session, MESSAGES)
        database.commit()
        yield path, database, write


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_little_of_a_large_database_is_read(
    tmp_path: Path, made: tuple[Path, sqlite3.Connection, Write], journal: str
) -> None:
    path, database, write = made
    database.execute(f"PRAGMA journal_mode = {journal}")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    source = claim(path, FORMATS)
    assert source is not None
    format_ = format_named(source.format)
    marks = format_.reached(source)
    write(database, 7, 5)
    database.commit()
    before = read_bytes()
    found = format_.changed(source, marks, tmp_path)
    read = read_bytes() - before
    assert found is not None
    lines = found[0].read_bytes()
    assert b"7 says 4" in lines
    assert lines.count(b'"begins"') <= 2
    assert path.stat().st_size > 2 << 20
    # Kiro has the time behind the text, and llm the conversation, and no index: SQLite walks through all of it
    assert read < path.stat().st_size / LEAST_OF_IT or write in (kiro, llm)


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_what_is_new_comes_in_without_the_rest(
    store: Store,
    tmp_path: Path,
    made: tuple[Path, sqlite3.Connection, Write],
    journal: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, database, write = made
    database.execute(f"PRAGMA journal_mode = {journal}")
    # the log stays
    database.execute("PRAGMA wal_autocheckpoint = 0")
    assert taken(store, path).imported == SESSIONS
    copied: list[Path] = []
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "_copy_all", lambda one, _other: copied.append(one))
        for step, (session, count) in enumerate([(7, 5), (SESSIONS, 2), (7, 6), (SESSIONS - 1, 5), (SESSIONS, 3)]):
            write(database, session, count)
            database.commit()
            report = taken(store, path)
            assert (report.imported, report.grown) == ((1, 0) if step == 1 else (0, 1)), step
    assert copied == []
    assert said(store) == said_by_a_new_store(tmp_path / "whole", path)
    assert fsck(store) == []
    # an import by hand reads, and keeps, all of it
    assert Importer(store).run([path]).errors == []
    assert said(store) == said_by_a_new_store(tmp_path / "again", path)


def test_every_format_of_databases_is_made_here() -> None:
    named = {one.name for one in FORMATS if isinstance(one, sqlite.DatabaseFormat)}
    # Kilo's program is opencode's; a database of Cursor's command line is one chat, of which a change rewrites all;
    # what Hermes exports is no database
    assert named - {"kilo", "cursor-store", "hermes-export"} == {FORMAT_OF.get(kind, kind) for kind in MADE}


def watched_steps(
    store: Store, folder: Path, kind: str, sessions: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int, int]:
    """Return how far SQLite goes in looks at a database: for a new message, and for what is in other tables, twice."""
    schema, write = MADE[kind]
    path = folder / f"{sessions}" / "data.db"
    path.parent.mkdir()
    steps: list[None] = []
    found: list[int] = []

    def counting(database: sqlite3.Connection, _size: int) -> None:
        database.set_progress_handler(lambda: steps.append(None), 1)

    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"PRAGMA journal_mode = wal; {schema}; CREATE TABLE other (a)")
        for session in range(sessions):
            write(database, session, 2)
        database.commit()
        taken(store, path)
        # what a walk costs is bounded by how often it is made: here, once
        write(database, sessions - 1, 3)
        database.commit()
        assert taken(store, path).grown == 1
        with monkeypatch.context() as patched:
            patched.setattr(sqlite, "limit", counting)
            for new in (True, False, False):
                if new:
                    write(database, sessions - 1, 4)
                database.execute("INSERT INTO other VALUES (1)")
                database.commit()
                steps.clear()
                assert taken(store, path).grown == new
                found.append(len(steps))
    return found[0], found[1], found[2]


@pytest.mark.parametrize("kind", MADE)
def test_a_look_at_a_larger_database_asks_no_more_of_it(
    store: Store, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.formats.declared.database._LONG_S", 0.0)
    monkeypatch.setattr("store.formats.declared.database._SHARE", 1e9)
    monkeypatch.setattr("tests.store.importing.test_database_changes.TEXT", "so")
    small, large = (watched_steps(store, tmp_path, kind, count, monkeypatch) for count in (30, 300))
    # where something is read, no index leads to what belongs to a response of llm, and Cursor's chats are looked for
    # among their keys
    for few, many in list(zip(small, large, strict=True))[{"llm-logs": 1, "cursor-ide": 2}.get(kind, 0) :]:
        assert 0 < many < 1.2 * few


ROWS = ["goose", "crush", "opencode", "opencode-v2", "opencode-both", "hermes-db", "openclaw"]
"""Those with a row a session and rows of messages."""


@pytest.mark.parametrize("kind", ROWS)
def test_sessions_without_messages_are_not_asked_for_them(
    store: Store, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, write = MADE[kind]
    limit, told = sqlite.limit, list[str]()

    def traced(database: sqlite3.Connection, size: int) -> None:
        limit(database, size)
        database.set_trace_callback(told.append)

    monkeypatch.setattr(sqlite, "limit", traced)
    counts: list[int] = []
    for empty in (3, 300):
        path = tmp_path / f"{empty}.db"
        with closing(sqlite3.connect(path)) as database:
            database.executescript(schema)
            for session in range(empty):
                write(database, session, 0)
            for session in (empty, 0):
                write(database, session, 2)
            database.commit()
        told.clear()
        assert taken(store, path).imported == (2 if empty == 3 else 1)
        counts.append(len(told))
    assert counts[0] == counts[1]


def test_a_damaged_page_hides_no_sessions_but_those_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, page = tmp_path / "data.db", 512
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"PRAGMA page_size = {page}; {GOOSE}")
        monkeypatch.setattr("tests.store.importing.test_database_changes.TEXT", "so")
        for session in range(60):
            goose(database, session, 2 * (session % 2))
        database.commit()
    whole, format_ = path.read_bytes(), format_named("goose")

    def found() -> list[str]:
        try:
            with sqlite.opened(path, tmp_path) as one:
                return [line.begins.key for line in format_.lines(one) if line.begins]
        except UsageError:
            return []

    hidden = 0
    for start in range(page, len(whole), page):
        path.write_bytes(whole[:start] + bytes(page) + whole[start + page :])
        asked = found()
        with monkeypatch.context() as patched:
            patched.setattr(Sessions, "_are_said", lambda _sessions, _database: "")
            assert found() == asked
        hidden += 0 < len(asked) < 30
    assert hidden


def test_the_last_message_is_seen_as_it_is_written(
    store: Store, made: tuple[Path, sqlite3.Connection, Write], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, database, write = made
    taken(store, path)
    for text in ("Hm.", "Hm. So.", "Hm. So. Yes."):
        monkeypatch.setattr("tests.store.importing.test_database_changes.TEXT", text)
        for table, last in LAST.items():
            if sqlite.columns_of(database, table):
                # the tools that keep rows write these anew
                database.execute(f"DELETE FROM {table} WHERE {last}")
        write(database, 3, 6)
        database.commit()
        report = taken(store, path)
        assert report.grown == 1
        assert f"3 says 5: {text}" in {words for one in said(store) for _kind, words in one}


def test_a_database_in_the_middle_of_a_change_waits(store: Store, made: tuple[Path, sqlite3.Connection, Write]) -> None:
    path, database, write = made
    taken(store, path)
    database.execute("BEGIN EXCLUSIVE")
    write(database, 5, 5)
    database.execute("PRAGMA cache_spill = 1")
    report = taken(store, path)
    assert report.grown == 0
    database.commit()
    report = taken(store, path)
    assert report.grown == 1


def test_walks_through_a_table_without_an_index_are_put_off_and_new_rows_are_not(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA journal_mode = wal;" + KIRO)
        for session in range(5):
            kiro(database, session, 2)
        database.commit()
        assert taken(store, path).imported == 5
        # as if it were large
        monkeypatch.setattr("store.formats.declared.database._LONG_S", 0.0)
        monkeypatch.setattr("store.formats.declared.database._SHARE", 1e9)
        kiro(database, 1, 3)
        database.commit()
        report = taken(store, path)
        assert (report.grown, report.put_off) == (1, UNSET)
        kiro(database, 2, 3)
        database.commit()
        report = taken(store, path)
        assert (report.grown, report.imported) == (0, 0)
        assert report.put_off is not UNSET
        kiro(database, 5, 2)
        database.commit()
        report = taken(store, path)
        assert (report.grown, report.imported) == (0, 1)
        assert report.put_off is not UNSET
        # the last row, too, is seen at once
        kiro(database, 5, 3)
        database.commit()
        assert taken(store, path).grown == 1
        later = time.monotonic() + 1e12
        monkeypatch.setattr("store.formats.declared.database.time.monotonic", lambda: later)
        report = taken(store, path)
        assert (report.grown, report.put_off) == (1, UNSET)
    assert said(store) == said_by_a_new_store(tmp_path / "whole", path)


@pytest.mark.parametrize("kind", MADE)
def test_a_database_that_lies_in_its_log_alone_is_told_from_others(tmp_path: Path, kind: str) -> None:
    schema, write = MADE[kind]
    path = tmp_path / "data.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA journal_mode = wal;" + schema)
        write(database, 1, 3)
        database.commit()
        beside = claim(path, FORMATS)
        before = [file.read_bytes() for file in sorted(tmp_path.iterdir())]
        claim(path, FORMATS)
        assert [file.read_bytes() for file in sorted(tmp_path.iterdir())] == before
        for folder, left in (("left", ("", "-wal", "-shm")), ("copied", ("", "-wal"))):
            (tmp_path / folder).mkdir()
            for ending in left:
                shutil.copy(f"{path}{ending}", tmp_path / folder)
    assert beside is not None
    for one in (path, *(tmp_path / folder / path.name for folder in ("left", "copied"))):
        alone = claim(one, FORMATS)
        assert alone is not None
        assert beside.format == alone.format == FORMAT_OF.get(kind, kind)


@pytest.mark.parametrize("name", [b"\xff", b"a?mode=rw#%20b", b"\n '\""], ids=repr)
@pytest.mark.parametrize("kind", ["goose", "hermes-db"])
def test_a_database_in_a_directory_of_any_name(store: Store, tmp_path: Path, kind: str, name: bytes) -> None:
    """One of others with tables of the same names."""
    schema, write = MADE[kind]
    path = tmp_path / os.fsdecode(name) / "data.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.executescript(schema)
        write(database, 1, 3)
        database.commit()
    report = taken(store, path)
    assert (report.imported, [one.format for one in store.library.conversations()]) == (1, [kind])


def test_conversations_in_which_nothing_is_new_rest(
    store: Store, made: tuple[Path, sqlite3.Connection, Write], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, database, write = made
    database.execute("CREATE TABLE other (a)")
    assert taken(store, path).imported == SESSIONS
    monkeypatch.setattr(sqlite, "_REST", 1e9)
    monkeypatch.setattr("store.formats.declared.database._LONG_S", 1e9)
    encoded: list[object] = []
    encode = sqlite.encode_row
    monkeypatch.setattr(sqlite, "encode_row", lambda row: encoded.append(row) or encode(row))
    for look in range(3):
        database.execute("INSERT INTO other VALUES (1)")
        database.commit()
        encoded.clear()
        report = taken(store, path)
        assert (report.grown, report.imported, report.unchanged) == (0, 0, 1)
        # llm's are as they were written
        assert (report.put_off is not UNSET) == (look > 0 and write is not llm)
    assert encoded == []
    if write is not llm:
        with monkeypatch.context() as patched:
            # nor is it asked again whose it is
            patched.setattr("store.importing.importer.walk", None)
            assert taken(store, path).unchanged == 1
    write(database, SESSIONS - 1, MESSAGES + 1)
    database.commit()
    assert taken(store, path).grown == 1


def test_another_file_in_the_place_of_a_database_at_rest_is_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.db"
    monkeypatch.setattr(sqlite, "_REST", 1e9)
    for schema, write in (MADE["goose"], MADE["crush"]):
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database:
            database.executescript(schema)
            write(database, 1, 3)
            database.commit()
        assert [taken(store, path).imported for _ in range(3)] == [1, 0, 0]
    assert {one.format for one in store.library.conversations()} == {"goose", "crush"}


def test_an_older_row_that_nothing_tells_of_is_seen_after_a_rest(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.db"
    monkeypatch.setattr(sqlite, "_REST", 1e9)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"{GOOSE}; PRAGMA journal_mode = wal")
        goose(database, 1, 3)
        database.commit()
        assert [taken(store, path).imported for _ in range(2)] == [1, 0]
        database.execute("UPDATE messages SET content_json = replace(content_json, '1 says 0', '1 said 0')")
        database.commit()
        report = taken(store, path)
        assert (report.grown, report.put_off is UNSET) == (0, False)
        later = time.monotonic() + 1e12
        monkeypatch.setattr("store.formats.core.sqlite.time.monotonic", lambda: later)
        report = taken(store, path)
        assert (report.grown, report.put_off) == (1, UNSET)
    assert said(store) == said_by_a_new_store(tmp_path / "whole", path)


def test_the_title_of_a_branch_is_no_part_of_its_first_message(store: Store, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "webui.db")) as database:
        database.executescript(WEBUI)
        nodes = [("m0", None, "Hm?"), ("m1", "m0", "So."), ("m2", "m0", "Or so.")]
        messages = {
            key: {"id": key, "parentId": parent, "childrenIds": [], "role": "user" if parent is None else "assistant"}
            | {"content": text}
            for key, parent, text in nodes
        }
        chat = json.dumps({"title": "x", "history": {"messages": messages, "currentId": "m2"}})
        row = ("c1", "ada", "What is said of birds", chat, 1, 1)
        database.execute("INSERT INTO chat VALUES (?, ?, ?, ?, ?, ?)", row)
        database.commit()
    taken(store, tmp_path / "webui.db")
    shown: list[str] = []
    for one in store.library.conversations():
        for _row, event in store.viewer.events(store.records.rows(one.head)):
            assert isinstance(event, Event)
            shown += [block.text for block in event.blocks if block.text]
    assert sorted(shown) == ["Hm?", "Hm?", "Or so.", "So."]


def test_responses_of_llm_that_were_deleted_and_numbered_anew_are_followed(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "logs.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA journal_mode = wal;" + LLM)
        for session in (1, 2, 3):
            llm(database, session, 4)
        database.commit()
        assert taken(store, path).imported == 3
        llm(database, 1, 5)
        database.commit()
        assert taken(store, path).grown == 1
        database.execute("DELETE FROM responses WHERE conversation_id = 'c2'")
        database.commit()
        database.execute("VACUUM")
        llm(database, 3, 6)
        llm(database, 4, 2)
        database.commit()
        report = taken(store, path)
        assert (report.imported, report.grown) == (1, 1)
        # its first row has gone: the others are a conversation still
        database.execute("DELETE FROM responses WHERE rowid = (SELECT min(rowid) FROM responses)")
        llm(database, 1, 8)
        database.commit()
        taken(store, path)
        database.execute("DELETE FROM responses WHERE conversation_id = 'c4'")
        llm(database, 5, 3)
        database.commit()
        assert taken(store, path).imported == 1
    texts = {text.partition(":")[0] for one in said(store) for _kind, text in one}
    assert {"1 says 7", "3 says 5", "4 says 1", "5 says 2"} <= texts
    assert fsck(store) == []


@pytest.mark.parametrize("time", [float("inf"), 1e308, 10**18, b"\xff", "soon"])
def test_a_time_that_is_none_ends_no_import(store: Store, tmp_path: Path, time: object) -> None:
    with closing(sqlite3.connect(tmp_path / "data.sqlite3")) as database:
        database.executescript(KIRO)
        kiro(database, 1, 2)
        database.execute("UPDATE conversations_v2 SET created_at = ?", (time,))
        database.commit()
    assert taken(store, tmp_path / "data.sqlite3").imported == 1
    assert [text.partition(":")[0] for _kind, text in events(store, store.library.conversations()[0])] == [
        "1 says 0",
        "1 says 1",
    ]

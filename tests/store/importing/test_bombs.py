"""Containers that hold more than they seem to: each costs one line, some memory, and nothing is left on the disk."""

import gzip
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.importing import session as importing
from store.importing.importer import Importer
from store.store import Store
from tests import forked
from tests.store.importing.sessions import jp
from tests.waiting import until

ROOT = Path(__file__).parents[3]
MEGABYTE = 1 << 20
MOST_MEMORY = 300 * MEGABYTE
SECONDS = 240
NODE = {
    "id": "a",
    "message": {
        "id": "a",
        "author": {"role": "user"},
        "create_time": 1.0,
        "content": {"content_type": "text", "parts": ["hi"]},
    },
    "parent": None,
    "children": [],
}
TALK = {"title": "T", "create_time": 1.0, "mapping": {"a": NODE}, "current_node": "a", "conversation_id": "c1"}
BEGINNING = b"[" + json.dumps(TALK).encode() + b","
"""A conversation as ChatGPT exports it, so that the archive is taken for one."""


def run(home: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run the command on the store of a test, and see to it that it takes little memory."""
    done = forked.run(
        "fusefs.cli",
        *("--store", home / "store", *arguments),
        directory=home,
        environment=os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(home), "TMPDIR": str(home / "tmp")},
        timeout=SECONDS,
    )
    assert done.peak < MOST_MEMORY, f"{done.peak >> 20} MB: {done.stderr}"
    assert "bug in convfs" not in done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "tmp").mkdir()
    yield tmp_path
    assert list((tmp_path / "tmp").iterdir()) == []
    scratch = tmp_path / "store" / "scratch"
    assert [path for path in scratch.rglob("*") if path.is_file()] == []


def repeated(piece: bytes, size: int) -> Iterator[bytes]:
    many = piece * (MEGABYTE // len(piece))
    yield from (many for _ in range(size // len(many)))


def zipped(path: Path, pieces: Iterator[bytes], name: str = "conversations.json") -> Path:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        member.write(BEGINNING)
        member.writelines(pieces)
    return path


@pytest.mark.parametrize("piece", [b" ", b"{},", b"[", b"a"], ids=["blanks", "objects", "nested", "letters"])
def test_an_archive_of_a_megabyte_that_unpacks_to_hundreds(home: Path, piece: bytes) -> None:
    path = zipped(home / "bomb.zip", repeated(piece, 250 * MEGABYTE))
    assert path.stat().st_size < MEGABYTE
    for arguments in (["--dry-run"], []):
        done = run(home, "import", *arguments, path)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "unpacks to more than" in line
        assert "bomb.zip" in line


def test_what_unpacks_within_bounds_takes_bounded_memory(home: Path) -> None:
    done = run(home, "import", zipped(home / "bomb.zip", repeated(b" ", 56 * MEGABYTE)))
    assert done.returncode == 1
    assert "are no conversations" in done.stderr


def test_a_file_of_too_many_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "many.zip", iter([json.dumps(TALK).encode() + b"," for _ in range(20)]))
    monkeypatch.setattr(importing, "MOST_RECORDS", 20)
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([path])
    assert report.imported == 0
    assert "more than 20 records" in report.errors[0]


def test_an_archive_that_lists_the_same_bytes_again_and_again(home: Path) -> None:
    """Members that overlap: each is small for what it holds, all of them are not."""
    path = home / "overlapping.zip"
    zipped(path, repeated(b" ", 8 * MEGABYTE))
    with zipfile.ZipFile(path, "a") as archive:
        (first,) = archive.infolist()
        for number in range(500):
            again = zipfile.ZipInfo(f"conversations-{number:03}.json")
            for field in ("header_offset", "compress_size", "file_size", "CRC", "compress_type"):
                setattr(again, field, getattr(first, field))
            archive.filelist.append(again)
        archive._didModify = True  # type: ignore[attr-defined]
    done = run(home, "import", path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


def test_an_archive_of_very_many_members(home: Path) -> None:
    path = zipped(home / "many.zip", iter(()))
    with zipfile.ZipFile(path, "a") as archive:
        one = zipfile.ZipInfo("x" * 40)
        one.header_offset = one.CRC = 0
        archive.filelist += [one] * 300_000
        archive._didModify = True  # type: ignore[attr-defined]
    done = run(home, "import", path)
    assert done.stdout.startswith("Conversations: 0 imported")


def test_large_archives_of_real_things_are_read(home: Path) -> None:
    """Text that shrinks to a thirtieth, and images that do not shrink."""
    talks = [TALK | {"conversation_id": f"c{number}"} for number in range(2000)]
    with zipfile.ZipFile(home / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(talks, indent=8))
        for number in range(8):
            archive.writestr(f"file-{number}.png", os.urandom(4 * MEGABYTE))
    done = run(home, "import", home / "export.zip")
    assert done.returncode == 0, done.stderr
    assert "2000 imported" in done.stdout


@pytest.mark.parametrize("dry", [True, False])
def test_killed_while_it_unpacks(home: Path, dry: bool) -> None:
    path = zipped(home / "large.zip", iter([os.urandom(40 * MEGABYTE), b'"' * MEGABYTE]))
    command = [sys.executable, "-m", "fusefs.cli", "--store", home / "store", "import", *["--dry-run"] * dry, path]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(home), "TMPDIR": str(home / "tmp")}
    where = home / "tmp" if dry else home / "store" / "scratch"
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: any(path.name == "conversations.json" for path in where.rglob("*")))
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    until(lambda: not list(where.glob(".convfs-*")))


def test_blobs_that_unpack_to_gigabytes(home: Path) -> None:
    content = gzip.compress(bytes(200 * MEGABYTE))
    name = hashlib.sha256(b"x").hexdigest()
    folder = jp(home, [{"type": "chat_request", "content": {"$blob": name}, "timestamp": "2026-03-05 23:12:00.3"}])
    (home / ".jp" / "blobs").mkdir()
    (home / ".jp" / "blobs" / f"{name}.blob.gz").write_bytes(content)
    done = run(home, "import", folder)
    assert done.stdout.startswith("Conversations: 1 imported")
    assert "unpacks to more than" in done.stderr


def test_files_that_are_holes(home: Path) -> None:
    path = home / "projects" / "-home-ada" / "a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"type":"user","sessionId":"a","uuid":"u","message":{"role":"user","content":"x"}}\n')
    os.truncate(path, 1 << 42)
    done = run(home, "import", path)
    assert done.returncode == 1
    assert "unpacks to more" in done.stderr


HOSTILE = {
    "a view without end": """
        CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
        CREATE VIEW responses AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
            SELECT x AS rowid, x AS id, 'c' AS conversation_id, 'm' AS model, zeroblob(1000000) AS prompt FROM n;
    """,
    "a view of views": """
        CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
        CREATE TABLE t (x); INSERT INTO t VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10);
        CREATE VIEW responses AS SELECT a.x AS rowid, a.x AS id, 'c' AS conversation_id, 'm' AS model, 'p' AS prompt
            FROM t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l, t m, t n ORDER BY b.x + c.x;
    """,
    "generated cells": """
        CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
        CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, conversation_id TEXT, datetime_utc TEXT,
            prompt TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000))) VIRTUAL);
        INSERT INTO responses VALUES ('a', 'm', 'c', '2026');
    """,
}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("arguments", [["--dry-run"], []], ids=["dry", "import"])
def test_databases_that_are_programs(home: Path, schema: str, arguments: list[str]) -> None:
    path = home / "logs.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(schema)
    done = run(home, "import", "--format", "llm-logs", *arguments, path)
    assert done.returncode == 1
    assert "logs.db" in done.stderr
    assert len(done.stderr.splitlines()) == 1


RECORDS = {
    "lists": "[" + "[]," * 8_000_000 + "[]]",
    "blocks": json.dumps([{"type": "text", "text": "a"}] * 400_000),
    "lifted": '[{"type":"tool_use","id":"t","name":"n","input":[' + r'"\"",' * 400_000 + "0]}]",
    "escapes": json.dumps("some\ntext " * (4 * MEGABYTE)),
    "characters": json.dumps("\U0001f600" + "some text " * (5 * MEGABYTE), ensure_ascii=False),
}


@pytest.mark.parametrize("content", RECORDS.values(), ids=RECORDS)
def test_records_that_take_much_more_memory_once_they_are_read(home: Path, content: str) -> None:
    said = '{"type":"user","sessionId":"s","uuid":"u","cwd":"/x","message":{"role":"user","content":%s}}\n'
    path = home / "projects" / "-x" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(said % one for one in ('"hi"', content, '"bye"')))
    done = run(home, "import", home / "projects")
    assert (done.returncode, done.stderr) == (0, "")
    (listed,) = json.loads(run(home, "ls", "--json").stdout)
    run(home, "export", listed["id"], "-o", home / "out")
    (exported,) = (home / "out").rglob("*.jsonl")
    assert exported.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
@pytest.mark.parametrize("what", ["text", "blob", "document"])
def test_a_database_with_a_very_large_cell(home: Path, what: str, encoding: str) -> None:
    path = home / "sessions.db"
    text = "some text that goes on " * (4 * MEGABYTE)
    cell: object = {"text": text, "blob": b"\xff" + text.encode(), "document": json.dumps([{"text": text}])}[what]
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"""
            PRAGMA encoding = '{encoding}';
            CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, working_dir TEXT);
            CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
                created_timestamp INTEGER);
            INSERT INTO sessions VALUES ('a', 'A', '/x'), ('b', 'B', '/x');
        """)
        for session, said in (("a", '[{"type":"text","text":"hi"}]'), ("a", cell), ("b", "[]")):
            database.execute("INSERT INTO messages VALUES (NULL, ?, 'user', ?, 1)", [session, said])
        database.commit()
    done = run(home, "import", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Conversations: 2 imported, 0 grown, 0 unchanged (5 records")
    done = run(home, "export", "A", "-o", home / "out")
    assert (home / "out" / "sessions.db").read_bytes() == path.read_bytes()


BUBBLES = {"composerId": "c", "fullConversationHeadersOnly": [{"bubbleId": "a"}, {"bubbleId": "b"}]}
MESSAGES = {"a": {"id": "a", "role": "user", "content": "Hi"}, "b": {"id": "b", "role": "assistant", "content": "LONG"}}
SAID = [{"type": 1, "text": "Hi"}, {"type": 2, "text": "LONG"}]
LONG = {
    "cursor-ide": (
        "CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)",
        [
            ("cursorDiskKV", ("composerData:c", json.dumps(BUBBLES))),
            ("cursorDiskKV", ("bubbleId:c:a", json.dumps({"type": 1, "text": "Hi"}))),
            ("cursorDiskKV", ("bubbleId:c:b", json.dumps({"type": 2, "text": "LONG"}))),
        ],
    ),
    "cursor-ide in one": (
        "CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)",
        [("cursorDiskKV", ("composerData:c", json.dumps({"conversation": SAID})))],
    ),
    "open-webui": (
        "CREATE TABLE chat (id TEXT PRIMARY KEY, user_id TEXT, title TEXT, chat TEXT, created_at INTEGER)",
        [("chat", ("c", "u", "T", json.dumps({"history": {"messages": MESSAGES, "currentId": "b"}}), 1))],
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_a_very_large_message_in_a_document(home: Path, name: str) -> None:
    path = home / "long.db"
    schema, rows = LONG[name]
    with closing(sqlite3.connect(path)) as database:
        database.executescript(schema)
        for table, row in rows:
            cells = [one.replace("LONG", "some text " * 8 * MEGABYTE) if isinstance(one, str) else one for one in row]
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(cells))})", cells)
        database.commit()
    done = run(home, "import", "--format", name.split(maxsplit=1)[0], path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Conversations: 1 imported, 0 grown, 0 unchanged (3 records")


def test_a_document_that_is_too_large_costs_no_other(home: Path) -> None:
    """It comes in as it stands."""
    path = home / "state.vscdb"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)")
        for key, text in (("a", "some text " * 11 * MEGABYTE), ("b", "some text")):
            value = json.dumps({"composerId": key, "conversation": [{"type": 1, "text": text}]})
            database.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", [f"composerData:{key}", value])
        database.commit()
    done = run(home, "import", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Conversations: 2 imported, 0 grown, 0 unchanged (3 records")


@pytest.mark.parametrize(
    "document",
    ['{"messages":[' + "1," * 40_000_000 + "1]}", '{"messages":[1]' + ',"":1' * 12_500_000 + "}"],
    ids=["messages", "members"],
)
def test_a_document_of_very_many_values_costs_no_other(home: Path, document: str) -> None:
    path = home / "threads.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT, data_type TEXT, data TEXT)")
        for key, data in (("a", document), ("b", '{"messages":[{"User":{"content":[{"Text":"Hi"}]}}]}')):
            database.execute("INSERT INTO threads VALUES (?, ?, 'json', ?)", [key, key, data])
        database.commit()
    done = run(home, "import", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Conversations: 2 imported")


def test_a_very_large_message_in_a_row(home: Path) -> None:
    path = home / "webui.db"
    rows = [("c-a", "c", "user", None, '"Hi"'), ("c-b", "c", "assistant", "a", json.dumps("some text " * 8 * MEGABYTE))]
    with closing(sqlite3.connect(path)) as database:
        database.executescript("""
            CREATE TABLE chat (id TEXT PRIMARY KEY, user_id TEXT, title TEXT, chat TEXT, created_at INTEGER);
            CREATE TABLE chat_message (id TEXT PRIMARY KEY, chat_id TEXT, role TEXT, parent_id TEXT, content TEXT,
                model_id TEXT, created_at INTEGER);
            INSERT INTO chat VALUES ('c', 'u', 'T', '{"history":{"currentId":"b"}}', 1), ('d', 'u', 'T', '{}', 1);
            INSERT INTO chat_message VALUES ('d-a', 'd', 'user', NULL, '"Hello"', NULL, 1);
        """)
        database.executemany("INSERT INTO chat_message VALUES (?, ?, ?, ?, ?, 'm', 1)", rows)
        database.commit()
    done = run(home, "import", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Conversations: 2 imported, 0 grown, 0 unchanged (5 records")


def test_a_very_large_message_in_an_export(home: Path) -> None:
    chat = {"id": "c", "user_id": "u", "title": "T", "chat": {"history": {"messages": MESSAGES, "currentId": "b"}}}
    path = home / "chat-export.json"
    path.write_text(json.dumps([chat], indent=2).replace("LONG", "some text " * 7 * MEGABYTE))
    done = run(home, "import", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Conversations: 1 imported, 0 grown, 0 unchanged (3 records")


def test_an_export_of_too_many_values(home: Path) -> None:
    chat = {"id": "c", "user_id": "u", "title": "T", "chat": {"history": {"messages": MESSAGES, "currentId": "b"}}}
    path = home / "chat-export.json"
    path.write_text(json.dumps([chat | {"tags": [0] * 1_100_000}]))
    done = run(home, "import", path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "too many values" in line


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [190, 490, 990, 1_000_000])
def test_lists_in_lists(home: Path, depth: int) -> None:
    """However deep, it is brought in, shown and exported; where it is too deep to be looked into, as it stands."""
    deep = nested(depth)
    lines = []
    for number, content in enumerate(
        (f'[{{"type":"tool_use","id":"t","name":"n","input":{{"a":{deep}}}}}]', deep, '"x"')
    ):
        lines.append(
            f'{{"type":"user","sessionId":"s","uuid":"u{number}","cwd":"/x","extra":{deep},'
            f'"message":{{"role":"user","content":{content}}}}}\n'
        )
    path = home / "projects" / "-x" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(lines))
    document = home / "documents" / "openai.json"
    document.parent.mkdir()
    document.write_text(f'[{{"role":"user","content":"hi"}},{{"role":"assistant","content":{deep}}}]')
    jp(home, f'[{{"timestamp":"2026-03-05 23:12:00.3","type":"chat_request","content":{deep}}}]'.encode())
    done = run(home, "import", home / "projects", home / "documents", home / ".jp")
    assert done.returncode == 0, done.stderr
    listed = json.loads(run(home, "ls", "--json").stdout)
    assert len(listed) >= 2
    for conversation in listed:
        for arguments in (["show"], ["show", "--json"], ["context"]):
            run(home, *arguments, conversation["id"])
        for form in ("native", "html", "jp", "codex"):
            done = run(home, "export", conversation["id"], "--format", form, "-o", home / "out" / form)
            assert done.returncode == 0, done.stderr
    run(home, "search", "hi")
    run(home, "stats")
    assert run(home, "fsck").returncode == 0

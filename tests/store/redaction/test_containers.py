"""Archives and databases that hold a secret where it is not seen from outside."""

import base64
import io
import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.errors import DamageError
from store.events.conversation import ARTIFACTS
from store.importing.exporter import export_native
from store.importing.importer import Importer
from store.redaction.containers import clean, hold
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.redaction.wanted import Wanted, find
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.formats.databases import llm_database

SECRET = "tr0ub4dor&3"
SECRETS = Secrets([SECRET.encode()])


def archive(**members: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as written:
        for name, text in members.items():
            written.writestr(name, text)
    return data.getvalue()


def members(data: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert read.testzip() is None
        return {name: read.read(name).decode() for name in read.namelist()}


def database(path: Path) -> bytes:
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("CREATE TABLE said (id INTEGER PRIMARY KEY, text TEXT, data BLOB)")
        sql.execute("CREATE VIRTUAL TABLE found USING fts5 (text, content = 'said', content_rowid = 'id')")
        sql.execute(
            "CREATE TRIGGER changed AFTER UPDATE ON said BEGIN"
            " INSERT INTO found (found, rowid, text) VALUES ('delete', old.id, old.text);"
            " INSERT INTO found (rowid, text) VALUES (new.id, new.text); END"
        )
        for number in range(30):
            # long ones lie in pieces, on pages of their own
            text = f"{number} " + "word " * 900 + (SECRET if number % 3 == 0 else "nothing") + " word" * 900
            sql.execute("INSERT INTO said (text, data) VALUES (?, ?)", (text, SECRET.encode("utf-16-le")))
            sql.execute("INSERT INTO found (rowid, text) VALUES (last_insert_rowid(), ?)", (text,))
        # what was deleted is still in the file
        sql.execute("DELETE FROM said WHERE id = 4")
    return path.read_bytes()


def opened(data: bytes, path: Path) -> sqlite3.Connection:
    path.write_bytes(data)
    found = sqlite3.connect(path)
    assert found.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return found


def test_an_archive(tmp_path: Path) -> None:
    data = archive(**{"conversations.json": f'["{SECRET}"]', "other.txt": "word " * 99})
    assert SECRET.encode() not in data
    assert hold(data, SECRETS, tmp_path)
    cleaned = clean(data, SECRETS, tmp_path)
    assert members(cleaned) == {"conversations.json": '["[redacted]"]', "other.txt": "word " * 99}
    assert not hold(cleaned, SECRETS, tmp_path)
    assert not hold(archive(one="nothing"), SECRETS, tmp_path)


def test_a_database(tmp_path: Path) -> None:
    data = database(tmp_path / "one.db")
    assert hold(data, SECRETS, tmp_path)
    cleaned = clean(data, SECRETS, tmp_path)
    assert not hold(cleaned, SECRETS, tmp_path)
    assert b"tr0ub4dor" not in cleaned
    (tmp_path / "two.db").write_bytes(cleaned)
    with closing(sqlite3.connect(tmp_path / "two.db")) as sql:
        assert sql.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert sql.execute("SELECT count(*) FROM said WHERE text LIKE '%[redacted]%'").fetchone() == (9,)
        assert sql.execute("SELECT count(*) FROM found WHERE found MATCH 'tr0ub4dor'").fetchone() == (0,)
        assert sql.execute("SELECT count(*) FROM found WHERE found MATCH 'redacted'").fetchone()[0] >= 9
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_rows_that_secrets_tell_apart(tmp_path: Path) -> None:
    """Keys stay different from each other, and the rows that refer to them still do."""
    secrets = Secrets([b"tr0ub4dor&3", b"xkcd-936!"])
    path = tmp_path / "one.db"
    with closing(sqlite3.connect(path)) as sql, sql:
        sql.execute("CREATE TABLE said (talk TEXT REFERENCES talks (id), text TEXT)")
        sql.execute(
            "CREATE TABLE talks (id TEXT PRIMARY KEY, name TEXT UNIQUE CHECK (length(name) < 12)) WITHOUT ROWID"
        )
        for number, key in enumerate(("tr0ub4dor&3", "xkcd-936!", "[redacted]")):
            sql.execute("INSERT INTO talks VALUES (?, ?)", (key, f"{number}"))
            sql.execute("INSERT INTO said VALUES (?, ?)", (key, f"{number} {key}"))
        sql.execute("UPDATE talks SET name = 'tr0ub4dor&3' WHERE id = 'xkcd-936!'")
    cleaned = clean(path.read_bytes(), secrets, tmp_path)
    assert not hold(cleaned, secrets, tmp_path)
    (tmp_path / "two.db").write_bytes(cleaned)
    with closing(sqlite3.connect(tmp_path / "two.db")) as sql:
        assert len(sql.execute("SELECT DISTINCT id FROM talks").fetchall()) == 3
        assert len(sql.execute("SELECT DISTINCT name FROM talks").fetchall()) == 3
        found = sql.execute("SELECT said.text FROM said JOIN talks ON id = talk ORDER BY said.rowid").fetchall()
        assert found == [("0 [redacted]",), ("1 [redacted]",), ("2 [redacted]",)]


def test_a_search_index_that_keeps_its_texts(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    with closing(sqlite3.connect(path)) as sql, sql:
        sql.execute("CREATE VIRTUAL TABLE own USING fts5 (text)")
        sql.execute("CREATE VIRTUAL TABLE without USING fts5 (text, content = '')")
        sql.execute("CREATE TABLE own_things (text)")
        for table in ("own", "without", "own_things"):
            sql.execute(f"INSERT INTO {table} (text) VALUES (?)", ("word " * 1500 + SECRET + " word" * 1500,))
    data = path.read_bytes()
    cleaned = clean(data, SECRETS, tmp_path)
    assert not hold(cleaned, SECRETS, tmp_path)
    assert b"tr0ub4dor" not in cleaned
    with closing(opened(cleaned, tmp_path / "two.db")) as sql:
        assert sql.execute("SELECT count(*) FROM own WHERE own MATCH 'redacted'").fetchone() == (1,)
        assert sql.execute("SELECT count(*) FROM own_things WHERE text LIKE '%[redacted]%'").fetchone() == (1,)


def test_names_and_programs_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    with closing(sqlite3.connect(path)) as sql, sql:
        sql.execute(f"CREATE TABLE said (text DEFAULT '{SECRET}', other)")
        sql.execute(f"CREATE VIEW seen AS SELECT * FROM said WHERE text != '{SECRET}'")
        sql.execute("INSERT INTO said (other) VALUES (1)")
    cleaned = clean(path.read_bytes(), SECRETS, tmp_path)
    assert not hold(cleaned, SECRETS, tmp_path)
    with closing(opened(cleaned, tmp_path / "two.db")) as sql:
        sql.execute("INSERT INTO said (other) VALUES (2)")
        assert sql.execute("SELECT text FROM said").fetchall() == [("[redacted]",)] * 2


def test_the_log_of_a_database_belongs_to_it(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("PRAGMA journal_mode = WAL")
        sql.execute("CREATE TABLE said (text)")
        sql.execute("PRAGMA wal_checkpoint (TRUNCATE)")
        # it lies in pieces, in the log alone
        sql.execute("INSERT INTO said VALUES (?)", ("word " * 1618 + SECRET + " word" * 900,))
        data, beside = path.read_bytes(), {"-wal": (tmp_path / "one.db-wal").read_bytes()}
    assert not hold(data, SECRETS, tmp_path)
    assert hold(data, SECRETS, tmp_path, beside)
    with closing(opened(clean(data, SECRETS, tmp_path, beside), tmp_path / "two.db")) as sql:
        assert sql.execute("SELECT count(*) FROM said WHERE text LIKE '%[redacted]%'").fetchone() == (1,)


def test_containers_in_containers(tmp_path: Path) -> None:
    inner = base64.b85encode(archive(**{"a.txt": "nothing"}))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("one.db", database(tmp_path / "one.db"))
        written.writestr("two.zip", archive(**{"notes.txt": SECRET}))
        written.writestr("three", b"PK\x03\x04 is how archives begin: " + inner)
    cleaned = clean(whole.getvalue(), SECRETS, tmp_path)
    assert not hold(cleaned, SECRETS, tmp_path)
    with zipfile.ZipFile(io.BytesIO(cleaned)) as read:
        assert members(read.read("two.zip")) == {"notes.txt": "[redacted]"}
        assert read.read("three").endswith(inner)
        with closing(opened(read.read("one.db"), tmp_path / "two.db")) as sql:
            assert sql.execute("SELECT count(*) FROM said").fetchone() == (29,)


@pytest.mark.parametrize("data", [b"PK\x03\x04 no archive", b"SQLite format 3\0 no database"])
def test_what_cannot_be_read_goes_as_a_whole(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DamageError, match="cannot be looked into"):
        hold(data, SECRETS, tmp_path)
    assert clean(data, SECRETS, tmp_path) == b""


def test_an_export_that_was_imported(memory_path: Path, tmp_path: Path) -> None:
    """Its conversations are redacted, and so is the archive that it is exported as again."""
    export = f"""[{{"uuid": "0d3f0000-0000-4000-8000-000000000001", "name": "Talk", "account": {{"uuid": "a"}},
      "created_at": "2026-03-05T19:00:00.000000Z", "updated_at": "2026-03-05T19:00:00.000000Z",
      "chat_messages": [{{"uuid": "m", "text": "It is {SECRET}.", "sender": "human", "attachments": [], "files": [],
        "content": [{{"type": "text", "text": "It is {SECRET}."}}],
        "created_at": "2026-03-05T19:00:00.000000Z", "updated_at": "2026-03-05T19:00:00.000000Z"}}]}}]"""
    path = tmp_path / "export.zip"
    path.write_bytes(archive(**{"conversations.json": export, "users.json": "[]"}))
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        report = Importer(store).run([path])
        assert (report.errors, report.imported) == ([], 1)
        done = Redaction(store, SECRETS).run()
        assert prove(store, SECRETS, done.gone).found == []
        assert fsck(store) == []
        (conversation,) = store.library.conversations()
        [written] = export_native(store, conversation, tmp_path / "out")
        data = written.read_bytes()
        assert members(data)["conversations.json"] == export.replace(SECRET, "[redacted]")
        assert not hold(data, SECRETS, tmp_path)


KEY = "sk-ant-" + "api03-" + "Zq7w" * 10


@pytest.mark.parametrize("wal", [False, True])
def test_a_database_that_was_imported(memory_path: Path, tmp_path: Path, wal: bool) -> None:
    """Secrets go from their conversations and from the file, wherever they are; ids of them stay."""
    path = llm_database(tmp_path / "logs.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        if wal:
            sql.execute("PRAGMA journal_mode = WAL")
        sql.execute("CREATE TABLE plugins (key TEXT PRIMARY KEY, text TEXT)")
        sql.executemany(
            "INSERT INTO plugins VALUES (?, ?)", [(KEY, "one"), ("AKIA" + "ABCDEFGHIJKLMN23", f"{'x' * 4090}{KEY}")]
        )
        sql.execute(
            "UPDATE responses SET prompt = ? WHERE rowid = 1", (f"My key is {KEY}, DB_PASSWORD=hunter2hunter2",)
        )
        with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
            assert Importer(store).run([path]).errors == []
            ids = {entry.metadata["session"] for entry in store.library.conversations()}
            found = find(store, Wanted(secrets=True))
            assert {KEY.encode(), b"hunter2hunter2"} <= {*found.secrets.literals}
            assert ids.isdisjoint(literal.decode() for literal in found.secrets.literals)
            done = Redaction(store, found.secrets, found.also).run()
            assert done.damaged == ()
            proof = prove(store, found.secrets, done.gone)
            assert (proof.found, proof.unread) == ([], [])
            assert fsck(store) == []
            assert find(store, Wanted(secrets=True)).matches == []
            assert {entry.metadata["session"] for entry in store.library.conversations()} == ids
            for conversation in store.library.conversations():
                written = export_native(store, conversation, tmp_path / f"out{conversation.id}")
                data = {file.name.removeprefix("logs.db"): file.read_bytes() for file in written}
                assert not hold(data.pop(""), found.secrets, tmp_path, data)
                with closing(sqlite3.connect(written[0].parent / "logs.db")) as sql:
                    assert sql.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                    assert sql.execute("SELECT count(*) FROM plugins WHERE key LIKE '[redacted]%'").fetchone() == (2,)
                    said = "My key is [redacted], DB_PASSWORD=[redacted]"
                    assert sql.execute("SELECT prompt FROM responses WHERE rowid = 1").fetchone() == (said,)


@pytest.mark.parametrize("name", ["one.db", "one.zip"])
def test_a_container_beside_conversations(memory_path: Path, tmp_path: Path, name: str) -> None:
    data = database(tmp_path / "one.db") if name == "one.db" else archive(**{"notes.txt": "word " * 99 + SECRET})
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        scratch = store.files.aside.scratch
        (scratch / "mine").mkdir(parents=True)
        (scratch / "mine" / name).write_bytes(data)
        done = Redaction(store, SECRETS).run()
        assert done.files == (f"scratch/mine/{name}",)
        proof = prove(store, SECRETS, done.gone)
        assert (proof.found, proof.unread) == ([], [])
        assert not hold((scratch / "mine" / name).read_bytes(), SECRETS, tmp_path)


def test_an_attachment_that_is_an_archive(memory_path: Path) -> None:
    data = archive(**{"notes.txt": f"{'word ' * 500}{SECRET}"})
    encoded = base64.b64encode(data).decode()
    payload = json.dumps({"type": "user", "file": f"data:application/zip;base64,{encoded}", "short": "cGFzcw=="})
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        turn = store.contexts.append(context, payload.encode(), "jp.event.v1")
        done = Redaction(store, SECRETS).run()
        assert done.turns == (turn.turn_id,)
        assert prove(store, SECRETS, done.gone).found == []
        said = json.loads(store.contents.payload(turn.turn_id))
        assert said["short"] == "cGFzcw=="
        inside = members(base64.b64decode(said["file"].partition(",")[2]))
        assert inside == {"notes.txt": f"{'word ' * 500}[redacted]"}
        assert fsck(store) == []


def test_what_is_too_short_to_be_found_in_base64(memory_path: Path) -> None:
    """A content that has it is another one afterwards, however the payload spells it."""
    content = bytes(range(128, 200)) + b"x" + b"q7!z" + bytes(range(128, 250))
    payload = json.dumps({"type": "user", "data": base64.b64encode(content * 4).decode()})
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        turn = store.contexts.append(context, payload.encode(), "jp.event.v1")
        short = Secrets([b"q7!z"])
        done = Redaction(store, short).run()
        assert prove(store, short, done.gone).found == []
        assert base64.b64decode(json.loads(store.contents.payload(turn.turn_id))["data"]) == (content * 4).replace(
            b"q7!z", b"****"
        )
        assert fsck(store) == []


def test_an_output_that_is_an_archive_is_as_long_as_it_says(memory_path: Path) -> None:
    data = archive(**{"notes.txt": f"{'word ' * 500}{SECRET}{'another ' * 10}"})
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        artifacts = store.artifacts
        name = artifacts.begin(context, ARTIFACTS, "notes.zip")
        artifacts.add(context, ARTIFACTS, name, data)
        artifacts.end(context, ARTIFACTS, name)
        done = Redaction(store, SECRETS).run()
        assert prove(store, SECRETS, done.gone).found == []
        output = artifacts.listed(context, ARTIFACTS)[name]
        assert output.blob is not None
        clean = store.blobs.blob(output.blob)
        assert members(clean)["notes.txt"].count("[redacted]") == 1
        assert output.size == len(clean)
        assert fsck(store) == []

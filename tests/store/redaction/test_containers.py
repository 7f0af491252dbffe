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
from store.store import Store
from store.upkeep.fsck import fsck

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

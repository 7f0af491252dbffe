"""Reasons for what an import skips."""

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from store.importing.skipped import skipped
from tests.store.importing.sessions import lines, session
from tests.store.importing.test_bombs import run

KIRO = "home/.kiro/sessions/w/sess_1/messages.jsonl"


def made(folder: Path) -> dict[str, str]:
    """Write files that no tool writes, and return the beginnings of the reasons by their names."""
    files = folder / "files"
    (files / KIRO).parent.mkdir(parents=True)
    (files / KIRO).write_text(json.dumps({"version": 9, "words": [["Fix the login"]]}) + "\n")
    (files / "empty.jsonl").write_bytes(b"")
    (files / "notes.txt").write_text("Nothing to see here.")
    (files / "other.jsonl").write_text(json.dumps({"speaker": "user", "content": "Fix the login", "role": "user"}))
    with closing(sqlite3.connect(files / "newer.db")) as database:
        database.executescript("CREATE TABLE sessions (key TEXT); CREATE TABLE messages (key TEXT, body TEXT)")
    with closing(sqlite3.connect(files / "bank.db")) as database:
        database.executescript("CREATE TABLE accounts (id TEXT); CREATE TABLE bookings (id TEXT)")
    with closing(sqlite3.connect(files / "steps.db")) as database:
        database.executescript("CREATE TABLE steps (idx INTEGER, step_payload BLOB); CREATE TABLE trajectory_meta (id)")
    with zipfile.ZipFile(files / "photos.zip", "w") as archive:
        archive.writestr("photo.png", b"x" * 200)
    whole = (files / "photos.zip").read_bytes()
    (files / "cut.zip").write_bytes(whole[: len(whole) // 2])
    secret = bytearray(whole)
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        secret[secret.find(header) + flags] |= 1
    (files / "secret.zip").write_bytes(secret)
    return {
        "photos.zip": "it is an archive of no known tool",
        "cut.zip": "it is a damaged archive",
        "secret.zip": "it is an encrypted archive",
        "steps.db": "it is a database of Antigravity",
        "messages.jsonl": "it is called like a session of kiro-messages, but is of a version that is not known",
        "empty.jsonl": "it is empty",
        "notes.txt": "it is of no known tool",
        "other.jsonl": "it is of no known tool, but looks like messages",
        "newer.db": "it has the tables of ",
        "bank.db": "it is a database of no known tool, with the tables accounts, bookings",
    }


def test_each_file_that_is_skipped_has_a_reason(tmp_path: Path) -> None:
    wanted = made(tmp_path)
    session(tmp_path / "files", lines("One"))
    found = {path.name: reason for path, reason in skipped([tmp_path / "files"], tmp_path / "store")}
    assert found.keys() == wanted.keys()
    for name, beginning in wanted.items():
        assert found[name].startswith(beginning), found[name]


def test_an_archive_that_is_named_is_told_why_it_is_none(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    wanted = made(tmp_path)
    for name in ("photos.zip", "cut.zip", "secret.zip"):
        [line] = run(tmp_path, "import", tmp_path / "files" / name).stderr.splitlines()
        assert f"{name}: holds no session of a tool that is known (`convfs formats`): {wanted[name]}" in line


@pytest.mark.parametrize("dry", [["--dry-run"], []], ids=["dry", "import"])
def test_an_import_lists_what_it_skips(tmp_path: Path, dry: list[str]) -> None:
    (tmp_path / "tmp").mkdir()
    wanted = made(tmp_path)
    session(tmp_path / "files", lines("One"))
    told = run(tmp_path, "import", "--verbose", *dry, tmp_path / "files").stdout.splitlines()
    assert sum(line.startswith("skipped ") for line in told) == len(wanted)
    assert f"skipped {tmp_path}/files/empty.jsonl: it is empty" in told

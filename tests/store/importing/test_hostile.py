"""Damaged and hostile files of every format: each comes in as far as it goes, or costs a line, and some memory."""

import json
import os
import random
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.formats.declared.database import DeclaredDatabase
from store.formats.registry import FORMATS, format_named, guesses
from tests.fusefs.cli.test_importing import INDEXING
from tests.store.formats.test_recognition import DOCUMENTS, LINES
from tests.store.importing.sessions import lines
from tests.store.importing.test_bombs import MEGABYTE, nested, run

USUAL = ["claude-code", "chatgpt", "opencode", "copilot-cli", "cline", "crush", "cursor-ide", "guess-lines", "text-log"]
"""A format of each container, by code and by description. ``CONVFS_LARGE_TESTS=1`` takes all formats."""
ALL = [one.name for one in (*FORMATS, *guesses(), format_named("text-log"))]
NAMES = ALL if "CONVFS_LARGE_TESTS" in os.environ else USUAL
DEEP = nested(1_000_000)
UP = "../../../../outside"
FEW = ("Droid.jsonl", "Cursor.jsonl", "Amp.json", "Continue.json")
NESTED = FEW[::2]
LARGE = 20 * MEGABYTE


def sessions() -> Iterator[tuple[str, bytes]]:
    """Yield small sessions of many tools, as lines and as documents."""
    for tool, (_path, records) in LINES.items():
        yield f"{tool}.jsonl", b"".join(json.dumps(record).encode() + b"\n" for record in records)
    for tool, document in DOCUMENTS.items():
        yield f"{tool}.json", json.dumps(document).encode()


def evil(value: object, make: Callable[[str], object]) -> object:
    """Return a record whose texts are all replaced."""
    if isinstance(value, dict):
        # what tells the kind of a record stays
        kept = ("type", "role", "kind", "event")
        return {key: one if key in kept else evil(one, make) for key, one in value.items()}
    if isinstance(value, list):
        return [evil(one, make) for one in value]
    return make(value) if isinstance(value, str) else value


def damaged(folder: Path) -> None:
    """Write files that are damaged, or are made to do damage, whatever tool reads them."""
    folder.mkdir()
    merged = b""
    chance = random.Random(1)
    for name, content in sessions():
        merged += content
        flipped = bytearray(content)
        for _ in range(3):
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        (folder / f"flipped {name}").write_bytes(flipped)
        (folder / f"truncated {name}").write_bytes(content[: len(content) * 2 // 3])
        records = [json.loads(line) for line in content.splitlines()]
        up = [json.dumps(evil(record, lambda _text: UP)) for record in records]
        (folder / f"outside {name}").write_text("\n".join(up) + "\n")
        if name in NESTED:
            deep = [json.dumps(evil(record, lambda _text: "DEEP")).replace('"DEEP"', DEEP, 1) for record in records[:2]]
            (folder / f"deep {name}").write_text("\n".join(deep) + "\n")
    (folder / "merged.jsonl").write_bytes(merged)
    (folder / "nested.json").write_text(DEEP)
    (folder / "open.json").write_text("[" * 1_000_000)
    (folder / "members.json").write_text('{"a":' * 30_000)
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "zeros.jsonl").write_bytes(bytes(MEGABYTE))
    (folder / "foreign.json").write_bytes(b"\x89PNG\r\n\x1a\n" + chance.randbytes(MEGABYTE))
    (folder / "line.jsonl").write_bytes(b'{"type":"user","role":"user","content":"' + b"a" * LARGE + b'"}\n')
    (folder / "letters.json").write_bytes(b"a" * LARGE)
    (folder / "blanks.json").write_bytes(b" " * LARGE)
    (folder / "log.db").write_bytes(b"SQLite format 3\0" + chance.randbytes(8 * 4096))
    with zipfile.ZipFile(folder / "outside.zip", "w") as archive:
        for name in ("conversations.json", "../../outside.json", "/outside.json", "users.json"):
            archive.writestr(name, json.dumps([{"mapping": {}, "title": UP, "conversation_id": UP, "uuid": UP}]))
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b"{}," * (40 * MEGABYTE))


def databases(home: Path, format_: DeclaredDatabase) -> list[Path]:
    """Return databases that are programs, in the place of those of a format."""
    tables = [(table, sorted(columns)) for table, columns in format_.schemas[0].items()]
    endless = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"
    texts = {
        "views": [
            f'CREATE VIEW "{table}" AS ' + endless.format(", ".join(f'zeroblob(1000000) AS "{one}"' for one in columns))
            for table, columns in tables
        ],
        # a row that is there before its cells are declared need not be worked out here
        "cells": [
            f'CREATE TABLE "{table}" (a); INSERT INTO "{table}" (a) VALUES (1); '
            + "; ".join(f'ALTER TABLE "{table}" ADD "{one}" AS (hex(zeroblob(400000000)))' for one in columns)
            for table, columns in tables
        ],
        "triggers": [
            f'CREATE TABLE "{table}" ({", ".join(columns)}); CREATE TRIGGER "on {table}" AFTER INSERT ON "{table}"'
            f' BEGIN DELETE FROM "{table}"; END'
            for table, columns in tables
        ],
    }
    made = []
    for what, statements in texts.items():
        path = home / f"{what}.db"
        with closing(sqlite3.connect(path)) as database:
            database.executescript(";".join(statements))
        made.append(path)
    return made


def healthy(home: Path) -> Path:
    path = home / "healthy" / "projects" / "-home-ada" / "a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(lines("One", "Two"))
    return path


def check(home: Path, stderr: str) -> None:
    for line in stderr.splitlines():
        assert line.startswith("convfs: ") or f"{line}\n" == INDEXING, line
    assert not [path for path in (home / "outside", home.parent / "outside") if path.exists()]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "tmp").mkdir()
    yield tmp_path
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "files"
    damaged(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_that_are_read_as_one_format(home: Path, files: Path, name: str) -> None:
    # each of the others is offered to its own format below
    named = [path for path in sorted(files.iterdir()) if " " not in path.name or path.name.split(" ", 1)[1] in FEW]
    if (format_ := format_named(name)) and isinstance(format_, DeclaredDatabase):
        named += databases(home, format_)
    done = run(home, "import", "--format", name, *named)
    assert done.returncode in (0, 1)
    check(home, done.stderr)


def test_damaged_files_beside_a_healthy_one(home: Path, files: Path) -> None:
    """They are in nobody's way: what they hold can be listed and exported, and the store is whole."""
    done = run(home, "import", files, healthy(home))
    check(home, done.stderr)
    listed = json.loads(run(home, "ls", "--json").stdout)
    assert any(one["title"] == "One" for one in listed)
    done = run(home, "export", *(one["id"] for one in listed), "-o", home / "out")
    check(home, done.stderr)
    assert any((home / "out").rglob("*.jsonl"))
    assert run(home, "fsck").returncode == 0

"""A log is damaged, or gone, and the index is made anew: what the index before knew is there, and in the log again."""

import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import HeadFrame
from store.errors import DamageError
from store.index.database import DERIVED_FROM_LOGS
from store.retention.pruner import delete
from store.store import Store
from store.upkeep import recovery
from store.upkeep.fsck import fsck
from tests.store.upkeep.everything import ask, differing, fill

Answers = dict[str, object]
OPEN = ("open turns", " at ", "versions")
"""Facts that only frames of texts tell, or that have their place among the frames: no index knows them."""


@pytest.fixture
def root(memory_path: Path) -> Path:
    fill(memory_path / "store", memory_path)
    return memory_path / "store"


def look(root: Path, **how: bool) -> tuple[Answers, list[str]]:
    with Store.open(root, renderer=FileRenderer(), create=False, **how) as store:
        return dict(ask(store)), list(store.recovered)


def known(answers: Answers) -> Answers:
    return {name: answer for name, answer in answers.items() if not any(word in name for word in OPEN)}


def frames(root: Path) -> list[HeadFrame]:
    with Store.open(root) as store:
        return [frame for frame in store.files.heads.frames() if isinstance(frame, HeadFrame)]


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def another_boot(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    (directory / "boot").write_text("another boot\n")
    monkeypatch.setattr(recovery, "_BOOT_ID", directory / "boot")


def another_schema(monkeypatch: pytest.MonkeyPatch, _directory: Path) -> None:
    monkeypatch.setattr(recovery, "_sound_index", lambda *_: None)


@pytest.mark.of_one_machine("it changes the log")
def test_no_bit_of_the_head_log_loses_what_the_index_knew(root: Path) -> None:
    right, _said = look(root)
    copy = root.with_name("copy")
    for frame in frames(root):
        shutil.copytree(root, copy)
        flip(copy / "turns/heads.log", frame.offset + 23)
        answers, said = look(copy, reindex=True)
        assert any(f"offset {frame.offset}" in line for line in said), frame
        lost = known(right).keys() - known(answers).keys()
        # what is seen through a patch that was lost may be what it was before
        told = any("cannot be proved" in line for line in said)
        assert not lost or told, (frame, lost, said)
        assert told or differing(known(answers), right) == [], (frame, said)
        again, _said = look(copy, reindex=True)
        assert known(again).keys() >= known(answers).keys(), frame
        shutil.rmtree(copy)


def conversations(root: Path, **how: bool) -> list[tuple[object, ...]]:
    with Store.open(root, renderer=FileRenderer(), create=False, **how) as store:
        return [
            (
                talk.id,
                talk.project,
                talk.name,
                talk.metadata,
                talk.head,
                talk.updated_ms,
                [(version.head, version.action) for version in store.catalogue.versions(talk.id)],
                [
                    bytes(payload)
                    for _turn, payload in store.contents.payloads([row.turn for row in store.records.rows(talk.head)])
                ],
            )
            for talk in store.library.conversations()
        ]


@pytest.fixture
def talks(memory_path: Path) -> Path:
    with Store.open(memory_path / "talks", renderer=FileRenderer()) as store:
        for number in range(4):
            metadata: dict[str, object] = {"project": "p", "name": f"talk-{number}", "title": f"Talk {number}"}
            context = store.contexts.create(metadata=metadata).context
            store.contexts.append_many(context, [Append(b"%d %d" % (number, at), "x.v1") for at in range(6)])
            store.contexts.set_metadata(context, {"labels": ["a", "b"]})
    return memory_path / "talks"


@pytest.mark.of_one_machine("it changes the log")
@pytest.mark.parametrize("make_anew", [another_boot, another_schema])
def test_whatever_has_the_index_made_anew(
    talks: Path, monkeypatch: pytest.MonkeyPatch, make_anew: Callable[[pytest.MonkeyPatch, Path], None]
) -> None:
    right = conversations(talks)
    created = next(frame for frame in frames(talks) if frame.context == 2)
    flip(talks / "turns/heads.log", created.offset + 30)
    make_anew(monkeypatch, talks.parent)
    assert conversations(talks) == right
    monkeypatch.undo()
    assert conversations(talks, reindex=True) == right
    assert not list(talks.glob("index.old*"))


@pytest.mark.of_one_machine("it changes the log")
@pytest.mark.parametrize(("table", "compared"), [("views", True), ("contexts", False)])
def test_an_index_of_another_version_is_compared_where_its_tables_are_these(
    talks: Path, table: str, compared: bool
) -> None:
    right = conversations(talks)
    created = next(frame for frame in frames(talks) if frame.context == 2)
    flip(talks / "turns/heads.log", created.offset + 30)
    with closing(sqlite3.connect(talks / "index.db")) as sql:
        sql.execute("UPDATE state SET value = value - 1 WHERE key = 'schema'")
        sql.execute(f"ALTER TABLE {table} ADD COLUMN other INTEGER NOT NULL DEFAULT 0")
        sql.commit()
    _answers, said = look(talks)
    kept = [path.name for path in talks.glob("index.kept-*")]
    if compared:
        assert conversations(talks) == right
        assert any("the log had lost, and has again" in line for line in said)
        assert kept == []
    else:
        assert any("was not compared" in line for line in said)
        assert any("the old index is kept as" in line for line in said)
        assert kept == ["index.kept-1"]


@pytest.mark.of_one_machine("it changes the log")
def test_a_conversation_is_there_after_any_number_of_bits(talks: Path) -> None:
    right = conversations(talks)
    source = random.Random(9)
    size = (talks / "turns/heads.log").stat().st_size
    for _ in range(12):
        flip(talks / "turns/heads.log", source.randrange(HEADER_SIZE, size))
    assert conversations(talks, reindex=True) == right
    assert conversations(talks, reindex=True) == right
    with Store.open(talks, renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "later"}).context
        store.contexts.append(context, b"later", "x.v1")
        assert context == 5
        assert {finding.check for finding in fsck(store)} <= {"head log", "heads"}


@pytest.mark.parametrize("name", ["heads.log", "turns.log"])
def test_a_log_that_is_gone_is_told_and_not_replaced_by_an_empty_one(talks: Path, name: str) -> None:
    right = conversations(talks)
    kept = (talks / "turns" / name).read_bytes()
    (talks / "turns" / name).unlink()
    # a replica has it from its space
    advice = "convfs remote repair" if (talks / "space").exists() else "backup.*convfs fsck --repair"
    for how in ({}, {"reindex": True}):
        with pytest.raises(DamageError, match=f"{name}: the log is gone.*{advice}"):
            conversations(talks, **how)
        assert not (talks / "turns" / name).exists()
    (talks / "turns" / name).write_bytes(kept)
    assert conversations(talks) == right


@pytest.mark.of_one_machine("it changes the log")
def test_a_head_log_that_is_gone_is_made_of_the_index(talks: Path) -> None:
    right = conversations(talks)
    (talks / "turns/heads.log").unlink()
    assert conversations(talks, repair=True) == right
    assert conversations(talks, reindex=True) == right


@pytest.mark.of_one_machine("it changes the log")
def test_a_head_log_that_was_cut_off_is_no_empty_store(talks: Path) -> None:
    right = conversations(talks)
    data = (talks / "turns/heads.log").read_bytes()
    for length in (0, HEADER_SIZE, len(data) // 2):
        (talks / "turns/heads.log").write_bytes(data[:length])
        assert conversations(talks, reindex=True) == right
        data = (talks / "turns/heads.log").read_bytes()


@pytest.mark.of_one_machine("it changes the log")
def test_an_index_that_knows_what_cannot_be_proved_is_kept(talks: Path) -> None:
    [tip] = [frame for frame in frames(talks) if frame.context == 3 and type(frame.body).__name__ == "HeadMoved"][-1:]
    # the turn that the conversation ends with is lost, too
    data = bytearray((talks / "turns/turns.log").read_bytes())
    data[HEADER_SIZE + 80 * (tip.body.tip - 1) + 20] ^= 1  # type: ignore[union-attr]
    (talks / "turns/turns.log").write_bytes(data)
    flip(talks / "turns/heads.log", tip.offset + 23)
    _answers, said = look_simply(talks, reindex=True)
    assert any("cannot be proved" in line and "talk-2" in line for line in said)
    assert any("index.kept-1" in line for line in said)
    assert (talks / "index.kept-1").exists()
    with Store.open(talks) as store:
        rows = {table: store.files.index.db.query(f"SELECT count(*) FROM {table}") for table in DERIVED_FROM_LOGS}
        assert rows["contexts"] == [(4,)]


def look_simply(root: Path, **how: bool) -> tuple[int, list[str]]:
    with Store.open(root, renderer=FileRenderer(), create=False, **how) as store:
        return len(store.catalogue.every()), list(store.recovered)


@pytest.mark.of_one_machine("it changes the log")
def test_what_was_deleted_stays_so(talks: Path) -> None:
    with Store.open(talks, renderer=FileRenderer()) as store:
        delete(store, 2, store.contexts.tip(2))
    right = conversations(talks)
    gone = next(frame for frame in frames(talks) if type(frame.body).__name__ == "Deleted")
    flip(talks / "turns/heads.log", gone.offset + 23)
    assert conversations(talks, reindex=True) == right
    assert len(right) == 3


def test_nothing_is_compared_where_the_log_is_whole(talks: Path) -> None:
    before = zlib.crc32((talks / "turns/heads.log").read_bytes())
    answers, said = look_simply(talks, reindex=True)
    assert (answers, said) == (4, [])
    assert zlib.crc32((talks / "turns/heads.log").read_bytes()) == before
    assert not list(talks.glob("index.[ok]*"))

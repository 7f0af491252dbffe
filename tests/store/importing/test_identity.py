"""Sessions whose files are moved: each is the session that it was, with its edits and labels."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from store.editing.editor import Editor
from store.editing.keeper import Keeper
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import until
from tests.store.formats.rollouts import SESSION as ROLLOUT
from tests.store.formats.rollouts import event, message, meta, written
from tests.store.importing.sessions import lines, session
from tests.store.importing.test_watching import Watched

NAME = f"rollout-2026-04-13T08-18-20-{ROLLOUT}.jsonl"
RECORDS = [meta(), message("user", "Fix it"), event("user_message", message="Fix it"), message("assistant", "Done")]
JP = [
    {"type": "turn_start", "timestamp": "2026-03-05T19:31:54.356154Z"},
    {"type": "chat_request", "timestamp": "2026-03-05T19:31:54.356154Z", "content": "Buy milk."},
    {"type": "chat_response", "timestamp": "2026-03-05T19:31:55.356154Z", "message": "Done."},
]


def rollout(root: Path) -> Path:
    path = root / "sessions/2026/04/13" / NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(written(*RECORDS))
    return path


def claude(root: Path) -> Path:
    return session(root, lines("Buy milk.", "Done."))


def jp(root: Path) -> Path:
    path = root / ".jp/conversations/17727390143/events.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(JP, indent=2))
    return path


def openhands(root: Path) -> Path:
    folder = root / "conversations/0a1b/events"
    folder.mkdir(parents=True)
    for number in range(3):
        said = {"id": number, "action": "message", "source": "user", "args": {"content": f"Line {number}."}}
        (folder / f"{number}.json").write_text(json.dumps(said | {"timestamp": f"2026-03-05T19:31:5{number}"}))
    return folder / "2.json"


MOVES: list[tuple[Callable[[Path], Path], str, str]] = [
    (rollout, f"sessions/2026/04/13/{NAME}", f"archived_sessions/{NAME}"),
    (claude, "projects/-home-ada-shop", "projects/-home-ada-market"),
    (jp, ".jp/conversations/17727390143", ".jp/conversations/17727390143-milk"),
    (openhands, "conversations/0a1b", "conversations/0a1c"),
]


@pytest.mark.parametrize(("make", "old", "new"), MOVES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_session_that_was_moved_is_the_session_and_goes_on(
    store: Store, tmp_path: Path, make: Callable[[Path], Path], old: str, new: str
) -> None:
    path = make(tmp_path)
    importer = Importer(store)
    assert importer.run([tmp_path]).imported == 1
    [before] = store.library.conversations()
    Keeper(store).relabel(before.id, add=["mine"])
    number = 2 if before.records > 2 else 1
    payload = store.contents.payload(store.records.rows(before.head)[number - 1].turn)
    Editor(store).edit(before.id, {number: payload.replace(b"i", b"y", 1)})
    edited = store.library.conversation(before.id)
    (tmp_path / new).parent.mkdir(exist_ok=True)
    shutil.move(tmp_path / old, tmp_path / new)
    report = importer.run([tmp_path])
    assert (report.imported, report.errors) == (0, [])
    [after] = store.library.conversations()
    assert (after.id, after.labels, after.head) == (before.id, ["mine"], edited.head)
    assert after.source.startswith(str(tmp_path / new))
    assert importer.run([tmp_path]).unchanged == 1
    there = tmp_path / new / path.relative_to(tmp_path / old) if path != tmp_path / old else tmp_path / new
    if there.suffix == ".jsonl":
        with there.open("ab") as file:
            file.write(there.read_bytes().splitlines(keepends=True)[-1])
        assert importer.run([tmp_path]).grown == 1
        assert store.library.conversation(before.id).records == before.records + 1
    assert fsck(store) == []


def test_a_copy_is_another_session_and_so_is_one_that_was_moved_and_begins_otherwise(
    store: Store, tmp_path: Path
) -> None:
    path = rollout(tmp_path)
    importer = Importer(store)
    importer.run([tmp_path])
    copy = shutil.copy(path, path.parent / NAME.replace("08-18", "09-18"))
    assert importer.run([tmp_path]).imported == 1
    os.unlink(path)
    os.unlink(copy)
    path.write_bytes(written(meta(), message("user", "Do not fix it")))
    moved = path.rename(path.parent.parent / NAME)
    assert importer.run([tmp_path]).imported == 1
    # of two that have gone one file is one, and the other another
    moved.unlink()
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_bytes(written(*RECORDS))
    assert importer.run([tmp_path]).imported == 1
    assert len(store.library.conversations()) == 4


def test_what_is_in_the_trash_or_was_deleted_does_not_come_back_by_being_moved(store: Store, tmp_path: Path) -> None:
    path = rollout(tmp_path)
    importer = Importer(store)
    importer.run([tmp_path])
    Keeper(store).remove(1)
    archived = tmp_path / "archived_sessions" / NAME
    archived.parent.mkdir()
    path.rename(archived)
    assert importer.run([tmp_path]).imported == 0
    assert store.library.conversations() == []


def test_a_session_that_is_archived_while_it_is_watched(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    try:
        watched.homes = [tmp_path / "sessions", tmp_path / "archived_sessions"]
        path = rollout(tmp_path)
        (tmp_path / "archived_sessions").mkdir()
        with watched.running():
            until(watched.store.library.conversations)
            Keeper(watched.store).relabel(1, add=["mine"])
            archived = path.rename(tmp_path / "archived_sessions" / NAME)
            until(lambda: watched.store.catalogue.by_source(str(archived)))
        [talk] = watched.store.library.conversations()
        assert talk.labels == ["mine"]
    finally:
        watched.store.close()


def test_a_folder_of_sessions_that_is_renamed_while_it_is_watched(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    try:
        for number in range(3):
            watched.path(name=f"0c7ab1de-0000-4000-8000-00000000000{number}.jsonl").write_bytes(lines(f"Line {number}"))
        with watched.running():
            until(lambda: len(watched.store.library.conversations()) == 3)
            known = {one.id for one in watched.store.library.conversations()}
            (watched.home / "-home-ada-shop").rename(watched.home / "-home-ada-market")
            until(lambda: all("-market/" in one.source for one in watched.store.library.conversations()))
            with watched.path("-home-ada-market", "0c7ab1de-0000-4000-8000-000000000001.jsonl").open("ab") as file:
                file.write(lines("Goes on", start=1))
            until(lambda: sum(one.records for one in watched.store.library.conversations()) == 4)
        assert {one.id for one in watched.store.library.conversations()} == known
    finally:
        watched.store.close()

import base64
import hashlib
from pathlib import Path

import zstandard

from store.conversations.chain import Recorded
from store.editing.editor import Editor
from store.events.event import Event
from store.store import Store
from tests.store.formats.test_pi_lens import IMAGE, LENS, said, slot, text
from tests.store.formats.test_pi_session import HEADER, NAME, session, write
from tests.store.importing.sessions import by_source, exported, imported, native


def test_what_lies_beside_goes_along_and_subagents_are_sessions(store: Store, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    path = session(agent, slot("x"), HEADER, said("user", "hi"))
    folder = path.with_suffix("")
    child = write(folder / "0-Explore.jsonl", {**HEADER, "id": "child"}, said("user", "look"))
    (folder / "0.bash.log").write_bytes(b"all of it\n" * 100)
    (folder / "0-Explore.md").write_text("found")
    imported(store, agent)
    assert store.catalogue.by_source(str(child))
    with exported(store, by_source(store, path)) as files:
        assert files == {
            f"{NAME}.jsonl": path.read_bytes(),
            f"{NAME}/0.bash.log": b"all of it\n" * 100,
            f"{NAME}/0-Explore.md": b"found",
        }


def test_images_come_from_the_folder_beside_all_sessions(store: Store, tmp_path: Path) -> None:
    agent, image = tmp_path / "agent", b"\x89PNG" + bytes(range(256)) * 8
    digest = hashlib.sha256(image)
    reference = f"blob:sha256:{digest.hexdigest()}"
    records = [slot("x"), HEADER, said("user", [{**IMAGE, "data": reference}, text(f"see {reference}")])]
    path = session(agent, *records)
    imported(store, path)
    event = list(store.viewer.events(store.records.rows(by_source(store, path).head)))[2][1]
    assert isinstance(event, Event)
    assert (event.blocks[0].text, event.header) == (reference, {"missing": True})
    conversation = by_source(store, path)
    assert list(conversation.metadata["missing"]) == [digest.hexdigest()]  # type: ignore[call-overload]
    (agent / "blobs").mkdir()
    (agent / "blobs" / digest.hexdigest()).write_bytes(image)
    imported(store, path)
    event = list(store.viewer.events(store.records.rows(by_source(store, path).head)))[2][1]
    assert isinstance(event, Event)
    assert event.blocks[0].data == image
    assert native(store, path) == path.read_bytes()


def test_an_image_that_was_replaced_lies_outside_when_exported(store: Store, tmp_path: Path) -> None:
    large, other = bytes(range(256)) * 8, bytes(range(255, -1, -1)) * 8
    image = {**IMAGE, "data": base64.b64encode(large).decode()}
    path = session(tmp_path / "agent", slot("x"), HEADER, said("user", [image]), {**said("user", [image]), "id": "b"})
    imported(store, path)
    conversation = by_source(store, path)
    row = store.records.rows(conversation.head)[2]
    payload = store.contents.payload(row.turn)
    new = LENS.edit_resource(payload, 0, other, Recorded("", 0, store.contents.aliased))
    Editor(store).edit(conversation.id, {3: new})
    digest = hashlib.sha256(other).hexdigest()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(base64.b64encode(large), f"blob:sha256:{digest}".encode())
    with exported(store, by_source(store, path)) as files:
        assert files == {path.name: b"".join(lines), f"blobs/{digest}": other}


def test_a_title_that_is_written_in_its_place_is_the_new_one(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path / "agent", slot(""), HEADER, said("user", "Fix the login"))
    imported(store, path)
    assert by_source(store, path).title == "Fix the login"
    with path.open("r+b") as file:
        file.write(slot("Login fixed"))
    imported(store, path)
    assert by_source(store, path).title == "Login fixed"
    assert native(store, path) == path.read_bytes()


def test_sessions_of_openclaw_that_have_ended_go_on_as_they_were(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "main" / "sessions"
    path = write(folder / "1f9d2a6b.jsonl", HEADER, said("user", "Why?"))
    imported(store, folder)
    before = by_source(store, path)
    ended = path.rename(folder / f"{path.name}.reset.2026-09-01T08-30-00.250Z")
    write(path, {**HEADER, "id": "other"}, said("user", "And now?"))
    for _time in range(2):
        imported(store, folder)
    assert {one.title for one in store.library.conversations()} == {"Why?", "And now?"}
    with exported(store, by_source(store, ended)) as files:
        assert files == {ended.name: ended.read_bytes()}
    packed = ended.with_name(f"{ended.name}.zst")
    packed.write_bytes(zstandard.compress(ended.read_bytes()))
    ended.unlink()
    alone = write(folder / "gone.jsonl", {**HEADER, "id": "gone"}, said("user", "Where?"))
    deleted = alone.with_name(f"{alone.name}.deleted.2026-09-02T08-30-00.250Z.zst")
    deleted.write_bytes(zstandard.compress(alone.read_bytes()))
    alone.unlink()
    for _time in range(2):
        imported(store, folder)
    known = {one.title: one for one in store.library.conversations()}
    assert known.keys() == {"Why?", "And now?", "Where?"}
    assert before.id in {one.id for one in known.values()}
    with exported(store, known["Where?"]) as files:
        assert files == {deleted.name: deleted.read_bytes()}

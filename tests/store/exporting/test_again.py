"""Exporting once more into the same directory, after the conversation has gone on or somebody has written there."""

import json
import os
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.editing.keeper import Keeper
from store.exporting.export import export, forms
from store.importing.placing import EXPORTS
from store.store import Store
from tests.store.exporting.talks import PNG, Talk, shop
from tests.store.importing.sessions import by_source, event, imported, jp, lines, session


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", forms())
def test_what_has_gone_on_is_updated_and_nothing_is_put_beside(store: Store, tmp_path: Path, form: str) -> None:
    talk = shop(tmp_path)
    out = tmp_path / "out"
    first = export(store, talk.bring(store), out, form)
    before = tree(out)
    # once more, as it is
    again = export(store, talk.bring(store), out, form)
    assert again.files == first.files
    if form != "gemini-cli":
        assert tree(out) == before
    talk.user("And one more thing, the logout")
    now = talk.bring(store)
    second = export(store, now, out, form)
    assert tree(out).keys() == before.keys()
    assert second.files == first.files
    assert any(b"the logout" in content for content in tree(out).values())
    # into an empty directory it is the same
    if form != "gemini-cli":
        export(store, now, tmp_path / "fresh", form)
        assert tree(tmp_path / "fresh") == tree(out)
    assert not [name for name in os.listdir(out) if name.startswith(".convfs")]


def test_it_is_known_by_a_store_that_was_closed(tmp_path: Path) -> None:
    talk = shop(tmp_path)
    out = tmp_path / "out"
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        before = export(store, talk.bring(store), out, "markdown").files
    talk.says("One more.")
    with Store.open(tmp_path / "store", renderer=FileRenderer(), reindex=True) as store:
        assert export(store, talk.bring(store), out, "markdown").files == before


def test_a_folder_of_files_is_updated_file_by_file(store: Store, tmp_path: Path) -> None:
    folder = jp(tmp_path, [event()])
    (folder / "notes.txt").write_text("first")
    imported(store, folder)
    out = tmp_path / "out"
    export(store, by_source(store, folder), out, "native")
    untouched = (out / folder.name / "base_config.json").stat().st_ino
    mine = out / folder.name / "mine.txt"
    mine.write_text("of somebody else")
    jp(tmp_path, [event(), event(text="More", second=3)])
    (folder / "notes.txt").write_text("second")
    imported(store, folder)
    export(store, by_source(store, folder), out, "native")
    assert tree(out / folder.name) == tree(folder) | {"mine.txt": b"of somebody else"}
    assert (out / folder.name / "base_config.json").stat().st_ino == untouched


@pytest.mark.parametrize("how", ["written", "replaced", "link", "removed"])
def test_what_another_wrote_stays(store: Store, tmp_path: Path, how: str) -> None:
    path = session(tmp_path, lines("One"), "a")
    imported(store, path)
    out = tmp_path / "out"
    (there,) = export(store, by_source(store, path), out, "native").files
    session(tmp_path, lines("One", "Two"), "a")
    imported(store, path)
    now = by_source(store, path)
    match how:
        case "written":
            with there.open("ab") as file:
                file.write(b"{}\n")
        case "replaced":
            there.unlink()
            there.write_bytes(b"mine")
        case "link":
            there.rename(out / "kept")
            there.symlink_to("kept")
        case "removed":
            there.unlink()
    before = tree(out)
    (written,) = export(store, now, out, "native").files
    assert written == (there if how == "removed" else out / now.project / now.name / "a.jsonl")
    assert {name: content for name, content in tree(out).items() if name in before} == before
    # and there it stays
    session(tmp_path, lines("One", "Two", "Three"), "a")
    imported(store, path)
    assert export(store, by_source(store, path), out, "native").files == (written,)
    assert written.read_bytes() == path.read_bytes()


def test_another_conversation_of_the_same_name_is_another(store: Store, tmp_path: Path) -> None:
    paths = [session(tmp_path, lines(f"Text {number}"), "same", project=f"p{number}") for number in range(2)]
    out = tmp_path / "out"
    imported(store, *paths)
    for _ in range(2):
        for path in paths:
            export(store, by_source(store, path), out, "native")
    assert [path.read_bytes() for path in (out / "same.jsonl", *out.glob("shop/*/same.jsonl"))] == [
        path.read_bytes() for path in paths
    ]
    # nor does a fork take its parent's place
    fork = Keeper(store).fork(by_source(store, paths[0]).id, "fork").context
    forked = store.library.conversation(fork)
    assert EXPORTS not in forked.metadata
    export(store, forked, out, "json")
    assert (out / "same.jsonl").read_bytes() == paths[0].read_bytes()


def test_a_file_of_many_is_updated_by_the_one_that_wrote_it(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"

    def write(*texts: str) -> None:
        path.write_text(json.dumps([chat(number, text) for number, text in enumerate(texts)]))
        imported(store, path)

    write("One", "Two")
    out = tmp_path / "out"
    one, two = sorted(store.library.conversations(), key=lambda found: found.title)
    for conversation in (one, two):
        assert export(store, conversation, out, "native").files == (out / "conversations.json",)
    write("One", "Two", "Three")
    for conversation in (one, two):
        now = store.library.conversation(conversation.id)
        assert export(store, now, out, "native").files == (out / "conversations.json",)
        assert tree(out) == {"conversations.json": path.read_bytes()}


def chat(number: int, text: str) -> dict[str, object]:
    """Return a conversation of claude.ai."""
    time = f"2026-03-05T10:0{number}:00.000000Z"
    message = {
        "uuid": f"m{number}",
        "text": text,
        "sender": "human",
        "created_at": time,
        "updated_at": time,
        "content": [{"type": "text", "text": text}],
        "attachments": [],
        "files": [],
    }
    about = {"uuid": f"c{number}", "name": text, "created_at": time, "updated_at": time}
    return about | {"account": {"uuid": "a"}, "chat_messages": [message]}


def test_what_it_was_called_before_goes(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    talk.user([{"type": "text", "text": "Look"}, picture])
    conversation = talk.bring(store)
    out = tmp_path / "out"
    export(store, conversation, out, "markdown")
    export(store, conversation, out, "html")
    page = out / f"{conversation.name}.html"
    Keeper(store).rename(conversation.id, conversation.project, "renamed")
    files = export(store, store.library.conversation(conversation.id), out, "markdown").files
    assert {path for path in out.rglob("*") if path.is_file()} == {*files, page}
    assert sorted(os.listdir(out)) == sorted([page.name, "renamed.files", "renamed.md"])


def test_a_store_that_is_only_read_replaces_nothing(tmp_path: Path) -> None:
    talk = shop(tmp_path)
    out = tmp_path / "out"
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        (path,) = export(store, talk.bring(store), out, "json").files
        talk.says("One more.")
        conversation = talk.bring(store)
        before = path.read_bytes()
        store.files.read_only = "for this test"
        (other,) = export(store, conversation, out, "json").files
        store.files.read_only = ""
    assert path.read_bytes() == before
    assert other == out / conversation.project / conversation.name / path.name


def test_an_edit_is_exported_into_the_same_file(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", "Two"), "a")
    imported(store, path)
    out = tmp_path / "out"
    conversation = by_source(store, path)
    (there,) = export(store, conversation, out, "native").files
    Editor(store).edit(conversation.id, {1: lines("Other").strip()})
    assert export(store, by_source(store, path), out, "native").files == (there,)
    assert there.read_bytes() == lines("Other", "Two")

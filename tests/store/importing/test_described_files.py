"""Databases and files of changes that a page describes: in, edited and deleted in the store, and out again."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import DELETED, Editor
from store.events.conversation import Conversation
from store.events.event import Event, Kind
from store.store import Store
from tests.store.formats.test_declared_databases import cursor, cursor_store, webui, zed
from tests.store.formats.test_declared_deltas import session
from tests.store.importing.sessions import exported, imported
from tests.store.importing.test_web_exports import edited, events

MADE = {
    "zed": (zed, "Why?"),
    "cursor-ide": (cursor, "Because."),
    "cursor-store": (cursor_store, "Why?"),
    "open-webui": (webui, "Says u3"),
    "vscode-chat": (session, "Because."),
}


def place_of(store: Store, text: str) -> tuple[Conversation, int]:
    """Return the conversation with an event of this text alone, and the number of that."""
    for conversation in store.library.conversations():
        for row, event in store.viewer.events(store.records.rows(conversation.head)):
            if isinstance(event, Event) and [block.text for block in event.blocks] == [text]:
                return conversation, row.number
    raise AssertionError(text)


def out(store: Store, conversation: Conversation, folder: Path, name: str) -> Path:
    folder.mkdir()
    with exported(store, store.library.conversation(conversation.id)) as files:
        found = next(content for file, content in files.items() if file.endswith(name))
    path = folder / name
    path.write_bytes(found)
    return path


def said(folder: Path, path: Path) -> list[list[tuple[Kind, str]]]:
    """Return what a new store makes of a file, conversation by conversation."""
    with Store.open(folder, renderer=FileRenderer()) as store:
        imported(store, path)
        return [events(store, one) for one in store.library.conversations()]


@pytest.mark.parametrize("name", MADE)
def test_an_edit_in_the_store_comes_out_as_just_that(store: Store, tmp_path: Path, name: str) -> None:
    make, text = MADE[name]
    path = make(tmp_path / "in")
    imported(store, path)
    conversation, number = place_of(store, text)
    edited(store, conversation, number, "Other words é.")
    changed = out(store, conversation, tmp_path / "out", path.name)
    before, after = said(tmp_path / "before", path), said(tmp_path / "after", changed)
    assert sum(one.count((kind, text)) for one in before for kind in Kind) >= 1
    wanted = [[(kind, "Other words é." if told == text else told) for kind, told in one] for one in before]
    assert sorted(after) == sorted(wanted)


def test_a_branch_of_a_chat_is_edited_and_goes_alone(store: Store, tmp_path: Path) -> None:
    path = webui(tmp_path / "in")
    imported(store, path)
    conversation, number = place_of(store, "Says a9")
    edited(store, conversation, number, "Better.")
    Editor(store).edit(conversation.id, {number: DELETED})
    changed = out(store, conversation, tmp_path / "out", path.name)
    with closing(sqlite3.connect(changed)) as database:
        chats = [json.loads(chat) for (chat,) in database.execute("SELECT chat FROM chat ORDER BY id")]
    assert list(chats[0]["history"]["messages"]) == ["u1", "a2", "u3", "a4"]
    assert chats[0]["history"]["messages"]["u1"]["childrenIds"] == ["a2"]
    with closing(sqlite3.connect(path)) as database:
        assert chats[1] == json.loads(database.execute("SELECT chat FROM chat WHERE id = 'c2'").fetchone()[0])

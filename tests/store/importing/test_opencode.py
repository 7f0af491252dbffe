import sqlite3
from contextlib import closing
from pathlib import Path

from store.editing.editor import Editor
from store.events.event import DELETED, Event
from store.store import Store
from tests.store.formats.databases import OPENCODE, T
from tests.store.formats.edited import edit_of
from tests.store.formats.test_opencode import LENSES, storage
from tests.store.importing.sessions import by_source, exported, imported


def said(store: Store, path: Path) -> list[tuple[int, Event]]:
    """Return the events that are shown, with the numbers of their records."""
    rows = store.records.rows(by_source(store, path).head)
    return [(row.number, event) for row, event in store.viewer.events(rows) if isinstance(event, Event) and event.kind]


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_session_of_many_files_comes_out_as_these_files(store: Store, tmp_path: Path) -> None:
    path = storage(tmp_path / "home")
    root = tmp_path / "home" / "storage"
    assert imported(store, tmp_path / "home").imported == 1
    with exported(store, by_source(store, path)) as files:
        assert files == tree(root)
    assert imported(store, tmp_path / "home").unchanged == 1


def test_files_that_are_added_and_changed_come_in(store: Store, tmp_path: Path) -> None:
    path = storage(tmp_path / "home")
    root = tmp_path / "home" / "storage"
    imported(store, path)
    before = len(said(store, path))
    added = root / "part" / "msg_2" / "prt_99.json"
    added.write_text('{"id": "prt_99", "type": "text", "text": "One more thing"}')
    report = imported(store, path)
    assert (report.grown, report.records) == (1, 2)
    (root / "part" / "msg_1" / "prt_00.json").write_text('{"type": "text", "text": "List them"}')
    imported(store, path)
    texts = [event.blocks[0].text for _number, event in said(store, path)]
    assert len(texts) == before + 1
    assert (texts[0], texts[-1]) == ("List them", "One more thing")
    with exported(store, by_source(store, path)) as files:
        assert files == tree(root)


def test_an_edit_changes_its_file_and_what_is_deleted_has_none(store: Store, tmp_path: Path) -> None:
    path = storage(tmp_path / "home")
    imported(store, path)
    shown = said(store, path)
    number, event = shown[0]
    conversation = by_source(store, path)
    row = store.records.rows(conversation.head)[number - 1]
    payload = store.contents.payload(row.turn)
    lens = LENSES["opencode.user-part.v1"]
    new = lens.edit(payload, edit_of(event.blocks[0], "Delete\nthem"), None)  # type: ignore[arg-type]
    Editor(store).edit(conversation.id, {number: new})
    expected = tree(tmp_path / "home" / "storage")
    expected["part/msg_1/prt_00.json"] = new
    with exported(store, by_source(store, path)) as files:
        assert files == expected
    Editor(store).edit(conversation.id, {shown[-1][0]: DELETED})
    del expected["part/msg_2/prt_07.json"]
    with exported(store, by_source(store, path)) as files:
        assert files == expected


def test_a_session_in_which_nothing_was_said_is_no_conversation(store: Store, tmp_path: Path) -> None:
    """A fresh database has such a session, and so has one that was just begun; it comes with its first message."""
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(OPENCODE)
        row = ("ses_0", "p", None, "s", "/home/ada/shop", "New session", "1.2.0", None, T, T)
        database.execute(f"INSERT INTO session VALUES ({'?, ' * 9}?)", row)
        database.commit()
    assert imported(store, path).conversations == []
    assert store.catalogue.every() == []
    assert imported(store, path).conversations == []
    with closing(sqlite3.connect(path)) as database:
        data = '{"role": "user", "time": {"created": 1}, "agent": "build"}'
        database.execute("INSERT INTO message VALUES ('msg_0', 'ses_0', ?, ?, ?)", (T, T, data))
        part = '{"type": "text", "text": "Hello"}'
        database.execute("INSERT INTO part VALUES ('prt_0', 'msg_0', 'ses_0', ?, ?, ?)", (T, T, part))
        database.commit()
    assert imported(store, path).imported == 1
    assert [entry.title for entry in store.catalogue.every()] == ["New session"]

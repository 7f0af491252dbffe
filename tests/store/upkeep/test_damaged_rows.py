"""A row of the index changes behind the store's back while that is open: no later change makes it look right."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from store.disk.head_format import ContextCreated, HeadFrame, HeadMoved, Metadata
from store.errors import ConvfsError, DamageError
from store.index.catalogue import Catalogue
from store.index.database import DERIVED_FROM_LOGS
from store.index.index import Index
from store.store import Store
from tests.model import findings

Ask = Callable[[Store], object]

CHANGES = [
    "UPDATE contexts SET head = head + 2",
    "UPDATE contexts SET records = records + 1",
    "UPDATE contexts SET imported = imported + 4",
    "UPDATE contexts SET updated_ms = updated_ms + 8",
    "UPDATE contexts SET head_sum = head_sum + 1",
    "UPDATE contexts SET sum = sum + 1",
    "UPDATE contexts SET created_ms = created_ms + 1",
    "UPDATE contexts SET name = 'onf' WHERE name = 'one'",
    "UPDATE contexts SET title = 'a'",
    """UPDATE contexts SET metadata = replace(metadata, '"one"', '"onf"')""",
    "UPDATE contexts SET metadata = '[]'",
    "UPDATE versions SET head = head + 2",
    "UPDATE versions SET action = 'creatf'",
    "UPDATE versions SET sum = sum + 1",
    "UPDATE keys SET turn = turn + 1",
    "UPDATE keys SET time_ms = 5",
    "UPDATE labels SET sum = sum + 1",
    "UPDATE patches SET hash = zeroblob(32)",
    "UPDATE open_turns SET context = context + 3",
]

ASKED: dict[str, Ask] = {
    "heads": lambda store: [store.writer.head(context) for context in (1, 2)],
    "last": lambda store: [store.contexts.last(context, 20) for context in (1, 2)],
    "latest": lambda store: [store.contexts.last(context, 20, latest=True) for context in (1, 2)],
    "conversations": lambda store: [(talk.id, talk.metadata, talk.records) for talk in store.library.conversations()],
    "versions": lambda store: [
        [(v.head, v.records, v.action) for v in store.catalogue.versions(context)] for context in (1, 2)
    ],
    "labelled": lambda store: store.catalogue.labelled("bug"),
    "keys": lambda store: [store.writer.keys.get(context, b"first") for context in (1, 2)],
    "open": lambda store: [(text.context_id, text.text) for text in store.writer.texts.of()],
}


def life(store: Store, meanwhile: Callable[[], None] = lambda: None) -> list[int]:
    """Use a store; return the turns that were appended."""
    for name in ("one", "two"):
        metadata: dict[str, object] = {"project": "p", "name": name, "labels": ["bug"]}
        context = store.contexts.create(metadata=metadata).context
        turn = store.contexts.append(context, b"first", "x.v1", idempotency_key=b"first")
        store.contexts.patch(context, {turn.turn_id: b"patched"})
        store.open_turns.open(context, "x.v1").add(b"piece")
    answers(store)
    meanwhile()
    turns = []
    for context in (1, 2):
        turns.append(store.contexts.append(context, b"second", "x.v1", idempotency_key=b"second").turn_id)
        store.contexts.set_metadata(context, {"title": "later", "labels": ["bug", "more"]})
        turns.append(store.contexts.append(context, b"third", "x.v1").turn_id)
        store.contexts.patch(context, {turns[-1]: b"patched, too"})
    return turns


def answers(store: Store) -> dict[str, object]:
    found = {}
    for name, ask in ASKED.items():
        try:
            found[name] = ask(store)
        except ConvfsError:
            continue
    return found


def wrong(given: dict[str, object], right: dict[str, object]) -> list[str]:
    return [name for name, answer in given.items() if answer != right[name]]


@pytest.fixture
def right(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setattr("store.commit.request.now_ms", lambda: 1_700_000_000_000)
    monkeypatch.setattr("store.conversations.contexts.now_ms", lambda: 1_700_000_000_000)
    monkeypatch.setattr("store.conversations.contexts.now_ms", lambda: 1_700_000_000_000)
    monkeypatch.setattr("store.conversations.open_turns.now_ms", lambda: 1_700_000_000_000)
    monkeypatch.setattr("store.commit.writer.now_ms", lambda: 1_700_000_000_000)
    with Store.open(memory_path / "right") as store:
        life(store)
        found = answers(store)
    assert found.keys() == ASKED.keys()
    return found


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.logs("it is being filled anew", sometimes=True)
def test_an_open_store_goes_on(memory_path: Path, right: dict[str, object], change: str) -> None:
    root = memory_path / "store"

    def harm() -> None:
        with closing(sqlite3.connect(root / "index.db", isolation_level=None, timeout=30)) as sql:
            assert sql.execute(change).rowcount

    with Store.open(root) as store:
        turns = life(store, harm)
        assert wrong(answers(store), right) == []
        assert [store.contents.payload(turn) for turn in turns] == [b"second", b"third"] * 2
    # what only reading finds out is mended at the opening after that
    with Store.open(root) as store:
        assert wrong(answers(store), right) == []
    with Store.open(root) as store:
        assert answers(store) == right
        assert findings(store) == []


def frames() -> list[HeadFrame]:
    bodies = [
        ContextCreated(0, 5, 0),
        HeadMoved(1, 0, 6, "append"),
        Metadata(7, b'{"project":"p","name":"n"}'),
        HeadMoved(2, 1, 8, "append"),
    ]
    return [HeadFrame(0, seq, 1, body) for seq, body in enumerate(bodies, 1)]


def test_a_change_that_meets_a_damaged_row_changes_nothing(memory_path: Path) -> None:
    index = Index(memory_path / "index.db")
    index.apply(frames())
    whole = rows(index)
    with index.db.writing() as sql:
        sql.execute("UPDATE contexts SET metadata = replace(metadata, 'n\"', 'm\"')")
    damaged = rows(index)
    changed = HeadFrame(0, 6, 1, Metadata(9, b'{"title":"t"}'))
    with pytest.raises(DamageError, match="a row of contexts is damaged: run convfs reindex"):
        index.apply([HeadFrame(0, 5, 1, HeadMoved(3, 2, 9, "edit")), changed])
    assert rows(index) == damaged
    assert (index.seq, index.db.damaged) == (4, True)
    index.renew(frames())
    assert rows(index) == whole
    index.apply([changed])
    entry = Catalogue(index.db).by_id(1)
    assert entry is not None
    assert (entry.name, entry.title, entry.head) == ("n", "t", 2)
    index.close()


def rows(index: Index) -> dict[str, list[tuple[object, ...]]]:
    return {table: index.db.query(f"SELECT * FROM {table} ORDER BY 1, 2") for table in DERIVED_FROM_LOGS}

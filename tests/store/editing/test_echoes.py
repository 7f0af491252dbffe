"""A text that two records hold, edited in the one that is shown."""

import json
from pathlib import Path

from store.editing.editor import DELETED, Editor, with_echoes
from store.events.event import Kind, Replacement
from store.store import Store
from tests.store.formats.rollouts import event, message, meta, written
from tests.store.importing.sessions import exported, imported

ROLLOUT = [
    meta(),
    message("user", "Fix it"),
    event("user_message", message="Fix it", images=[]),
    event("agent_message", message="Done"),
    message("assistant", "Done"),
]


def brought(store: Store, folder: Path) -> int:
    path = folder / "rollout.jsonl"
    path.write_bytes(written(*ROLLOUT))
    imported(store, path)
    [conversation] = store.library.conversations()
    return conversation.id


def test_both_are_edited_and_exported(store: Store, editor: Editor, tmp_path: Path) -> None:
    context = brought(store, tmp_path)
    rows = store.records.rows(store.writer.head(context).tip)
    assert [row.kind for row in rows] == [Kind.CONFIG, Kind.USER, Kind.RECORD, Kind.RECORD, Kind.ASSISTANT]
    changes: dict[int, Replacement] = {
        number: store.contents.payload(rows[number - 1].turn).replace(old, new)
        for number, old, new in ((2, b"Fix it", b"Fix all"), (5, b"Done", b"So"))
    }
    every = with_echoes(store, lambda number: rows[number - 1], len(rows), changes)
    assert sorted(every) == [2, 3, 4, 5]
    editor.edit(context, every)
    now = store.records.rows(store.writer.head(context).tip)
    assert [row.kind for row in now] == [row.kind for row in rows]
    with exported(store, store.library.conversation(context)) as files:
        said = files["rollout.jsonl"]
    assert said == written(*ROLLOUT).replace(b"Fix it", b"Fix all").replace(b"Done", b"So")


def test_what_is_deleted_or_changed_anyway_is_left_alone(store: Store, tmp_path: Path) -> None:
    context = brought(store, tmp_path)
    rows = store.records.rows(store.writer.head(context).tip)
    request = json.dumps(message("user", "Fix all")).encode()
    for changes in ({2: DELETED}, {2: request, 3: b"{}"}):
        assert with_echoes(store, lambda number: rows[number - 1], len(rows), changes) == changes

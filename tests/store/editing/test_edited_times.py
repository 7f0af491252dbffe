"""When a record changed: its file must not look as old as what it says happened."""

from pathlib import Path

import pytest

from store.editing.editor import Editor
from store.ids import now_ms
from store.store import Store
from tests.store.editing.measured import check_measures
from tests.store.editing.records import conversation, dialogue, said
from tests.store.importing.sessions import by_source, imported, line, session


@pytest.fixture(params=["branch", "overlay"])
def edits(request: pytest.FixtureRequest) -> str:
    """Return how edits are kept: whichever way, the same must come of it."""
    return str(request.param)


def times(store: Store, context: int) -> list[int]:
    return [row.time_ms for row in store.records.rows(store.writer.head(context).tip)]


def test_only_the_edited_record_is_as_new_as_its_edit(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(4))
    before, began = times(store, context), now_ms()
    editor.edit(context, {2: said("Loud 1", "u1", "u0")})
    after = times(store, context)
    assert began <= after[1] <= now_ms()
    assert (after[0], *after[2:]) == (before[0], *before[2:])
    editor.edit(context, {3: said("Loud 2", "u2", "u1")})
    assert times(store, context)[1] == after[1]
    check_measures(store)


def test_a_session_that_was_rewritten_shows_what_is_new_in_it(store: Store, tmp_path: Path) -> None:
    old = [line(f"Text {number}", number) for number in range(4)]
    path = session(tmp_path, b"".join(record + b"\n" for record in old))
    imported(store, path)
    context = by_source(store, path).id
    before, began = times(store, context), now_ms()
    new = [old[0], old[1].replace(b"Text 1", b"TEXT 1"), *old[2:], line("Text 4", 4)]
    path.write_bytes(b"".join(record + b"\n" for record in new))
    imported(store, path)
    after = times(store, context)
    assert began <= after[1] <= now_ms()
    assert (after[0], *after[2:4]) == (before[0], *before[2:])
    assert after[4] < began
    check_measures(store)


def test_a_session_that_was_rewritten_behind_an_edit(store: Store, editor: Editor, tmp_path: Path) -> None:
    old = [line(f"Text {number}", number) for number in range(4)]
    path = session(tmp_path, b"".join(record + b"\n" for record in old))
    imported(store, path)
    context = by_source(store, path).id
    editor.edit(context, {1: old[0].replace(b"Text 0", b"EDIT 0")})
    before, began = times(store, context), now_ms()
    path.write_bytes(b"".join(record + b"\n" for record in [*old[:2], old[2].replace(b"Text 2", b"TEXT 2"), old[3]]))
    imported(store, path)
    after = times(store, context)
    assert began <= after[2] <= now_ms()
    assert (*after[:2], after[3]) == (*before[:2], before[3])
    check_measures(store)

"""Sessions whose conversations were patched: they go on growing, no correction is undone, and they are exported."""

from pathlib import Path

import pytest

from store.editing.editor import DELETED, Editor
from store.ids import patch_of
from store.store import Store
from tests.store.editing.growing import file_of, grow, texts
from tests.store.editing.measured import check_branch
from tests.store.editing.records import history, shown
from tests.store.importing.sessions import by_source, line, native


@pytest.fixture
def edits() -> str:
    return "overlay"


def test_what_is_new_is_appended_once(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.edit(context, {2: line("Corrected", 1), 3: DELETED})
    assert store.files.turns.count == 5
    grow(store, path, texts(7))
    assert store.files.turns.count == 7
    now = [texts(1)[0], line("Corrected", 1), None, *texts(7, 3)]
    assert shown(store, context) == now
    assert history(store, context) == ["import", "edit 00002-00003", "import"]
    entry = store.catalogue.entry(context)
    assert (entry.imported_head, entry.merged, patch_of(entry.head)) == (7, False, 1)
    check_branch(store, entry.head)
    grow(store, path, texts(7))
    assert len(store.catalogue.versions(context)) == 3
    editor.edit(context, {7: line("Corrected too", 6)})
    grow(store, path, texts(8))
    assert shown(store, context) == [*now[:6], line("Corrected too", 6), *texts(8, 7)]
    assert store.files.turns.count == 8


def test_what_is_rewritten_undoes_no_correction(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.edit(context, {2: line("Corrected", 1), 5: DELETED})
    rewritten = [texts(1)[0], line("Its own", 1), texts(3)[2], line("Its own", 3), texts(5)[4], *texts(6, 5)]
    grow(store, path, rewritten)
    now = [texts(1)[0], line("Corrected", 1), texts(3)[2], line("Its own", 3), None, *texts(6, 5)]
    assert shown(store, context) == now
    check_branch(store, store.contexts.tip(context))
    editor.edit(context, {3: line("Corrected again", 2)})
    grow(store, path, [*rewritten, *texts(7, 6)])
    assert shown(store, context) == [*now[:2], line("Corrected again", 2), *now[3:], *texts(7, 6)]
    editor.restore(context, 2)
    assert shown(store, context) == [texts(1)[0], line("Corrected", 1), *texts(4, 2), None]


def test_a_session_that_became_shorter(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.edit(context, {2: line("Corrected", 1), 5: line("Kept", 4)})
    grow(store, path, texts(3))
    assert shown(store, context) == [texts(1)[0], line("Corrected", 1), texts(3)[2], line("Kept", 4)]


def test_exported_with_just_the_change(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    head = editor.edit(context, {2: line("Corrected", 1)})
    assert head.patch == 1
    changed = file_of([texts(1)[0], line("Corrected", 1), *texts(5, 2)])
    assert native(store, path) == changed
    fork = editor.fork(context, "fork").context
    editor.edit(fork, {4: DELETED, 1: line("In the fork", 0)})
    editor.restore(context, 1)
    assert native(store, path) == path.read_bytes()
    assert shown(store, fork) == [line("In the fork", 0), line("Corrected", 1), texts(3)[2], None, texts(5)[4]]

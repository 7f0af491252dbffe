"""fsck knows what edits leave behind; and how long an edit takes (printed, not judged)."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.commit.request import Request
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.editing.measured import check_measures
from tests.store.editing.records import TYPE, conversation, dialogue, said


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a store that may be unsound in the end."""
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        yield store


@pytest.mark.parametrize(
    ("superseded", "message"),
    [
        ([(99, 0, 1)], "are not there"),
        ([(1, 0, 0)], "are not there"),
        ([(1, 2, 3)], "are not there"),
        ([(2, 2, 1)], "took its own place"),
    ],
)
def test_edits_that_cannot_have_been(store: Store, superseded: list[tuple[int, int, int]], message: str) -> None:
    context = conversation(store, dialogue(3))
    store.writer.submit(Request(context, changes=b"{}", superseded=superseded))
    [finding] = fsck(store)
    assert finding.check == "edits"
    assert message in finding.message


def test_an_imported_branch_that_is_not_there(store: Store) -> None:
    context = conversation(store, dialogue(3))
    store.contexts.set_metadata(context, {"imported_head": 99})
    assert [finding.check for finding in fsck(store)] == ["edits"]


@pytest.mark.parametrize("deleted", [0, 1])
def test_an_index_that_disagrees_about_what_was_deleted(store: Store, deleted: int) -> None:
    context = conversation(store, dialogue(3))
    Editor(store).edit(context, {2: DELETED})
    check_measures(store)
    with store.files.index.db.writing() as sql:
        sql.execute("UPDATE views SET deleted = ? WHERE deleted != ?", (deleted, deleted))
    assert "deleted" in {finding.check for finding in fsck(store)}


def test_what_is_in_the_trash_is_checked(store: Store) -> None:
    context = conversation(store, dialogue(1))
    store.contexts.set_metadata(context, {"sidecars": {"a": "00" * 32}})
    Editor(store).remove(context)
    assert [finding.check for finding in fsck(store)] == ["references"]


def test_how_long_it_takes(store: Store) -> None:
    context = store.contexts.create(metadata={"project": "p", "name": "long"}).context
    lines = dialogue(10_000)
    for start in range(0, len(lines), 2000):
        store.contexts.append_many(context, [Append(line, TYPE) for line in lines[start : start + 2000]])
    store.library.conversation(context)
    editor = Editor(store)

    def took(what: str, change: Callable[[], object]) -> None:
        began = time.perf_counter()
        change()
        print(f"{what}: {(time.perf_counter() - began) * 1000:.1f} ms")

    for number in (1, 5000, 10_000):
        took(f"edit of record {number} of 10,000", partial(editor.edit, context, {number: said("Corrected", "x")}))
    took("deleting the first", lambda: editor.edit(context, {1: DELETED}))
    took("appending one", lambda: editor.append(context, [Append(said("New"), TYPE)]))
    took("restoring", lambda: editor.restore(context, 1))
    took("forking", lambda: editor.fork(context, "fork"))
    assert len(store.catalogue.versions(context)) == 7

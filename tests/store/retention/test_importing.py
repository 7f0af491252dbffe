"""Conversations that were deleted for good are not brought back by an import, unless that is asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.events.conversation import Conversation
from store.importing.importer import Importer, ImportReport
from store.retention.pruner import delete
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.parted_formats import Boxes, Braid, know
from tests.store.importing.sessions import exported, lines, session

BRAID = b"""\
a:one
b:first

a:two
# nobody's
a:three
b:second
#c=a/2
c:other
"""
BOXES = b"""\
{"boxes": [
  {"id": "x", "title": "Login", "said": [{"id": "1", "on": null, "text": "Why?"}], "current": "1"},
  {"id": "z", "title": "Logout", "said": [{"id": "1", "on": null, "text": "How?"}]}
]}
"""


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


def imported(store: Store, path: Path, **options: bool) -> ImportReport:
    report = Importer(store).run([path], **options)
    assert report.errors == []
    return report


def parts(store: Store) -> dict[str, Conversation]:
    return {str(talk.metadata["part"]): talk for talk in store.library.conversations()}


def file(store: Store, talk: Conversation) -> bytes:
    with exported(store, talk) as files:
        (content,) = files.values()
        return content


def test_a_session(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("Why does it fail?", "It is the cache."))
    imported(store, tmp_path)
    (talk,) = store.library.conversations()
    delete(store, talk.id, talk.head)
    for dry_run in (True, False):
        report = imported(store, tmp_path, dry_run=dry_run)
        assert (report.imported, report.grown, report.unchanged, report.pruned) == (0, 0, 0, 1)
    # also when it has grown since
    session(tmp_path, path.read_bytes() + lines("And now?", start=2))
    assert imported(store, tmp_path).pruned == 1
    assert store.library.conversations() == []
    report = imported(store, tmp_path, pruned=True)
    assert (report.imported, report.pruned) == (1, 0)
    (again,) = store.library.conversations()
    assert (again.records, again.id) == (3, 2)
    # it is one like any other from then on
    session(tmp_path, path.read_bytes() + lines("Thanks.", start=3))
    assert imported(store, tmp_path).grown == 1


def test_another_session_is_none_that_was_deleted(store: Store, tmp_path: Path) -> None:
    session(tmp_path, lines("Why does it fail?", "It is the cache."))
    imported(store, tmp_path)
    (talk,) = store.library.conversations()
    delete(store, talk.id, talk.head)
    session(tmp_path, lines("Why does it fail?", "It is the cache.", "Is it?"), name="another")
    report = imported(store, tmp_path)
    assert (report.imported, report.pruned) == (1, 1)


def test_one_of_many_in_a_file(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, Braid())
    path = tmp_path / "some.braid"
    path.write_bytes(BRAID)
    imported(store, path)
    talks = parts(store)
    delete(store, talks["b"].id, talks["b"].head)
    without = BRAID.replace(b"b:first\n", b"").replace(b"b:second\n", b"")
    assert file(store, talks["a"]).split() == without.split()
    assert imported(store, path).unchanged == 1
    path.write_bytes(BRAID + b"b:third\na:four\n")
    report = imported(store, path)
    assert (report.imported, report.grown, report.pruned) == (0, 1, 1)
    assert parts(store).keys() == {"a", "c"}
    assert file(store, talks["a"]).split() == (without + b"a:four\n").split()
    report = imported(store, path, pruned=True)
    assert (report.imported, report.pruned) == (1, 0)
    assert parts(store).keys() == {"a", "b", "c"}
    assert file(store, talks["a"]) == path.read_bytes()


def test_what_others_branch_off(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, Braid())
    path = tmp_path / "some.braid"
    path.write_bytes(BRAID)
    imported(store, path)
    talks = parts(store)
    delete(store, talks["a"].id, talks["a"].head)
    assert file(store, talks["c"]).split() == BRAID.replace(b"a:three\n", b"").split()
    # what goes on does so, and what is new and begins with what was deleted stays away
    path.write_bytes(BRAID + b"c:more\n#d=a/1\nd:new\n")
    report = imported(store, path)
    assert (report.imported, report.grown, report.pruned) == (0, 1, 2)
    c = parts(store)["c"]
    assert [store.contents.payload(turn.turn_id) for turn in store.contexts.last(c.id, 9)] == [
        b"a:one",
        b"a:two",
        b"c:other",
        b"c:more",
    ]


def test_a_file_of_which_nothing_is_left(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, Boxes())
    path = tmp_path / "some.boxes"
    path.write_bytes(BOXES)
    imported(store, path)
    for talk in store.library.conversations():
        delete(store, talk.id, talk.head)
    (layout,) = store.catalogue.layouts()
    delete(store, layout.id, 0)
    for dry_run in (True, False):
        assert imported(store, path, dry_run=dry_run).pruned == 2
    assert store.catalogue.layouts() == []
    assert imported(store, path, pruned=True).imported == 2
    assert file(store, store.library.conversations()[0]) == BOXES


def test_a_fork_is_exported_in_the_place_of_what_was_deleted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, Braid())
    path = tmp_path / "some.braid"
    path.write_bytes(BRAID)
    imported(store, path)
    talks = parts(store)
    fork = Editor(store).fork(talks["b"].id, "fork", at=1)
    delete(store, talks["b"].id, talks["b"].head)
    content = file(store, store.library.conversation(fork.context))
    assert content.split() == BRAID.replace(b"b:second\n", b"").split()

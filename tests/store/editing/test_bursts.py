"""Saves that follow each other: one version in the history, and each of them in the log."""

from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.disk.head_format import HeadMoved, Patched
from store.editing.commit import Changed
from store.editing.editor import DELETED, Editor
from store.events.event import together
from store.paths import INDEX, SETTINGS
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.retention.pruner import prune_versions
from store.store import Store
from store.upkeep.fsck import fsck, reindex
from tests.store.editing.records import TYPE, conversation, dialogue, history, said, shown
from tests.store.upkeep.test_gc import collect


@pytest.fixture(params=["branch", "overlay"])
def edits(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def saves(store: Store, editor: Editor, context: int, count: int, number: int = 4) -> None:
    """Save a record so many times in a row."""
    tip = 0
    for at in range(count):
        tip = editor.edit(context, {number: said(f"Draft {at}", f"u{number - 1}")}, again=tip).tip


def test_saves_in_a_row_are_one_version_from_the_first_to_the_last(store: Store, editor: Editor) -> None:
    lines = dialogue(6)
    context = conversation(store, lines)
    began = editor.edit(context, {4: said("Draft", "u3")})
    first = store.catalogue.versions(context)[-1]
    tip = began.tip
    for at in range(9):
        tip = editor.edit(context, {4: said(f"Draft {at}", "u3")}, again=tip).tip
    assert history(store, context) == ["append", "edit 00004"]
    last = store.catalogue.versions(context)[-1]
    assert (last.number, last.time_ms, last.head) == (2, first.time_ms, tip)
    assert shown(store, context) == [*lines[:3], said("Draft 8", "u3"), *lines[4:]]
    # as of a moment in between
    assert store.contexts.tip(context, first.seq - 1) == store.catalogue.versions(context)[0].head
    assert store.contexts.tip(context, last.seq) == tip
    assert editor.restore(context, 1).depth == began.depth
    assert shown(store, context) == lines
    assert history(store, context) == ["append", "edit 00004", "restore 1"]


def test_each_save_is_in_the_log(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(4))
    saves(store, editor, context, 5)
    frames = [frame.body for frame in store.files.heads.frames() if frame.context == context]
    said_so = [body.action for body in frames if isinstance(body, HeadMoved | Patched)]
    assert said_so[-5:] == ["edit 00004", *["again edit 00004"] * 4]


def test_only_a_save_goes_on_and_only_with_a_save(store: Store, editor: Editor) -> None:
    lines = dialogue(6)
    context = conversation(store, lines)
    tip = store.writer.head(context).tip
    tip = editor.edit(context, {2: said("One", "u1")}, again=tip).tip
    tip = editor.edit(context, {3: DELETED}, again=tip).tip
    editor.edit(context, {2: said("Two", "u1")}, again=tip)
    assert history(store, context) == ["append", "edit 00002", "delete 00003", "edit 00002"]
    # somebody else was there in between
    editor.edit(context, {5: said("Three", "u4")}, again=tip)
    assert history(store, context)[-2:] == ["edit 00002", "edit 00005"]


def test_a_version_of_several_saves_has_the_name_of_all(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(6))
    tip = editor.append(context, [Append(said("More", "u6"), TYPE)]).tip
    tip = editor.edit(context, {7: said("Much more", "u6")}, again=tip).tip
    assert history(store, context) == ["append", "add 00007"]
    tip = editor.append(context, [Append(said("And more", "u7"), TYPE)], again=tip).tip
    assert history(store, context) == ["append", "add 00007-00008"]
    tip = editor.edit(context, {3: said("Changed", "u2")}, again=tip).tip
    assert history(store, context) == ["append", "edit 00003-00008"]
    editor.rewrite(context, [1, 2, Changed(3, said("Again", "u2")), 5], again=tip)
    assert history(store, context) == ["append", "rewrite"]


def test_names_of_two_saves() -> None:
    assert together("edit 00007", "edit 00007") == "edit 00007"
    assert together("edit 00007-00009", "edit 00003") == "edit 00003-00009"
    assert together("add 100000", "edit 99999") == "edit 99999-100000"
    assert together("edit", "edit") == "edit"
    assert together("edit", "edit 00001") == "rewrite"


def test_the_index_that_is_made_again_says_the_same(edits: str, tmp_path: Path) -> None:
    root = tmp_path / "other"
    root.mkdir()
    (root / SETTINGS).write_text(f'edits = "{edits}"\n')
    with Store.open(root, renderer=FileRenderer()) as store:
        context = conversation(store, dialogue(5))
        saves(store, Editor(store), context, 4)
        Editor(store).edit(context, {1: said("Else", "u0")})
        told = store.catalogue.versions(context)
        assert len(told) == 3
    (root / INDEX).unlink()
    reindex(root, FileRenderer())
    with Store.open(root, renderer=FileRenderer()) as store:
        assert store.catalogue.versions(context) == told
        assert fsck(store) == []


def test_what_was_saved_in_between_is_redacted_collected_and_pruned(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(5))
    tip = editor.edit(context, {4: said("my password is tr0ub4dor&3", "u3")}).tip
    tip = editor.edit(context, {4: said("Nothing, and a lot of it" * 400, "u3")}, again=tip).tip
    tip = editor.edit(context, {4: said("Nothing", "u3")}, again=tip).tip
    secrets = Secrets([b"tr0ub4dor&3"])
    done = Redaction(store, secrets).run()
    assert done.gone
    assert prove(store, secrets, done.gone).found == []
    assert collect(store).blobs
    assert fsck(store) == []
    assert shown(store, context)[3] == said("Nothing", "u3")
    editor.edit(context, {2: said("Later", "u1")})
    before = store.catalogue.versions(context)
    prune_versions(store, context, before[-1].seq)
    left = store.catalogue.versions(context)
    assert [version.action for version in left] == ["edit 00002"]
    assert left[0].number == before[-1].number
    collect(store)
    assert fsck(store) == []

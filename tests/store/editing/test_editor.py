"""Edits of one conversation: what it is afterwards, and what it was."""

import threading
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.disk.turn_format import DELETED as FLAG
from store.editing.commit import Changed
from store.editing.editor import DELETED, Editor
from store.errors import Conflict, NotFound, UsageError
from store.events.event import Kind
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.editing.measured import check_branch
from tests.store.editing.records import TYPE, called, conversation, dialogue, history, returned, said, shown


def test_an_edit_is_one_version_and_leaves_the_old_one(store: Store, editor: Editor) -> None:
    lines = dialogue(10)
    context = conversation(store, lines)
    before = store.turns.path_to_root(store.writer.head(context).tip)
    head = editor.edit(context, {4: said("Corrected", "u3", "u2")})
    assert (head.context, head.depth, head.tip) == (context, 9, store.writer.head(context).tip)
    after = store.turns.path_to_root(head.tip)
    assert [turn.turn_id for turn in after[:3]] == [turn.turn_id for turn in before[:3]]
    assert [turn.payload_hash for turn in after[4:]] == [turn.payload_hash for turn in before[4:]]
    assert [turn.created_ms for turn in after[4:]] == [turn.created_ms for turn in before[4:]]
    assert store.files.turns.count == 10 + 7
    assert shown(store, context) == [*lines[:3], said("Corrected", "u3", "u2"), *lines[4:]]
    versions = store.catalogue.versions(context)
    assert [(version.action, version.records) for version in versions] == [("append", 10), ("edit 00004", 10)]
    assert shown(store, context, versions[0].head) == lines


def test_the_same_bytes_are_no_version(store: Store, editor: Editor) -> None:
    lines = dialogue(3)
    context = conversation(store, lines)
    length, head = store.files.heads.length, store.writer.head(context)
    assert editor.edit(context, {2: lines[1]}) == head
    assert editor.edit(context, {}) == head
    assert editor.rewrite(context, [1, Changed(2, lines[1]), 3]) == head
    assert editor.append(context, []) == head
    assert editor.restore(context, 1) == head
    assert store.files.heads.length == length


def test_several_at_once(store: Store, editor: Editor) -> None:
    lines = dialogue(6)
    context = conversation(store, lines)
    editor.edit(context, {2: b"{}", 5: DELETED, 6: b"not json"})
    assert shown(store, context) == [lines[0], b"{}", *lines[2:4], None, b"not json"]
    assert history(store, context) == ["append", "edit 00002-00006"]


def test_what_is_deleted_keeps_its_number_and_is_shown_nowhere(store: Store, editor: Editor) -> None:
    lines = [said("Look", "a"), called("Read", "c1", "b", "a"), returned("x = 1", "c1", "c", "b"), said("Hm", "d", "c")]
    context = conversation(store, lines)
    before = store.records.rows(store.writer.head(context).tip)
    assert len(store.records.resources(store.writer.head(context).tip)) == 1
    head = editor.edit(context, {3: DELETED})
    rows = store.records.rows(head.tip)
    assert [row.number for row in rows] == [1, 2, 3, 4]
    gone = rows[2]
    assert (gone.kind, gone.deleted, gone.file_size, gone.section_size, gone.json_size) == (Kind.RECORD, True, 0, 0, 0)
    assert [(row.kind, row.file_size) for row in rows[:2]] == [(row.kind, row.file_size) for row in before[:2]]
    assert store.records.resources(head.tip) == []
    assert store.library.conversation(context).events == 3
    assert store.turns.get(gone.turn).flags == FLAG
    assert editor.edit(context, {3: DELETED}) == head
    assert history(store, context) == ["append", "delete 00003"]
    editor.edit(context, {3: lines[2]}, action="undelete 00003")
    assert shown(store, context) == lines
    assert not store.turns.get(store.records.rows(store.writer.head(context).tip)[2].turn).deleted
    assert len(store.records.resources(store.writer.head(context).tip)) == 1


def test_the_first_and_the_only_record_can_be_deleted(store: Store, editor: Editor) -> None:
    context = conversation(store, [said("Only", "a")])
    head = editor.edit(context, {1: DELETED})
    assert shown(store, context) == [None]
    assert (head.depth, store.library.conversation(context).events) == (0, 0)


def test_what_follows_is_measured_again_where_it_depends_on_the_edit(store: Store, editor: Editor) -> None:
    lines = [said("Go", "a"), called("Bash", "c1", "b", "a"), returned("done", "c1", "c", "b"), said("Ok", "d", "b")]
    context = conversation(store, lines)
    assert [row.tool for row in store.records.rows(store.writer.head(context).tip)] == ["", "Bash", "Bash", ""]
    editor.edit(context, {2: called("Shell", "c1", "b", "a")})
    rows = store.records.rows(store.writer.head(context).tip)
    assert [row.tool for row in rows] == ["", "Shell", "Shell", ""]
    assert [row.parent for row in rows] == [0, 0, 0, 2]
    editor.edit(context, {2: called("Shell", "c1", "other", "a")})
    assert [row.parent for row in store.records.rows(store.writer.head(context).tip)] == [0, 0, -1, -1]


def test_unmeasured_conversations_can_be_edited(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(5))
    editor.edit(context, {1: said("Other", "u0")})
    editor.edit(context, {4: DELETED})
    check_branch(store, store.writer.head(context).tip)


def test_without_a_renderer(memory_path: Path) -> None:
    with Store.open(memory_path) as bare:
        context = conversation(bare, dialogue(4))
        Editor(bare).edit(context, {2: b"x", 3: DELETED})
        assert shown(bare, context)[1:3] == [b"x", None]
        assert fsck(bare) == []


def test_appending_is_a_version(store: Store, editor: Editor) -> None:
    context = editor.create("p", "new").context
    assert (store.catalogue.versions(context), store.writer.head(context).tip) == ([], 0)
    editor.append(context, [Append(said("First", "a"), TYPE)])
    editor.append(context, [Append(said("Second", "b", "a"), TYPE), Append(b"third", "other.v1")], action="add user")
    store.contexts.append(context, said("By a program"), TYPE)
    assert shown(store, context) == [said("First", "a"), said("Second", "b", "a"), b"third", said("By a program")]
    assert [(version.action, version.records) for version in store.catalogue.versions(context)] == [
        ("add 00001", 1),
        ("add user", 4),
    ]
    assert store.library.conversation(context).events == 4


def test_rewriting(store: Store, editor: Editor) -> None:
    lines = dialogue(6)
    context = conversation(store, lines)
    new = said("Between", "x", "u1")
    editor.rewrite(context, [1, 2, Append(new, TYPE), 4, Changed(3, b"{}"), Changed(6, DELETED)])
    assert shown(store, context) == [*lines[:2], new, lines[3], b"{}", None]
    editor.rewrite(context, [3])
    assert shown(store, context) == [new]
    editor.rewrite(context, [1, 1, 1])
    assert shown(store, context) == [new, new, new]
    editor.rewrite(context, [])
    assert (store.writer.head(context).tip, store.library.conversation(context).records) == (0, 0)
    editor.rewrite(context, [Append(new, TYPE)], action="begin again")
    assert history(store, context) == ["append", "rewrite", "rewrite", "rewrite", "rewrite", "begin again"]
    for version in (1, 2, 5):
        editor.restore(context, version)
    assert shown(store, context) == []


def test_restoring(store: Store, editor: Editor) -> None:
    lines = dialogue(4)
    context = conversation(store, lines)
    editor.edit(context, {1: b"{}"})
    store.contexts.append(context, said("More"), TYPE)
    editor.edit(context, {2: DELETED})
    states = [shown(store, context, version.head) for version in store.catalogue.versions(context)]
    assert states == [lines, [b"{}", *lines[1:], said("More")], [b"{}", None, *lines[2:], said("More")]]
    turns = store.files.turns.count
    for version in (1, 3, 2):
        editor.restore(context, version)
        assert shown(store, context) == states[version - 1]
    assert store.files.turns.count == turns
    assert history(store, context)[3:] == ["restore 1", "restore 3", "restore 2"]
    for missing in (0, 7, -1):
        with pytest.raises(NotFound):
            editor.restore(context, missing)


def test_what_is_not_there(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(3))
    for number in (0, 4, -1, 1 << 70):
        with pytest.raises(NotFound):
            editor.edit(context, {number: b""})
        with pytest.raises(NotFound):
            editor.rewrite(context, [1, number])
    for missing in (0, 77, 1 << 70):
        with pytest.raises(NotFound):
            editor.edit(missing, {1: b""})
        with pytest.raises(NotFound):
            editor.append(missing, [Append(b"", TYPE)])
        with pytest.raises(NotFound):
            editor.restore(missing, 1)


def test_what_is_too_large(store: Store, editor: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.conversations.contexts.LARGEST_VIEWED", 1000)
    context = conversation(store, dialogue(2))
    with pytest.raises(UsageError, match="too large"):
        editor.edit(context, {1: bytes(1001)})
    assert history(store, context) == ["append"]


def test_an_expected_head(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(3))
    head = store.writer.head(context).tip
    store.contexts.append(context, said("Meanwhile"), TYPE)
    for change in (
        lambda: editor.edit(context, {1: b"{}"}, expected_head=head),
        lambda: editor.append(context, [Append(b"{}", TYPE)], expected_head=head),
        lambda: editor.rewrite(context, [1], expected_head=head),
        lambda: editor.restore(context, 1, expected_head=head),
    ):
        with pytest.raises(Conflict):
            change()
    assert history(store, context) == ["append"]
    editor.edit(context, {1: b"{}"}, expected_head=store.writer.head(context).tip)
    assert history(store, context) == ["append", "edit 00001"]


def test_nothing_is_lost_between_editors_and_programs(store: Store, editor: Editor) -> None:
    """Whoever comes second edits what the first has made of it."""
    context = conversation(store, dialogue(8))
    failed: list[BaseException] = []

    def use(number: int) -> None:
        try:
            for step in range(10):
                if number < 4:
                    editor.edit(context, {number * 2 + 1: b'{"by":%d,"step":%d}' % (number, step)})
                else:
                    store.contexts.append(context, b'{"by":%d,"step":%d}' % (number, step), TYPE)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    payloads = shown(store, context)
    assert payloads[:8:2] == [b'{"by":%d,"step":9}' % number for number in range(4)]
    assert payloads[1:8:2] == dialogue(8)[1::2]
    assert sorted(str(payload) for payload in payloads[8:]) == sorted(
        str(b'{"by":%d,"step":%d}' % (number, step)) for number in (4, 5) for step in range(10)
    )
    assert len(history(store, context)) == 41


@pytest.mark.usefixtures("small_journals")
def test_more_turns_than_one_request_may_bring(memory_path: Path) -> None:
    lines = dialogue(1000)
    with Store.open(memory_path, renderer=FileRenderer()) as small:
        editor = Editor(small)
        context = small.contexts.create(metadata={"project": "p", "name": "long"}).context
        for start in range(0, 1000, 100):
            small.contexts.append_many(context, [Append(line, TYPE) for line in lines[start : start + 100]])
        parent = small.turns.path_to_root(small.writer.head(context).tip)[500].turn_id
        editor.edit(context, {1: b"x" * 30_000, 700: DELETED, 1000: b"{}"})
        assert shown(small, context) == [b"x" * 30_000, *lines[1:699], None, *lines[700:999], b"{}"]
        assert history(small, context) == ["append", "edit 00001-01000"]
        check_branch(small, small.writer.head(context).tip)
        turn = small.contexts.append(context, b"after the 501st", TYPE, parent=parent)
        assert shown(small, context)[1:] == [*lines[1:501], b"after the 501st"]
        assert turn.depth == 501
        assert fsck(small) == []


# -- who goes on after a turn that an edit has superseded ----------------------------------------------------------


def test_a_program_goes_on_in_the_edited_branch(store: Store, editor: Editor) -> None:
    lines = dialogue(5)
    context = conversation(store, lines)
    turns = [turn.turn_id for turn in store.turns.path_to_root(store.writer.head(context).tip)]
    editor.edit(context, {2: b"corrected"})
    editor.edit(context, {1: b"corrected too"})
    turn = store.contexts.append(context, said("Next"), TYPE, parent=turns[-1])
    assert turn.depth == 5
    assert shown(store, context) == [b"corrected too", b"corrected", *lines[2:], said("Next")]
    assert history(store, context) == ["append", "edit 00002", "edit 00001"]
    # from the middle it branches there
    store.contexts.append(context, said("Instead"), TYPE, parent=turns[2])
    assert shown(store, context) == [b"corrected too", b"corrected", lines[2], said("Instead")]
    assert history(store, context)[3:] == ["branch"]


def test_a_program_goes_on_after_what_was_taken_out(store: Store, editor: Editor) -> None:
    lines = dialogue(5)
    context = conversation(store, lines)
    turns = [turn.turn_id for turn in store.turns.path_to_root(store.writer.head(context).tip)]
    editor.rewrite(context, [1, 2])
    store.contexts.append(context, said("Next"), TYPE, parent=turns[-1])
    assert shown(store, context) == [*lines[:2], said("Next")]
    editor.rewrite(context, [3, 1])
    store.contexts.append(context, said("And then"), TYPE, parent=turns[0])
    assert shown(store, context) == [said("Next"), lines[0], said("And then")]


def test_a_program_goes_on_after_what_was_restored(store: Store, editor: Editor) -> None:
    lines = dialogue(4)
    context = conversation(store, lines)
    first = store.writer.head(context).tip
    second = editor.edit(context, {1: b"worse"}).tip
    editor.restore(context, 1)
    assert store.contexts.append(context, b"{}", TYPE, parent=second).parent == first
    editor.restore(context, 1)
    assert store.contexts.append(context, b"{}", TYPE, parent=first).parent == first
    assert shown(store, context) == [*lines, b"{}"]


def test_other_contexts_go_their_own_way(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(3))
    head = store.writer.head(context).tip
    other = editor.fork(context, "other").context
    editor.edit(context, {1: b"{}"})
    assert store.contexts.append(other, b"x", TYPE, parent=head).parent == head
    assert shown(store, other) == [*dialogue(3), b"x"]

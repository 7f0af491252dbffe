"""Edits that append nothing: patches, through which records are seen."""

import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store import ids
from store.commit import request
from store.commit.request import Request
from store.conversations import records
from store.conversations.contexts import Append
from store.disk.head_format import Patched
from store.disk.head_log import HeadLog
from store.editing.commit import Changed
from store.editing.editor import DELETED, Editor
from store.errors import Conflict, DamageError, NotFound, UsageError
from store.ids import patch_of, tip_of, turn_of
from store.index import patches
from store.store import Store
from store.upkeep.fsck import fsck
from tests.model import freeze
from tests.store.editing.measured import check_branch, check_measures
from tests.store.editing.records import TYPE, called, conversation, dialogue, history, returned, said, shown


@pytest.fixture
def edits() -> str:
    return "overlay"


def corrected(number: int, text: str = "Corrected") -> bytes:
    """Return another text for a line of a dialogue, by its number from 1 on."""
    return said(text, f"u{number - 1}", f"u{number - 2}" if number > 1 else None)


def test_an_edit_appends_nothing_and_leaves_the_old_state(store: Store, editor: Editor) -> None:
    lines = dialogue(10)
    context = conversation(store, lines)
    before = store.contexts.tip(context)
    head = editor.edit(context, {4: corrected(4)})
    assert (head.turn, head.depth, patch_of(head.tip)) == (before, 9, 1)
    assert store.files.turns.count == 10
    assert shown(store, context) == [*lines[:3], corrected(4), *lines[4:]]
    assert shown(store, context, before) == lines
    assert history(store, context) == ["append", "edit 00004"]
    turn = store.turns.path_to_root(head.tip)[3]
    assert (turn.turn_id, turn.depth, turn.parent) == (tip_of(4, 1), 3, 3)
    assert store.turns.get(turn.turn_id) == turn
    assert store.contents.payload(turn.turn_id) == corrected(4)
    assert store.contents.payload(4) == lines[3]
    assert store.contexts.last(context, 7, latest=True)[0] == turn
    assert store.contexts.before(context, 5, 1, latest=True) == [turn]
    assert store.contexts.before(context, turn.turn_id, 1, latest=True) == [store.turns.get(3)]
    assert store.contexts.range_by_depth(context, 2, 3, latest=True) == [store.turns.get(3), turn, store.turns.get(5)]
    # as they were appended, unless asked otherwise
    assert store.contexts.last(context, 7)[0] == store.contexts.before(context, 5, 1)[0] == store.turns.get(4)


def test_what_changes_nothing_is_no_version(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(3))
    editor.edit(context, {2: corrected(2)})
    assert editor.edit(context, {2: corrected(2), 1: dialogue(1)[0]}).patch == 1
    editor.edit(context, {2: DELETED})
    assert editor.edit(context, {2: DELETED}).patch == 2
    assert history(store, context) == ["append", "edit 00002", "delete 00002"]


def test_one_save_is_one_patch(store: Store, editor: Editor) -> None:
    lines = dialogue(6)
    context = conversation(store, lines)
    head = editor.edit(context, {2: DELETED, 3: DELETED, 5: corrected(5)})
    assert patch_of(head.tip) == 1
    assert shown(store, context) == [lines[0], None, None, lines[3], corrected(5), lines[5]]
    assert history(store, context) == ["append", "edit 00002-00005"]
    # rewriting that leaves everything in its place is no other thing
    head = editor.rewrite(context, [1, 2, Changed(3, lines[2]), 4, 5, Changed(6, corrected(6))])
    assert (patch_of(head.tip), store.files.turns.count) == (2, 6)
    assert shown(store, context) == [lines[0], None, *lines[2:4], corrected(5), corrected(6)]


def test_the_last_patch_of_a_record_counts(store: Store, editor: Editor) -> None:
    lines = dialogue(3)
    context = conversation(store, lines)
    states = [list(lines)]
    for text in ("one", "two", "three"):
        editor.edit(context, {2: corrected(2, text)})
        states.append([lines[0], corrected(2, text), lines[2]])
    editor.edit(context, {2: DELETED})
    versions = store.catalogue.versions(context)
    assert [shown(store, context, version.head) for version in versions] == [*states, [lines[0], None, lines[2]]]
    editor.edit(context, {2: lines[1]})
    assert shown(store, context) == lines
    assert store.contexts.tip(context) != versions[0].head


def test_a_fork_has_what_was_patched_before_it(store: Store, editor: Editor) -> None:
    lines = dialogue(5)
    context = conversation(store, lines)
    editor.edit(context, {2: corrected(2)})
    fork = editor.fork(context, "fork").context
    early = editor.fork(context, "early", at=3).context
    late = store.contexts.fork(context, at=4).context
    fourth = store.contexts.fork(context, at=tip_of(2, 1)).context
    editor.edit(context, {3: corrected(3)})
    editor.edit(fork, {1: corrected(1)})
    assert shown(store, context) == [lines[0], corrected(2), corrected(3), *lines[3:]]
    assert shown(store, fork) == [corrected(1), corrected(2), *lines[2:]]
    assert shown(store, early) == [lines[0], corrected(2), lines[2]]
    assert shown(store, late) == [lines[0], corrected(2), *lines[2:4]]
    assert shown(store, fourth) == [lines[0], corrected(2)]
    assert shown(store, store.contexts.create(tip_of(3, 2)).context) == [lines[0], corrected(2), corrected(3)]
    assert store.files.turns.count == 5
    assert history(store, fork) == ["fork", "edit 00001"]
    for nowhere in (tip_of(2, 9), tip_of(9, 1), (1 << 64) - 1):
        with pytest.raises(NotFound):
            store.contexts.create(nowhere)


def test_restoring_brings_back_patches_too(store: Store, editor: Editor) -> None:
    lines = dialogue(4)
    context = conversation(store, lines)
    editor.edit(context, {1: corrected(1)})
    editor.edit(context, {2: corrected(2)})
    editor.restore(context, 1)
    assert shown(store, context) == lines
    editor.edit(context, {3: corrected(3)})
    assert shown(store, context) == [*lines[:2], corrected(3), lines[3]]
    editor.restore(context, 2)
    assert shown(store, context) == [corrected(1), *lines[1:]]
    editor.restore(context, 3)
    assert shown(store, context) == [corrected(1), corrected(2), *lines[2:]]
    assert store.files.turns.count == 4
    check_measures(store)


def test_both_kinds_of_edits_in_one_conversation(store: Store, editor: Editor, switch: Callable[[str], None]) -> None:
    lines = dialogue(6)
    context = conversation(store, lines)
    editor.edit(context, {2: corrected(2), 5: corrected(5)})
    switch("branch")
    editor.edit(context, {4: corrected(4)})
    assert store.files.turns.count == 6 + 3
    now = [lines[0], corrected(2), lines[2], corrected(4), corrected(5), lines[5]]
    assert shown(store, context) == now
    switch("overlay")
    editor.edit(context, {5: corrected(5, "again")})
    assert shown(store, context) == [*now[:4], corrected(5, "again"), now[5]]
    for number, state in enumerate([lines, [*now[:3], lines[3], *now[4:]], now], 1):
        editor.restore(context, number)
        assert shown(store, context) == state
    check_measures(store)


def test_who_appends_goes_on_from_what_is_patched(store: Store, editor: Editor, switch: Callable[[str], None]) -> None:
    lines = dialogue(3)
    context = conversation(store, lines)
    tip = editor.edit(context, {2: corrected(2), 3: corrected(3)}).tip
    for parent in (0, tip_of(4, 1), 5):
        store.contexts.append(context, b"{}", TYPE, parent=parent)
    assert shown(store, context) == [lines[0], corrected(2), corrected(3), b"{}", b"{}", b"{}"]
    assert history(store, context) == ["append", "edit 00002-00003"]
    switch("branch")
    editor.edit(context, {1: corrected(1)})
    # the patched turn has become another, behind which it goes on
    store.contexts.append(context, b"[]", TYPE, parent=tip_of(3, patch_of(tip)))
    assert shown(store, context) == [corrected(1), corrected(2), corrected(3), b"[]"]


def test_what_others_refer_to_is_not_patched(store: Store, editor: Editor) -> None:
    lines = [called("Bash", "c1", "a"), returned("x", "c1", "b", "a"), said("So", "c", "b")]
    context = conversation(store, lines)
    check_branch(store, store.contexts.tip(context))
    editor.edit(context, {1: called("Bash", "c1", "a").replace(b"ls", b"pwd")})
    assert store.files.turns.count == 3
    editor.edit(context, {1: called("Read", "c1", "a")})
    assert store.files.turns.count == 6
    assert [row.tool for row in store.records.rows(store.contexts.tip(context))] == ["Read", "Read", ""]
    assert [row.tool for row in store.records.rows(store.catalogue.versions(context)[1].head)] == ["Bash", "Bash", ""]


def test_as_of_a_frame(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(3))
    tips: dict[int, int] = {}

    def note() -> None:
        tips[store.writer.seq] = store.contexts.tip(context)

    for number in range(2000):
        store.contexts.append(context, b"{}", TYPE)
        if number % 400 == 0:
            editor.edit(context, {2: corrected(2, str(number))})
        note()
    editor.restore(context, 1)
    note()
    store.checkpointer.flush()
    last = store.writer.seq
    assert store.files.heads.length > 3 * (64 << 10)
    for seq, tip in tips.items():
        assert store.contexts.tip(context, seq) == tip
    assert store.contexts.tip(context, 1) == store.contexts.tip(context, 0) == 0
    assert store.contexts.tip(context, last + 9) == store.contexts.tip(context)
    with pytest.raises(NotFound):
        store.contexts.tip(99, last)


def test_an_edit_of_what_has_changed_meanwhile(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(3))
    head = store.contexts.tip(context)
    editor.edit(context, {1: corrected(1)}, expected_head=head)
    with pytest.raises(Conflict):
        editor.edit(context, {2: corrected(2)}, expected_head=head)
    editor.edit(context, {2: corrected(2)}, expected_head=store.contexts.tip(context))
    assert len(store.catalogue.versions(context)) == 3


def test_many_patches(store: Store, editor: Editor) -> None:
    lines = dialogue(20)
    context = conversation(store, lines)
    for number in range(100):
        editor.edit(context, {number % 20 + 1: corrected(number % 20 + 1, str(number))})
    expected = [corrected(number % 20 + 1, str(number)) for number in range(80, 100)]
    assert shown(store, context) == expected
    copy = freeze(store, store.root.parent / "copy")
    with Store.open(copy, renderer=FileRenderer()) as again:
        assert shown(again, context) == expected
        assert shown(again, context, again.catalogue.versions(context)[10].head)[:11] == [
            *(corrected(number + 1, str(number)) for number in range(10)),
            lines[10],
        ]
        assert fsck(again) == []


def test_an_index_made_anew_has_the_same_rows(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(4))
    editor.edit(context, {1: corrected(1), 2: DELETED})
    fork = editor.fork(context, "fork").context
    editor.edit(fork, {2: corrected(2)})
    editor.restore(context, 1)
    editor.edit(context, {3: corrected(3)})
    copy = freeze(store, store.root.parent / "copy")
    (copy / "index.db").unlink()
    with Store.open(copy, renderer=FileRenderer()) as again:
        for table in ("patches", "versions", "contexts"):
            query = f"SELECT * FROM {table}"
            assert again.files.index.db.query(query) == store.files.index.db.query(query)
        check_measures(again)
        assert fsck(again) == []
        Editor(again).edit(context, {4: DELETED})
        assert patch_of(again.contexts.tip(context)) == 4


@pytest.mark.of_one_machine("it changes the log")
def test_a_lost_patch_is_reported_and_read_around(store: Store, editor: Editor) -> None:
    lines = dialogue(5)
    context = conversation(store, lines)
    for number in (1, 2, 3):
        editor.edit(context, {number: corrected(number)})
    store.checkpointer.flush()
    copy = freeze(store, store.root.parent / "copy")
    log = HeadLog(copy / "turns" / "heads.log", store.store_id)
    second = next(frame for frame in log.frames() if isinstance(body := frame.body, Patched) and body.number == 2)
    log.close()
    data = bytearray((copy / "turns" / "heads.log").read_bytes())
    data[second.offset + 40] ^= 1
    (copy / "turns" / "heads.log").write_bytes(data)
    with Store.open(copy, renderer=FileRenderer(), reindex=True) as again:
        assert any("checksum of a frame" in note for note in again.recovered)
        assert shown(again, context) == [corrected(1), lines[1], corrected(3), *lines[3:]]
        assert history(again, context) == ["append", "edit 00001", "edit 00003"]
        assert {finding.check for finding in fsck(again)} == {"head log", "patches"}
        Editor(again).restore(context, 2)
        assert shown(again, context) == [corrected(1), *lines[1:]]


@pytest.mark.parametrize(
    ("patched", "message"),
    [
        (Patched(1, 0, 5, ((9, ids.hash_bytes(b"{}"), 0, 5),), "edit"), "is of turn 9, which is not there"),
        (Patched(1, 0, 5, ((1, ids.hash_bytes(b"nowhere"), 0, 5),), "edit"), "no blob"),
        (Patched(2, 1, 5, ((1, ids.hash_bytes(b"{}"), 0, 5),), "edit"), "there is no patch 1 before it"),
        (Patched(0, 0, 5, ((1, ids.hash_bytes(b"{}"), 0, 5),), "edit"), "patch 0 comes after patch 0"),
    ],
)
def test_patches_that_cannot_have_been(memory_path: Path, patched: Patched, message: str) -> None:
    from tests.store.upkeep.test_fsck import frames

    with Store.open(memory_path) as store:
        store.contexts.append(store.contexts.create().context, b"{}", TYPE)
        store.checkpointer.flush()
        frames(store, (1, patched))
        messages = [finding.message for finding in fsck(store) if finding.check == "patches"]
    assert any(message in found for found in messages), messages


def test_limits(store: Store, editor: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
    context = conversation(store, dialogue(2))
    editor.edit(context, {1: corrected(1)})
    monkeypatch.setattr(request, "PATCHES_BEYOND", 2)
    with pytest.raises(UsageError, match='at most 1 patches: set edits = "branch"'):
        editor.edit(context, {2: corrected(2)})
    monkeypatch.setattr(request, "TURNS_BEYOND", 3)
    with pytest.raises(UsageError, match="no room for more than 2 turns"):
        store.contexts.append(context, b"{}", TYPE)
    assert len(store.catalogue.versions(context)) == 2


def test_a_damaged_row_of_a_patch(store: Store, editor: Editor) -> None:
    context = conversation(store, dialogue(2))
    editor.edit(context, {1: corrected(1)})
    copy = freeze(store, store.root.parent / "copy")
    with Store.open(copy) as again:
        again.checkpointer.flush()
    with sqlite3.connect(copy / "index.db") as sql:
        sql.execute("UPDATE patches SET flags = 3")
    with Store.open(copy) as again, pytest.raises(DamageError, match="a row of patches is damaged: run convfs reindex"):
        again.turns.path_to_root(again.contexts.tip(context))
    with Store.open(copy) as again:
        assert shown(again, context)[0] == corrected(1)


def test_a_request_that_patches_what_is_not_there(store: Store) -> None:
    context = conversation(store, dialogue(2))
    with pytest.raises(NotFound):
        store.writer.submit(Request(context, patches=[(7, ids.hash_bytes(b""), 0, 1)]))
    with pytest.raises(NotFound):
        store.writer.submit(Request(context, patch=7))
    assert turn_of(store.contexts.tip(context)) == store.contexts.tip(context) == 2


def test_an_append_of_its_own_keeps_the_patches(store: Store, editor: Editor) -> None:
    lines = dialogue(2)
    context = conversation(store, lines)
    editor.edit(context, {1: corrected(1)})
    editor.append(context, [Append(said("New", "u2", "u1"), TYPE)])
    assert shown(store, context) == [corrected(1), lines[1], said("New", "u2", "u1")]
    editor.rewrite(context, [2, 1])
    assert shown(store, context) == [lines[1], corrected(1)]
    editor.rewrite(context, [])
    assert (shown(store, context), store.contexts.tip(context)) == ([], 0)
    editor.restore(context, 2)
    assert shown(store, context) == [corrected(1), lines[1]]
    check_measures(store)


def test_many_at_once(store: Store, editor: Editor, switch: Callable[[str], None]) -> None:
    """Each edit is one version, whoever else edits, appends, reads or changes the setting meanwhile."""
    lines = dialogue(40)
    context = conversation(store, lines)
    failures: list[BaseException] = []

    def edits(first: int) -> None:
        for number in range(first, 33, 4):
            editor.edit(context, {number: corrected(number, f"By {first}")})

    def appends() -> None:
        for _ in range(20):
            store.contexts.append(context, b"{}", TYPE)

    def reads() -> None:
        for _ in range(20):
            tip = store.contexts.tip(context)
            assert [row.number for row in store.records.rows(tip)] == list(
                range(1, len(store.turns.path_to_root(tip)) + 1)
            )
            switch("overlay" if tip % 2 else "branch")

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    jobs: list[Callable[[], None]] = [*(partial(edits, first) for first in (1, 2, 3, 4)), appends, reads]
    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    expected = [corrected(number, f"By {(number - 1) % 4 + 1}") for number in range(1, 33)]
    assert shown(store, context) == [*expected, *lines[32:], *[b"{}"] * 20]
    assert sum(action.startswith("edit") for action in history(store, context)) == 32


def test_what_is_remembered_is_bounded(store: Store, editor: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_CACHED_RUNS", 300)
    monkeypatch.setattr(patches, "_REMEMBERED_TURNS", 100)
    lines = dialogue(60)
    context = conversation(store, lines)
    for number in range(2, 61, 2):
        editor.edit(context, {number: corrected(number)})
        assert len(store.records._runs) < 20
    states = [
        [corrected(number) if number % 2 == 0 and number <= last else lines[number - 1] for number in range(1, 61)]
        for last in range(0, 61, 2)
    ]
    assert [shown(store, context, version.head) for version in store.catalogue.versions(context)] == states
    assert store.records._held_runs == sum(16 + len(runs) for runs in store.records._runs.values())

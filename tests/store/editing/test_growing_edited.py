"""Sessions that grow after their conversations were edited: what is new is added, and no correction is undone."""

import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.commit.request import NewTurn, Request
from store.conversations.contexts import Append
from store.editing.commit import Changed, Replacement
from store.editing.editor import DELETED, Editor
from store.importing.group import Appender
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.editing.growing import file_of, grow, texts
from tests.store.editing.measured import check_branch, check_measures
from tests.store.editing.records import TYPE, history, shown
from tests.store.importing.sessions import (
    bring,
    by_source,
    claude_source,
    event,
    imported,
    jp,
    line,
    lines,
    native,
    session,
)

together = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


@pytest.fixture(params=["branch", "overlay"])
def edits(request: pytest.FixtureRequest) -> str:
    """Return how edits are kept: whichever way, the same must come of it."""
    return str(request.param)


def test_new_records_are_appended_to_the_edited_branch(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.edit(context, {2: b"corrected", 3: DELETED})
    turns = store.files.turns.count
    grow(store, path, texts(7))
    assert shown(store, context) == [texts(1)[0], b"corrected", None, *texts(7, 3)]
    # once as the program's, once as the conversation's
    assert store.files.turns.count == turns + 4
    editor.edit(context, {6: b"corrected too"})
    grow(store, path, texts(8))
    assert shown(store, context) == [texts(1)[0], b"corrected", None, *texts(5, 3), b"corrected too", *texts(8, 6)]
    assert history(store, context) == ["import", "edit 00002-00003", "import", "edit 00006", "import"]
    assert store.library.conversation(context).updated_ms == store.catalogue.versions(context)[3].time_ms


def test_nothing_new_changes_nothing(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    head = editor.edit(context, {2: b"corrected"})
    path.write_bytes(path.read_bytes())
    imported(store, path)
    assert store.writer.head(context) == head


def test_what_people_and_programs_appended_stays(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.append(context, [Append(b"a note", TYPE)])
    store.contexts.append(context, b"by an agent", TYPE)
    grow(store, path, texts(6))
    grow(store, path, texts(7))
    assert shown(store, context) == [*texts(5), b"a note", b"by an agent", *texts(7, 5)]


def test_a_program_that_only_appended(store: Store, path: Path) -> None:
    context = by_source(store, path).id
    store.contexts.append(context, b"by an agent", TYPE)
    grow(store, path, texts(6))
    assert shown(store, context) == [*texts(5), b"by an agent", *texts(6, 5)]
    assert history(store, context) == ["import", "import"]


def test_a_line_that_was_being_written(store: Store, editor: Editor, tmp_path: Path) -> None:
    path = session(tmp_path, file_of(texts(3)) + b'{"type": "us')
    imported(store, path)
    context = by_source(store, path).id
    editor.edit(context, {1: b"corrected"})
    grow(store, path, texts(5))
    assert shown(store, context) == [b"corrected", *texts(5, 1)]
    editor.edit(context, {5: DELETED})
    grow(store, path, texts(6))
    assert shown(store, context) == [b"corrected", *texts(4, 1), None, *texts(6, 5)]


def test_what_the_program_changes_is_changed_unless_it_was_corrected(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.edit(context, {2: b"corrected"})
    records = texts(5)
    records[1], records[3] = line("By the program", 1), line("By the program", 3)
    grow(store, path, [*records, *texts(6, 5)])
    assert shown(store, context) == [records[0], b"corrected", *records[2:], *texts(6, 5)]
    records[1] = line("By the program again", 1)
    grow(store, path, [*records, *texts(7, 5)])
    assert shown(store, context) == [records[0], b"corrected", *records[2:], *texts(7, 5)]


def test_rewritten_records_between_others(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.edit(context, {5: b"corrected"})
    records = texts(5)
    grow(store, path, [*records[:2], b"{}", b"{ }", *records[3:]])
    assert shown(store, context) == [*records[:2], b"{}", b"{ }", records[3], b"corrected"]
    grow(store, path, [*records[:2], *records[3:]])
    assert shown(store, context) == [*records[:2], records[3], b"corrected"]
    grow(store, path, [*records[:2], *records[3:], b"{}"])
    assert shown(store, context) == [*records[:2], records[3], b"corrected", b"{}"]


def test_a_session_that_shrank(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.edit(context, {4: b"corrected"})
    grow(store, path, texts(2))
    assert shown(store, context) == [*texts(2), b"corrected"]
    grow(store, path, [])
    assert shown(store, context) == [b"corrected"]
    grow(store, path, texts(2))
    assert shown(store, context) == [b"corrected", *texts(2)]


def test_after_records_were_moved_and_taken_out(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    records = texts(5)
    editor.rewrite(context, [Append(b"a preface", TYPE), 3, 2, Changed(5, b"corrected")])
    grow(store, path, texts(6))
    assert shown(store, context) == [b"a preface", records[2], records[1], b"corrected", *texts(6, 5)]
    records = texts(6)
    records[2], records[4] = b"[3]", b"[5]"
    grow(store, path, records)
    assert shown(store, context) == [b"a preface", b"[3]", records[1], b"corrected", *texts(6, 5)]


def test_after_an_earlier_version_was_restored(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.edit(context, {1: b"corrected"})
    grow(store, path, texts(6))
    editor.restore(context, 1)
    grow(store, path, texts(7))
    assert shown(store, context) == [*texts(5), *texts(7, 6)]


def test_after_what_an_import_had_brought_was_taken_as_it_is(store: Store, editor: Editor, path: Path) -> None:
    """Once the branch is again the one that imports made, they go on in it, and remember that."""
    context = by_source(store, path).id
    editor.edit(context, {1: b"corrected"})
    grow(store, path, texts(6))
    edited = store.writer.head(context).tip
    ours = store.catalogue.entry(context).imported_head
    assert edited != ours
    store.writer.submit(Request(context, parent=ours, action="restore"))
    for count in (7, 8):
        grow(store, path, texts(count))
        assert shown(store, context) == texts(count)
        assert store.catalogue.entry(context).imported_head == store.writer.head(context).tip
    check_branch(store, store.writer.head(context).tip)


def test_edited_sessions_among_others(store: Store, editor: Editor, tmp_path: Path) -> None:
    """Sessions whose last commits are made together: what one of them meets is nothing to the others."""
    paths = [session(tmp_path, file_of(texts(3)), f"session-{number}") for number in range(6)]
    imported(store, *paths)
    ids = [by_source(store, path).id for path in paths]
    for at in (1, 4):
        editor.edit(ids[at], {1: b"corrected"})
    for path in paths[:5]:
        path.write_bytes(file_of(texts(5)))
    new = session(tmp_path, file_of(texts(2)), "session-new")
    report = imported(store, *paths, new)
    # the new one begins as others do, and shares their turns
    assert (report.imported, report.grown, report.unchanged, report.records) == (1, 5, 1, 10)
    for at, context in enumerate(ids):
        grown = texts(5 if at < 5 else 3)
        assert shown(store, context) == ([b"corrected", *grown[1:]] if at in (1, 4) else grown)
    assert shown(store, by_source(store, new).id) == texts(2)
    check_measures(store)
    assert imported(store, *paths, new).unchanged == 7
    assert fsck(store) == []


def test_an_edit_while_the_session_is_imported(
    store: Store, editor: Editor, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = by_source(store, path).id
    turns = Appender.turns

    def edited_meanwhile(self: Appender) -> list[NewTurn]:
        editor.edit(context, {1: b"corrected"})
        return turns(self)

    monkeypatch.setattr(Appender, "turns", edited_meanwhile)
    grow(store, path, texts(6))
    assert shown(store, context) == [b"corrected", *texts(6, 1)]


def test_edits_and_imports_at_once(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    stop = threading.Event()
    failed: list[BaseException] = []

    def edit() -> None:
        step = 0
        try:
            while not stop.is_set():
                step += 1
                editor.edit(context, {2: b"corrected %d" % step})
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=edit)
    thread.start()
    try:
        for count in range(6, 30):
            grow(store, path, texts(count))
    finally:
        stop.set()
        thread.join()
    assert failed == []
    [first, second, *rest] = shown(store, context)
    assert [first, *rest] == [texts(1)[0], *texts(29, 2)]
    assert second is not None
    assert second.startswith(b"corrected")


def test_titles_that_people_gave_stay(store: Store, editor: Editor, tmp_path: Path) -> None:
    path = session(tmp_path, lines("Fix the login") + b'{"type":"summary","summary":"A login","leafUuid":"u0"}\n')
    imported(store, path)
    context = by_source(store, path).id
    editor.describe(context, {"title": "Mine"})
    with path.open("ab") as file:
        file.write(b'{"type":"summary","summary":"Another title","leafUuid":"u0"}\n')
    imported(store, path)
    assert by_source(store, path).title == "Mine"
    editor.describe(context, {"title": None})
    with path.open("ab") as file:
        file.write(b'{"type":"summary","summary":"A third","leafUuid":"u0"}\n')
    imported(store, path)
    assert by_source(store, path).title == "A third"


def test_a_session_in_the_trash_goes_on_there(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    name = store.library.conversation(context).name
    editor.remove(context)
    path.write_bytes(file_of(texts(6)))
    report = imported(store, path)
    assert [one.rpartition("/")[2] for one in report.conversations] == [name]
    assert store.library.conversations() == []
    editor.bring_back(context)
    assert shown(store, context) == texts(6)


def test_a_renamed_session_keeps_its_name(store: Store, editor: Editor, path: Path) -> None:
    context = by_source(store, path).id
    editor.rename(context, "elsewhere", "mine")
    grow(store, path, texts(6))
    assert [(talk.project, talk.name, talk.records) for talk in store.library.conversations()] == [
        ("elsewhere", "mine", 6)
    ]


def test_a_jp_conversation(store: Store, editor: Editor, tmp_path: Path) -> None:
    events = [event(second=second, text=f"Text {second}") for second in range(3)]
    folder = jp(tmp_path, events)
    imported(store, folder)
    context = by_source(store, folder).id
    config, first, *rest = shown(store, context)
    editor.edit(context, {2: DELETED})
    events.append(event(second=3, text="Text 3"))
    jp(tmp_path, events)
    imported(store, folder)
    records = shown(store, context)
    assert records[:-1] == [config, None, *rest]
    assert records[-1] is not None
    assert b"Text 3" in records[-1]
    assert first is not None


Step = tuple[str, int, bytes]
steps = st.lists(
    st.tuples(
        st.sampled_from(["edit", "delete", "add", "grow", "grow", "reindex"]),
        st.integers(0, 100),
        st.sampled_from([b"x", b"{}", b'{"a":1}']),
    ),
    max_size=10,
)


@together
@given(st.integers(0, 4), steps)
def test_any_edits_of_a_growing_session(store: Store, count: int, steps: list[Step]) -> None:
    path = store.root.parent / f"{store.files.turns.count}-{store.files.heads.length}.jsonl"
    records = texts(count)
    path.write_bytes(file_of(records))
    bring(store, claude_source(path))
    context = by_source(store, path).id
    editor = Editor(store)
    expected: list[bytes | None] = list(records)
    for what, at, content in steps:
        if what == "grow":
            new = texts(len(records) + at % 3 + 1, len(records))
            records += new
            expected += new
            path.write_bytes(file_of(records))
            bring(store, claude_source(path))
        elif what == "add":
            editor.append(context, [Append(content, TYPE)])
            expected.append(content)
        elif what == "reindex":
            store.views.reset(store.views.renderer())
        elif expected:
            change: Replacement = DELETED if what == "delete" else content
            editor.edit(context, {at % len(expected) + 1: change})
            expected[at % len(expected)] = None if change is DELETED else change
        assert shown(store, context) == expected
    check_branch(store, store.writer.head(context).tip)


@together
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([b"a", b"bb", b"{}", b"ccc", b"[]"]), max_size=6),
            st.dictionaries(st.integers(0, 5), st.sampled_from([b"mine", b"my own", None]), max_size=2),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_no_state_of_a_session_undoes_a_correction(
    store: Store, states: list[tuple[list[bytes], dict[int, bytes | None]]]
) -> None:
    path = store.root.parent / f"{store.files.turns.count}-{store.files.heads.length}.jsonl"
    editor = Editor(store)
    before: list[bytes | None] = []
    for records, edits in states:
        path.write_bytes(file_of(records))
        bring(store, claude_source(path))
        context = by_source(store, path).id
        now = shown(store, context)
        corrected = [record for record in before if record in (b"mine", b"my own", None)]
        assert [record for record in now if record in (b"mine", b"my own", None)] == corrected
        theirs = [record for record in now if record not in (b"mine", b"my own", None)]
        if corrected:
            rest = iter(records)
            assert all(record in rest for record in theirs)
        else:
            assert theirs == records
            assert native(store, path) == file_of(records)
        changes: dict[int, Replacement] = {
            at % len(now) + 1: DELETED if content is None else content for at, content in edits.items() if now
        }
        editor.edit(context, changes)
        before = shown(store, context)
    check_branch(store, store.writer.head(by_source(store, path).id).turn)

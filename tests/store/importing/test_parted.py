"""Files of many conversations: each is one of its own, and any of them is exported as the file that it came in."""

import json
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from store.conversations.contexts import Append
from store.disk import durable
from store.editing.editor import DELETED, Editor
from store.errors import DamageError, UsageError
from store.events.conversation import Conversation
from store.formats.core.format import Source
from store.importing.group import Group
from store.importing.importer import Importer, ImportReport
from store.importing.records import Done, RecordIntake
from store.importing.session import FileImport
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.parted_formats import Boxes, Braid, know
from tests.store.importing.sessions import exported, imported

LINES = b"""\
a:one
b:first

a:two
# nobody's
a:three
b:second
#c=a/2
c:other
"""

BOXES = """\
{
  "version": 3,
  "boxes": [
    {"id": "x", "title": "Login", "said": [
      {"id": "1", "on": null, "text": "Why?"},
      {"id": "2", "on": "1", "text": "Because."},
      {"id": "3", "on": "1", "text": "It returns nothing."}
    ], "current": "3"},
    {"id": "y", "title": "Empty", "said": []},
    {"id": "z", "title": "Logout", "said": [
      {"id": "1", "on": null, "text": "How?"}], "rest": [1, 2]}
  ]
}
"""


@pytest.fixture(autouse=True)
def _formats(monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch, Braid(), Boxes())


def lines_of(strand: str) -> bytes:
    """Return lines of other conversations, one of two branches."""
    lines = "{0}a:one\n{0}b:first\n{0}a:two\n{0}a:three\n#{0}c={0}a/2\n{0}c:other\n"
    return lines.format(strand).encode()


def braid(folder: Path, content: bytes = LINES, name: str = "some.braid") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def conversations(store: Store) -> dict[str, Conversation]:
    """Return every conversation by its key."""
    return {
        str(talk.metadata["part"]): talk for talk in store.library.conversations() if "exported_as" not in talk.metadata
    }


def said(store: Store, conversation: Conversation) -> list[bytes]:
    """Return the records of a conversation that were not deleted."""
    turns = [turn for run in store.records.runs(conversation.head) for turn in store.turns.range(*run)]
    return [store.blobs.blob(turn.payload_hash) for turn in turns if not turn.deleted]


def file(store: Store, conversation: Conversation) -> bytes:
    """Return the file that a conversation is exported as."""
    with exported(store, store.library.conversation(conversation.id)) as files:
        (content,) = [content for name, content in files.items() if not name.endswith(".notes")]
        return content


def test_each_conversation_is_one_of_its_own(store: Store, tmp_path: Path) -> None:
    report = imported(store, braid(tmp_path))
    assert (report.imported, report.records, report.grown) == (3, 6, 0)
    talks = conversations(store)
    assert {key: said(store, talk) for key, talk in talks.items()} == {
        "a": [b"a:one", b"a:two", b"a:three"],
        "b": [b"b:first", b"b:second"],
        "c": [b"a:one", b"a:two", b"c:other"],
    }
    assert {talk.project for talk in talks.values()} == {"loom"}
    assert talks["a"].title == "Strand a"
    assert talks["a"].source == str(tmp_path / "some.braid")
    # the branch has the turns of what it branches from
    (a, c) = (store.turns.path_to_root(talks[key].head) for key in "ac")
    assert [turn.turn_id for turn in c[:2]] == [turn.turn_id for turn in a[:2]]
    assert talks["c"].metadata["forked_from"] == {"context": talks["a"].id, "turn": a[1].turn_id}
    for talk in talks.values():
        assert file(store, talk) == LINES
    assert imported(store, tmp_path).unchanged == 1


def test_conversations_within_a_document(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "some.boxes"
    path.write_text(BOXES)
    assert imported(store, path).imported == 4
    talks = conversations(store)
    assert len(said(store, talks["x"])) == len(said(store, talks["x/1"])) == 2
    assert said(store, talks["y"]) == []
    for talk in talks.values():
        assert file(store, talk) == BOXES.encode()


def test_edits_of_any_of_them_are_in_the_file(store: Store, tmp_path: Path) -> None:
    imported(store, braid(tmp_path))
    talks, editor = conversations(store), Editor(store)
    editor.edit(talks["a"].id, {3: b"a:THREE"})
    editor.edit(talks["b"].id, {1: DELETED})
    editor.append(talks["b"].id, [Append(b"b:third", "braid.line.v1")])
    editor.append(talks["c"].id, [Append(b"c:more", "braid.line.v1")])
    expected = (
        LINES.replace(b"a:three", b"a:THREE")
        .replace(b"b:first\n\n", b"\n\n")
        .replace(b"b:second", b"b:second\nb:third")
    )
    expected = expected.replace(b"c:other", b"c:other\nc:more")
    for key in "abc":
        assert [line for line in file(store, talks[key]).split(b"\n") if line] == [
            line for line in expected.split(b"\n") if line
        ]


def test_what_is_put_before_all_others_stands_there(store: Store, tmp_path: Path) -> None:
    imported(store, braid(tmp_path))
    talks, editor = conversations(store), Editor(store)
    editor.rewrite(talks["b"].id, [Append(b"b:zero", "braid.line.v1"), 2])
    assert file(store, talks["b"]) == LINES.replace(b"b:first", b"b:zero")


def test_a_branch_is_exported_as_it_is_itself(store: Store, tmp_path: Path) -> None:
    imported(store, braid(tmp_path))
    talks, editor = conversations(store), Editor(store)
    editor.edit(talks["c"].id, {1: b"a:ONE"})
    assert file(store, talks["c"]) == LINES.replace(b"a:one", b"a:ONE")
    # those that others share are theirs
    assert file(store, talks["a"]) == LINES
    assert file(store, talks["b"]) == LINES
    editor.edit(talks["a"].id, {1: b"a:uno"})
    assert file(store, talks["b"]) == LINES.replace(b"a:one", b"a:uno")
    assert file(store, talks["c"]) == LINES.replace(b"a:one", b"a:ONE")


def test_records_go_together_with_those_that_are_deleted(store: Store, tmp_path: Path) -> None:
    content = b"a:call\nb:x\na:result<-\na:thanks\n"
    imported(store, braid(tmp_path, content))
    talks = conversations(store)
    Editor(store).edit(talks["a"].id, {1: DELETED})
    assert file(store, talks["b"]) == b"b:x\na:thanks\n"


def test_a_document_stays_one(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "some.boxes"
    path.write_text(BOXES)
    imported(store, path)
    talks, editor = conversations(store), Editor(store)
    # the first, the last and the only one of a list
    for key, numbers in {"x": [1], "z": [1]}.items():
        editor.edit(talks[key].id, dict.fromkeys(numbers, DELETED))
    editor.append(talks["x/1"].id, [Append(b'{"id": "9", "on": "2", "text": "Oh."}', "boxes.said.v1")])
    found = json.loads(file(store, talks["x"]))
    boxes = json.loads(BOXES)["boxes"]
    assert [box["id"] for box in found["boxes"]] == ["x", "y", "z"]
    assert found["boxes"][0]["said"] == [
        {"id": "2", "on": None, "text": "Because."},
        {"id": "9", "on": "2", "text": "Oh."},
        {"id": "3", "on": None, "text": "It returns nothing."},
    ]
    assert found["boxes"][1] == boxes[1]
    assert found["boxes"][2] == boxes[2] | {"said": []}
    editor.append(talks["y"].id, [Append(b'{"id": "1"}', "boxes.said.v1")])
    with pytest.raises(UsageError, match="no records in the file"):
        file(store, talks["x"])


def test_a_file_that_has_grown_brings_what_is_new(store: Store, tmp_path: Path) -> None:
    path = braid(tmp_path)
    imported(store, path)
    before = conversations(store)
    Editor(store).edit(before["a"].id, {1: b"a:ONE"})
    grown = LINES + b"c:on\nd:new\na:four\n"
    braid(tmp_path, grown)
    report = imported(store, path)
    assert (report.imported, report.grown, report.unchanged, report.records) == (1, 2, 1, 3)
    talks = conversations(store)
    assert {key: talk.id for key, talk in talks.items() if key != "d"} == {key: talk.id for key, talk in before.items()}
    assert said(store, talks["a"]) == [b"a:ONE", b"a:two", b"a:three", b"a:four"]
    assert file(store, talks["d"]) == grown.replace(b"a:one", b"a:ONE")
    assert talks["b"].head == before["b"].head
    assert talks["b"].metadata == before["b"].metadata


def test_a_conversation_is_known_in_another_file(store: Store, tmp_path: Path) -> None:
    first = braid(tmp_path)
    imported(store, first)
    before = conversations(store)
    newer = b"b:first\nb:second\nb:third\nd:new\n"
    report = imported(store, braid(tmp_path, newer, "newer.braid"))
    assert (report.imported, report.grown, report.records) == (1, 1, 2)
    talks = conversations(store)
    assert talks["b"].id == before["b"].id
    assert file(store, talks["b"]) == file(store, talks["d"]) == newer
    # what was not in the newer file is still of the older one, which is as it was
    Editor(store).edit(talks["b"].id, {1: b"b:FIRST"})
    assert file(store, talks["a"]) == LINES
    assert file(store, talks["d"]) == newer.replace(b"b:first", b"b:FIRST")


def test_an_older_file_takes_nothing_away(store: Store, tmp_path: Path) -> None:
    newer = b"a:one\na:two\na:three\na:four\nb:first\nb:second\n"
    imported(store, braid(tmp_path, newer, "newer.braid"))
    before = conversations(store)
    report = imported(store, braid(tmp_path))
    # of the branch, one record is new
    assert (report.imported, report.grown, report.records) == (1, 0, 1)
    talks = conversations(store)
    assert talks["a"] == before["a"]
    assert file(store, talks["a"]) == newer
    assert file(store, talks["c"]) == LINES


def test_a_conversation_that_was_cut_short_in_its_own_file_is(store: Store, tmp_path: Path) -> None:
    path = braid(tmp_path)
    imported(store, path)
    shorter = b"a:one\nc:other\n#c=a/1\n"
    braid(tmp_path, shorter)
    report = imported(store, path)
    assert (report.grown, report.imported) == (2, 0)
    talks = conversations(store)
    assert said(store, talks["a"]) == [b"a:one"]
    assert said(store, talks["c"]) == [b"a:one", b"c:other"]
    assert file(store, talks["a"]) == shorter
    # what is no more in the file is where it was before, and nobody's to be exported
    assert said(store, talks["b"]) == [b"b:first", b"b:second"]
    assert len(store.catalogue.versions(talks["a"].id)) == 2


def test_what_is_in_the_trash_is_left_out(store: Store, tmp_path: Path) -> None:
    imported(store, braid(tmp_path))
    talks, editor = conversations(store), Editor(store)
    editor.remove(talks["b"].id)
    editor.remove(talks["a"].id)
    content = file(store, talks["c"])
    assert [line for line in content.split(b"\n") if line] == [b"a:one", b"a:two", b"# nobody's", b"#c=a/2", b"c:other"]
    # and is not brought back by another import
    braid(tmp_path, LINES + b"b:third\n")
    imported(store, tmp_path)
    assert set(conversations(store)) == {"c"}
    editor.bring_back(talks["b"].id)
    assert said(store, conversations(store)["b"]) == [b"b:first", b"b:second", b"b:third"]


def test_a_fork_is_exported_in_the_place_of_what_it_is_a_fork_of(store: Store, tmp_path: Path) -> None:
    imported(store, braid(tmp_path))
    talks, editor = conversations(store), Editor(store)
    editor.edit(talks["a"].id, {1: b"a:ONE"})
    fork = editor.fork(talks["a"].id, "aside", at=2)
    editor.append(fork.context, [Append(b"a:else", "braid.line.v1")])
    editor.edit(talks["a"].id, {2: b"a:TWO"})
    again = editor.fork(fork.context, "again")
    editor.edit(again.context, {3: b"a:ELSE"})
    assert file(store, talks["a"]) == LINES.replace(b"a:one", b"a:ONE").replace(b"a:two", b"a:TWO")
    for context, last in ((fork.context, b"a:else"), (again.context, b"a:ELSE")):
        with exported(store, store.library.conversation(context)) as files:
            ((name, content),) = files.items()
        assert name in ("aside.braid", "again.braid")
        assert [line for line in content.split(b"\n") if line] == [
            b"a:ONE", b"b:first", b"a:two", last, b"# nobody's", b"b:second", b"#c=a/2", b"c:other"
        ]  # fmt: skip
    # a fork is not what the next import finds
    braid(tmp_path, LINES + b"a:four\n")
    imported(store, tmp_path)
    assert said(store, store.library.conversation(again.context)) == [b"a:ONE", b"a:two", b"a:ELSE"]
    assert said(store, conversations(store)["a"])[-1] == b"a:four"


def test_several_are_exported_as_one_file(store: Store, tmp_path: Path) -> None:
    from store.importing.exporter import export_native

    imported(store, braid(tmp_path))
    talks = conversations(store)
    written = [export_native(store, talk, tmp_path / "out") for talk in talks.values()]
    assert written == [[tmp_path / "out/some.braid"]] * 3
    Editor(store).edit(talks["c"].id, {1: b"a:ONE"})
    (other,) = export_native(store, store.library.conversation(talks["c"].id), tmp_path / "out")
    assert other.relative_to(tmp_path / "out").parts[0] == "loom"
    assert other.read_bytes() == LINES.replace(b"a:one", b"a:ONE")


def test_sidecars_go_with_the_file(store: Store, tmp_path: Path) -> None:
    path = braid(tmp_path)
    path.with_suffix(".notes").write_bytes(b"old")
    imported(store, path)
    path.with_suffix(".notes").write_bytes(b"new")
    imported(store, path)
    with exported(store, conversations(store)["a"]) as files:
        assert files == {"some.braid": LINES, "some.notes": b"new"}


def test_one_conversation_after_all(store: Store, tmp_path: Path) -> None:
    path = braid(tmp_path, b"#one\na:one\nb:two\n")
    assert imported(store, path).imported == 1
    (talk,) = store.library.conversations()
    assert said(store, talk) == [b"#one", b"a:one", b"b:two"]
    with exported(store, talk) as files:
        assert files == {"some.braid": path.read_bytes()}
    assert imported(store, path).unchanged == 1


def test_what_makes_no_sense_of_parts_is_taken_as_it_can_be(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Braid.parts

    def parts(self: Braid, source: Source, data: memoryview, spans: list) -> list:  # type: ignore[type-arg]
        told = list(real(self, source, data, spans) or [])
        odd = type(told[0])("a", [0, 3, 99, -1, 3], told[0].about, base=5, shared=9)
        far = type(told[0])("b", [], told[0].about, base=0, shared=99)
        return [*told, odd, far]

    monkeypatch.setattr(Braid, "parts", parts)
    imported(store, braid(tmp_path))
    talks = conversations(store)
    assert set(talks) == {"a", "b", "c", "a~2", "b~2"}
    assert said(store, talks["a~2"]) == [b"# nobody's"]
    assert said(store, talks["b~2"]) == [b"a:one", b"a:two", b"a:three"]
    for talk in talks.values():
        assert file(store, talk) == LINES


def test_a_dry_run_counts_conversations(store: Store, tmp_path: Path) -> None:
    path = braid(tmp_path)

    def counts(report: ImportReport) -> tuple[int, int, int]:
        return report.imported, report.grown, report.unchanged

    assert counts(Importer(store).run([path], dry_run=True)) == (3, 0, 0)
    assert store.library.conversations() == []
    imported(store, path)
    braid(tmp_path, LINES.replace(b"b:second", b"b:SECOND") + b"d:new\na:four\n")
    assert counts(Importer(store).run([path], dry_run=True)) == (1, 2, 1)
    assert counts(imported(store, path)) == (1, 2, 1)


def test_an_import_that_was_interrupted_is_done_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = braid(tmp_path)

    def stop(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileImport, "_note", stop)
        with pytest.raises(KeyboardInterrupt):
            Importer(store).run([path])
    talks = conversations(store)
    assert len(talks) == 3
    with pytest.raises(UsageError, match="import it again"):
        file(store, talks["a"])
    report = imported(store, path)
    assert (report.imported, report.records) == (0, 0)
    assert conversations(store).keys() == talks.keys()
    assert file(store, talks["a"]) == LINES


def test_an_index_made_anew_knows_all(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        imported(store, braid(tmp_path))
        before = conversations(store)
    with opened(tmp_path, reindex=True) as store:
        assert fsck(store) == []
        talks = conversations(store)
        assert [talk.metadata for talk in talks.values()] == [talk.metadata for talk in before.values()]
        assert imported(store, tmp_path / "some.braid").unchanged == 1
        braid(tmp_path, LINES + b"b:third\n", "other.braid")
        assert imported(store, tmp_path / "other.braid").records == 1
        assert file(store, talks["a"]) == LINES + b"b:third\n"


def opened(folder: Path, *, reindex: bool = False) -> Store:
    from fusefs.text.render import FileRenderer

    return Store.open(folder / "store", renderer=FileRenderer(), reindex=reindex)


def test_many_branches_of_branches(store: Store, tmp_path: Path) -> None:
    names = "abcdefgh"
    content = b"".join(f"{name}:1\n{name}:2\n".encode() for name in names)
    content += b"".join(f"#{late}={early}/{at}\n".encode() for at, (early, late) in enumerate(pairwise(names), 1))
    imported(store, braid(tmp_path, content))
    talks = conversations(store)
    assert said(store, talks["c"]) == [b"a:1", b"b:1", b"c:1", b"c:2"]
    assert len(said(store, talks["h"])) == 9
    Editor(store).edit(talks["h"].id, {1: b"a:ONE"})
    assert file(store, talks["h"]) == content.replace(b"a:1", b"a:ONE")


def test_done_says_what_came_of_each(store: Store, tmp_path: Path) -> None:
    done: list[Done] | None = FileImport(
        store, Group(store), Braid(), Source("braid", braid(tmp_path), tmp_path / "some.braid"), None
    ).run(None)
    assert [(one.records, one.new, one.bytes_read) for one in done or []] == [
        (3, True, 17),
        (2, True, 15),
        (1, True, 7),
    ]


def test_small_files_share_their_syncs(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def syncs_for(name: str, count: int) -> int:
        folder = tmp_path / name
        folder.mkdir()
        for number in range(count):
            braid(folder, lines_of(name + chr(ord("a") + number)), f"{number}.braid")
        syncs = 0
        real = durable.fdatasync

        def counted(fd: int) -> None:
            nonlocal syncs
            syncs += 1
            real(fd)

        with monkeypatch.context() as patch:
            patch.setattr(durable, "fdatasync", counted)
            assert imported(store, folder).imported == 3 * count
        return syncs

    one, many = syncs_for("one", 1), syncs_for("many", 20)
    assert many <= one


def test_a_conversation_in_two_new_files_comes_once(store: Store, tmp_path: Path) -> None:
    for name, content in (("1", LINES), ("2", LINES + b"b:third\n")):
        braid(tmp_path, content, f"{name}.braid")
    report = imported(store, tmp_path)
    assert (report.imported, report.grown, report.unchanged) == (3, 1, 2)
    assert said(store, conversations(store)["b"]) == [b"b:first", b"b:second", b"b:third"]
    assert fsck(store) == []


def test_new_files_that_wait_for_each_other_and_are_interrupted_come_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "xyz":
        braid(tmp_path, lines_of(name), f"{name}.braid")
    real, left, most = FileImport.go_on, 0, 0

    def until(file: FileImport) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return real(file)

    with monkeypatch.context() as patch:
        patch.setattr(FileImport, "go_on", until)
        while True:
            left = most = most + 1
            with suppress(KeyboardInterrupt):
                imported(store, tmp_path)
                break
    assert most > 3
    talks = store.library.conversations()
    assert len(talks) == 9
    assert {file(store, talk) for talk in talks} == {path.read_bytes() for path in tmp_path.glob("*.braid")}
    assert imported(store, tmp_path).unchanged == 3
    assert fsck(store) == []


def test_a_file_that_fails_leaves_those_that_wait_with_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "xyz":
        braid(tmp_path, lines_of(name), f"{name}.braid")
    real = RecordIntake.end

    def end(self: RecordIntake, changes: dict[str, object], size: int) -> Done:
        if changes["part"] == "yb":
            raise DamageError("a record that it begins with is damaged")
        return real(self, changes, size)

    with monkeypatch.context() as patch:
        patch.setattr(RecordIntake, "end", end)
        report = Importer(store).run([tmp_path])
    assert (report.imported, len(report.errors)) == (6, 1)
    assert len(store.library.conversations()) == 6
    assert imported(store, tmp_path).imported == 3
    assert len(store.library.conversations()) == 9

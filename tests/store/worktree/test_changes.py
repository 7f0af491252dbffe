"""Changes of files as a diff that other programs apply: whatever the tool, and however many edits."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.importing.importer import Importer
from store.store import Store
from store.worktree.changes import FileChange, file_changes

ROSES = "roses\nthyme\n\nsage\nmint\nrue\ndill\nleek\n"


class Talk:
    """A session of Claude Code that is made line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def call(self, tool: str, given: dict[str, object], result: str = "done", **told: object) -> None:
        number = f"t{len(self.lines)}"
        use = {"type": "tool_use", "id": number, "name": tool, "input": given}
        self._add("assistant", [use])
        self._add("user", [{"type": "tool_result", "tool_use_id": number, "content": result}], **told)

    def read(self, path: str, text: str, first: int = 1, total: int = 0) -> None:
        count = text.count("\n") + 1
        file = {"filePath": path, "content": text, "startLine": first, "numLines": count, "totalLines": total or count}
        self.call("Read", {"file_path": path}, text, toolUseResult={"type": "text", "file": file})

    def edit(self, path: str, old: str, new: str, **told: object) -> None:
        self.call("Edit", {"file_path": path, "old_string": old, "new_string": new}, **told)

    def write(self, path: str, text: str) -> None:
        self.call("Write", {"file_path": path, "content": text})

    def _add(self, role: str, content: object, **told: object) -> None:
        line = {"type": role, "uuid": f"u{len(self.lines)}", "sessionId": "s", "cwd": "/garden"}
        self.lines.append(json.dumps(line | {"message": {"role": role, "content": content}} | told))


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store


def changes(store: Store, talk: Talk, directory: Path) -> dict[str, FileChange]:
    session = directory / "s.jsonl"
    session.write_text("\n".join(talk.lines) + "\n")
    Importer(store).run([session])
    return {change.path: change for change in file_changes(store.library, store.library.conversation(1))}


def applied(directory: Path, change: FileChange, before: str | None) -> str:
    """Return what ``patch`` makes of a file."""
    file = directory / "file"
    file.unlink(missing_ok=True)
    if before is not None:
        file.write_text(before)
    subprocess.run(["patch", "-s", file], input=change.text, text=True, check=True, cwd=directory)
    return file.read_text() if file.exists() else ""


def test_many_edits_are_one_change(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.read("/garden/beds.txt", ROSES)
    talk.edit("/garden/beds.txt", "roses", "tulips")
    talk.edit("/garden/beds.txt", "tulips", "lilies\nphlox")
    talk.call("MultiEdit", {"file_path": "beds.txt", "edits": [{"old_string": "leek\n", "new_string": ""}]})
    found = changes(store, talk, tmp_path)
    assert list(found) == ["/garden/beds.txt"]
    change = found["/garden/beds.txt"]
    assert change.text.startswith("--- a/garden/beds.txt\n+++ b/garden/beds.txt\n@@ ")
    assert (change.added, change.removed) == (2, 2)
    expected = ROSES.replace("roses", "lilies\nphlox").replace("leek\n", "")
    assert applied(tmp_path, change, ROSES) == expected


def test_a_file_that_is_known_in_parts_is_changed_where_it_is(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.read("/garden/beds.txt", "sage\nmint\nrue", 4, 9)
    talk.edit("/garden/beds.txt", "mint", "basil")
    change = changes(store, talk, tmp_path)["/garden/beds.txt"]
    assert "@@ -5 +5 @@\n-mint\n+basil\n" in change.text
    assert applied(tmp_path, change, ROSES) == ROSES.replace("mint", "basil")


def test_pieces_make_the_whole(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.read("/garden/beds.txt", "roses\nthyme\n\nsage", 1, 9)
    talk.read("/garden/beds.txt", "sage\nmint\nrue\ndill\nleek\n", 4, 9)
    talk.edit("/garden/beds.txt", "e\n\ns", "e\ns")
    change = changes(store, talk, tmp_path)["/garden/beds.txt"]
    assert applied(tmp_path, change, ROSES) == ROSES.replace("\n\n", "\n")


def test_the_record_of_an_edit_may_hold_the_whole(store: Store, talk: Talk, tmp_path: Path) -> None:
    told = {"filePath": "/garden/beds.txt", "oldString": "mint", "newString": "basil", "originalFile": ROSES}
    talk.edit("/garden/beds.txt", "mint", "basil", toolUseResult=told)
    change = changes(store, talk, tmp_path)["/garden/beds.txt"]
    assert applied(tmp_path, change, ROSES) == ROSES.replace("mint", "basil")


def test_new_and_removed_files(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.write("/garden/new.txt", "peas\n")
    talk.edit("/garden/new.txt", "peas", "beans")
    talk.read("/garden/old.txt", "weeds\n")
    talk.call("apply_patch", {"input": "*** Begin Patch\n*** Delete File: old.txt\n*** End Patch"})
    found = changes(store, talk, tmp_path)
    assert found["/garden/new.txt"].text.startswith("--- /dev/null\n+++ b/garden/new.txt\n")
    assert applied(tmp_path, found["/garden/new.txt"], None) == "beans\n"
    assert found["/garden/old.txt"].text.startswith("--- a/garden/old.txt\n+++ /dev/null\n")
    assert applied(tmp_path, found["/garden/old.txt"], "weeds\n") == ""


def test_what_something_else_changed_is_not_told_as_the_conversations(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.read("/garden/beds.txt", ROSES)
    talk.edit("/garden/beds.txt", "mint", "basil")
    tidied = ROSES.replace("mint", "basil").replace("\n\n", "\n")
    talk.read("/garden/beds.txt", tidied)
    talk.edit("/garden/beds.txt", "basil", "parsley")
    change = changes(store, talk, tmp_path)["/garden/beds.txt"]
    assert change.text.count("--- a/garden/beds.txt\n") == 2
    assert (change.added, change.removed) == (2, 2)
    assert "-thyme" not in change.text


def test_a_failed_edit_changes_nothing(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk.read("/garden/beds.txt", ROSES)
    talk.edit("/garden/beds.txt", "not there", "x")
    talk.lines[-1] = talk.lines[-1].replace('"tool_use_id"', '"is_error": true, "tool_use_id"')
    assert changes(store, talk, tmp_path) == {}

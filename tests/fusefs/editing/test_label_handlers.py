"""Labels, by handlers called directly: each test ends with a store that is sound."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from fusefs.editing import conversations
from fusefs.editing.conversations import Labels
from fusefs.operations import Operations
from fusefs.tree.tree import Tree
from store.commit.request import Request
from store.editing.editor import Editor
from store.store import Store
from store.upkeep.fsck import fsck
from tests.fusefs.editing.talk import LINES, NAME
from tests.fusefs.tree.mounting import add, new_store
from tests.fusefs.tree.test_operations import asked, failure, run, walk

TALK = ["conversations", "project", NAME]
TARGET = f"../../conversations/project/{NAME}".encode()
LABEL = b"user.convfs.label."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with new_store(tmp_path / "store") as store:
        add(store, LINES)
        add(store, LINES, project="other")
        yield store
        assert fsck(store) == []


@pytest.fixture
def operations(store: Store) -> Operations:
    return Operations(Tree(store))


def labels(store: Store, context: int = 1) -> list[str]:
    return store.library.conversation(context).labels


def test_an_attribute_and_its_removal_are_a_commit_each(operations: Operations, store: Store) -> None:
    talk = walk(operations, TALK)
    before = store.files.heads.length
    asked(lambda: operations.setxattr(talk, LABEL + b"bug", b"", None))
    once = store.files.heads.length - before
    asked(lambda: operations.setxattr(talk, LABEL + b"bug", b"1", None))
    assert store.files.heads.length == before + once > before
    assert LABEL + b"bug" in run(operations.listxattr(talk, None))
    assert run(operations.getxattr(talk, LABEL + b"bug", None)) == b"1"
    asked(lambda: operations.removexattr(talk, LABEL + b"bug", None))
    assert failure(operations.removexattr(talk, LABEL + b"bug", None)) == errno.ENODATA
    assert (labels(store), len(store.catalogue.versions(1))) == ([], 1)
    assert failure(operations.setxattr(talk, LABEL + b"\xff", b"", None)) == errno.EINVAL
    assert failure(operations.setxattr(talk, b"user.convfs.head", b"7", None)) == errno.EOPNOTSUPP


def test_others_are_answered_while_a_label_is_made_durable(
    operations: Operations, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, submit, may_go_on = walk(operations, TALK), store.writer.submit, threading.Event()

    def slow(request: Request) -> Request:
        assert may_go_on.wait(60)
        return submit(request)

    async def others() -> None:
        for _ in range(20):
            assert (await operations.getattr(talk, None)).st_ino == talk
            assert labels(store) == []
            await trio.lowlevel.checkpoint()
        may_go_on.set()

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await operations.setxattr(talk, LABEL + b"bug", b"", None)
            assert LABEL + b"bug" in await operations.listxattr(talk, None)

    monkeypatch.setattr(store.writer, "submit", slow)
    trio.run(both)
    assert labels(store) == ["bug"]


def test_a_link_has_one_number_in_all_labels(operations: Operations, store: Store) -> None:
    top = walk(operations, ["by-label"])
    made = []
    for label in (b"one", b"two"):
        directory = run(operations.mkdir(top, label, 0o777, None)).st_ino
        made.append(run(operations.symlink(directory, NAME.encode(), TARGET, None)))
    assert made[0].st_ino == made[1].st_ino
    assert [entry.st_nlink for entry in made] == [1, 2]
    assert run(operations.readlink(made[0].st_ino, None)) == TARGET
    assert operations.lookups.count(made[0].st_ino) == 2
    assert labels(store) == ["one", "two"]
    run(operations.unlink(walk(operations, ["by-label", "one"]), NAME.encode(), None))
    assert labels(store) == ["two"]
    assert failure(operations.lookup(walk(operations, ["by-label", "one"]), NAME.encode(), None)) == errno.ENOENT
    assert run(operations.getattr(made[0].st_ino, None)).st_nlink == 1


def test_a_link_of_another_project_with_the_same_name(operations: Operations, store: Store) -> None:
    directory = run(operations.mkdir(walk(operations, ["by-label"]), b"bug", 0o777, None)).st_ino
    run(operations.symlink(directory, NAME.encode(), TARGET, None))
    other = TARGET.replace(b"/project/", b"/other/")
    assert failure(operations.symlink(directory, NAME.encode(), other, None)) == errno.EEXIST
    assert failure(operations.symlink(directory, b"anything", other, None)) == errno.EINVAL
    assert "must be called" in str(operations.tree.errors.get(list(operations.tree.errors)[-1]))
    run(operations.symlink(directory, f"{NAME}@other".encode(), other, None))
    assert (labels(store, 1), labels(store, 2)) == (["bug"], ["bug"])
    assert operations.router.node(directory).lookup(f"{NAME}@other") is not None  # type: ignore[attr-defined]


def test_a_link_is_moved_from_label_to_label(operations: Operations, store: Store) -> None:
    top = walk(operations, ["by-label"])
    todo, done = (run(operations.mkdir(top, label, 0o777, None)).st_ino for label in (b"todo", b"done"))
    run(operations.symlink(todo, NAME.encode(), TARGET, None))
    before = store.files.heads.length
    run(operations.rename(todo, NAME.encode(), done, NAME.encode(), 0, None))
    assert labels(store) == ["done"]
    assert store.files.heads.length > before
    assert failure(operations.rename(done, NAME.encode(), todo, b"else", 0, None)) == errno.EPERM
    run(operations.rename(top, b"done", top, b"finished", 0, None))
    assert labels(store) == ["finished"]
    assert failure(operations.rmdir(top, b"finished", None)) == errno.ENOTEMPTY
    run(operations.rmdir(top, b"todo", None))
    assert failure(operations.lookup(top, b"todo", None)) == errno.ENOENT
    assert failure(operations.lookup(top, b"done", None)) == errno.ENOENT


def test_others_are_answered_while_a_renamed_label_is_made_to_show(
    operations: Operations, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "_FEW", 0)
    monkeypatch.setattr(conversations, "_SHOWN_AT_ONCE", 1)
    done: list[str] = []
    changed = Labels._changed

    def shown(self: Labels, context: int) -> None:
        done.append("shown")
        changed(self, context)

    monkeypatch.setattr(Labels, "_changed", shown)
    Editor(store).relabel_all([1, 2], add=["one"])
    top = walk(operations, ["by-label"])

    async def others() -> None:
        while "renamed" not in done:
            await operations.getattr(top, None)
            done.append("other")
            await trio.sleep(0)

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await operations.rename(top, b"one", top, b"two", 0, None)
            done.append("renamed")

    trio.run(both)
    first, last = done.index("shown"), len(done) - 1 - done[::-1].index("shown")
    assert "other" in done[first:last]
    assert done.count("shown") == 2
    assert (labels(store), labels(store, 2)) == (["two"], ["two"])

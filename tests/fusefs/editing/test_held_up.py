"""Changes while commits are held up, as by a redaction: others are answered meanwhile, and nothing is refused."""

import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from fusefs.operations import Operations
from fusefs.tree.tree import Tree
from store.store import Store
from store.upkeep.fsck import fsck
from tests.fusefs.editing.talk import LINES, NAME
from tests.fusefs.tree.mounting import PATIENCE, add, new_store
from tests.fusefs.tree.test_operations import walk

Change = Callable[[], Coroutine[Any, Any, object]]

PROJECT = ["conversations", "project"]
TALK = [*PROJECT, NAME]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with new_store(tmp_path / "store") as store:
        add(store, LINES)
        yield store
        assert fsck(store) == []


def label(operations: Operations) -> Change:
    return partial(operations.setxattr, walk(operations, TALK), b"user.convfs.label.bug", b"", None)


def fork(operations: Operations) -> Change:
    return partial(operations.mkdir, walk(operations, [*TALK, "forks"]), b"other", 0o700, None)


def rename(operations: Operations) -> Change:
    project = walk(operations, PROJECT)
    return partial(operations.rename, project, NAME.encode(), project, b"renamed", 0, None)


def begin(operations: Operations) -> Change:
    return partial(operations.mkdir, walk(operations, PROJECT), b"new", 0o700, None)


@pytest.mark.parametrize("change", [label, fork, rename, begin])
def test_a_change_waits_for_commits_that_are_held_up_and_others_do_not(
    store: Store, change: Callable[[Operations], Change]
) -> None:
    operations = Operations(Tree(store))
    asked = change(operations)
    held, may_go_on, made = threading.Event(), threading.Event(), threading.Event()

    def hold_up() -> None:
        with store.checkpointer.still():
            held.set()
            assert may_go_on.wait(PATIENCE)

    async def make() -> None:
        await asked()
        made.set()

    async def others() -> None:
        await trio.testing.wait_all_tasks_blocked()
        before = store.writer.seq
        for _ in range(20):
            assert (await operations.lookup(1, b"conversations", None)).st_ino
            assert (await operations.getattr(1, None)).st_ino == 1
        assert (made.is_set(), store.writer.seq) == (False, before)
        may_go_on.set()

    async def all_of_it() -> None:
        operations.desk.stand_in.start()
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(make)
                nursery.start_soon(others)

    holding = threading.Thread(target=hold_up)
    holding.start()
    try:
        assert held.wait(PATIENCE)
        before = store.writer.seq
        trio.run(all_of_it)
    finally:
        may_go_on.set()
        holding.join()
        is_needed, pending = operations.desk.stand_in.needed, operations.desk.stand_in.pending
        operations.desk.stand_in.end()
    assert made.is_set()
    assert store.writer.seq > before
    # what comes later is made by the loop
    assert (is_needed, pending) == (False, {})


def test_who_is_about_to_hold_up_commits_says_so_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    quiesce, at_once = store.checkpointer.quiesce, list[bool]()

    def quiesced() -> None:
        at_once.append(store.writer.at_once)
        quiesce()

    monkeypatch.setattr(store.checkpointer, "quiesce", quiesced)
    assert store.writer.at_once
    with store.checkpointer.still():
        pass
    assert at_once == [False]
    assert store.writer.at_once

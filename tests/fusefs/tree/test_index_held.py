"""Whoever asks for what is not measured yet while another changes the index for long: others are answered meanwhile."""

import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from fusefs.operations import Operations
from fusefs.tree.tree import Tree
from tests.fusefs.editing.talk import LINES, NAME
from tests.fusefs.tree.mounting import PATIENCE, add, new_store
from tests.fusefs.tree.test_operations import walk


@pytest.mark.parametrize("folder", [["transcripts", "project"], ["conversations", "project", NAME, "events"]])
def test_others_are_answered_while_the_index_is_changed(tmp_path: Path, folder: list[str]) -> None:
    with new_store(tmp_path / "store") as store:
        add(store, LINES)
        operations = Operations(Tree(store))
        directory = walk(operations, folder)
        name = f"{NAME}.md" if folder[0] == "transcripts" else "00001-user.md"
        (entry,) = store.catalogue.page()
        store.records.forget(entry)
        held, may_go_on, found = threading.Event(), threading.Event(), threading.Event()

        def change() -> None:
            with store.files.index.db.writing():
                held.set()
                assert may_go_on.wait(PATIENCE)

        async def ask() -> None:
            assert (await operations.lookup(directory, name.encode(), None)).st_size > 0
            found.set()

        async def others() -> None:
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(20):
                assert (await operations.lookup(1, b"conversations", None)).st_ino
            assert not found.is_set()
            assert holding.is_alive()
            may_go_on.set()

        async def all_of_it() -> None:
            with trio.fail_after(PATIENCE):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask)
                    nursery.start_soon(others)

        holding = threading.Thread(target=change)
        holding.start()
        try:
            assert held.wait(PATIENCE)
            trio.run(all_of_it)
        finally:
            may_go_on.set()
            holding.join()
        assert found.is_set()

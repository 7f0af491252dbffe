"""Slices: the loop of a mount takes in many changes a few at a time, and does not bring the index up to them."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from fusefs.kernel import Invalidations
from fusefs.operations import Operations
from fusefs.tree.tree import Tree
from store.commit.writer import Applying
from tests.fusefs.tree.mounting import PATIENCE, add, new_store, user

COUNT = 40


def test_many_conversations_change_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Sequence[int]] = []
    filed_by: list[int] = []
    take, file = Invalidations._take, Applying._file

    def noting_take(self: Invalidations, contexts: Sequence[int]) -> Any:  # noqa: ANN401 - what the other returns
        taken.append(contexts)
        return take(self, contexts)

    def noting_file(self: Applying, frames: list[Any]) -> None:
        filed_by.append(threading.get_ident())
        file(self, frames)

    monkeypatch.setattr(Invalidations, "_take", noting_take)
    monkeypatch.setattr(Applying, "_file", noting_file)
    with new_store(tmp_path / "store") as store:
        contexts = [add(store, [user("said", 1)], name=f"talk-{number}") for number in range(COUNT)]
        operations = Operations(Tree(store))
        desk = operations.desk
        follows = Invalidations(operations.tree, desk.kernel, desk.stand_in, desk.check, operations.forget_all)

        async def until_all_is_told() -> None:
            desk.stand_in.start()
            store.writer.settle()
            filed_by.clear()
            for context in contexts:
                store.contexts.set_metadata(context, {"labels": ["bug"]})
                desk.kernel.changed.put(context)
            follows.start()
            with trio.fail_after(PATIENCE):
                while sum(map(len, taken)) < COUNT:
                    await trio.sleep(0.01)

        try:
            trio.run(until_all_is_told)
        finally:
            follows.end()
            desk.stand_in.end()
        assert sorted(context for some in taken for context in some) == contexts
        assert max(map(len, taken)) <= 8
        assert filed_by
        assert threading.get_ident() not in filed_by

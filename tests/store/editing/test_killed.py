"""The process that edits is killed, again and again: what was acknowledged is there, and nothing is half there."""

import os
import time
from pathlib import Path
from random import Random

import pytest

from fusefs.text.render import FileRenderer
from store.store import Store
from store.upkeep import recovery
from store.upkeep.fsck import fsck
from tests.forked import Forked
from tests.store.editing import life
from tests.store.editing.life import Life
from tests.store.editing.measured import check_branch
from tests.store.editing.records import shown

KILLS = int(os.environ.get("CONVFS_KILLS", "8"))


@pytest.mark.timeout(600)
def test_killed_at_any_moment(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "JOURNAL_BYTES", life.JOURNAL_BYTES)
    root = memory_path / "store"
    context = life.begin(root)
    model, random = Life(context), Random(5)
    done = 0
    for _kill in range(KILLS):
        acknowledged = _live(root, done + 1, random.uniform(0.02, 0.6))
        while len(model.states) < acknowledged + 3:
            model.step(len(model.states))
        with Store.open(root, renderer=FileRenderer(), create=False) as store:
            found = shown(store, context)
            # the one that was on its way may have been done
            assert found in model.states[acknowledged : acknowledged + 2]
            done = acknowledged + model.states[acknowledged : acknowledged + 2].index(found)
            if model.states[done] == model.states[done + 1]:
                # a step that changes nothing: its like has been done as well
                done += 1
            check_branch(store, store.writer.head(context).tip)
            assert fsck(store) == []
    assert done > KILLS


def _live(root: Path, first: int, seconds: float) -> int:
    """Live from step ``first`` on, for a while after the first is done; return the last that was acknowledged."""
    ears, mouth = os.pipe()
    with open(ears, "rb") as output:
        with open(mouth, "wb"), open(os.devnull, "r+b") as nothing:
            streams = (nothing.fileno(), mouth, nothing.fileno())
            process = Forked("tests.store.editing.life", root, first, streams=streams)
        told = output.readline()
        time.sleep(seconds)
        process.kill()
        told += output.read()
        process.wait(60)
    numbers = told.splitlines()
    # a number that is cut off is one that was not told
    return int(numbers[-1] if told.endswith(b"\n") else numbers[-2])

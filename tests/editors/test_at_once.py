"""Sixteen programs edit sixteen conversations at once, while others read everything."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from store.upkeep.fsck import fsck
from tests.editors.terminal import PATIENCE
from tests.fusefs.tree.mounting import Mounted, add, assistant, can_mount, keep_each_save, mounted, new_store, user

EDITS = Path(__file__).with_name("edits.py")
EDITORS, GREPS, COUNT = 16, 4, 24
EVENT = "00002-assistant.md"
VANISHES = (b"No such file or directory", b"warning: recursive directory loop")
"""Complaints of grep about files that are gone after they were listed: programs that save remove files."""


def lines(number: int) -> list[str]:
    said = [user(f"Question {question} of NEEDLE\n" + "word " * 300, question) for question in range(3, 40)]
    return [user("The first", 1), assistant(f"This is the answer {number} to edit", 2), *said]


def grep(mount: Mounted, stop: Path) -> "subprocess.Popen[bytes]":
    """Read everything, and again until there is a file ``stop``."""
    script = "until grep -r NEEDLE conversations transcripts | wc -l; [ -e $1 ]; do :; done"
    return subprocess.Popen(
        ["bash", "-c", script, "bash", str(stop)],
        cwd=mount.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
    )


def test_sixteen_editors_and_four_greps(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    with new_store(tmp_path / "store") as store:
        for number in range(EDITORS):
            add(store, lines(number), name=f"talk-{number}")
    keep_each_save(tmp_path / "store")
    with mounted(tmp_path / "store") as mount:
        talks = [mount.root / "conversations/project" / f"talk-{number}" for number in range(EDITORS)]
        greps = [grep(mount, tmp_path / "stop") for _ in range(GREPS)]
        editors = [
            subprocess.Popen(
                [sys.executable, str(EDITS), str(talk / "events"), EVENT, str(number), str(COUNT)],
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            for number, talk in enumerate(talks)
        ]
        try:
            said = [editor.communicate(timeout=6 * PATIENCE)[1] for editor in editors]
            (tmp_path / "stop").touch()
            outputs = [process.communicate(timeout=PATIENCE) for process in greps]
        finally:
            for process in [*greps, *editors]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        assert said == [b""] * EDITORS
        assert [editor.returncode for editor in editors] == [0] * EDITORS
        for found, errors in outputs:
            # 37 questions, twice in every conversation: nothing is missed, whatever is edited meanwhile
            assert set(found.splitlines()) == {b"%d" % (2 * 37 * EDITORS)}
            assert [line for line in errors.splitlines() if not line.endswith(VANISHES)] == []
            assert f"events/{EVENT}:".encode() not in errors

        for number, talk in enumerate(talks):
            assert len(os.listdir(talk / ".versions")) == 1 + COUNT
            assert (talk / "events" / EVENT).read_text().endswith(f"edit-{COUNT - 1}-of-{number}\n")
            assert len(os.listdir(talk / "events")) == 39
        # some look half-written at a first close
        assert [line for line in mount.messages.read_text().splitlines() if "the head has no end" not in line] == []
    with new_store(tmp_path / "store") as store:
        assert fsck(store) == []

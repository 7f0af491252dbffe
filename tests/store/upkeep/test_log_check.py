"""Damage in the logs is told when a store is opened, by every command, and in the mount."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.disk.file_header import HEADER_SIZE
from store.paths import CHECKED
from store.store import Store
from store.upkeep import log_check
from store.upkeep.log_check import noted_damage
from tests.fusefs.tree.mounting import mounted, new_store, until

PLACES = {"heads.log": HEADER_SIZE + 26, "turns.log": HEADER_SIZE + 80 * 30 + 10}


def fill(root: Path) -> None:
    with new_store(root) as store:
        for number in range(4):
            metadata: dict[str, object] = {"project": "p", "name": f"talk-{number}", "title": f"Talk {number}"}
            context = store.contexts.create(metadata=metadata).context
            for at in range(12):
                store.contexts.append_many(context, [Append(b"%d %d" % (number, at), "x.v1")])


def flip(root: Path, name: str) -> None:
    data = bytearray((root / "turns" / name).read_bytes())
    data[PLACES[name]] ^= 4
    (root / "turns" / name).write_bytes(data)


def convfs(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fusefs.cli", "--store", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.of_one_machine("it changes the log")
@pytest.mark.parametrize("name", PLACES)
def test_a_bit_is_told_by_every_command_until_it_was_repaired(store_path: Path, name: str) -> None:
    fill(store_path)
    assert convfs(store_path, "ls").stderr == ""
    flip(store_path, name)
    for command in (["ls"], ["stats"], ["show", "1"]):
        said = convfs(store_path, *command)
        assert f"convfs: {name} is damaged" in said.stderr
        assert "convfs fsck" in said.stderr
        assert said.stderr.count("\n") == 1
    with mounted(store_path) as mount:
        until(lambda: os.listdir(mount.root / ".convfs/errors") == [f"{name}.txt"])
        assert "is damaged" in (mount.root / f".convfs/errors/{name}.txt").read_text()
    # which bit of a turn it was follows from its checksum; what a frame said may be lost
    assert convfs(store_path, "fsck", "--repair").returncode == (name != "turns.log")
    assert convfs(store_path, "ls").stderr == ""
    assert convfs(store_path, "ls").stdout.count("talk-") == 4


def test_a_command_tells_it_that_talks_to_a_daemon(store_path: Path) -> None:
    fill(store_path)
    flip(store_path, "heads.log")
    with mounted(store_path, "serving"):
        until(lambda: noted_damage(store_path))
        assert "heads.log is damaged" in convfs(store_path, "ls").stderr


def test_opening_looks_through_a_part_and_the_next_goes_on(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = memory_path / "store"
    fill(root)
    monkeypatch.setattr(log_check, "_HEADS_AT_ONCE", 300)
    monkeypatch.setattr(log_check, "_TURNS_AT_ONCE", 7)
    (root / CHECKED).unlink(missing_ok=True)
    for name in PLACES:
        flip(root, name)
    told: list[list[str]] = []
    for _ in range(60):
        with Store.open(root, renderer=FileRenderer()) as store:
            told.append(store.files.check.lines)
    assert "turns.log" not in "".join(told[0])
    assert len(told[-1]) == 2
    for name in PLACES:
        # somebody brings a sound copy back
        flip(root, name)
    for _ in range(120):
        with Store.open(root, renderer=FileRenderer()) as store:
            told.append(store.files.check.lines)
    assert told[-1] == []


def test_a_daemon_goes_on_to_the_end(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = memory_path / "store"
    fill(root)
    monkeypatch.setattr(log_check, "_HEADS_AT_ONCE", 300)
    monkeypatch.setattr(log_check, "_TURNS_AT_ONCE", 7)
    flip(root, "turns.log")
    with Store.open(root) as store:
        assert store.files.check.lines == []
        while store.files.check.step():
            pass
        assert "turn 31" in store.files.check.lines[0]


@pytest.mark.of_one_machine("it removes the log")
def test_a_log_that_is_gone_is_one_line(store_path: Path) -> None:
    fill(store_path)
    (store_path / "turns/heads.log").unlink()
    for command in (["ls"], ["reindex"], ["fsck"]):
        said = convfs(store_path, *command)
        assert said.returncode == 1
        assert "heads.log: the log is gone" in said.stderr
        assert "--repair" in said.stderr
        assert said.stderr.count("\n") == 1
    said = convfs(store_path, "fsck", "--repair")
    assert "the log had lost, and has again: p/talk-3" in said.stderr
    assert convfs(store_path, "ls").stdout.count("talk-") == 4

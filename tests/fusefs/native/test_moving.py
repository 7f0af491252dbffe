"""Files and folders below ``.convfs/native/TOOL/`` that are moved by programs: the sessions are what they were."""

import os
import subprocess
from pathlib import Path

import pytest

from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import Mounted, errno_of, mounted, new_store, until, user
from tests.store.formats.rollouts import SESSION, event, message, meta, written

NAME = f"rollout-2026-04-13T08-18-20-{SESSION}.jsonl"
ROLLOUT = [meta(), message("user", "Fix it"), event("user_message", message="Fix it"), message("assistant", "Done")]
FIRST = "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90"
OTHER = "1b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c91"


def talks(mount: Mounted) -> list[Path]:
    return sorted(mount.root.glob("conversations/*/*"))


def test_codex_archives_a_session_which_keeps_its_label_and_goes_on(mount: Mounted, store_path: Path) -> None:
    codex = mount.root / ".convfs/native/codex"
    assert sorted(os.listdir(codex)) == ["archived_sessions", "sessions"]
    file = codex / "sessions/2026/04/13" / NAME
    file.parent.mkdir(parents=True)
    file.write_bytes(written(*ROLLOUT))
    [talk] = talks(mount)
    mount.shell(f"setfattr -n user.convfs.label.mine {talk}; sed -i s/Fix/Mend/ {talk}/events/00002-user.md")
    edited = file.read_bytes()
    assert b"Mend it" in edited
    archived = codex / "archived_sessions" / NAME
    with file.open("ab") as writing:
        os.rename(file, archived)
        writing.write(written(message("user", "And then?")))
    assert archived.read_bytes() == edited + written(message("user", "And then?"))
    assert talks(mount) == [talk]
    assert os.getxattr(talk, "user.convfs.label.mine") == b"1"
    assert os.listdir(file.parent) == []
    os.rename(archived, file)
    assert not archived.exists()
    assert errno_of(lambda: os.rename(codex / "sessions", codex / "others"))


def test_a_folder_of_sessions_is_moved_with_all_that_is_in_it(mount: Mounted, store_path: Path) -> None:
    top = mount.root / ".convfs/native/claude-code"
    folder = top / "-home-dev-project"
    (folder / FIRST / "tool-results").mkdir(parents=True)
    for name in (FIRST, OTHER):
        (folder / f"{name}.jsonl").write_text(user(f"I am {name}.").replace(FIRST, name) + "\n")
    (folder / FIRST / "tool-results/a.txt").write_text("a result")
    (folder / "memo.txt").write_text("a memo")
    before = talks(mount)
    assert len(before) == 2
    until(lambda: not any(mount.store.rglob("a.txt")))
    with subprocess.Popen(["bash"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        with (folder / f"{OTHER}.jsonl").open("a") as writing:
            os.rename(folder, top / "-home-dev-other")
            writing.write(user("Goes on.", 7).replace(FIRST, OTHER) + "\n")
        out, _ = shell.communicate(
            f"pwd -P; ls; tail -n 1 {FIRST}.jsonl | wc -l; cat {FIRST}/tool-results/a.txt; echo x > new"
        )
    moved = top / "-home-dev-other"
    assert out.split() == [str(moved), FIRST, f"{FIRST}.jsonl", f"{OTHER}.jsonl", "memo.txt", "1", "a", "result"]
    assert not folder.exists()
    assert (moved / "new").read_text() == "x\n"
    assert "Goes on." in (moved / f"{OTHER}.jsonl").read_text()
    assert talks(mount) == before
    # a result alone, and the folder once more, onto an empty one
    os.rename(moved / FIRST / "tool-results/a.txt", moved / "b.txt")
    assert (moved / "b.txt").read_text() == "a result"
    assert not (moved / FIRST / "tool-results/a.txt").exists()
    folder.mkdir()
    os.rename(moved, folder)
    assert sorted(os.listdir(folder)) == [FIRST, f"{FIRST}.jsonl", f"{OTHER}.jsonl", "b.txt", "memo.txt", "new"]
    assert mount.shell(f"getfattr --only-values -n user.convfs.source {folder}/{FIRST}.jsonl").endswith(
        f".claude/projects/-home-dev-project/{FIRST}.jsonl"
    )


def test_a_moved_folder_is_where_it_was_moved_after_a_restart(store_path: Path) -> None:
    with new_store(store_path):
        pass
    top = ".convfs/native/codex/sessions/2026"
    with mounted(store_path) as mount:
        (mount.root / top / "04/13").mkdir(parents=True)
        (mount.root / top / "04/13" / NAME).write_bytes(written(*ROLLOUT))
        os.rename(mount.root / top / "04", mount.root / top / "05")
    with mounted(store_path) as mount:
        assert (mount.root / top / "05/13" / NAME).read_bytes() == written(*ROLLOUT)
        assert not (mount.root / top / "04").exists()
        assert len(talks(mount)) == 1
    with new_store(store_path) as store:
        assert fsck(store) == []


def test_what_cannot_be_moved(mount: Mounted) -> None:
    native = mount.root / ".convfs/native"
    file = native / "claude-code/-p" / f"{FIRST}.jsonl"
    file.parent.mkdir()
    file.write_text(user("Buy milk.") + "\n")
    for old, new in (("claude-code/-p", "codex/-p"), ("claude-code", "other"), ("codex/sessions", "codex/s")):
        with pytest.raises(OSError, match=r"cross-device|not permitted"):
            os.rename(native / old, native / new)
    (native / "claude-code/-q/full").mkdir(parents=True)
    with pytest.raises(OSError, match="not empty"):
        os.rename(native / "claude-code/-p", native / "claude-code/-q")
    assert file.exists()

"""A project is renamed, or moved into another one, by ``mv``."""

import errno
import os
from pathlib import Path

from store.importing.importer import Importer
from tests.fusefs.tree.mounting import add, errno_of, mounted, new_store, until, user
from tests.store.importing.sessions import line, session


def test_a_project_is_renamed(store_path: Path, tmp_path: Path) -> None:
    with new_store(store_path) as store:
        Importer(store).run([session(tmp_path, line("Hello", cwd="/gone/shop") + b"\n", "a")])
        add(store, [user("other")], project="other", name="hello")
    with mounted(store_path) as mount:
        top = mount.root / "conversations"
        (name,) = os.listdir(top / "shop")
        (top / "shop" / "todo").write_text("mine")
        ino = (top / "shop" / name).stat().st_ino
        mount.run("mv", "conversations/shop", "conversations/store")
        assert sorted(os.listdir(top)) == ["other", "store"] == sorted(os.listdir(mount.root / "transcripts"))
        assert (top / "store" / name).stat().st_ino == ino
        assert (top / "store" / "todo").read_text() == "mine"
        assert (mount.root / "transcripts/store" / f"{name}.md").read_text().count("Hello")
        # the old path leads there
        assert (top / "shop" / name).samefile(top / "store" / name)
        (mount.root / "import/b.jsonl").write_bytes(line("Again", cwd="/gone/shop") + b"\n")
        until(lambda: len(list((top / "store").glob("2026*"))) == 2)
        # into another one
        mount.run("mv", "conversations/store", "conversations/other")
        until(lambda: len(list((top / "other").glob("2026*"))) == 2)
        assert (top / "other" / "todo").read_text() == "mine"
        assert (mount.root / "transcripts/other" / f"{name}.md").exists()
        (mount.root / "import/c.jsonl").write_bytes(line("Once more", cwd="/gone/shop") + b"\n")
        until(lambda: len(list((top / "other").glob("2026*"))) == 3)
    with mounted(store_path) as mount:
        assert "shop" not in os.listdir(mount.root / "conversations")
        assert len(os.listdir(mount.root / "conversations/other")) == 5


def test_what_a_project_cannot_become(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("one")], project="one")
        add(store, [user("two")], project="two")
    with mounted(store_path) as mount:
        top = mount.root / "conversations"
        for target, code in (
            (top / "two", errno.ENOTEMPTY),
            (top / ".dot", errno.EINVAL),
            (mount.root / "by-label/x", errno.EPERM),
        ):
            assert errno_of(lambda target=target: (top / "one").rename(target)) == code
        transcripts = mount.root / "transcripts"
        assert errno_of(lambda: (transcripts / "one").rename(transcripts / "three")) == errno.EPERM
        assert sorted(os.listdir(top)) == ["one", "two"]


def test_directories_with_a_dot_are_scratch(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("one")], project="one")
    with mounted(store_path) as mount:
        top = mount.root / "conversations"
        for name in (".git", ".obsidian", ".vscode", ".stfolder"):
            for place in (top, top / "one"):
                (place / name / "below").mkdir(parents=True)
                (place / name / "below" / "file").write_text(name)
        assert sorted(os.listdir(top)) == [".git", ".obsidian", ".stfolder", ".vscode", "one"]
        # those of the mount's own cannot be
        assert errno_of((top / "one" / ".aside").mkdir) == errno.EINVAL
        assert errno_of((top / "one" / ".convfs").mkdir) == errno.EEXIST
        (top / "one" / ".git").rename(top / "one" / ".hidden")
        (top / "one" / ".vscode").rename(top / ".elsewhere")
        mount.run("rm", "-r", "conversations/.git", "conversations/one/.obsidian")
    with mounted(store_path) as mount:
        top = mount.root / "conversations"
        assert sorted(os.listdir(top)) == [".elsewhere", ".obsidian", ".stfolder", ".vscode", "one"]
        assert sorted(os.listdir(top / "one")) == [".hidden", ".stfolder", "2026-03-05-talk"]
        assert (top / "one" / ".hidden" / "below" / "file").read_text() == ".git"
        assert (top / ".elsewhere" / "below" / "file").read_text() == ".vscode"
        assert len(mount.shell("ls -d by-date/*/*/*/* recent/*").split()) == 2


def test_scratch_of_a_project_stays_in_sight(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("one")], project="one")
        add(store, [user("two")], project="two", name="other")
    with mounted(store_path) as mount:
        top = mount.root / "conversations"
        for project in ("one", "two", "empty"):
            (top / project / ".git").mkdir(parents=True)
            (top / project / ".git" / "config").write_text(project)
        (top / "one" / "notes").write_text("mine")
        # what has a name that is taken stays where it is
        mount.run("mv", "conversations/one", "conversations/two")
        assert (top / "two" / "notes").read_text() == "mine"
        assert (top / "two" / ".git" / "config").read_text() == "two"
        assert (top / "one" / ".git" / "config").read_text() == "one"
    with mounted(store_path) as mount:
        top = mount.root / "conversations"
        assert sorted(os.listdir(top)) == ["empty", "one", "two"]
        assert os.listdir(top / "one") == [".git"]
        mount.run("rm", "-r", "conversations/one", "conversations/empty")
        assert os.listdir(top) == ["two"]
    with mounted(store_path) as mount:
        assert os.listdir(mount.root / "conversations") == ["two"]

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
        until(lambda: len(list((top / "other").iterdir())) == 3)
        assert (mount.root / "transcripts/other" / f"{name}.md").exists()
        (mount.root / "import/c.jsonl").write_bytes(line("Once more", cwd="/gone/shop") + b"\n")
        until(lambda: len(list((top / "other").iterdir())) == 4)
    with mounted(store_path) as mount:
        assert "shop" not in os.listdir(mount.root / "conversations")
        assert len(os.listdir(mount.root / "conversations/other")) == 4


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

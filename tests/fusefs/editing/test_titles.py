"""A title that a person sets renames the conversation's directory, and its old name still leads there."""

import json
import os
from pathlib import Path

from store.editing.editor import Editor
from store.importing.importer import Importer
from store.store import Store
from tests.fusefs.tree.mounting import Mounted, add, mounted, new_store, until, user
from tests.store.importing.sessions import by_source, imported, line, session

OLD, NEW = "2026-03-05-fix-it", "2026-03-05-the-login"


def titled(mount: Mounted, path: str, title: str) -> None:
    file = mount.root / path / "metadata.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"title": title}))


def test_the_directory_follows_the_title(store_path: Path, tmp_path: Path) -> None:
    with new_store(store_path) as store:
        Importer(store).run([session(tmp_path, line("Fix it", cwd="/gone/shop") + b"\n", "a")])
    with mounted(store_path) as mount:
        top = mount.root / "conversations/shop"
        written = json.loads((top / OLD / "metadata.json").read_text())
        ino = (top / OLD).stat().st_ino
        titled(mount, f"conversations/shop/{OLD}", "The login")
        until(lambda: os.listdir(top) == [NEW])
        assert os.listdir(mount.root / "transcripts/shop") == [f"{NEW}.md"]
        assert (top / NEW).stat().st_ino == (top / OLD).stat().st_ino == ino
        assert "# The login" in (mount.root / f"transcripts/shop/{OLD}.md").read_text()
        # who has read it before may write it back
        (top / NEW / "metadata.json").write_text(json.dumps(written | {"title": "The login", "pinned": True}))
        assert json.loads((top / NEW / "metadata.json").read_text())["pinned"] is True
        titled(mount, f"conversations/shop/{NEW}", "Fix it")
        until(lambda: os.listdir(top) == [OLD])
        assert "rror" not in "".join(os.listdir(mount.root / ".convfs/errors"))
    with mounted(store_path) as mount:
        assert (mount.root / "conversations/shop" / NEW / "events").is_dir()


def test_a_name_that_a_person_gave_stays(memory_path: Path, tmp_path: Path) -> None:
    with new_store(memory_path / "store") as store:
        editor, context = Editor(store), add(store, [user("one")], name="mine")
        editor.describe(context, {"title": "Something else"})
        assert store.catalogue.entry(context).name == "mine"
        path = session(tmp_path, line("Fix it", cwd="/gone/shop") + b"\n", "a")
        imported(store, path)
        entry = by_source(store, path)
        editor.rename(entry.id, "shop", "by-hand")
        editor.describe(entry.id, {"title": "The login"})
        assert by_source(store, path).name == "by-hand"


def name_of(store: Store, context: int) -> str:
    return store.catalogue.entry(context).name


def test_titles_of_two_are_two_names(memory_path: Path, tmp_path: Path) -> None:
    with new_store(memory_path / "store") as store:
        paths = [session(tmp_path, line(f"Fix {one}", cwd="/gone/shop") + b"\n", one) for one in ("a", "b")]
        imported(store, *paths)
        first, second = (by_source(store, path).id for path in paths)
        editor = Editor(store)
        for context in (first, second):
            editor.describe(context, {"title": "The login"})
        assert (name_of(store, first), name_of(store, second)) == (NEW, f"{NEW}-2")
        # another title with the same words changes nothing, and none takes a title away
        editor.describe(second, {"title": "The Login!"})
        assert name_of(store, second) == f"{NEW}-2"
        editor.describe(second, {"title": None})
        assert name_of(store, second) == f"{NEW}-2"
        # a tool's title renames it no more
        title = {"type": "custom-title", "customTitle": "Mine", "sessionId": "x"}
        paths[0].write_bytes(paths[0].read_bytes() + json.dumps(title).encode() + b"\n")
        imported(store, paths[0])
        assert name_of(store, first) == NEW


def test_a_subagents_name_follows_in_its_place(store_path: Path) -> None:
    with new_store(store_path) as store:
        parent = add(store, [user("one")], name="parent")
        inside = add(store, [user("two")], name="2026-03-05-a-talk")
        store.contexts.set_metadata(parent, {"source": "/s/p", "session": "s"})
        store.contexts.set_metadata(inside, {"source": "/s/i", "parent_session": "s"})
    with mounted(store_path) as mount:
        folder = mount.root / "conversations/project/parent/subagents"
        titled(mount, "conversations/project/parent/subagents/2026-03-05-a-talk", "Callers")
        until(lambda: os.listdir(folder) == ["2026-03-05-callers"])
        assert (folder / "2026-03-05-a-talk").samefile(folder / "2026-03-05-callers")
        assert (mount.root / "conversations/project/2026-03-05-a-talk").samefile(folder / "2026-03-05-callers")

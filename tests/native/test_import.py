"""``import/``: what is copied into it is in the store soon, and a report beside it says so."""

import os
import shutil
from pathlib import Path

from tests.mount.mounting import Mounted, assistant, mounted, new_store, until, user

LINES = [user("Buy milk."), assistant("Done.", 1)]


def report(mount: Mounted, name: str) -> str:
    path = mount.root / "import" / f"{name}.report.txt"
    until(path.exists)
    return path.read_text()


def text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_a_session(mount: Mounted) -> None:
    there = mount.root / "import/session.jsonl"
    there.write_text(text(LINES))
    assert there.read_text() == text(LINES)
    said = report(mount, "session.jsonl")
    size = len(text(LINES))
    assert said.splitlines() == [f"1 imported; 2 records, {size} bytes", "conversations/project/2026-03-05-buy-milk"]
    assert os.listdir(mount.root / "import") == ["session.jsonl.report.txt"]
    assert mount.shell("cat conversations/*/*/events/00001-user.md").endswith("Buy milk.\n")


def test_the_same_session_again_has_grown_and_another_one_of_its_name_is_another(mount: Mounted) -> None:
    there = mount.root / "import/session.jsonl"
    there.write_text(text(LINES))
    report(mount, "session.jsonl")
    (mount.root / "import/session.jsonl.report.txt").unlink()
    there.write_text(text([*LINES, user("And bread.", 2)]))
    assert "1 grown" in report(mount, "session.jsonl")
    (mount.root / "import/session.jsonl.report.txt").unlink()
    there.write_text(text([user("Something else.")]))
    assert "1 imported" in report(mount, "session.jsonl")
    assert mount.shell("ls -d conversations/*/*").split() == [
        "conversations/project/2026-03-05-buy-milk",
        "conversations/project/2026-03-05-something-else",
    ]


def test_a_tree_with_what_is_no_session(mount: Mounted, tmp_path: Path) -> None:
    tree = tmp_path / "backup"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/one.jsonl").write_text(text(LINES))
    (tree / "a/two.jsonl").write_text(text([user("Another.", 9)]))
    (tree / "a/notes.txt").write_text("Nothing.")
    shutil.copytree(tree, mount.root / "import/backup")
    said = report(mount, "backup").splitlines()
    assert said[0].startswith("2 imported; 3 records")
    assert said[3:] == ["backup/a/notes.txt: not a session of any tool that is known; left where it is"]
    left = mount.root / "import/backup"
    assert [path.name for path in left.rglob("*") if path.is_file()] == ["notes.txt"]
    assert (left / "a/notes.txt").read_text() == "Nothing."


def test_what_is_no_session_says_so_and_stays(mount: Mounted) -> None:
    there = mount.root / "import/picture.png"
    there.write_bytes(bytes(range(256)))
    assert report(mount, "picture.png").splitlines() == [
        "nothing was imported",
        "picture.png: not a session of any tool that is known; left where it is",
    ]
    assert there.read_bytes() == bytes(range(256))


def test_a_file_that_is_open_waits(mount: Mounted) -> None:
    there = mount.root / "import/session.jsonl"
    with there.open("w") as file:
        file.write(text(LINES))
        file.flush()
        mount.shell("sleep 1.8")
        assert os.listdir(mount.root / "import") == ["session.jsonl"]
        file.write(text([user("More.", 3)]))
    assert "3 records" in report(mount, "session.jsonl")


def test_what_a_killed_daemon_did_not_come_to(store_path: Path) -> None:
    with new_store(store_path):
        pass
    try:
        with mounted(store_path) as mount:
            (mount.root / "import/session.jsonl").write_text(text(LINES))
            mount.daemon.kill()
            mount.daemon.wait(20)
    except AssertionError:
        assert mount.daemon.returncode < 0
    with mounted(store_path) as mount:
        assert "1 imported" in report(mount, "session.jsonl")

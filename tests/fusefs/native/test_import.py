"""``import/``: what is copied into it is in the store soon, and a report beside it says so."""

import os
import shutil
from pathlib import Path

from tests.fusefs.tree.mounting import Mounted, assistant, mounted, new_store, until, user

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


def test_an_empty_directory_stays_until_what_is_put_in_it_was_imported(mount: Mounted) -> None:
    folder = mount.root / "import/x"
    (folder / "deeper").mkdir(parents=True)
    mount.shell("echo nothing > import/other.txt; sleep 1.5")
    report(mount, "other.txt")
    assert (folder / "deeper").is_dir()
    assert not (mount.root / "import/x.report.txt").exists()
    (folder / "session.jsonl").write_text(text(LINES))
    assert "1 imported" in report(mount, "x")
    assert os.listdir(folder) == ["deeper"]
    (folder / "deeper/session.jsonl").write_text(text([user("Another.", 9)]))
    until(lambda: "1 imported; 1 records" in report(mount, "x"))
    until(lambda: not folder.exists())


def test_a_file_that_is_appended_to_in_cycles_is_one_session(mount: Mounted) -> None:
    name = "import/session.jsonl"
    for number in range(3):
        mount.shell(f"cat >> {name} <<'END'\n{user(f'Line {number}.', number)}\nEND")
        until(lambda number=number: len(list(mount.root.glob("conversations/*/*/events/*"))) == number + 1)  # type: ignore[misc]
        until(lambda: not (mount.root / name).exists())
    [talk] = mount.root.glob("conversations/*/*")
    assert len(os.listdir(talk / "events")) == 3
    assert "1 grown" in report(mount, "session.jsonl")
    mount.shell(f"sed -i 's/Line 0/The first line/' {talk}/events/00001-*")
    mount.shell(f"cat >> {name} <<'END'\n{user('Line 3.', 3)}\nEND")
    until(lambda: len(os.listdir(talk / "events")) == 4)
    assert mount.shell(f"tail -qn 1 {talk}/events/*").split(".") == [
        "The first line", "\nLine 1", "\nLine 2", "\nLine 3", "\n"
    ]  # fmt: skip
    assert len(list(mount.root.glob("conversations/*/*"))) == 1
    # written anew, and not behind what was there: another session
    until(lambda: not (mount.root / name).exists())
    (mount.root / name).write_text(text([user("Something else.", 7)]))
    until(lambda: len(list(mount.root.glob("conversations/*/*"))) == 2)


def test_what_is_opened_while_it_is_imported_keeps_what_is_written_then(mount: Mounted) -> None:
    there = mount.root / "import/session.jsonl"
    lines = [user("Begins.", 0), *(user(f"{number}. Much. " * 100_000, number) for number in range(1, 30))]
    there.write_text(text(lines))
    apart = mount.store / "scratch/imported"
    until(lambda: apart.is_dir() and any(apart.iterdir()))
    with there.open("a") as file:
        until(lambda: not any(apart.iterdir()))
        file.write(text([user("And this.", 40)]))
    until(lambda: not there.exists())
    [talk] = mount.root.glob("conversations/*/*")
    until(lambda: len(os.listdir(talk / "events")) == len(lines) + 1)

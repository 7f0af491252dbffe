"""The kernel's notices of changes below directories."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import inotify_simple
import pytest

from store.importing.watch import Noticed, Notices


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/a/b").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def notices(tmp_path: Path) -> Iterator[Notices]:
    made = Notices(lambda folder: folder.name == "passed-by")
    yield made
    made.close()


def test_less_than_a_millisecond_is_waited_for_at_once(notices: Notices, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(notices._inotify, "read", lambda wait_ms, _delay: asked.append(wait_ms) or ())
    for seconds in (0.0004, 0.0, -1.0):
        notices.read(seconds)
    assert asked == [1, 0, 0]


def told(notices: Notices, *expected: Path) -> Noticed:
    """Read until all of ``expected`` were told of; return everything."""
    noticed = Noticed()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        more = notices.read(0.05)
        noticed.changed |= more.changed
        noticed.missed |= more.missed
        if expected and noticed.changed >= set(expected):
            break
        if not expected and not more.changed:
            break
    assert noticed.changed >= set(expected)
    return noticed


def test_files_are_told_of_wherever_they_lie(notices: Notices, root: Path) -> None:
    notices.add(root)
    (root / "one").write_text("x")
    (root / "a/b/two").write_text("x")
    assert told(notices, root / "one", root / "a/b/two").changed == {root / "one", root / "a/b/two"}
    with (root / "one").open("a") as file:
        file.write("more")
        file.flush()
        assert told(notices, root / "one").changed == {root / "one"}
    (root / "new").write_text("x")
    os.rename(root / "new", root / "a/three")
    assert root / "a/three" in told(notices, root / "a/three").changed
    (root / "one").unlink()
    told(notices)
    assert not told(notices).changed


def test_new_directories_are_followed_with_what_is_in_them(notices: Notices, root: Path, tmp_path: Path) -> None:
    notices.add(root)
    os.makedirs(root / "c/d/e")
    (root / "c/d/e/file").write_text("at once")
    told(notices, root / "c/d/e/file")
    (root / "c/d/e/file").write_text("again")
    told(notices, root / "c/d/e/file")
    (tmp_path / "outside/deep").mkdir(parents=True)
    (tmp_path / "outside/deep/file").write_text("there already")
    os.rename(tmp_path / "outside", root / "moved")
    told(notices, root / "moved/deep/file")
    (root / "moved/deep/file").write_text("more")
    told(notices, root / "moved/deep/file")


def test_what_is_moved_away_is_followed_no_more(notices: Notices, root: Path, tmp_path: Path) -> None:
    notices.add(root)
    os.rename(root / "a", tmp_path / "away")
    told(notices)
    (tmp_path / "away/b/file").write_text("x")
    assert not told(notices).changed
    os.rename(tmp_path / "away", root / "back")
    told(notices, root / "back/b/file")
    (root / "back/b/other").write_text("x")
    assert told(notices, root / "back/b/other").changed == {root / "back/b/other"}
    os.rename(root / "back", root / "a")
    told(notices, root / "a/b/other")
    (root / "a/b/last").write_text("x")
    assert told(notices, root / "a/b/last").changed == {root / "a/b/last"}


def test_a_root_that_goes_may_come_again(notices: Notices, root: Path) -> None:
    notices.add(root)
    os.rmdir(root / "a/b")
    os.rmdir(root / "a")
    os.rmdir(root)
    told(notices)
    assert notices.roots == set()
    root.mkdir()
    notices.add(root)
    (root / "file").write_text("x")
    told(notices, root / "file")


def test_of_a_single_file_only_it_is_told_and_what_is_beside_it(notices: Notices, root: Path) -> None:
    (root / "logs.db").write_text("x")
    notices.add(root / "logs.db")
    for name in ("other", "logs.db-wal", "logs.db"):
        (root / name).write_text("y")
    (root / "a/file").write_text("x")
    found = told(notices, root / "logs.db", root / "logs.db-wal").changed
    assert found == {root / "logs.db", root / "logs.db-wal"}
    # the directory as a whole, too
    notices.add(root)
    (root / "other").write_text("z")
    told(notices, root / "other")


def test_what_is_passed_by_and_links_are_not_followed(notices: Notices, root: Path, tmp_path: Path) -> None:
    (root / "passed-by/in").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    notices.add(root)
    (root / "passed-by/in/file").write_text("x")
    (tmp_path / "elsewhere/file").write_text("x")
    (root / "file").write_text("x")
    assert told(notices, root / "file").changed == {root / "file"}


def test_what_the_kernel_lost_is_said(notices: Notices, root: Path) -> None:
    notices.add(root)
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("this machine's kernel remembers too many events to make it lose one")
    paths = [root / "one", root / "two"]
    fds = [os.open(path, os.O_CREAT | os.O_WRONLY) for path in paths]
    # equal events that follow each other are one, so the two take turns
    for _ in range(limit // 2 + 100):
        for fd in fds:
            os.write(fd, b"x")
    for fd in fds:
        os.close(fd)
    assert told(notices, *paths).missed
    notices.look_again()
    told(notices)
    (root / "a/after").write_text("x")
    told(notices, root / "a/after")


def test_a_kernel_without_room_is_told_of(notices: Notices, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_watch = inotify_simple.INotify.add_watch

    def refuses(self: inotify_simple.INotify, path: Path, mask: int) -> int:
        if path.name == "b":
            raise OSError(28, "No space left on device")
        return int(add_watch(self, path, mask))

    monkeypatch.setattr(inotify_simple.INotify, "add_watch", refuses)
    notices.add(root)
    assert notices.full
    monkeypatch.undo()
    notices.look_again()
    assert not notices.full
    (root / "a/b/file").write_text("x")
    told(notices, root / "a/b/file")

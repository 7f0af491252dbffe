"""Sessions imported as they grow."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.errors import StoreBusy
from store.importing import walk as walking
from store.importing import watch
from store.importing.importer import Importer, ImportReport
from store.importing.snapshot import Cursor, Snapshot
from store.importing.walk import claim
from store.importing.watch import Notices, Watching
from store.store import Store
from tests.fusefs.tree.mounting import until, user
from tests.store.importing import test_database_changes as databases

SESSION = "0c7ab1de-0000-4000-8000-000000000001.jsonl"


class Watched:
    """A home of sessions that is watched, and the store that they come into."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "projects"
        self.store = Store.open(directory / "store", renderer=FileRenderer())
        self.homes = [self.home]
        self.taken: list[list[Path]] = []
        self.fail: Exception | None = None

    def take(self, paths: Sequence[Path]) -> ImportReport:
        self.taken.append(list(paths))
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        return Importer(self.store).run(paths)

    @contextmanager
    def running(self) -> Iterator[None]:
        ended, ready = threading.Event(), threading.Event()
        watching = Watching(lambda: [home for home in self.homes if home.exists()], self.take, self.store.root)
        thread = threading.Thread(target=watching.run, args=(ended, ready.set))
        thread.start()
        try:
            assert ready.wait(20)
            yield
        finally:
            ended.set()
            thread.join(20)
        assert not thread.is_alive()

    def path(self, project: str = "-home-ada-shop", name: str = SESSION) -> Path:
        path = self.home / project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def said(self, source: Path) -> list[str]:
        """The records of the session at a path, as they were imported."""
        entry = self.store.catalogue.by_source(str(source))
        if entry is None or not entry.head:
            return []
        return [
            self.store.contents.payload(turn.turn_id).decode() for turn in self.store.turns.path_to_root(entry.head)
        ]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.store.close()


def lines(*texts: str) -> list[str]:
    return [user(text, number) for number, text in enumerate(texts)]


def write(path: Path, some: Sequence[str], mode: str = "a") -> None:
    with path.open(mode) as file:
        file.writelines(line + "\n" for line in some)


def becomes(check: Callable[[], object], expected: object) -> None:
    until(lambda: check() == expected)
    assert check() == expected


def test_what_is_there_and_what_is_added_comes_in_once(watched: Watched) -> None:
    path = watched.path()
    all_lines = lines(*(f"line {number}" for number in range(30)))
    write(path, all_lines[:3])
    with watched.running():
        assert watched.said(path) == all_lines[:3]
        for at in range(3, 30):
            write(path, all_lines[at : at + 1])
        becomes(lambda: watched.said(path), all_lines)
        other = watched.path(name="0c7ab1de-0000-4000-8000-000000000002.jsonl")
        write(other, lines("another"))
        becomes(lambda: watched.said(other), lines("another"))
    entry = watched.store.catalogue.by_source(str(path))
    assert entry is not None
    # it only ever grew
    assert all(version.action == "import" for version in watched.store.catalogue.versions(entry.id))
    assert watched.said(path) == all_lines


def test_a_database_is_asked_once_whose_it_is(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    path = watched.path(name="data.db")
    asked: list[Path] = []
    monkeypatch.setattr(watch, "claim", lambda at, formats: asked.append(at) or claim(at, formats))
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA journal_mode = wal;" + databases.GOOSE)
        with watched.running():
            for number in range(1, 5):
                databases.goose(database, number, 2)
                database.commit()
                becomes(lambda: len(watched.store.library.conversations()), number)
    assert asked in ([], [path])


def test_a_home_that_appears_later_is_watched(watched: Watched) -> None:
    with watched.running():
        path = watched.path("-home-ada-deep/below")
        write(path, lines("one"))
        becomes(lambda: watched.said(path), lines("one"))
        write(path, lines("one", "two")[1:])
        becomes(lambda: watched.said(path), lines("one", "two"))
        new = watched.path("-home-ada-new")
        write(new, lines("made with its directory"))
        becomes(lambda: watched.said(new), lines("made with its directory"))


def test_a_file_that_is_read_slowly_holds_up_no_other(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, other, last = watched.path(), watched.path(name="b.jsonl"), watched.path(name="c.jsonl")
    read, goes_on = Snapshot.__init__, threading.Event()
    reads: list[object] = []

    def slowly(
        snapshot: Snapshot, path: Path | str, scratch: Path, known: Cursor | None = None, *, own: bool = False
    ) -> None:
        if path == slow and watched.taken[1:]:
            reads.append(path)
            assert goes_on.wait(20)
        read(snapshot, path, scratch, known, own=own)

    monkeypatch.setattr(Snapshot, "__init__", slowly)
    write(slow, lines("one"))
    with watched.running():
        try:
            write(slow, lines("one", "two")[1:])
            until(lambda: bool(reads))
            write(other, lines("new"))
            becomes(lambda: watched.said(other), lines("new"))
            write(other, lines("new", "more")[1:])
            write(slow, lines("one", "two", "three")[2:])
            becomes(lambda: watched.said(other), lines("new", "more"))
            assert watched.said(slow) == lines("one")
            assert reads == [slow]
        finally:
            goes_on.set()
        becomes(lambda: watched.said(slow), lines("one", "two", "three"))
        write(last, lines("at last"))
        becomes(lambda: watched.said(last), lines("at last"))


def test_a_file_that_is_replaced_by_another_is_read_anew(watched: Watched) -> None:
    path = watched.path()
    write(path, lines("one", "two"))
    with watched.running():
        beside = path.with_suffix(".tmp")
        write(beside, lines("one", "changed", "three"))
        os.rename(beside, path)
        becomes(lambda: watched.said(path), lines("one", "changed", "three"))
        write(path, lines("-", "-", "-", "four")[3:])
        becomes(lambda: watched.said(path), lines("one", "changed", "three", "four"))


def test_a_line_that_comes_in_parts_is_waited_for(watched: Watched) -> None:
    path = watched.path()
    first, second = lines("one", "two")
    write(path, [first])
    with watched.running():
        half = len(second) // 2
        with path.open("a") as file:
            for part in (second[:half], second[half:], "\n"):
                file.write(part)
                file.flush()
                time.sleep(0.3)
        becomes(lambda: watched.said(path), [first, second])
    entry = watched.store.catalogue.by_source(str(path))
    assert entry is not None
    assert len(watched.store.catalogue.versions(entry.id)) <= 2
    # one that stays without an end is there all the same
    with watched.running():
        with path.open("a") as file:
            file.write(lines("-", "-", "three")[2])
        becomes(lambda: len(watched.said(path)), 3)


def test_what_belongs_to_a_session_brings_it_in_again(watched: Watched) -> None:
    path = watched.path()
    write(path, lines("one"))
    with watched.running():
        becomes(lambda: watched.said(path), lines("one"))
        result = path.with_suffix("") / "tool-results" / "toolu_01.txt"
        result.parent.mkdir(parents=True)
        result.write_text("long output")

        def sidecars() -> object:
            entry = watched.store.catalogue.by_source(str(path))
            assert entry is not None
            return list(dict(entry.metadata.get("sidecars") or {}))

        becomes(sidecars, [f"{path.stem}/tool-results/toolu_01.txt"])


@pytest.mark.logs("somebody else is at work")
def test_a_store_that_is_busy_is_tried_again(watched: Watched) -> None:
    with watched.running():
        path = watched.path()
        watched.fail = StoreBusy("somebody else is at work")
        write(path, lines("one"))
        becomes(lambda: watched.said(path), lines("one"))


def test_what_the_kernel_lost_is_found(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = watched.path(), watched.path("-home-ada-other")
    write(path, lines("one"))
    read = Notices.read

    def loses(self: Notices, seconds: float) -> object:
        noticed = read(self, seconds)
        if noticed.changed:
            noticed.changed, noticed.missed = set(), True
        return noticed

    monkeypatch.setattr(Notices, "read", loses)
    with watched.running():
        write(path, lines("one", "two")[1:])
        write(other, lines("another"))
        becomes(lambda: (watched.said(path), watched.said(other)), (lines("one", "two"), lines("another")))


def test_mounts_of_convfs_and_the_store_are_never_looked_into(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mount = watched.path("-mounted")
    monkeypatch.setattr("store.importing.watch.own_mounts", lambda: frozenset([mount.parent]))
    monkeypatch.setattr(walking, "own_mounts", lambda: frozenset([mount.parent]))
    link = tmp_path / "link"
    link.symlink_to(mount.parent)
    inside = watched.store.root / "inside"
    inside.mkdir()
    watched.homes += [link, inside]
    path = watched.path()
    with watched.running():
        write(mount, lines("from the mount"))
        write(inside / SESSION, lines("from the store"))
        write(path, lines("one"))
        becomes(lambda: watched.said(path), lines("one"))
    assert (watched.said(mount), watched.said(inside / SESSION)) == ([], [])
    assert all(mount not in paths and link not in paths for paths in watched.taken)


def test_a_pipe_in_the_place_of_a_session_holds_up_no_other(watched: Watched) -> None:
    path, pipe = watched.path(), watched.path(name="pipe.jsonl")
    with watched.running():
        os.mkfifo(pipe)
        try:
            write(path, lines("one"))
            becomes(lambda: watched.said(path), lines("one"))
        finally:
            # who waits for it goes on
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))


def test_files_that_are_no_sessions_cost_no_import(watched: Watched) -> None:
    path = watched.path()
    with watched.running():
        path.with_name("settings.json").write_text(json.dumps({"theme": "dark"}))
        write(path, lines("one"))
        becomes(lambda: watched.said(path), lines("one"))
    assert [paths for paths in watched.taken if paths not in ([watched.home], [path])] == []

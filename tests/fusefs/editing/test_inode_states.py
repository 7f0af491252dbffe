"""States of an inode, and every request in each: the table in LAYOUT.md, tried cell by cell."""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyfuse3 import FUSEError

from fusefs.editing.inode import State
from fusefs.inodes import ROOT
from fusefs.operations import Operations
from fusefs.tree.tree import Tree
from fusefs.tree.waiting import Later
from store.store import Store
from tests.fusefs.tree.mounting import add, assistant, new_store, run, until, user

TALK = ("conversations", "project", "2026-03-05-talk")
TEXT = b"said otherwise\n"
LAYOUT = Path(__file__).resolve().parents[3] / "fusefs" / "LAYOUT.md"


class Mount:
    """A file in one of the states, and the requests of the kernel for it."""

    def __init__(self, store: Store) -> None:
        self.tree = Tree(store)
        self.operations = Operations(self.tree)
        self.directory = ROOT
        self.name = b""
        self.ino = 0

    def go(self, *path: str) -> None:
        """Go to a directory, or a file in it."""
        self.directory = self.ino = ROOT
        for name in path:
            self.directory, self.name = self.ino, name.encode()
            self.ino = run(self.operations.lookup(self.directory, self.name, None)).st_ino

    def load_formats(self) -> None:
        """Have the formats of the tools loaded, which the first to look at their directories waits for."""
        self.tree.workers.can_wait = True
        with pytest.raises(Later) as later:
            self.tree.native.load()
        self.tree.workers.can_wait = False
        until(lambda: later.value.work.is_done)

    def create(self, name: bytes, data: bytes) -> tuple[int, int]:
        """Make a file; return its inode and handle."""
        opened, entry = run(self.operations.create(self.directory, name, 0o600, os.O_RDWR, None))
        run(self.operations.write(opened.fh, 0, data))
        return entry.st_ino, opened.fh

    def close(self, fh: int) -> None:
        run(self.operations.flush(fh))
        run(self.operations.release(fh))

    # -- states ----------------------------------------------------------------------------------------------------

    def be(self, state: State) -> None:
        """Have a file in a state."""
        if state in (State.SCRATCH, State.NEW_EVENT):
            self.go(*TALK, "events", "00001-user.md")
            self.name = b"user.md" if state is State.NEW_EVENT else b"notes.txt"
            self.ino, fh = self.create(self.name, TEXT)
            if state is State.SCRATCH:
                self.close(fh)
        elif state is State.NEW_SESSION:
            self.load_formats()
            self.go(".convfs", "native", "claude-code")
            self.directory, self.name = self.ino, b"session.jsonl"
            self.ino, _fh = self.create(self.name, TEXT)
        elif state is State.VANISHED:
            self.go(*TALK, "forks")
            run(self.operations.rmdir(self.directory, self.name, None))
        else:
            self.go(*TALK, "events", "00001-user.md")
            if state is State.WRITTEN:
                self.write()
            elif state is State.SAVED:
                self.save()
            elif state is State.ORPHAN:
                self.unlink()

    # -- requests --------------------------------------------------------------------------------------------------

    def lookup(self) -> None:
        self.ino = run(self.operations.lookup(self.directory, self.name, None)).st_ino

    def read(self) -> None:
        self.said()

    def said(self) -> bytes:
        opened = run(self.operations.open(self.ino, os.O_RDONLY, None))
        data = run(self.operations.read(opened.fh, 0, 1 << 20))
        run(self.operations.release(opened.fh))
        return bytes(data)

    def write(self) -> None:
        opened = run(self.operations.open(self.ino, os.O_RDWR, None))
        run(self.operations.write(opened.fh, 0, b"-"))

    def save(self) -> None:
        opened = run(self.operations.open(self.ino, os.O_RDWR | os.O_TRUNC, None))
        run(self.operations.write(opened.fh, 0, TEXT))
        self.close(opened.fh)

    def unlink(self) -> None:
        run(self.operations.unlink(self.directory, self.name, None))

    def move_away(self) -> None:
        run(self.operations.rename(self.directory, self.name, self.directory, b"away.txt", 0, None))

    def replace(self) -> None:
        _ino, fh = self.create(b"other.txt", TEXT)
        self.close(fh)
        run(self.operations.rename(self.directory, b"other.txt", self.directory, self.name, 0, None))

    def forget(self) -> None:
        counted = self.operations.lookups.count(self.ino)
        run(self.operations.forget([(self.ino, counted)]))


REQUESTS = {
    "lookup": Mount.lookup,
    "read": Mount.read,
    "write": Mount.write,
    "save": Mount.save,
    "unlink": Mount.unlink,
    "move away": Mount.move_away,
    "replace": Mount.replace,
    "forget": Mount.forget,
}


def cells() -> Iterator[tuple[str, str, str]]:
    """Yield the cells of the table: state, request, and what comes of it."""
    rows = re.findall(r"^\|.*\|$", LAYOUT.read_text().partition("### What an inode is")[2], re.MULTILINE)
    header, _rule, *others = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert header[1:] == list(REQUESTS)
    for state, *results in others:
        yield from ((state, request, result) for request, result in zip(header[1:], results, strict=True))


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    with new_store(tmp_path / "store") as store:
        add(store, [user("one", 1), assistant("two", 2)])
        yield Mount(store)


def test_the_table_has_every_state() -> None:
    assert {state for state, _request, _result in cells()} == {state.value for state in State}


@pytest.mark.parametrize(("state", "request_", "result"), list(cells()))
def test_what_a_request_makes_of_an_inode(mount: Mount, state: str, request_: str, result: str) -> None:
    mount.be(State(state))
    inodes = mount.operations.desk.inodes
    assert inodes.state(mount.ino) is State(state)
    try:
        REQUESTS[request_](mount)
        now = inodes.state(mount.ino).value
    except FUSEError as error:
        now = errno.errorcode[error.errno]
    assert now == result


@pytest.mark.parametrize("order", ["", "old", "new", "old new", "new old"])
def test_what_took_the_place_of_a_file_is_shown_whatever_the_kernel_forgets(mount: Mount, order: str) -> None:
    mount.go(*TALK, "events", "00001-user.md")
    old = mount.ino
    mount.replace()
    mount.lookup()
    known = {"old": old, "new": mount.ino}
    assert known["new"] != old
    for name in order.split():
        mount.ino = known[name]
        mount.forget()
    mount.lookup()
    assert mount.said() == TEXT
    assert mount.operations.desk.inodes.state(mount.ino) is State.SAVED


@pytest.mark.parametrize("name", ["00001-user.md", "metadata.json"])
def test_what_is_appended_goes_behind_what_the_kernel_has_not_heard_of(mount: Mount, name: str) -> None:
    mount.go(*TALK, *(["events"] if name.endswith(".md") else []), name)
    size = run(mount.operations.getattr(mount.ino, None)).st_size
    appending = run(mount.operations.open(mount.ino, os.O_WRONLY | os.O_APPEND, None))
    other = run(mount.operations.open(mount.ino, os.O_WRONLY, None))
    run(mount.operations.write(other.fh, size, b"   \n"))
    run(mount.operations.write(appending.fh, size, b" \n"))
    assert mount.said().endswith(b"\n   \n \n")


def test_what_is_mapped_is_written_where_it_is_mapped(mount: Mount) -> None:
    mount.go(*TALK, "events", "00001-user.md")
    opened = run(mount.operations.open(mount.ino, os.O_RDWR | os.O_APPEND, None))
    text = mount.said().replace(b"one", b"two")
    run(mount.operations.write(opened.fh, 0, text))
    assert mount.said() == text

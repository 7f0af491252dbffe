"""How a mount ends while programs have files open, and what is there at the next start."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from fusefs.mount_table import mount_at
from tests.crash_mount.harness import NAME, PROJECT, Bench, Fault, Seen, look
from tests.fusefs.editing.talk import FIRST, LAST, SECOND
from tests.fusefs.tree.mounting import PATIENCE, REPOSITORY, until

Ending = Callable[[Bench], None]

NEW, SECOND_NEW = b"Hello again\n", b"Hello again, and once more\n"


def terminated(here: Bench) -> None:
    os.kill(here.pid, signal.SIGTERM)
    assert here.wait()["status"] == 0, here.said()


def killed(here: Bench) -> None:
    here.kill()
    assert here.wait()["status"] == -signal.SIGKILL


@contextmanager
def held(fd: int) -> Iterator[int]:
    """Close a file at the end, whatever there is to close it at by then."""
    try:
        yield fd
    finally:
        with suppress(OSError):
            os.close(fd)


def save_in_every_way(here: Bench, files: ExitStack) -> None:
    """Save in every way that leaves something to be done; the files stay open."""
    first = files.enter_context(held(os.open(here.events / FIRST, os.O_WRONLY | os.O_TRUNC)))
    last = files.enter_context(held(os.open(here.events / LAST, os.O_WRONLY | os.O_APPEND)))
    new = files.enter_context(held(os.open(here.events / "user.md", os.O_WRONLY | os.O_CREAT, 0o600)))
    (here.events / SECOND).write_bytes(NEW)
    os.write(first, NEW)
    os.close(os.dup(first))
    os.write(last, b"and more\n")
    os.fsync(last)
    os.write(new, b"One thing more\n")
    os.close(os.dup(new))


def text(seen: Seen, name: str) -> bytes:
    """Return the text of an event."""
    return next(iter(seen.state.talks.values())).events[name].partition(b"\n---\n")[2]


def versions(seen: Seen) -> int:
    return len(next(iter(seen.state.talks.values())).versions)


@pytest.fixture
def mounted(here: Bench, template: Path) -> Bench:
    here.begin(template)
    assert here.mount() is None, here.said()
    return here


ENDINGS = pytest.mark.parametrize("end", [terminated, killed])


@ENDINGS
def test_what_was_closed_is_committed(mounted: Bench, end: Ending) -> None:
    """Another descriptor of the same file stays open."""
    old = look(mounted.root).state
    with held(os.open(mounted.events / FIRST, os.O_WRONLY | os.O_TRUNC)) as fd:
        os.write(fd, NEW)
        os.close(os.dup(fd))
        end(mounted)
    seen = mounted.check_after(old)
    assert (text(seen, FIRST), versions(seen)) == (NEW, 2)
    assert seen.scratch == {}


@ENDINGS
def test_what_was_synced_and_not_closed_is_kept_beside(mounted: Bench, end: Ending) -> None:
    old = look(mounted.root).state
    with held(os.open(mounted.events / FIRST, os.O_WRONLY | os.O_TRUNC)) as fd:
        os.write(fd, NEW)
        os.fsync(fd)
        end(mounted)
    for _ in range(2):
        seen = mounted.check_after(old)
        assert seen.state == old
        assert seen.scratch == {f"{FIRST}.draft": NEW}


def test_what_was_not_even_synced_is_kept_beside(mounted: Bench) -> None:
    """A daemon that is asked to end has the time for it."""
    old = look(mounted.root).state
    with held(os.open(mounted.events / FIRST, os.O_WRONLY | os.O_TRUNC)) as fd:
        os.write(fd, NEW)
        terminated(mounted)
    seen = mounted.check_after(old)
    assert seen.state == old
    assert seen.scratch == {f"{FIRST}.draft": NEW}


def test_what_was_closed_is_committed_and_what_followed_is_kept_beside(mounted: Bench) -> None:
    old = look(mounted.root).state
    with held(os.open(mounted.events / FIRST, os.O_WRONLY | os.O_TRUNC)) as fd:
        os.write(fd, NEW)
        os.close(os.dup(fd))
        os.pwrite(fd, SECOND_NEW, 0)
        terminated(mounted)
    seen = mounted.check_after(old)
    assert (text(seen, FIRST), versions(seen)) == (NEW, 2)
    assert seen.scratch == {f"{FIRST}.draft": SECOND_NEW}


@ENDINGS
def test_several_files_in_every_state(mounted: Bench, end: Ending) -> None:
    old = look(mounted.root).state
    with ExitStack() as files:
        save_in_every_way(mounted, files)
        swap = files.enter_context(held(os.open(mounted.events / ".swap", os.O_WRONLY | os.O_CREAT, 0o600)))
        os.write(swap, b"swap")
        end(mounted)
    for _ in range(2):
        seen = mounted.check_after(old)
        assert [text(seen, name) for name in (FIRST, SECOND, LAST)] == [NEW, NEW, b"The third and last\n"]
        assert text(seen, "00005-user.md") == b"One thing more\n"
        assert versions(seen) == 4
        draft = seen.scratch.pop(f"{LAST}.draft")
        assert draft.endswith(b"The third and last\nand more\n")
        assert seen.scratch == {".swap": b"swap"}


def test_unmounted_lazily_it_goes_on_until_the_last_file_is_closed(mounted: Bench) -> None:
    old = look(mounted.root).state
    with held(os.open(mounted.events / FIRST, os.O_WRONLY | os.O_TRUNC)) as fd:
        os.write(fd, b"Hello ")
        subprocess.run(["fusermount3", "-uz", str(mounted.root)], check=True, timeout=PATIENCE)
        assert mount_at(mounted.root) is None
        assert not mounted.died
        os.write(fd, b"again\n")
    assert mounted.wait()["status"] == 0
    seen = mounted.check_after(old)
    assert (text(seen, FIRST), versions(seen)) == (NEW, 2)


def test_the_command_mounts_again_where_an_editor_has_a_dead_mount_open(mounted: Bench) -> None:
    old = look(mounted.root).state
    editor = f"""
import os, sys
os.chdir({str(mounted.events)!r})
fd = os.open({FIRST!r}, os.O_WRONLY | os.O_TRUNC)
os.write(fd, {NEW!r})
os.fsync(fd)
print("ready", flush=True)
sys.stdin.read()
"""
    arguments = [sys.executable, "-c", editor]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            killed(mounted)
            convfs(mounted, "mount", str(mounted.root))
            try:
                seen = look(mounted.root, old)
                assert seen.state == old
                assert seen.scratch == {f"{FIRST}.draft": NEW}
                (mounted.events / FIRST).write_bytes(NEW)
            finally:
                convfs(mounted, "umount", str(mounted.root))
        finally:
            process.kill()
    until(lambda: mount_at(mounted.root) is None)
    assert text(mounted.check_after(old), FIRST) == NEW


def convfs(here: Bench, *arguments: str) -> None:
    """Run the command."""
    command = [sys.executable, "-m", "fusefs.cli", "--store", str(here.store), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done


@pytest.mark.parametrize("first", ["EIO", "ENOSPC"])
def test_a_draft_that_cannot_be_settled_stays_and_the_mount_begins(here: Bench, template: Path, first: str) -> None:
    here.begin(template)
    assert here.mount() is None, here.said()
    old = look(here.root).state
    with held(os.open(here.events / FIRST, os.O_WRONLY | os.O_TRUNC)) as fd:
        os.write(fd, NEW)
        os.close(os.dup(fd))
        killed(here)
    assert here.mount(Fault(1, first, lasting=True, only="pwrite journal", during="start")) is None, here.said()
    assert here.fired
    # it is shown, and waits
    assert (here.events / FIRST).read_bytes() == NEW
    assert versions(look(here.root)) == 1
    assert here.unmount()["status"] in (0, 3)
    seen = here.check_after(old)
    assert (text(seen, FIRST), versions(seen)) == (NEW, 2)


def test_after_a_sync_that_failed_nothing_is_written_until_the_next_start(here: Bench, template: Path) -> None:
    here.begin(template)
    assert here.mount(Fault(1, "EIO", only="fdatasync journal")) is None, here.said()
    old = look(here.root).state
    assert here.run("nano", FIRST, NEW).saved == 1
    here.settle()
    assert here.fired
    for program in ("nano", "renamed onto", "new event", "forked", "moved", "removed and synced"):
        assert here.run(program, LAST, SECOND_NEW).errno == errno.EROFS, program
        assert (here.events / LAST).read_bytes() == old.talks[f"{PROJECT}/{NAME}"].events[LAST]
    (here.events / "mine").write_bytes(b"no matter of the store")
    assert look(here.root, old).state.talks.keys() == old.talks.keys()
    assert here.unmount()["status"] == 3
    seen = here.check_after(old)
    # what was saved before it was known is there; what was refused is not
    assert (text(seen, FIRST), versions(seen)) == (NEW, 2)
    assert text(seen, LAST) == b"The third and last\n"
    assert seen.scratch["mine"] == b"no matter of the store"

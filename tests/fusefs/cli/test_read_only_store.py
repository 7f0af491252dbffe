"""A store that one may only read: whatever only reads works there, and leaves it as it was."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.mount_table import mount_at
from tests.fusefs.cli.user import ROOT, User

TALK = "shop/2026-03-05-fix-the-login-bug"
READING = (
    ("gc", "--dry-run"),
    ("ls",),
    ("ls", "--json"),
    ("show", "1"),
    ("log", "1"),
    ("diff", "1", "2"),
    ("search", "login"),
    ("grep", "l.gin"),
    ("context", "1"),
    ("stats",),
    ("stats", "--by", "project"),
    ("fsck",),
)
CHANGING = (("fork", "1", "again"), ("gc",), ("prune", "1", "--yes"), ("reindex",), ("import",))

_KILLED = """
import os, sys
from pathlib import Path
from fusefs.text.render import FileRenderer
from store.store import Store
store = Store.open(Path(sys.argv[1]), renderer=FileRenderer())
turn = store.contexts.last(1, 1)[0]
payload = store.contents.payload(turn.turn_id).replace(b"Thanks", b"And the login page")
store.contexts.append(1, payload, store.contents.type_name(turn.type_tag))
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def user() -> Iterator[User]:
    # not in /tmp, and on a disk
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="convfs-test-", dir=cache))
    user = User(directory)
    user.environment["TMPDIR"] = str(directory / "tmp")
    (directory / "tmp").mkdir()
    user.session("shop", "a", "Fix the login bug", "Done.", "Thanks")
    user.session("shop", "b", "Another login bug", "Done, too.")
    user.run("import")
    yield user
    if mount_at(user.home / "mnt") is not None:
        subprocess.run(["fusermount3", "-uz", user.home / "mnt"], check=False)
    writable(user.store)
    shutil.rmtree(directory)


def read_only(store: Path) -> None:
    """Let a store only be read: root is stopped by nothing but the file system."""
    if os.geteuid() == 0:
        subprocess.run(["mount", "--bind", store, store], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", store], check=True)
    else:
        subprocess.run(["chmod", "-R", "a-w", store], check=True)


def writable(store: Path) -> None:
    if os.geteuid() == 0:
        # the system does not call what is bound on the same disk a mount
        while mount_at(store) is not None:
            subprocess.run(["umount", "-l", store], check=True)
    else:
        subprocess.run(["chmod", "-R", "u+w", store], check=True)


def files(store: Path) -> dict[str, tuple[bytes, int]]:
    """Return all that is in a store."""
    found = (path for path in store.rglob("*") if path.is_file())
    return {str(path.relative_to(store)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def reads(user: User, *command: str) -> str:
    """Run what only reads, and return what it prints; it says in one line that the store may only be read."""
    done = user.convfs(*command)
    assert done.returncode == 0, (command, done)
    assert done.stderr.count("may only be read") == 1, (command, done)
    told = ("may only be read", "made it anew", "from the journal")
    others = [line for line in done.stderr.splitlines() if not any(said in line for said in told)]
    assert [line for line in others if line.startswith("convfs: ")] == []
    return done.stdout


def compared(command: tuple[str, ...], printed: str) -> str:
    """Return what a command prints, but for how much room the files beside the store's take."""
    return "" if command == ("stats",) else printed


@pytest.mark.parametrize("state", ["closed", "killed", "without an index", "of another boot"])
def test_whatever_only_reads_works_and_changes_nothing(user: User, state: str) -> None:
    if state == "killed":
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, user.store], cwd=ROOT, env=user.environment, check=False, timeout=60
        )
        assert done.returncode == -signal.SIGKILL
    before = user.home / "before"
    shutil.copytree(user.store, before)
    if state == "without an index":
        for name in ("index.db", "search.db", "turns/turns.jump"):
            (user.store / name).unlink(missing_ok=True)
    elif state == "of another boot":
        (user.store / "index.db-wal").write_bytes(b"what a power failure left")
        (user.store / "index.db").write_bytes(b"what a power failure left")
    expected = {command: user.convfs("--store", before, *command).stdout for command in READING}
    read_only(user.store)
    held = files(user.store)
    for command in READING:
        assert compared(command, reads(user, *command)) == compared(command, expected[command]), command
    assert "login page" in expected["search", "login"] or state != "killed"
    assert reads(user, "export", "1", "-o", str(user.home / "out"))
    assert (user.home / "out" / "a.jsonl").exists()
    assert files(user.store) == held
    assert list((user.home.parent / "tmp").iterdir()) == []
    assert not [
        path for path in Path("/dev/shm").glob("convfs-aside-*") if path.stat().st_mtime > os.stat(before).st_mtime
    ]


@pytest.fixture
def failed_disk(user: User) -> Iterator[Path]:
    """A disk with the user's store on it, that has become read-only as after an error."""
    image, disk = user.home / "image", user.home / "disk"
    disk.mkdir()
    image.touch()
    os.truncate(image, 32 << 20)
    if os.geteuid() or shutil.which("mkfs.ext4") is None:
        pytest.skip("only root may mount a disk, and mkfs.ext4 is needed")
    subprocess.run(["mkfs.ext4", "-q", image], check=True, timeout=60)
    if subprocess.run(["mount", "-o", "loop", image, disk], check=False, capture_output=True, timeout=60).returncode:
        pytest.skip("no image can be mounted here")
    try:
        shutil.copytree(user.store, disk / "store")
        subprocess.run(["mount", "-o", "remount,abort", disk], check=True, timeout=60)
        yield disk / "store"
    finally:
        subprocess.run(["umount", "-l", disk], check=True, timeout=60)


def test_a_disk_that_has_become_read_only_by_an_error_is_read(user: User, failed_disk: Path) -> None:
    """The mode of a file says nothing of that."""
    expected = {command: user.convfs(*command).stdout for command in READING}
    held, mnt = files(failed_disk), user.home / "mnt"
    for command in READING:
        assert compared(command, reads(user, "--store", str(failed_disk), *command)) == compared(
            command, expected[command]
        )
    if os.access("/dev/fuse", os.W_OK) and shutil.which("fusermount3"):
        for command in (("mount", mnt), ("umount", mnt)):
            done = user.convfs("--store", failed_disk, *command)
            assert done.returncode == 0, done
    assert files(failed_disk) == held


def test_what_changes_it_says_why_it_cannot(user: User) -> None:
    user.session("shop", "c", "One more", "Done.")
    read_only(user.store)
    held = files(user.store)
    for command in CHANGING:
        done = user.convfs(*command)
        assert done.returncode == 1, (command, done)
        assert done.stderr.splitlines()[-1].startswith("convfs: nothing can be changed in "), (command, done)
        assert done.stderr.count("nothing can be changed") == 1, (command, done)
    assert files(user.store) == held


@pytest.mark.skipif(not os.access("/dev/fuse", os.W_OK) or not shutil.which("fusermount3"), reason="FUSE is not here")
def test_a_mount_of_it_is_read_only(user: User) -> None:
    expected = user.run("show", "1")
    read_only(user.store)
    held = files(user.store)
    mnt = user.home / "mnt"
    done = user.convfs("mount", mnt)
    assert done.returncode == 0, done
    assert "may only be read" in done.stderr
    script = f"""
        set -e
        cat transcripts/shop/*a.md transcripts/shop/* > /dev/null
        ls search/login | grep -q hits.txt
        cat conversations/shop/*/events/*.md conversations/shop/*/events.json > /dev/null
        ! touch conversations/shop/x 2> {user.home}/said
        grep -q 'Read-only file system' {user.home}/said
        ! mkdir by-label/x 2> /dev/null
        for file in conversations/shop/*/events/00001*; do ! echo x 2> /dev/null >> $file; done
    """
    script = script.replace("transcripts/shop/*a.md ", "")
    ran = subprocess.run(["bash", "-c", script], cwd=mnt, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran
    assert user.convfs("show", "1").stdout == expected
    ended = user.convfs("umount", mnt)
    assert ended.returncode == 0, ended
    assert files(user.store) == held

"""Who gets in, and what the mount refuses whoever asks."""

import errno
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import LINES, NAME, Talk
from tests.fusefs.tree.mounting import PATIENCE, add, errno_of, mounted, new_store, until

NOBODY = 65534
ACLS = ("system.posix_acl_access", "system.posix_acl_default")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def as_nobody(directory: Path, script: str) -> str:
    """Run a line of Python beside a directory as another user and return what it prints; ``here`` is its name."""
    os.chmod(directory.parent, 0o755)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import os\nos.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n{script}",
            directory.name,
        ],
        cwd=directory.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout + done.stderr


TRY = """
import errno, sys
here = sys.argv[1]
for name, call in (
    ("stat", lambda: os.stat(here)),
    ("list", lambda: os.listdir(here)),
    ("read", lambda: open(here + "/README.md").read()),
    ("below", lambda: os.stat(here + "/conversations/project")),
    ("make", lambda: os.mkdir(here + "/conversations/mine")),
):
    try:
        call()
        print(name, "done")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""


@pytest.fixture
def filled(store_path: Path) -> Path:
    with new_store(store_path) as store:
        add(store, LINES)
    return store_path


@needs_root
def test_another_user_sees_nothing(filled: Path) -> None:
    with mounted(filled) as mount:
        assert set(as_nobody(mount.root, TRY).split("\n")) == {
            "stat EACCES",
            "list EACCES",
            "read EACCES",
            "below EACCES",
            "make EACCES",
            "",
        }


@needs_root
def test_where_others_are_let_in_the_modes_hold(filled: Path) -> None:
    with mounted(filled, "allow_other") as mount:
        line = next(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(mount.root) in line)
        assert {"allow_other", "default_permissions", "user_id=0"} <= set(line.split()[-1].split(","))
        assert {"nosuid", "nodev"} <= set(line.split()[5].split(","))
        # the mount is there, and everything in it is private
        assert as_nobody(mount.root, TRY).split("\n")[:-1] == [
            "stat done",
            "list EACCES",
            "read EACCES",
            "below EACCES",
            "make EACCES",
        ]


def test_everything_is_private(talk: Talk) -> None:
    os.mkdir(talk.mount.root / "by-label" / "bug")
    os.mkdir(talk.root.parent / "another", 0o777)
    (talk.events / "user.md").write_text("One thing more.\n")
    seen = 0
    for directory, directories, names in os.walk(talk.mount.root):
        for name in (".", *directories, *names):
            status = os.lstat(os.path.join(directory, name))
            if not stat.S_ISLNK(status.st_mode):
                assert stat.S_IMODE(status.st_mode) & 0o077 == 0, (directory, name)
                assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())
            seen += 1
    assert seen > 30
    for path in talk.mount.store.rglob("*"):
        if not path.is_symlink() and path.name != "heads.log":
            assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path


def test_owners_and_modes_of_what_is_drawn_stay(talk: Talk) -> None:
    os.chmod(talk.first, 0o777)
    os.chown(talk.first, os.getuid(), os.getgid())
    assert stat.S_IMODE(talk.first.stat().st_mode) == 0o600
    if os.geteuid() == 0:
        assert errno_of(lambda: os.chown(talk.first, NOBODY, NOBODY)) == errno.EPERM


PLACES: dict[str, Callable[[Talk], Path]] = {
    "the root": lambda talk: talk.mount.root,
    "a project": lambda talk: talk.root.parent,
    "a conversation": lambda talk: talk.root,
    "events": lambda talk: talk.events,
    "resources": lambda talk: talk.root / "resources",
    "scratch": lambda talk: talk.events / "scratch",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_names_that_are_too_long(talk: Talk, place: Callable[[Talk], Path]) -> None:
    (talk.events / "scratch").mkdir()
    (talk.events / "file").touch()
    directory, name = place(talk), "x" * 256
    path = directory / name
    for call in (
        lambda: os.stat(path),
        lambda: os.open(path, os.O_CREAT | os.O_WRONLY),
        lambda: os.mkdir(path),
        lambda: os.mknod(path),
        lambda: os.symlink("there", path),
        lambda: os.link(talk.events / "file", path),
        lambda: os.rename(talk.events / "file", path),
        lambda: os.unlink(path),
        lambda: os.rmdir(path),
    ):
        assert errno_of(call) == errno.ENAMETOOLONG
    long = directory / ("ä" * 127)
    if directory == talk.root.parent:
        # a conversation's name has an ending put to it in places
        assert errno_of(lambda: os.mkdir(long)) == errno.ENAMETOOLONG
    else:
        os.mkdir(long)
        os.rmdir(long)


@pytest.mark.parametrize("name", ["a\x01b", "a\nb", "\x7f", "a\u2028b", "a\u202eb", b"\xff", " a", "..a\t", ".git"])
def test_names_that_no_conversation_can_have(talk: Talk, name: str | bytes) -> None:
    text = os.fsdecode(name)
    places = [talk.root / "forks", talk.mount.root / "by-label"]
    if not text.startswith("."):
        # where it would be a directory of scratch files
        places += [talk.root.parent, talk.root.parent.parent]
    for directory in places:
        assert errno_of(lambda directory=directory: os.mkdir(directory / text)) == errno.EINVAL
    assert errno_of(lambda: os.rename(talk.root, talk.root.with_name(text))) == errno.EINVAL
    # an editor's own file may be called so
    (talk.events / text).write_bytes(b"x")
    assert text in os.listdir(talk.events)


def test_links_that_cannot_be(talk: Talk) -> None:
    mount = talk.mount.root
    for source in (
        talk.first,
        talk.root / "events.json",
        talk.root / "metadata.json",
        mount / "transcripts" / "project" / f"{NAME}.md",
        mount / "README.md",
        talk.events,
        mount / "recent" / NAME,
    ):
        assert errno_of(lambda source=source: os.link(source, talk.root / "x", follow_symlinks=False)) == errno.EPERM
    (talk.events / "scratch").write_text("x")
    os.link(talk.events / "scratch", talk.root / "linked")
    assert (talk.root / "linked").stat().st_nlink == 2
    assert errno_of(lambda: os.link(talk.events / "scratch", talk.first)) == errno.EEXIST


def test_devices_cannot_be_made(talk: Talk) -> None:
    device = os.makedev(1, 3)
    for directory in (talk.events, talk.root, talk.mount.root):
        for kind in (stat.S_IFCHR, stat.S_IFBLK):
            assert errno_of(lambda d=directory, k=kind: os.mknod(d / "x", k | 0o666, device)) == errno.EPERM
        assert not (directory / "x").exists()
    os.mkfifo(talk.events / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(talk.events)
        try:
            listening.bind("socket")
        finally:
            os.chdir("/")
    assert stat.S_ISSOCK((talk.events / "socket").stat().st_mode)


def everything(talk: Talk) -> list[Path]:
    """Return one of each kind of file and directory."""
    mount = talk.mount.root
    (talk.events / "scratch").write_text("x")
    (talk.events / "directory").mkdir()
    return [
        mount,
        mount / "README.md",
        mount / "by-label",
        mount / "recent",
        talk.root.parent,
        talk.root,
        talk.events,
        talk.first,
        talk.root / "events.json",
        talk.root / "metadata.json",
        mount / "transcripts" / "project" / f"{NAME}.md",
        mount / ".convfs" / "stats.json",
        next((talk.root / ".versions").iterdir()),
        talk.events / "scratch",
        talk.events / "directory",
    ]


def test_attributes_that_are_not_kept(talk: Talk) -> None:
    for path in everything(talk):
        for name in ("security.capability", "security.selinux", "trusted.x", "user.none", "user.convfs.none"):
            assert errno_of(lambda path=path, name=name: os.getxattr(path, name)) == errno.ENODATA, (path, name)
        for name in ACLS:
            assert errno_of(lambda path=path, name=name: os.getxattr(path, name)) == errno.EOPNOTSUPP, (path, name)
            assert errno_of(lambda path=path, name=name: os.setxattr(path, name, b"x" * 44)) == errno.EOPNOTSUPP
        for name in ("security.capability", "security.selinux", "trusted.x"):
            assert errno_of(lambda path=path, name=name: os.setxattr(path, name, b"x")) != 0, (path, name)
        assert all(name.startswith("user.convfs.") for name in os.listxattr(path))


def test_attributes_of_scratch_files_are_kept(talk: Talk) -> None:
    *drawn, file, directory = everything(talk)
    for path in (file, directory):
        os.setxattr(path, "user.note", b"mine")
        os.setxattr(path, "user.convfs.turn", b"copied from an event")
        assert sorted(os.listxattr(path)) == ["user.convfs.turn", "user.note"]
        assert os.getxattr(path, "user.convfs.turn") == b"copied from an event"
        os.removexattr(path, "user.note")
        assert errno_of(lambda path=path: os.getxattr(path, "user.note")) == errno.ENODATA
    for path in drawn:
        assert errno_of(lambda path=path: os.setxattr(path, "user.note", b"x")) in (errno.EOPNOTSUPP, errno.EROFS)
    # what copies attributes along is content with that
    talk.mount.run("cp", "-a", str(talk.second), str(talk.events / "copy"))
    talk.mount.run("cp", "-a", str(talk.events / "copy"), str(talk.second))
    until(lambda: talk.new_versions == 0)

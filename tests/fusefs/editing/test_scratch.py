"""Files that are not of a conversation: editors' and tools' own."""

import contextlib
import errno
import fcntl
import mmap
import os
import stat
import subprocess
from pathlib import Path

import pytest

from fusefs.tree.tree import Tree
from tests.fusefs.editing.talk import FIRST, LAST, LINES, Talk
from tests.fusefs.tree.mounting import add, errno_of, mounted, new_store

PLACES = [
    "",
    "conversations",
    "conversations/project",
    "conversations/project/2026-03-05-talk",
    "conversations/project/2026-03-05-talk/events",
    "conversations/project/2026-03-05-talk/resources",
    "transcripts/project",
]


@pytest.mark.parametrize("place", PLACES)
def test_any_directory_takes_them(talk: Talk, place: str) -> None:
    directory = talk.mount.root / place
    before = sorted(os.listdir(directory))
    path = directory / ".talk.swp"
    path.write_bytes(b"swap")
    assert path.read_bytes() == b"swap"
    assert sorted(os.listdir(directory)) == sorted([*before, ".talk.swp"])
    path.unlink()
    assert sorted(os.listdir(directory)) == before
    assert talk.new_versions == 0


@pytest.mark.parametrize("place", [".versions", ".records"])
def test_what_was_takes_none(talk: Talk, place: str) -> None:
    directory = talk.root / place
    assert errno_of(lambda: (directory / "x").write_bytes(b"")) == errno.EROFS
    for name in os.listdir(directory):
        if place == ".versions":
            assert errno_of(lambda name=name: (directory / name / "events" / "x").write_bytes(b"")) == errno.EROFS
        else:
            assert errno_of(lambda name=name: (directory / name).write_bytes(b"")) == errno.EROFS
    assert errno_of(lambda: (talk.mount.root / "recent" / "x").write_bytes(b"")) == errno.EPERM
    assert errno_of(lambda: (talk.mount.root / ".convfs" / "x").write_bytes(b"")) == errno.EPERM


def test_they_survive_a_restart(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, LINES)
    with mounted(store_path) as mount:
        events = Talk(mount).events
        (events / "notes").mkdir(mode=0o750)
        (events / "notes" / "one").write_text("text")
        os.chmod(events / "notes" / "one", 0o640)
        os.symlink("notes/one", events / "link")
        os.utime(events / "notes" / "one", ns=(1, 1_234_567_890_123_456_789))
        os.setxattr(events / "notes" / "one", "user.mine", b"value")
    with mounted(store_path) as mount:
        talk = Talk(mount)
        assert (talk.events / "link").read_text() == "text"
        status = (talk.events / "notes" / "one").stat()
        assert stat.S_IMODE(status.st_mode) == 0o640
        assert stat.S_IMODE((talk.events / "notes").stat().st_mode) == 0o750
        assert status.st_mtime_ns == 1_234_567_890_123_456_789
        assert os.getxattr(talk.events / "notes" / "one", "user.mine") == b"value"
        assert os.listxattr(talk.events / "notes" / "one") == ["user.mine"]
        assert talk.versions == 1


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o444, 0o000, 0o755])
def test_the_mode_given_is_honoured(talk: Talk, mode: int) -> None:
    old = os.umask(0)
    try:
        fd = os.open(talk.events / "x", os.O_RDWR | os.O_CREAT, mode)
        os.mkdir(talk.events / "d", mode)
    finally:
        os.umask(old)
    os.write(fd, b"text")
    assert stat.S_IMODE(os.fstat(fd).st_mode) == mode
    assert stat.S_IMODE((talk.events / "d").stat().st_mode) == mode
    os.close(fd)
    assert (talk.events / "x").stat().st_size == 4


def test_files_do_what_files_do(talk: Talk) -> None:
    path = talk.events / "x"
    with open(path, "wb", buffering=0) as file:
        file.write(b"0123456789")
        file.seek(20)
        file.write(b"end")
        file.truncate(21)
        os.fsync(file.fileno())
    assert path.read_bytes() == b"0123456789" + bytes(10) + b"e"
    with open(path, "ab", buffering=0) as one, open(path, "ab", buffering=0) as other:
        one.write(b"A")
        other.write(b"B")
        one.write(b"C")
    assert path.read_bytes()[20:] == b"eABC"
    os.truncate(path, 4)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 4) as mapped:
        mapped[1:3] = b"xy"
    assert path.read_bytes() == b"0xy3"
    with open(path, "rb") as source, open(talk.events / "copy", "wb") as copy:
        assert os.copy_file_range(source.fileno(), copy.fileno(), 4) == 4
    assert (talk.events / "copy").read_bytes() == b"0xy3"
    assert errno_of(lambda: os.truncate(path, 10**15)) == errno.EFBIG
    assert errno_of(lambda: os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)) == errno.EEXIST
    assert errno_of(lambda: os.open(talk.events / ("x" * 256), os.O_CREAT | os.O_WRONLY)) == errno.ENAMETOOLONG
    with open(path, "rb") as file:
        path.unlink()
        assert file.read() == b"0xy3"
        assert os.fstat(file.fileno()).st_nlink == 0


def test_links_and_names(talk: Talk) -> None:
    one, other = talk.events / "one", talk.root / "other"
    one.write_bytes(b"text")
    os.link(one, other)
    assert one.stat().st_ino == other.stat().st_ino
    assert one.stat().st_nlink == 2
    other.write_bytes(b"changed")
    assert one.read_bytes() == b"changed"
    assert errno_of(lambda: os.link(one, other)) == errno.EEXIST
    assert errno_of(lambda: os.link(talk.first, talk.events / "hard")) == errno.EPERM
    os.rename(one, talk.events / "two")
    os.replace(talk.events / "two", other)
    assert other.read_bytes() == b"changed"
    odd = os.fsencode(talk.events) + b"/\xff\xfe \n"
    with open(odd, "wb") as file:
        file.write(b"odd")
    assert b"\xff\xfe \n" in os.listdir(os.fsencode(talk.events))
    os.unlink(odd)
    os.symlink("nowhere", talk.events / "dangling")
    assert os.readlink(talk.events / "dangling") == "nowhere"
    assert (talk.events / "dangling").is_symlink()
    os.mkfifo(talk.events / "pipe")
    assert stat.S_ISFIFO((talk.events / "pipe").stat().st_mode)


def test_directories(talk: Talk) -> None:
    top = talk.root / "work"
    (top / "a" / "b").mkdir(parents=True)
    for number in range(600):
        (top / "a" / f"file-{number}").write_text(str(number))
    assert len(os.listdir(top / "a")) == 601
    os.rename(top / "a", talk.events / "moved")
    assert (talk.events / "moved" / "file-7").read_text() == "7"
    (talk.events / "moved" / "b" / "deep").write_text("x")
    assert errno_of(lambda: os.rmdir(talk.events / "moved")) == errno.ENOTEMPTY
    assert errno_of(lambda: os.rmdir(talk.events / "moved" / "file-7")) == errno.ENOTDIR
    assert errno_of(lambda: os.mkdir(talk.events / "moved")) == errno.EEXIST
    raw = talk.shell("ls -ai moved").splitlines()
    dots = {line.split()[1]: int(line.split()[0]) for line in raw if line.split()[1] in (".", "..")}
    assert dots == {".": (talk.events / "moved").stat().st_ino, "..": talk.events.stat().st_ino}
    assert talk.shell("find moved -type f | wc -l").strip() == "601"
    talk.shell("rm -r moved")
    assert "moved" not in talk.listed


def test_room_is_told_however_many_there_are(memory_path: Path) -> None:
    with new_store(memory_path / "store") as store:
        add(store, LINES)
        before = Tree(store).space.now().used
        with contextlib.chdir(store.root):
            for name in ("scratch", *["d"] * 1500):
                os.mkdir(name)
                os.chdir(name)
            Path("file").write_bytes(bytes(1 << 20))
        # the store may still be writing what was added to it
        assert Tree(store).space.now().used < before + (1 << 20)
    subprocess.run(["rm", "-r", memory_path / "store"], check=True, timeout=60)


def test_locks(talk: Talk) -> None:
    path = talk.events / "lock"
    path.write_bytes(b"")
    for target in (path, talk.first):
        with open(target, "r+b") as one, open(target, "r+b") as other:
            fcntl.flock(one, fcntl.LOCK_EX)
            assert errno_of(lambda other=other: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)) == errno.EAGAIN
            fcntl.flock(one, fcntl.LOCK_UN)
            fcntl.lockf(one, fcntl.LOCK_EX)
    assert talk.new_versions == 0


def test_a_repository_can_live_there(talk: Talk) -> None:
    script = """
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        mkdir ../repo && cd ../repo && git init -q . && echo one > one && git add one && git commit -qm one
        echo two >> one && git commit -qam two && git gc -q && git fsck --strict && git log --oneline | wc -l
    """
    assert talk.shell(script).strip().endswith("2")
    talk.shell("rm -rf ../repo")


def test_what_programs_may_not_change(talk: Talk) -> None:
    readme = talk.mount.root / "README.md"
    assert errno_of(lambda: readme.write_bytes(b"x")) == errno.EACCES
    assert errno_of(readme.unlink) == errno.EPERM
    assert errno_of(lambda: os.rename(readme, talk.mount.root / "x")) == errno.EPERM
    page = talk.mount.root / "html/project/2026-03-05-talk.html"
    assert errno_of(lambda: page.open("r+b")) in (errno.EACCES, errno.EROFS)
    assert errno_of(lambda: os.setxattr(talk.first, "user.other", b"x")) == errno.EOPNOTSUPP
    os.chmod(talk.first, 0o600)
    os.utime(talk.first)


def test_a_tree_is_copied_in_and_out(talk: Talk, tmp_path: Path) -> None:
    source = tmp_path / "tree"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "file").write_bytes(os.urandom(300_000))
    os.symlink("file", source / "deep" / "link")
    subprocess.run(["cp", "-a", source, talk.root / "tree"], check=True, timeout=20)
    subprocess.run(["diff", "-r", source, talk.root / "tree"], check=True, timeout=20)
    subprocess.run(["rm", "-r", talk.root / "tree"], check=True, timeout=20)


LEFT = [f"{FIRST}~", f".{FIRST}.swp", f".{FIRST}.swo", f"#{FIRST}#", f".{FIRST}.un~", f"{FIRST}.kate-swp"]


def test_what_an_editor_leaves_is_listed_while_it_runs(talk: Talk) -> None:
    names = " ".join(f"'{name}'" for name in LEFT)
    before = talk.listed
    # of the shell that makes them, and still runs
    assert talk.shell(f"for name in {names}; do echo mine > $name; done; ls -A").split() == sorted([*before, *LEFT])
    assert talk.listed == before
    for name in LEFT:
        assert (talk.events / name).read_text() == "mine\n"
        assert name in talk.errors
    (talk.events / "mine.txt").write_text("listed")
    (talk.events / f"{FIRST}.bak").write_text("listed")
    assert talk.listed == sorted([*before, f"{FIRST}.bak", "mine.txt"])
    # of this process
    (talk.events / f"{LAST}~").write_text("mine")
    assert f"{LAST}~" in talk.listed
    talk.shell(f"rm {names} '{LAST}~' mine.txt {FIRST}.bak")
    assert not any((talk.events / name).exists() for name in LEFT)


def test_a_draft_is_listed_while_its_program_runs(talk: Talk) -> None:
    before = talk.listed
    talk.shell(f"sed -i 's/^event: 1$/event: 9/' {FIRST}", check=False)
    assert talk.listed == before
    assert "event: 9" in (talk.events / f"{FIRST}.draft").read_text()
    assert f"the text is kept as {FIRST}.draft" in talk.errors
    talk.shell(f"echo > {LAST}~")
    # what is not listed goes with the conversation, and is back with it
    talk.mount.shell(f"rm -r '{talk.root}'")
    trash = talk.mount.root / ".convfs" / "trash"
    (name,) = os.listdir(trash)
    (trash / name).rename(talk.root)
    assert talk.listed == before
    assert "event: 9" in (talk.events / f"{FIRST}.draft").read_text()
